"""Dtypes of the format, conversions between them, and torch's type promotion.

Run-time values are numpy arrays (tile tensors) and Python ints, floats and bools (symbolic ints and
host scalars, which are weak as Python numbers are in torch).
"""

import ml_dtypes
import numpy as np

from .errors import GraphError

DTYPES = {
    "float32": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype(np.float16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "int32": np.dtype(np.int32),
    "int16": np.dtype(np.int16),
    "int8": np.dtype(np.int8),
    "int4": np.dtype(ml_dtypes.int4),
    "uint32": np.dtype(np.uint32),
    "uint16": np.dtype(np.uint16),
    "uint8": np.dtype(np.uint8),
    "bool": np.dtype(np.bool_),
}
INT64 = np.dtype(np.int64)  # of values alone: no array in memory has it
NAMES = {dtype: name for name, dtype in DTYPES.items()} | {INT64: "int64"}
BOOL, INT32, FLOAT32 = DTYPES["bool"], DTYPES["int32"], DTYPES["float32"]
INT4, BFLOAT16, FLOAT16 = DTYPES["int4"], DTYPES["bfloat16"], DTYPES["float16"]
_FP8 = (DTYPES["float8_e4m3fn"], DTYPES["float8_e5m2"])
FLOATS = (FLOAT32, BFLOAT16, FLOAT16, *_FP8)
_BITS = {"int4": 4, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32}
_BITS["int64"] = 64


def dtype_of(name, int64_ok=True):
    """The numpy dtype called `name`; int64 is one of values in the kernel, not of arrays."""
    if name in DTYPES:
        return DTYPES[name]
    if name == "int64" and int64_ok:
        return INT64
    if name in ("int64", "float64"):
        raise GraphError(f"{name} is not supported: convert it to {name[:-2]}32 on the host")
    raise GraphError(f"unknown dtype {name!r}")


def is_float(dtype):
    """Whether `dtype` is one of the format's floats, or float64."""
    return dtype in FLOATS or dtype == np.float64


def int_range(dtype):
    """The least and the greatest value of an integer dtype."""
    if dtype == INT4:
        return -8, 7
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def kind_rank(dtype):
    """0 bool, 1 integer, 2 float: the categories of torch's promotion."""
    if dtype == BOOL:
        return 0
    return 2 if is_float(dtype) else 1


def _promote_ints(a, b):
    bits_a, bits_b = _BITS[NAMES[a]], _BITS[NAMES[b]]
    signed_a, signed_b = a.name.startswith("int"), b.name.startswith("int")
    if signed_a == signed_b:
        return a if bits_a >= bits_b else b
    unsigned_bits, signed_bits = (bits_b, bits_a) if signed_a else (bits_a, bits_b)
    if signed_bits == 64:
        return INT64
    return DTYPES[f"int{min(32, max(2 * unsigned_bits, signed_bits))}"]


def promote(a, b):
    """The dtype that torch computes in for tensors of dtypes `a` and `b`."""
    if a == b:
        return a
    rank_a, rank_b = kind_rank(a), kind_rank(b)
    if rank_a != rank_b:
        return a if rank_a > rank_b else b
    if rank_a == 1:
        return _promote_ints(a, b)
    if a in _FP8 and b not in _FP8:
        return b
    if b in _FP8 and a not in _FP8:
        return a
    return FLOAT32


def weak_dtype(number):
    """The dtype a lone Python number has."""
    if isinstance(number, (bool, np.bool_)):
        return BOOL
    return INT64 if isinstance(number, (int, np.integer)) else FLOAT32


def is_number(value):
    """Whether `value` is a Python number: symbolic, or a weak host scalar."""
    return isinstance(value, (bool, int, float))


def result_type(operands):
    """torch.result_type of arrays and Python numbers: dimensioned > 0-d > number, per category."""
    dtype = None
    for level in (_dimensioned, _zero_dim, _weak):
        found = [level(x) for x in operands if level(x) is not None]
        if not found:
            continue
        here = found[0]
        for other in found[1:]:
            here = promote(here, other)
        if dtype is None or kind_rank(here) > kind_rank(dtype):
            dtype = here
    return dtype


def _dimensioned(x):
    return x.dtype if isinstance(x, np.ndarray) and x.ndim else None


def _zero_dim(x):
    return x.dtype if isinstance(x, np.ndarray) and not x.ndim else None


def _weak(x):
    return weak_dtype(x) if is_number(x) else None


def compute_dtype(dtype):
    """The numpy dtype in which arithmetic of `dtype` runs before it is rounded."""
    if is_float(dtype):
        return FLOAT32
    return DTYPES["int8"] if dtype == INT4 else dtype


def to_array(value, dtype):
    """`value` (array or Python number) as an array of `dtype`; ints wrap around."""
    if isinstance(value, int) and not isinstance(value, bool) and kind_rank(dtype) == 1:
        low, high = int_range(dtype)
        value = (value - low) % (high - low + 1) + low
        return np.asarray(value, np.int64).astype(dtype)
    if is_number(value):
        return cast(np.asarray(value), dtype)
    return cast(value, dtype)


def cast(array, dtype):
    """`array` converted to `dtype`.

    Floats round to nearest even; float to int truncates, saturates and takes NaN to 0 (XLA's rule,
    where torch leaves it undefined); int to int wraps around.
    """
    array = np.asarray(array)
    if array.dtype == dtype:
        return array
    with np.errstate(all="ignore"):
        if dtype == BOOL:
            return np.asarray(array != 0)
        if array.dtype.kind == "f" or array.dtype in FLOATS:
            if not is_float(dtype) and dtype.kind != "c":
                return _float_to_int(array, dtype)
            if array.dtype in FLOATS and array.dtype not in (FLOAT32, FLOAT16):
                array = array.astype(np.float32)
        return np.asarray(array.astype(dtype))


def _float_to_int(array, dtype):
    low, high = int_range(dtype)
    wide = np.nan_to_num(array.astype(np.float64), nan=0.0, posinf=high, neginf=low)
    return np.asarray(np.clip(np.trunc(wide), low, high).astype(np.int64).astype(dtype))


def uninitialized(shape, dtype):
    """What `init: "empty"` holds: NaN, or the least int, so that a forgotten store shows."""
    if is_float(dtype):
        return np.full(shape, np.nan, np.float32).astype(dtype)
    if dtype == BOOL:
        return np.zeros(shape, dtype)
    return np.full(shape, int_range(dtype)[0], np.int64).astype(dtype)
