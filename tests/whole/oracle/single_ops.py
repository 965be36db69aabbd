"""Documents that apply one view or reduction to a whole tensor, of each dtype and of odd shapes."""

import itertools
import math

import one_point
from document import WHOLE
from one_point import call, load, ref, store, tensor

DTYPES = (
    *("float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"),
    *("int32", "int16", "uint16", "int8", "uint8", "bool"),
)
SHAPES = (
    *([7], [300], [1, 1], [5, 1], [1, 130], [40, 7], [100, 300], [260, 2], [256, 128], [2048, 16]),
    *([3, 1, 7], [2, 9, 130], [4, 8, 128], [2, 1, 1], [128, 8, 16], [2, 3, 5, 6], [16, 4, 8, 128]),
)
SPLITS = (2, 5, 7, 8, 16, 100, 128, 130)
ORDERS_OF_4 = ((0, 1, 3, 2), (0, 2, 1, 3), (3, 2, 1, 0), (1, 0, 2, 3), (2, 3, 0, 1), (0, 3, 1, 2))


def _with(shape, dim, *sizes):
    """The shape with other sizes in the place of one."""
    return [*shape[:dim], *sizes, *shape[dim + 1 :]]


def _orders(shape):
    rank = len(shape)
    for dims in itertools.permutations(range(rank)) if rank < 4 else ORDERS_OF_4:
        if list(dims) != sorted(dims):
            name = "permute " + "".join(map(str, dims))
            yield name, "aten.permute.default", [list(dims)], [shape[d] for d in dims]


def _reshapes(shape):
    count = math.prod(shape)
    found = {(count,), (1, count), (count, 1)}
    for k in SPLITS:
        if count % k == 0 and count > k:
            found |= {(count // k, k), (k, count // k)}
    for new in sorted(found - {tuple(shape)}):
        yield f"reshape {list(new)}", "aten.reshape.default", [list(new)], list(new)


def _dims_of_one(shape):
    for dim in range(len(shape) + 1):
        if len(shape) < 4:
            new = [*shape[:dim], 1, *shape[dim:]]
            yield f"unsqueeze {dim}", "aten.unsqueeze.default", [dim], new
    for dim in (d for d, size in enumerate(shape) if size == 1):
        if len(shape) > 1:
            yield f"squeeze {dim}", "aten.squeeze.dim", [dim], _with(shape, dim)
        for size in (3, 130):
            new = _with(shape, dim, size)
            yield f"expand {dim} {size}", "aten.expand.default", [new], new


def _parts(shape, dim):
    size = shape[dim]
    for at in sorted({0, size // 2, size - 1}) if len(shape) > 1 else ():
        yield f"select {dim} {at}", "aten.select.int", [dim, at], _with(shape, dim)
    for part in sorted(
        {(1, size, 1), (0, size // 2, 1), (0, size, 2), (size // 2, size // 2 + 1, 1)}
    ):
        begin, end, step = part
        if end > begin and size > 1:
            new = _with(shape, dim, -(-(end - begin) // step))
            yield f"slice {dim} {part}", "aten.slice.Tensor", [dim, *part], new


def _moves(shape, dim):
    size = shape[dim]
    yield f"flip {dim}", "aten.flip.default", [[dim]], shape
    for by in sorted({1, -1, size // 2}):
        yield f"roll {dim} {by}", "aten.roll.default", [[by], [dim]], shape
    times = _with([1] * len(shape), dim, 2)
    yield f"repeat {dim}", "aten.repeat.default", [times], _with(shape, dim, 2 * size)
    pads = [0, 0] * (len(shape) - 1 - dim) + [1, 2]
    yield f"pad {dim}", "aten.constant_pad_nd.default", [pads, 0], _with(shape, dim, size + 3)


def views(shape):
    """(name, target, arguments, shape that it gives) of each."""
    yield from _orders(shape)
    yield from _reshapes(shape)
    yield from _dims_of_one(shape)
    for dim in range(len(shape)):
        yield from _parts(shape, dim)
        yield from _moves(shape, dim)


_REDUCED = {  # by name; the dtype that it gives, or the operand's
    "sum": ("aten.sum.dim_IntList", None),
    "amax": ("aten.amax.default", None),
    "amin": ("aten.amin.default", None),
    "prod": ("aten.prod.dim_int", None),
    "any": ("aten.any.dim", "bool"),
    "argmax": ("aten.argmax.default", "int32"),
}


def reductions(shape, dtype):
    """(name, target, arguments, shape, dtype that it gives) of each."""
    for dim, keep in itertools.product(range(len(shape)), (False, True)):
        new = _with(shape, dim, 1) if keep else _with(shape, dim)
        for name, (target, gives) in _REDUCED.items():
            if not new or (dtype == "bool" and name != "any"):
                continue
            dims = [dim] if name in ("sum", "amax", "amin") else dim
            kept = " kept" if keep else ""
            yield f"{name} {dim}{kept}", target, [dims, keep], new, gives or dtype
    for dim in range(len(shape)) if dtype != "bool" else ():
        yield f"cumsum {dim}", "aten.cumsum.default", [dim], shape, dtype
    if dtype != "bool" and len(shape) > 1:
        dims = [*range(1, len(shape))]
        yield "sum of the others", "aten.sum.dim_IntList", [dims, False], shape[:1], dtype
        dims = [*range(len(shape) - 1)]
        yield "amax of the others", "aten.amax.default", [dims, False], shape[-1:], dtype


def document(dtype, shape, target, args, new, gives, computed):
    """Stores what the op makes of x, or of its square where it is `computed`."""
    first = load("x", len(shape))
    if computed:
        first.append(call("square", "aten.mul.Tensor", ref("all_x"), ref("all_x")))
    made = call("v", target, ref("square" if computed else "all_x"), *args)
    tensors = [tensor("x", "input", dtype, shape), tensor("o", "output", gives, new)]
    nodes = [*first, made, *store("o", [WHOLE] * len(new), "v")]
    return one_point.document("single", tensors, nodes)


def cases():
    """(name, case as properties.examine() takes it) of all."""
    for dtype, shape in itertools.product(DTYPES, SHAPES):
        every = [(*view, dtype, True) for view in views(shape)]
        every += [(*reduction, False) for reduction in reductions(shape, dtype)]
        for name, target, args, new, gives, is_view in every:
            for computed in (False, True) if is_view and dtype != "bool" else (False,):
                full = f"{dtype} {shape} {name}{' of a square' if computed else ''}"
                made = document(dtype, shape, target, args, new, gives, computed)
                yield full, one_point.executed(made)
