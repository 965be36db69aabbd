"""Inputs at the edges of each dtype, for the cases of cases.py: what random numbers hardly meet."""

import functools
import re

import cases as ops
import ml_dtypes
import numpy as np
from pallasc.reference.values import DTYPES, cast, int_range, is_float

# Signs of zero, what is no number, halves that round to even, where ints and bytes end.
_FLOATS = [0.0, 1.0, 0.5, 1.5, 2.5, 3.5, 0.49999997, 3.0, 7.0, 100.0, 127.5, 128.0, 255.0, 255.5]
_FLOATS += [256.0, 32767.0, 32768.0, 65535.0, 65536.0, 8388609.0, 16777217.0, 2147483520.0]
_FLOATS += [2.0**31, 2.0**32 - 256, 2.0**32, 1e10, 1 / 3, 20.0, 88.8, 104.0, 448.0, 464.0, 480.0]
_FLOATS += [57344.0, 61440.0, 65504.0, 65520.0, 1e-10]
# Halfway between neighbours of bfloat16 and of float8, and a little off.
_FLOATS += [1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-20, 1.0625, 1.1875, 1.125, 1.375]
_INTS = [0, 1, 2, 3, 7, 31, 100, 127, 128, 255, 32767]


@functools.cache
def of_dtype(name, denormal=True):
    """A vector of the edges of a dtype, each once, by bits; with its denormal numbers, or not."""
    dtype = DTYPES[name]
    if name == "bool":
        return np.array([False, True])
    if is_float(dtype):
        info = ml_dtypes.finfo(dtype)
        ends = [float(info.max), float(info.tiny), float(info.smallest_subnormal)]
        ends += [float(info.smallest_subnormal) * 3, float(info.tiny) * 0.75, np.nan, np.inf]
        wide = np.array([*_FLOATS, *ends], np.float32)
        found = cast(np.concatenate([wide, -wide]), dtype)
        size = np.abs(found.astype(np.float32))
        if not denormal:
            found = found[(size == 0) | ~(size < float(info.tiny))]
        bits = found.view(f"u{dtype.itemsize}")
    else:
        low, high = int_range(dtype)
        listed = [low, low + 1, high, high - 1, high // 2, high // 2 + 1, *_INTS]
        listed += [-i for i in _INTS] + [high - 255, 1 << 24, (1 << 24) + 1, 1 << 30]
        bits = found = np.array([i for i in listed if low <= i <= high]).astype(dtype)
    return found[np.sort(np.unique(bits, return_index=True)[1])]


def _pairs(edges, shape, position, divides):
    """All edges in turn; of two operands, each edge with each.

    No int is divided by 0 or -1: there torch raises, or ends the process (the least int by -1).
    """
    if divides and not is_float(edges.dtype):
        edges = edges[~np.isin(edges.astype(np.int64), (0, -1))]
    count = int(np.prod(shape))
    turn = np.arange(count) // edges.size**position if position < 2 else np.arange(count) * 7
    return edges[turn % edges.size].reshape(shape)


# What adds up or multiplies: of moderate numbers, so that no order of the sum overflows.
_ACCUMULATE = ("sum", "mean", "prod", "var", "std", "cum", "norm")


def _rows(edges, shape, moderate):
    """Rows of one kind each: of -0.0, with NaN first or last, with infs, of ties, of edges."""
    dtype, rng = edges.dtype, np.random.default_rng(0)
    finite = edges[np.isfinite(edges.astype(np.float32))]
    size = np.abs(finite.astype(np.float64))
    small = finite[(size < 8) & ((size == 0) | (size > 0.3))]
    values = rng.choice(small if moderate else edges, shape)
    flat = values.reshape(-1, shape[-1])
    if not moderate:
        flat[1::2] = rng.choice(small, flat[1::2].shape)
    if is_float(dtype) and len(flat) > 12:
        flat[0], flat[2] = dtype.type(-0.0), dtype.type(np.nan)
        flat[3:9] = dtype.type(1)
        flat[3, -1] = flat[4, 0] = dtype.type(np.nan)
        if dtype != DTYPES["float8_e4m3fn"]:
            flat[5], flat[6, 1], flat[7, 3] = (dtype.type(x) for x in (-np.inf, -np.inf, np.inf))
            flat[8, 3], flat[8, 4] = dtype.type(np.inf), dtype.type(-np.inf)
    return values


def arguments(cases, denormal=True):
    """The input arrays of `ops.document(cases)`, in order; the cases are of one kind."""
    builder = ops.Builder(ops.VARIANTS[cases[0].variant])
    for case in cases:
        case.build(builder)
    if not builder.inputs:
        builder.load("float32")
    (kind,) = {kind_of(case) for case in cases}
    arrays = []
    for number, (dtype, tile, values) in enumerate(builder.inputs):
        shape = builder._array_shape(tile)
        position = int(values[3:]) if values[3:].isdigit() else values in ("nonzero", "shift")
        if dtype == "int4" or kind == "MATMUL":
            arrays.append(ops.VALUES[values](DTYPES[dtype], shape, np.random.default_rng(number)))
        elif kind in ("ACCUMULATE", "REDUCTION"):
            arrays.append(_rows(of_dtype(dtype, denormal), shape, kind == "ACCUMULATE"))
        else:
            edges = of_dtype(dtype, denormal)
            arrays.append(_pairs(edges, shape, int(position), values == "nonzero"))
    return arrays


def kind_of(case):
    """Which inputs a case gets: all cases of one document need the same kind."""
    kind = ops.op_rows()[case.target].kind
    name = case.target.partition(".")[2]
    if kind == "REDUCTION" and any(word in name for word in _ACCUMULATE):
        return "ACCUMULATE"
    return kind if kind in ("REDUCTION", "MATMUL") else "POINTWISE"


# ---- verdicts -----------------------------------------------------------------------------------

# What torch rounds once, or not at all: to be met bit for bit, signs of zero too.
EXACT = re.compile(
    r"(aten|prims|tile)\."
    r"((eq|ne|lt|le|gt|ge|add|sub|rsub|mul|div|neg|abs|sign|sgn|max|min|all|any|where)\."
    r"|logical_|bitwise_|__|square|maximum|minimum|clamp|relu|hardtanh|masked_fill|floor|ceil|round"
    r"|trunc|fmod|remainder|clone|alias|detach|lift|contig|convert_|_to_copy|true_div|recip|frac"
    r"|copysign|nextafter|is|signbit|amax|amin|argm|any|all|store|load|full|zeros|ones|gather)"
)


def agrees(case, expected, found):
    """By element: equal, NaN with NaN, or within the tolerances of interfaces for inexact ops."""
    with np.errstate(all="ignore"):
        a, b = expected.astype(np.float64), found.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    kind = ops.op_rows()[case.target].kind
    if EXACT.match(case.target) or not is_float(found.dtype) or kind in ("VIEW", "CREATION"):
        return same & ((np.signbit(a) == np.signbit(b)) | np.isnan(a))
    info = ml_dtypes.finfo(found.dtype)
    with np.errstate(all="ignore"):
        if found.dtype == np.float32:
            bound = 2e-5 * np.maximum(np.abs(b), 1)
        else:
            ulps = 8 if kind in ("REDUCTION", "MATMUL") else 2
            bound = ulps * float(info.eps) * np.maximum(np.abs(b), 2.0**-10)
        return same | (np.abs(a - b) <= bound)
