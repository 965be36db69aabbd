"""Pure ops of codegen/kernel/kernel_ops.def: each builder gives a function of its arguments.

A builder takes the Case of a statement: what is known before it runs.
"""

from dataclasses import dataclass

import numpy as np

from ..reference.values import FLOAT16, FLOAT32, INT32, is_float
from .errors import ExecuteError
from .syntax import Type
from .values import cast, common_dtype, literal

LANES = 128
BUILDERS = {}


@dataclass(frozen=True)
class Case:
    """A statement's stated type, its arguments' types (None: a number or none) and attributes."""

    type: Type
    types: tuple
    attributes: dict

    def get(self, name, default=None):
        """An attribute."""
        if name not in self.attributes and default is None:
            raise ExecuteError(f"the attribute {name} is missing")
        return self.attributes.get(name, default)

    def many(self, name):
        """An attribute that is a list; one number stands for a list of one."""
        value = self.get(name, ())
        return value if isinstance(value, tuple) else (value,)


def _builder(*names):
    def keep(function):
        for name in names:
            BUILDERS[name] = function
        return function

    return keep


def _cast_to(dtype):
    def run(x):
        if isinstance(x, (bool, int, float)):
            return literal(x, dtype)
        return x if x.dtype == dtype else cast(x, dtype)

    return run


# ---- made, converted -----------------------------------------------------------------------------


@_builder("convert", "scalar")
def _convert(case):
    return _cast_to(case.type.dtype)


@_builder("bitcast")
def _bitcast(case):
    return lambda x: np.ascontiguousarray(x).reshape(x.shape).view(case.type.dtype)


@_builder("words")
def _words(case):
    """Rows of an int each: the first is its lowest bits."""

    def run(x):
        rows = case.type.dtype.itemsize // x.dtype.itemsize
        apart = x.reshape(*x.shape[:-2], -1, rows, x.shape[-1])
        return np.ascontiguousarray(np.moveaxis(apart, -2, -1)).view(case.type.dtype)[..., 0]

    return run


@_builder("float16_value")
def _float16_value(_case):
    return lambda x: x.astype(np.int16).view(np.float16).astype(np.float32)


@_builder("float16_bits")
def _float16_bits(_case):
    return lambda x: cast(x, FLOAT16).view(np.int16)


@_builder("float16_rounded")
def _float16_rounded(_case):
    return lambda x: cast(cast(x, FLOAT16), FLOAT32)


@_builder("zeros", "ones", "full")
def _filled(case, number=0):
    shape, dtype = case.type.shape, case.type.dtype
    convert = _cast_to(dtype)
    return lambda x=number: np.full(shape, convert(x), dtype)


BUILDERS["ones"] = lambda case: _filled(case, 1)


@_builder("iota")
def _iota(case):
    shape, axis = case.type.shape, case.get("axis")
    along = [1] * len(shape)
    along[axis] = shape[axis]
    found = np.array(np.broadcast_to(np.arange(shape[axis], dtype=np.int32).reshape(along), shape))
    return lambda: found


@_builder("let")
def _let(case):
    number = case.types[0] is None and case.type.dtype is not None
    return _cast_to(case.type.dtype) if number else lambda x: x


@_builder("choose")
def _choose(case):
    kept = case.type.dtype
    convert = _cast_to(kept) if kept is not None else int
    numbers = [t is None for t in case.types]

    def run(flag, a, b):
        x, number = (a, numbers[1]) if flag else (b, numbers[2])
        return convert(x) if number else x

    return run


@_builder("mask", "keep")
def _mask(case):
    axis, dtype, shape = case.get("axis"), case.types[0].dtype, case.types[0].shape
    along = [1] * len(shape)
    along[axis] = shape[axis]
    index = np.arange(shape[axis]).reshape(along)
    fill_type = case.types[2]
    if fill_type is not None and fill_type.dtype is not None:
        common_dtype([dtype, fill_type.dtype])
        return lambda x, count, fill: np.where(index < count, x, fill)
    return lambda x, count, fill: np.where(index < count, x, literal(fill, dtype))


@_builder("within")
def _within(case):
    axis, count, shape = case.get("axis"), case.get("count"), case.types[0].shape
    along = [1] * len(shape)
    along[axis] = shape[axis]
    index = np.arange(shape[axis]).reshape(along)
    return lambda old, x, first: np.where((index >= first) & (index < first + count), x, old)


@_builder("array")
def _array(case):
    convert = _cast_to(case.type.dtype)
    return lambda x: np.asarray(convert(x)).reshape(1)


# ---- moved ---------------------------------------------------------------------------------------


@_builder("reshape")
def _reshape(case):
    shape = case.type.shape
    return lambda x: x.reshape(shape)


@_builder("broadcast")
def _broadcast(case):
    shape, dtype = case.type.shape, case.type.dtype
    if case.types[0] is None:
        return lambda x: np.broadcast_to(literal(x, dtype), shape)
    return lambda x: np.broadcast_to(x, shape)


@_builder("transpose")
def _transpose(case):
    axes = case.many("axes")
    return lambda x: np.transpose(x, axes)


@_builder("swapaxes")
def _swapaxes(case):
    a, b = case.get("a"), case.get("b")
    return lambda x: np.swapaxes(x, a, b)


@_builder("expand_dims")
def _expand_dims(case):
    axis = case.get("axis")
    return lambda x: np.expand_dims(x, axis)


@_builder("tile")
def _tile(case):
    times = case.many("times")
    return lambda x: np.tile(x, times)


@_builder("index")
def _index(case):
    items = tuple(case.get("items"))
    return lambda x: x[items]


@_builder("strided")
def _strided(case):
    numbers = case.many("slices")
    parts = zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
    items = tuple(slice(*part) for part in parts)
    return lambda x: x[items]


@_builder("slice_in_dim")
def _slice_in_dim(case):
    start, end, axis = (case.get(name) for name in ("start", "end", "axis"))
    if end > case.types[0].shape[axis]:
        raise ExecuteError(f"the slice {start}:{end} is past the end")
    items = (slice(None),) * axis + (slice(start, end),)
    return lambda x: x[items]


@_builder("concatenate")
def _concatenate(case):
    axis = case.get("axis")
    return lambda *xs: np.concatenate(xs, axis)


@_builder("stack")
def _stack(case):
    axis = case.get("axis")
    return lambda *xs: np.stack(xs, axis)


@_builder("pad")
def _pad(case):
    widths = case.many("widths")
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    inside = tuple(slice(b, b + n) for (b, _), n in zip(pairs, case.types[0].shape, strict=True))
    shape, dtype = case.type.shape, case.type.dtype
    convert = _cast_to(dtype)

    def run(x, fill=0):
        found = np.full(shape, convert(fill), dtype)
        found[inside] = x
        return found

    return run


@_builder("roll")
def _roll(case):
    turns = case.many("turns")
    return lambda x: np.roll(x, turns[::2], turns[1::2])


@_builder("rotate")
def _rotate(case):
    axis = case.get("axis")
    return lambda x, turns: np.roll(x, int(turns), axis)


@_builder("flip", "reverse")
def _flip(case):
    axis = case.get("axis")
    return lambda x: np.flip(x, axis)


@_builder("every")
def _every(case):
    start, step, count, axis = (case.get(name) for name in ("start", "step", "count", "axis"))
    items = (slice(None),) * axis + (slice(start, start + step * (count - 1) + 1, step),)
    return lambda x: x[items]


@_builder("take_lanes")
def _take_lanes(case):
    return lambda x, places: np.take_along_axis(x, places, 1)


@_builder("take_rows")
def _take_rows(case):
    return lambda x, places: np.take_along_axis(x, places, 0)


@_builder("even_lanes")
def _even_lanes(case):
    return lambda x: x[..., ::2]


@_builder("interleave")
def _interleave(case):
    return lambda x, y: np.stack([x, y], -1).reshape(*x.shape[:-1], 2 * x.shape[-1])


@_builder("tril")
def _tril(case, keep=np.less_equal):
    (shift,) = case.many("ints") or (0,)
    rows, columns = case.types[0].shape[-2:]
    kept = keep(np.arange(columns)[None, :], np.arange(rows)[:, None] + shift)
    return lambda x: np.where(kept, x, x.dtype.type(0))


BUILDERS["triu"] = lambda case: _tril(case, np.greater_equal)


@_builder("to_row")
def _to_row(case):
    return lambda x: np.swapaxes(x[..., :1], -1, -2)


@_builder("to_column")
def _to_column(case):
    return lambda x: np.swapaxes(x[..., :1, :], -1, -2)


# ---- along dims ----------------------------------------------------------------------------------


def _summed(dtype):
    """The dtype of jnp's sums."""
    if is_float(dtype) or dtype.itemsize >= 4:
        return dtype
    return np.dtype(np.uint32) if dtype.kind == "u" else INT32


def _wide(dtype):
    """The dtype in which sums are exact, or nearly: in whatever order, they round to the same."""
    return np.float64 if is_float(dtype) else np.int64


def _reduction(function, result):
    """`function(x, axis=, keepdims=)` of the axes of a statement, rounded to `result(dtype)`."""

    def build(case):
        axis, keep = case.many("axes") or None, bool(case.get("keep", 0))
        dtype = result(case.types[0].dtype)
        wide = _wide(dtype)

        def run(x):
            x = x.astype(np.float32) if x.dtype.kind == "V" else x
            return cast(function(x.astype(wide), axis=axis, keepdims=keep), dtype)

        return run

    return build


def _mean_dtype(dtype):
    return dtype if is_float(dtype) else FLOAT32


def _mean(x, axis, keepdims):
    count = x.size if axis is None else int(np.prod([x.shape[i] for i in axis]))
    return np.sum(x, axis=axis, keepdims=keepdims) / count


BUILDERS["sum"] = _reduction(np.sum, _summed)
BUILDERS["mean"] = _reduction(_mean, _mean_dtype)
BUILDERS["prod"] = _reduction(np.prod, lambda dtype: dtype)


def _extreme(function):
    def build(case):
        axis, keep = case.many("axes") or None, bool(case.get("keep", 0))
        dtype = case.types[0].dtype
        narrow = dtype.kind == "V"

        def run(x):
            if not narrow:
                return function(x, axis=axis, keepdims=keep)
            return cast(function(x.astype(np.float32), axis=axis, keepdims=keep), dtype)

        return run

    return build


BUILDERS["max"], BUILDERS["min"] = _extreme(np.max), _extreme(np.min)


def _scan(function):
    def build(case):
        axis, dtype = case.get("axis"), case.types[0].dtype
        wide = _wide(dtype)
        return lambda x: cast(function(x.astype(wide), axis=axis), dtype)

    return build


BUILDERS["cumsum"], BUILDERS["cumprod"] = _scan(np.cumsum), _scan(np.cumprod)


@_builder("sort")
def _sort(case):
    """Bits, then places: stable, NaN as the greatest whichever way."""
    axis, descending = case.get("axis"), case.get("descending")

    def run(x):
        key = x.astype(np.float64 if is_float(x.dtype) else np.int64)
        nan = key != key
        key = np.where(nan, 0, -key if descending else key)
        places = np.lexsort((key, nan != bool(descending)), axis=axis)
        bits = np.take_along_axis(x, places, axis).view(np.int32)
        return np.stack([bits, places.astype(np.int32)])

    return run


def _fold(function):
    """`total` [..., 128] with each 128 lanes of x, one after the other."""

    def build(case):
        result = case.type.dtype
        narrow = case.types[1].dtype.kind == "V"

        def run(total, x):
            x = x.astype(np.float32) if narrow else x
            part = x[..., :LANES]
            for at in range(LANES, x.shape[-1], LANES):
                part = function(part, x[..., at : at + LANES])
            return cast(function(total.astype(part.dtype), part), result)

        return run

    return build


BUILDERS["fold_sum"] = _fold(np.add)
BUILDERS["fold_max"], BUILDERS["fold_min"] = _fold(np.maximum), _fold(np.minimum)


@_builder("fold_where")
def _fold_where(case):
    """`total` [..., 128], or of each 128 lanes of x those where the condition holds."""

    def run(total, condition, x):
        for at in range(0, x.shape[-1], LANES):
            part = slice(at, at + LANES)
            total = np.where(condition[..., part], x[..., part], total)
        return total

    return run


@_builder("dot")
def _dot(case):
    a, b = case.get("a"), case.get("b")
    dtype, rank = case.type.dtype, len(case.types[0].shape)
    narrow = all(t.dtype.itemsize <= 2 for t in case.types)  # float64 holds their sums, and is fast
    wide = np.float64 if narrow else _wide(dtype)

    def run(x, y):
        x = x.astype(wide) if a == rank - 1 else np.swapaxes(x, -1, -2).astype(wide)
        y = y.astype(wide) if b == rank - 2 else np.swapaxes(y, -1, -2).astype(wide)
        product = np.matmul(x, y)
        return cast(product if is_float(dtype) else product.astype(np.int64), dtype)

    return run


@_builder("int_power")
def _int_power(case):
    bits, dtype = case.get("bits"), case.type.dtype

    def run(x, y):
        x, y = np.asarray(x, np.int64), np.asarray(y, np.int64)
        unit = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y & 1), 0))
        power = np.where(y & 1, x, 1)
        for bit in range(1, bits):
            x = (x * x).astype(dtype).astype(np.int64)
            power = np.where(y >> bit & 1, power * x, power).astype(dtype).astype(np.int64)
        return np.where(y < 0, unit, power).astype(dtype)

    return run
