"""Derivatives of ops that take lanes apart and put them together."""

import math

from .values import Value


def _dim(value, position, name="dim", default=0):
    rank = len(value.args[0].shape) if isinstance(value.args[0], Value) else len(value.shape)
    dim = value.args[position] if len(value.args) > position else value.kwargs.get(name, default)
    return dim % rank


def _cat(b, value, g):
    parts, dim = value.args[0], _dim(value, 1)
    sizes = [part.shape[dim] for part in parts]
    if not all(isinstance(size, int) for size in sizes):
        return None
    whole, found, begin = b.expand(g, value.shape), [], 0
    for part, size in zip(parts, sizes, strict=True):
        found.append((part, b.slice(whole, dim, begin, begin + size)))
        begin += size
    return found


def _stack(b, value, g):
    dim, whole = _dim(value, 1), b.expand(g, value.shape)
    parts = value.args[0]
    return [(part, b.drop(b.slice(whole, dim, i, i + 1), [dim])) for i, part in enumerate(parts)]


def _slice(b, value, g):
    x, dim = value.args[0], _dim(value, 1)
    size = x.shape[dim]
    if not isinstance(size, int):
        return None
    begin, end, step = ([*value.args[2:], None, None, None])[:3]
    begin, end, step = slice(begin, end, step).indices(size)
    whole = b.expand(g, value.shape)
    if step == 2 and size % 2 == 0 and begin < 2 and end >= size - 1 and dim == len(x.shape) - 1:
        zeros = b.full(whole.shape, 0.0, whole.dtype)
        both = [whole, zeros] if begin == 0 else [zeros, whole]
        pairs = b.make("tile.join", both, whole.dtype, (*whole.shape, 2), name="pairs")
        return [(x, b.reshape(pairs, x.shape))]
    if step != 1:
        return None
    return [(x, b.placed(dim, size, [(begin, whole)]))]


def _select(b, value, g):
    x, dim, place = value.args[0], _dim(value, 1), value.args[2]
    size = x.shape[dim]
    if not isinstance(size, int) or not isinstance(place, int):
        return None
    column = b.insert(b.expand(g, value.shape), [dim])
    return [(x, b.placed(dim, size, [(place % size, column)]))]


def _pad(b, value, g):
    x, pads = value.args[:2]
    whole = b.expand(g, value.shape)
    for i in range(len(pads) // 2):
        dim, before, after = len(x.shape) - 1 - i, pads[2 * i], pads[2 * i + 1]
        size = x.shape[dim]
        if not before and not after:
            continue
        if not isinstance(size, int) or before < 0 or after < 0:
            return None
        whole = b.slice(whole, dim, before, before + size)
    return [(x, whole)]


def _reversed(b, value, g):
    x, dims = value.args[:2]
    whole = b.expand(g, value.shape)
    return [(x, b.make(value.target, [whole, dims], whole.dtype, x.shape, name="reversed"))]


def _roll(b, value, g):
    x, shifts = value.args[:2]
    whole = b.expand(g, value.shape)
    back = [-s for s in shifts] if isinstance(shifts, list) else -shifts
    args = [whole, back, *value.args[2:]]
    return [(x, b.make(value.target, args, whole.dtype, x.shape, name="rolled"))]


def _join(b, value, g):
    whole = b.expand(g, value.shape)
    metas = [(whole.dtype, whole.shape[:-1])] * 2
    return [(part, b.item("tile.split", [whole], i, metas)) for i, part in enumerate(value.args)]


def _item(b, value, g):
    """One of the two that tile.split gives."""
    target, [x], place = value.args[:3]
    if target != "tile.split":
        return None
    whole = b.expand(g, value.shape)
    zeros = b.full(whole.shape, 0.0, whole.dtype)
    both = [whole, zeros] if place == 0 else [zeros, whole]
    return [(x, b.make("tile.join", both, whole.dtype, x.shape, name="pairs"))]


def _gather(b, value, g):
    """Of the last dim: to the lanes whose position is the index, summed over the indices."""
    x, dim, index = value.args[0], _dim(value, 1), value.args[2]
    size, rank = x.shape[-1], len(x.shape)
    if dim != rank - 1 or not isinstance(size, int) or x.shape[:-1] != index.shape[:-1]:
        return None
    index = b.convert(index, "int32")
    iota = b.make("prims.iota.default", [size], "int32", (size,), {"dtype": {"dtype": "int32"}})
    lanes = b.insert(iota, [*range(rank - 1), rank])  # [1, .., size, 1]
    chosen = b.compare("aten.eq.Tensor", lanes, b.insert(index, [rank - 1]))
    wide = b.where(chosen, b.insert(b.expand(g, value.shape), [rank - 1]), 0.0)
    return [(x, b.sum(wide, [rank], False))]


VIEWS = {
    "aten.cat.default": _cat,
    "aten.stack.default": _stack,
    "aten.slice.Tensor": _slice,
    "aten.select.int": _select,
    "aten.constant_pad_nd.default": _pad,
    "aten.flip.default": _reversed,
    "prims.rev.default": _reversed,
    "aten.roll.default": _roll,
    "tile.join": _join,
    "@item": _item,
    "aten.gather.default": _gather,
}


def items(builder, target, args, kwargs, metas):
    """The values that an op of several results gives; None where none are known of it."""
    if target == "tile.split":
        return [builder.item(target, args, i, metas) for i in range(2)]
    x = args[0]
    if target in ("aten.split.Tensor", "aten.split_with_sizes.default", "aten.unbind.int"):
        at = 1 if target == "aten.unbind.int" else 2
        dim = (args[at] if len(args) > at else kwargs.get("dim", 0)) % len(x.shape)
        if not isinstance(x.shape[dim], int):
            return None
        found, begin = [], 0
        for _, shape in metas:
            size = 1 if target == "aten.unbind.int" else shape[dim]
            part = builder.slice(x, dim, begin, begin + size)
            found.append(builder.drop(part, [dim]) if target == "aten.unbind.int" else part)
            begin += size
        return found
    if target == "aten.max.dim" or target == "aten.min.dim":
        keep = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
        name = target.split(".")[1]
        (dtype, shape), (ints, _) = metas
        return [
            builder.make(f"aten.a{name}.default", [x, [args[1]], keep], dtype, shape, name=name),
            builder.make(f"aten.arg{name}.default", [x, args[1], keep], ints, shape, name="place"),
        ]
    if target == "aten.var_mean.correction":
        (dtype, shape), (_, means) = metas
        dims = args[1] if len(args) > 1 else kwargs.get("dim")
        keep = kwargs.get("keepdim", False)
        dims = list(range(len(x.shape))) if dims is None else dims
        return [
            builder.make("aten.var.correction", args, dtype, shape, kwargs, name="variance"),
            builder.make("aten.mean.dim", [x, dims, keep], dtype, means, name="mean"),
        ]
    return None


def size_of(shape, dims):
    """The number of lanes of these dims; None where a block says how many."""
    sizes = [shape[d] for d in dims]
    return math.prod(sizes) if all(isinstance(size, int) for size in sizes) else None
