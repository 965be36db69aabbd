"""Reductions and scans along dims. Float sums run in float64 and round once."""

import numpy as np

from .errors import GraphError
from .registry import register
from .values import FLOAT32, INT64, cast, compute_dtype, is_float


def dims_of(x, dim):
    """Normalises torch's `dim` (None or [] is all) into a tuple of dims >= 0 of `x`."""
    if dim is None or dim == []:
        return tuple(range(x.ndim))
    listed = dim if isinstance(dim, (list, tuple)) else [dim]
    rank = max(x.ndim, 1)
    for d in listed:
        if not -rank <= d < rank:
            raise GraphError(f"dim {d} is out of range for a tensor of rank {x.ndim}")
    return tuple(d % rank for d in listed) if x.ndim else ()


def dim_of(x, dim):
    """Normalises one `dim` of `x`."""
    return dims_of(x, dim)[0] if x.ndim else 0


def _wide(x):
    """`x` in the dtype that sums run in: float64, or int64 for ints and bools."""
    return x.astype(np.float32).astype(np.float64) if is_float(x.dtype) else x.astype(np.int64)


def _plain(x):
    """`x` in a dtype that every numpy function knows (bfloat16 as float32, int4 as int8)."""
    return x.astype(compute_dtype(x.dtype))


def _sum_dtype(x, dtype):
    if dtype is not None:
        return dtype
    return x.dtype if is_float(x.dtype) else INT64


def _narrow(value, dtype):
    """Rounds a float64 or int64 accumulation to `dtype`, by way of float32."""
    if is_float(dtype) and value.dtype == np.float64:
        value = cast(value, FLOAT32)
    return cast(value, dtype)


@register("aten.sum")
def _sum(x, dim=None, keepdim=False, dtype=None):
    total = np.sum(_wide(x), axis=dims_of(x, dim), keepdims=keepdim)
    return _narrow(np.asarray(total), _sum_dtype(x, dtype))


@register("aten.sum.default")
def _sum_all(x, dtype=None):
    return _sum(x, None, False, dtype)


@register("aten.mean")
def _mean(x, dim=None, keepdim=False, dtype=None):
    if dtype is None and not is_float(x.dtype):
        raise GraphError("mean needs a float tensor")
    mean = np.mean(_wide(x), axis=dims_of(x, dim), keepdims=keepdim)
    return _narrow(np.asarray(mean), dtype or x.dtype)


@register("aten.mean.default")
def _mean_all(x, dtype=None):
    return _mean(x, None, False, dtype)


@register("aten.prod.dim_int")
def _prod(x, dim, keepdim=False, dtype=None):
    product = np.prod(_wide(x), axis=dims_of(x, dim), keepdims=keepdim)
    return _narrow(np.asarray(product), _sum_dtype(x, dtype))


@register("aten.prod.default", "prims.prod")
def _prod_all(x, dtype=None):
    return _prod(x, None, False, dtype)


@register("aten.amax")
def _amax(x, dim=None, keepdim=False):
    return cast(np.max(_plain(x), axis=dims_of(x, dim), keepdims=keepdim), x.dtype)


@register("aten.amin")
def _amin(x, dim=None, keepdim=False):
    return cast(np.min(_plain(x), axis=dims_of(x, dim), keepdims=keepdim), x.dtype)


@register("aten.argmax")
def _argmax(x, dim=None, keepdim=False):
    return _arg(np.argmax, x, dim, keepdim)


@register("aten.argmin")
def _argmin(x, dim=None, keepdim=False):
    return _arg(np.argmin, x, dim, keepdim)


def _arg(function, x, dim, keepdim):
    """int64 positions of the first extreme (NaN is the extreme); over all of `x` without `dim`."""
    axis = None if dim is None else dim_of(x, dim)
    if x.ndim == 0:
        return np.zeros((), INT64)
    return cast(function(_plain(x), axis=axis, keepdims=keepdim), INT64)


@register("aten.max.dim")
def _max_dim(x, dim, keepdim=False):
    return (_amax(x, dim, keepdim), _argmax(x, dim, keepdim))


@register("aten.min.dim")
def _min_dim(x, dim, keepdim=False):
    return (_amin(x, dim, keepdim), _argmin(x, dim, keepdim))


@register("aten.max.default")
def _max_all(x):
    return _amax(x)


@register("aten.min.default")
def _min_all(x):
    return _amin(x)


@register("aten.aminmax")
def _aminmax(x, dim=None, keepdim=False):
    return (_amin(x, dim, keepdim), _amax(x, dim, keepdim))


@register("aten.any")
def _any(x, dim=None, keepdim=False):
    return np.asarray(np.any(_plain(x) != 0, axis=dims_of(x, dim), keepdims=keepdim))


@register("aten.all")
def _all(x, dim=None, keepdim=False):
    return np.asarray(np.all(_plain(x) != 0, axis=dims_of(x, dim), keepdims=keepdim))


def _variance(x, dim, correction, keepdim):
    """float64 variance and mean over `dim`."""
    axes = dims_of(x, dim)
    count = int(np.prod([x.shape[a] for a in axes]))
    wide = _wide(x)
    mean = np.mean(wide, axis=axes, keepdims=True)
    with np.errstate(all="ignore"):
        spread = np.sum((wide - mean) ** 2, axis=axes, keepdims=keepdim)
        variance = spread / np.float64(max(count - correction, 0))
    return variance, mean if keepdim else np.squeeze(mean, axes)


def _correction(correction):
    return 1 if correction is None else correction


@register("aten.var.correction", "prims.var")
def _var(x, dim=None, correction=None, keepdim=False):
    return _narrow(_variance(x, dim, _correction(correction), keepdim)[0], x.dtype)


@register("aten.std.correction")
def _std(x, dim=None, correction=None, keepdim=False):
    return _narrow(np.sqrt(_variance(x, dim, _correction(correction), keepdim)[0]), x.dtype)


@register("aten.var_mean.correction")
def _var_mean(x, dim=None, correction=None, keepdim=False):
    pair = _variance(x, dim, _correction(correction), keepdim)
    return tuple(_narrow(np.asarray(value), x.dtype) for value in pair)


@register("aten.var.dim")
def _var_dim(x, dim=None, unbiased=True, keepdim=False):
    return _var(x, dim, int(unbiased), keepdim)


@register("aten.var.default")
def _var_all(x, unbiased=True):
    return _var(x, None, int(unbiased))


@register("aten.std.dim")
def _std_dim(x, dim=None, unbiased=True, keepdim=False):
    return _std(x, dim, int(unbiased), keepdim)


@register("aten.std.default")
def _std_all(x, unbiased=True):
    return _std(x, None, int(unbiased))


@register("aten.var_mean.dim")
def _var_mean_dim(x, dim=None, unbiased=True, keepdim=False):
    return _var_mean(x, dim, int(unbiased), keepdim)


def _logsumexp_wide(x, dim):
    """float64 logsumexp over `dim`, dims kept."""
    wide, axes = _wide(x).astype(np.float64), dims_of(x, dim)
    top = np.max(wide, axis=axes, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(all="ignore"):
        return np.log(np.sum(np.exp(wide - shift), axis=axes, keepdims=True)) + shift


@register("aten.logsumexp")
def _logsumexp(x, dim, keepdim=False):
    value = _logsumexp_wide(x, dim)
    value = value if keepdim else np.squeeze(value, dims_of(x, dim))
    return _narrow(value, x.dtype if is_float(x.dtype) else FLOAT32)


def _softmax_dtype(x, dtype):
    return dtype or (x.dtype if is_float(x.dtype) else FLOAT32)


def _softmax_operand(x, dtype):
    """`x` in float64, converted to the dtype argument first, as torch does."""
    return _wide(x if dtype is None else cast(x, dtype)).astype(np.float64)


@register("aten.softmax")
def _softmax(x, dim, dtype=None):
    wide = _softmax_operand(x, dtype)
    with np.errstate(all="ignore"):
        shifted = np.exp(wide - np.max(wide, axis=dim_of(x, dim), keepdims=True))
        value = shifted / np.sum(shifted, axis=dim_of(x, dim), keepdims=True)
    return _narrow(value, _softmax_dtype(x, dtype))


@register("aten.log_softmax")
def _log_softmax(x, dim, dtype=None):
    wide = _softmax_operand(x, dtype)
    with np.errstate(all="ignore"):
        shifted = wide - np.max(wide, axis=dim_of(x, dim), keepdims=True)
        value = shifted - np.log(np.sum(np.exp(shifted), axis=dim_of(x, dim), keepdims=True))
    return _narrow(value, _softmax_dtype(x, dtype))


@register("aten._softmax")
def _private_softmax(x, dim, half_to_float=False):
    return _softmax(x, dim, FLOAT32 if half_to_float else x.dtype)


@register("aten._log_softmax")
def _private_log_softmax(x, dim, half_to_float=False):
    return _log_softmax(x, dim, FLOAT32 if half_to_float else x.dtype)


@register("aten.linalg_vector_norm")
def _vector_norm(x, ord=2, dim=None, keepdim=False, dtype=None):
    axes, size = dims_of(x, dim), np.abs(_wide(x).astype(np.float64))
    if ord in (np.inf, -np.inf):
        value = (np.max if ord > 0 else np.min)(size, axis=axes, keepdims=keepdim)
    elif ord == 0:
        value = np.count_nonzero(size, axis=axes, keepdims=keepdim).astype(np.float64)
    else:
        value = np.sum(size**ord, axis=axes, keepdims=keepdim) ** (1.0 / ord)
    return _narrow(np.asarray(value), dtype or x.dtype)


@register("aten.native_layer_norm")
def _native_layer_norm(x, normalized_shape, weight, bias, eps):
    """(normalised, mean, rstd), statistics over the trailing dims and in float32."""
    dims = list(range(x.ndim - len(normalized_shape), x.ndim))
    variance, mean = _variance(x, dims, 0, True)
    rstd = 1.0 / np.sqrt(variance + eps)
    value = (_wide(x) - mean) * rstd
    value = value if weight is None else value * _wide(weight)
    value = value if bias is None else value + _wide(bias)
    return (_narrow(value, x.dtype), _narrow(mean, FLOAT32), _narrow(rstd, FLOAT32))


@register("aten.cumsum")
def _cumsum(x, dim, dtype=None):
    return _narrow(np.cumsum(_wide(x), axis=dim_of(x, dim)), _sum_dtype(x, dtype))


@register("aten.cumprod")
def _cumprod(x, dim, dtype=None):
    return _narrow(np.cumprod(_wide(x), axis=dim_of(x, dim)), _sum_dtype(x, dtype))


@register("aten.count_nonzero")
def _count_nonzero(x, dim=None):
    return cast(np.count_nonzero(_plain(x), axis=dims_of(x, dim)), INT64)


def _order(x, dim, descending):
    """Positions that sort `x` stably along `dim`; NaN is the greatest, as in torch."""
    plain = _plain(x)
    if not descending:
        return np.argsort(plain, axis=dim, kind="stable")
    flipped = np.flip(plain, dim)
    return x.shape[dim] - 1 - np.flip(np.argsort(flipped, axis=dim, kind="stable"), dim)


@register("aten.sort.default")
def _sort(x, dim=-1, descending=False):
    axis = dim_of(x, dim)
    order = _order(x, axis, descending)
    return (np.take_along_axis(x, order, axis), cast(order, INT64))


@register("aten.sort.stable")
def _sort_stable(x, stable=True, dim=-1, descending=False):
    return _sort(x, dim, descending)


@register("aten.topk")
def _topk(x, k, dim=-1, largest=True, sorted=True):
    values, order = _sort(x, dim, largest)
    first = [slice(None)] * x.ndim
    first[dim_of(x, dim)] = slice(0, k)
    return (values[tuple(first)], order[tuple(first)])


def combine_along(combine, xs, dim, reverse):
    """Inclusive scan of the tuple of arrays `xs` along `dim` by doubling.

    `combine(left, right)` takes and gives tuples of arrays; being associative, log2(n) rounds do.
    """
    xs = tuple(np.flip(x, dim) for x in xs) if reverse else tuple(xs)
    size, step = xs[0].shape[dim], 1
    while step < size:
        head = tuple(_part(x, dim, 0, step) for x in xs)
        left = tuple(_part(x, dim, 0, size - step) for x in xs)
        right = tuple(_part(x, dim, step, size) for x in xs)
        tail = combine(left, right)
        xs = tuple(np.concatenate([h, t], dim) for h, t in zip(head, tail, strict=True))
        step *= 2
    return tuple(np.flip(x, dim) for x in xs) if reverse else xs


def combine_all(combine, xs, dim):
    """Reduces the tuple of arrays `xs` along `dim` (kept, size 1), pairing neighbours."""
    while (size := xs[0].shape[dim]) > 1:
        even = size // 2 * 2
        left = tuple(_part(x, dim, 0, even, 2) for x in xs)
        right = tuple(_part(x, dim, 1, even, 2) for x in xs)
        pairs = combine(left, right)
        rest = tuple(_part(x, dim, even, size) for x in xs)
        xs = tuple(np.concatenate([p, r], dim) for p, r in zip(pairs, rest, strict=True))
    return xs


def _part(x, dim, start, stop, step=1):
    index = [slice(None)] * x.ndim
    index[dim] = slice(start, stop, step)
    return x[tuple(index)]
