"""Targets that make tensors: fills, ranges, random numbers."""

import numpy as np

from .registry import register
from .values import FLOAT32, INT64, cast, is_float, result_type, to_array, uninitialized, weak_dtype


def _dtype(value, dtype):
    """`dtype`, or the one that `value` (array or Python number) has."""
    if dtype is not None:
        return dtype
    return value.dtype if isinstance(value, np.ndarray) else weak_dtype(value)


@register("tile.full")
def _full(shape, value, dtype=None, **_ignored):
    dtype = _dtype(value, dtype)
    return np.array(np.broadcast_to(to_array(value, dtype).reshape(()), shape))


@register("aten.full")
def _aten_full(size, fill_value, dtype=None, **_ignored):
    return _full(size, fill_value, dtype)


@register("aten.zeros")
def _zeros(size, dtype=None, **_ignored):
    return np.zeros(size, dtype or FLOAT32)


@register("aten.ones")
def _ones(size, dtype=None, **_ignored):
    return np.ones(size, dtype or FLOAT32)


@register("aten.empty")
def _empty(size, dtype=None, **_ignored):
    return uninitialized(size, dtype or FLOAT32)


@register("aten.full_like")
def _full_like(x, fill_value, dtype=None, **_ignored):
    return _full(x.shape, fill_value, dtype or x.dtype)


@register("aten.zeros_like")
def _zeros_like(x, dtype=None, **_ignored):
    return np.zeros(x.shape, dtype or x.dtype)


@register("aten.ones_like")
def _ones_like(x, dtype=None, **_ignored):
    return np.ones(x.shape, dtype or x.dtype)


@register("aten.empty_like")
def _empty_like(x, dtype=None, **_ignored):
    return uninitialized(x.shape, dtype or x.dtype)


@register("aten.new_full")
def _new_full(x, size, fill_value, dtype=None, **_ignored):
    return _full(size, fill_value, dtype or x.dtype)


@register("aten.new_zeros")
def _new_zeros(x, size, dtype=None, **_ignored):
    return np.zeros(size, dtype or x.dtype)


@register("aten.new_ones")
def _new_ones(x, size, dtype=None, **_ignored):
    return np.ones(size, dtype or x.dtype)


@register("aten.new_empty")
def _new_empty(x, size, dtype=None, **_ignored):
    return uninitialized(size, dtype or x.dtype)


@register("aten.scalar_tensor", "tile.constant_tensor")
def _scalar_tensor(value, dtype=None, **_ignored):
    return to_array(value, dtype or FLOAT32)


@register("aten._local_scalar_dense", "aten.item")
def _item(x):
    return x.item()


@register("prims.iota")
def _iota(length, start=0, step=1, dtype=None, **_ignored):
    return cast(np.arange(length, dtype=np.int64) * step + start, dtype or INT64)


@register("aten.arange.start_step")
def _arange(start, end=None, step=1, dtype=None, **_ignored):
    start, end = (0, start) if end is None else (start, end)
    if dtype is None or is_float(dtype):
        return cast(np.arange(start, end, step), dtype or result_type([start, end, step]))
    # torch counts in the dtype: both are cut off first, but for the number of elements.
    return cast(np.arange(len(np.arange(start, end, step))) * int(step) + int(start), dtype)


@register("aten.arange.start")
def _arange_start(start, end, dtype=None, **_ignored):
    return _arange(start, end, 1, dtype)


@register("aten.arange.default", "tile.arange")
def _arange_default(end, dtype=None, **_ignored):
    return _arange(0, end, 1, dtype)


def philox(seed, offsets):
    """First word of Philox-4x32-10 with key `seed` (64 bits) and counter `offsets` (int array)."""
    mask = np.uint64(0xFFFFFFFF)
    offsets = offsets.astype(np.int64).astype(np.uint64)
    c = [offsets & mask, offsets >> np.uint64(32), np.zeros_like(offsets), np.zeros_like(offsets)]
    key = [seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        low = np.uint64(32)
        c = [
            (b >> low) ^ c[1] ^ np.uint64(key[0]),
            b & mask,
            (a >> low) ^ c[3] ^ np.uint64(key[1]),
            a & mask,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c[0].astype(np.uint32)


def uniform(words):
    """uint32 words as float32 in [0, 1), Triton's way: |word as int32| * 2**-31 or so."""
    signed = words.astype(np.int32)
    size = np.where(signed < 0, -(signed + 1), signed).astype(np.float32)
    return size * np.float32(4.6566127342e-10)


def integers(words, low, high):
    """uint32 words as int32 in [low, high), Helion's way: |word as int32| modulo the range."""
    size = np.abs(words.astype(np.int32).astype(np.int64))
    return (low + size % (high - low)).astype(np.int32)
