"""Views and rearrangements of tile values: shapes change, values do not."""

import numpy as np

from .errors import GraphError
from .ops_reduce import dim_of, dims_of
from .registry import register
from .values import NAMES, result_type, to_array


@register("aten.permute")
def _permute(x, dims):
    return np.transpose(x, [d % x.ndim for d in dims])


@register("aten.transpose", "aten.swapaxes")
def _transpose(x, dim0, dim1):
    return np.swapaxes(x, dim0, dim1)


@register("aten.t", "aten.numpy_T")
def _t(x):
    return np.transpose(x)


@register("aten.mT")
def _mt(x):
    return np.swapaxes(x, -1, -2)


@register("aten.movedim")
def _movedim(x, source, destination):
    return np.moveaxis(x, source, destination)


@register("aten.view", "aten._unsafe_view", "prims.view_of")
def _view(x, size=None):
    if size is None:
        return x
    if not isinstance(size, list):
        raise GraphError("view to another dtype is aten.view.dtype")
    try:
        return np.reshape(x, size)
    except ValueError:
        raise GraphError(f"cannot view {list(x.shape)} as {size}") from None


@register("aten.reshape", "aten._reshape_alias")
def _reshape(x, shape, _strides=None):
    return _view(x, shape)


@register("aten.view.dtype")
def _view_dtype(x, dtype):
    if x.dtype.itemsize != dtype.itemsize:
        raise GraphError(f"cannot view {NAMES[x.dtype]} as {NAMES[dtype]}: the sizes differ")
    return np.ascontiguousarray(x).reshape(x.shape).view(dtype)


@register("aten.flatten.using_ints")
def _flatten(x, start=0, end=-1):
    start, end = start % max(x.ndim, 1), end % max(x.ndim, 1)
    return np.reshape(x, [*x.shape[:start], -1, *x.shape[end + 1 :]])


@register("aten.unflatten.int")
def _unflatten(x, dim, sizes):
    dim = dim_of(x, dim)
    return np.reshape(x, [*x.shape[:dim], *sizes, *x.shape[dim + 1 :]])


@register("aten.squeeze")
def _squeeze(x, dim=None):
    """Drops the listed dims that have size 1 (all of them without `dim`)."""
    axes = tuple(d for d in dims_of(x, dim) if x.shape[d] == 1)
    return np.squeeze(x, axes)


@register("aten.unsqueeze")
def _unsqueeze(x, dim):
    return np.expand_dims(x, dim)


@register("aten.expand", "aten.broadcast_to")
def _expand(x, size, implicit=False):
    """Broadcasts to `size`; -1 keeps a dim."""
    lead = len(size) - x.ndim
    shape = [x.shape[i - lead] if s == -1 else s for i, s in enumerate(size)]
    try:
        return np.broadcast_to(x, shape)
    except ValueError:
        raise GraphError(f"cannot expand {list(x.shape)} to {size}") from None


@register("aten.expand_as")
def _expand_as(x, other):
    return np.broadcast_to(x, other.shape)


@register("aten.view_as", "aten.reshape_as")
def _view_as(x, other):
    return np.reshape(x, other.shape)


@register("aten.repeat")
def _repeat(x, repeats):
    return np.tile(x, repeats)


@register("aten.cat", "aten.concat", "aten.concatenate")
def _cat(tensors, dim=0):
    dtype = result_type(tensors)
    parts = [to_array(t, dtype) for t in tensors if t.shape != (0,)]
    return np.concatenate(parts, dim_of(parts[0], dim))


@register("aten.stack")
def _stack(tensors, dim=0):
    dtype = result_type(tensors)
    return np.stack([to_array(t, dtype) for t in tensors], dim)


@register("aten.flip", "prims.rev")
def _flip(x, dims):
    return np.flip(x, dims_of(x, dims)) if dims else x


@register("aten.roll")
def _roll(x, shifts, dims=()):
    return np.roll(x, shifts, tuple(dims)) if dims else np.roll(x, shifts)


def _cuts(x, dim, sizes):
    """`x` cut along `dim` into a tuple of parts of the given sizes."""
    return tuple(np.split(x, np.cumsum(sizes)[:-1], dim_of(x, dim)))


@register("aten.split.Tensor", "aten.split.default")
def _split(x, split_size, dim=0):
    whole = x.shape[dim_of(x, dim)]
    starts = range(0, whole, split_size)
    return _cuts(x, dim, [min(split_size, whole - at) for at in starts] or [0])


@register("aten.split_with_sizes", "aten.split.sizes")
def _split_with_sizes(x, split_sizes, dim=0):
    return _cuts(x, dim, split_sizes)


@register("aten.chunk")
def _chunk(x, chunks, dim=0):
    return _split(x, max(1, -(-x.shape[dim_of(x, dim)] // chunks)), dim)


@register("aten.unbind")
def _unbind(x, dim=0):
    axis = dim_of(x, dim)
    return tuple(np.take(x, i, axis) for i in range(x.shape[axis]))


@register("aten.slice")
def _slice(x, dim=0, start=None, end=None, step=1):
    index = [slice(None)] * x.ndim
    index[dim_of(x, dim)] = slice(start, end, step)
    return x[tuple(index)]


@register("aten.narrow")
def _narrow(x, dim, start, length):
    return _slice(x, dim, start, start + length)


@register("aten.select")
def _select(x, dim, index):
    return np.take(x, int(index), dim_of(x, dim))


@register("aten.constant_pad_nd")
def _constant_pad_nd(x, pad, value=0):
    """`pad` is (before, after) from the last dim on; negative pads cut."""
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2)
    pairs += [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    cut = tuple(slice(max(0, -a), x.shape[d] + min(0, b)) for d, (a, b) in enumerate(pairs))
    grown = [(max(0, a), max(0, b)) for a, b in pairs]
    inner = x[cut]
    shape = [n + a + b for n, (a, b) in zip(inner.shape, grown, strict=True)]
    result = np.array(np.broadcast_to(to_array(value, x.dtype), shape))
    at = tuple(slice(a, a + n) for n, (a, _) in zip(inner.shape, grown, strict=True))
    result[at] = inner
    return result


@register("aten.tril")
def _tril(x, diagonal=0):
    keep = np.tri(x.shape[-2], x.shape[-1], diagonal, dtype=bool)
    return np.where(keep, x, np.zeros((), x.dtype))


@register("aten.triu")
def _triu(x, diagonal=0):
    keep = ~np.tri(x.shape[-2], x.shape[-1], diagonal - 1, dtype=bool)
    return np.where(keep, x, np.zeros((), x.dtype))


def _inside(index, size):
    """Positions clamped into [0, size), as loads clamp theirs."""
    return np.clip(index.astype(np.int64), 0, max(size - 1, 0))


@register("aten.gather")
def _gather(x, dim, index, sparse_grad=False):
    axis = dim_of(x, dim)
    cut = tuple(slice(None) if d == axis else slice(0, n) for d, n in enumerate(index.shape))
    return np.take_along_axis(x[cut], _inside(index, x.shape[axis]), axis)


@register("aten.index_select", "aten.take")
def _index_select(x, dim, index):
    axis = dim_of(x, dim)
    return np.take(x, _inside(index, x.shape[axis]), axis)


@register("aten.index")
def _index(x, indices):
    """Int tensors (or None: the whole dim) into the leading dims, broadcast together."""
    pairs = zip(indices, x.shape, strict=False)
    return x[tuple(slice(None) if i is None else _inside(i, n) for i, n in pairs)]


@register("aten.embedding")
def _embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return weight[_inside(indices, weight.shape[0])]


@register("tile.split")
def _tile_split(x):
    """The two halves of a last dim of size 2, which is dropped."""
    if not x.ndim or x.shape[-1] != 2:
        raise GraphError(f"the last dim must be 2, the shape is {list(x.shape)}")
    return (x[..., 0], x[..., 1])


@register("tile.join")
def _tile_join(x, other):
    """`x` and `other` (broadcast together) along a new last dim of size 2."""
    return np.stack(np.broadcast_arrays(x, to_array(other, x.dtype)), -1)


@register("tile.pre_broadcast_tile")
def _pre_broadcast_tile(x, size):
    """Repeats the last dim of `x` (its lanes are all equal) to `size` lanes."""
    lanes = x.shape[-1]
    repeats = [1] * (x.ndim - 1) + [-(-size // lanes)]
    return np.tile(x, repeats)[..., :size]
