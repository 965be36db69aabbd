"""Dtypes as jax.numpy promotes them, numbers beside them, and what memory holds before a write."""

import ml_dtypes
import numpy as np

from ..reference.values import (
    BOOL,
    FLOAT32,
    FLOATS,
    INT32,
    cast,
    is_float,
    kind_rank,
    promote,
    to_array,
)
from .errors import ExecuteError

__all__ = ["cast", "common_dtype", "compute_dtype", "literal", "poison", "poisoned", "same_bits"]
_FP8 = tuple(dtype for dtype in FLOATS if dtype.itemsize == 1)
_INT4 = np.dtype(ml_dtypes.int4)
_POISON = 0xA5A5A5A5A5A5A5A5


def common_dtype(dtypes, numbers=()):
    """The dtype jnp computes in: of values, and of numbers, which have no dtype of their own."""
    found = None
    for dtype in dtypes:
        found = dtype if found is None else _promoted(found, dtype)
    rank = max((_number_rank(x) for x in numbers), default=-1)
    if found is None or kind_rank(found) < rank:
        return (BOOL, INT32, FLOAT32)[rank]
    return found


def _promoted(a, b):
    if a == b:
        return a
    if is_float(a) and is_float(b) and (a in _FP8 or b in _FP8):
        raise ExecuteError(f"jnp promotes no {a.name} and {b.name}")
    found = promote(a, b)
    return INT32 if found.itemsize == 8 else found


def _number_rank(x):
    return 0 if isinstance(x, bool) else 1 if isinstance(x, int) else 2


def compute_dtype(dtype):
    """The numpy dtype in which a dtype's arithmetic runs before it is rounded."""
    if dtype in FLOATS:
        return FLOAT32
    return np.dtype(np.int8) if dtype == _INT4 else dtype


def literal(x, dtype):
    """A number as a 0-d value."""
    return to_array(x, dtype)[()]


def poison(dtype):
    """What memory holds that nothing has written: NaN, or a number that nobody means."""
    if is_float(dtype):
        return dtype.type(np.nan)
    if dtype == BOOL:
        return np.True_
    return to_array(_POISON, dtype)[()]


def poisoned(shape, dtype):
    """An array of it."""
    return np.full(shape, poison(dtype), dtype)


def same_bits(a, b):
    """Elementwise: equal, bit for bit but for the payload of NaNs."""
    if not is_float(a.dtype):
        return np.asarray(a == b)
    bits = np.dtype(f"u{a.dtype.itemsize}")
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    nan = np.isnan(a.astype(np.float32)) & np.isnan(b.astype(np.float32))
    return nan | (a.view(bits) == b.view(bits))
