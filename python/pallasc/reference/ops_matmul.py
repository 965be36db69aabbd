"""Matrix products.

Float products and sums run in float64 and round once to float32 (the format's accumulator), then to
the result's dtype; integer products wrap around in int32.
"""

import numpy as np

from .errors import GraphError
from .registry import register
from .values import FLOAT32, INT32, INT64, cast, is_float, promote


def _check(a, b):
    if a.ndim < 1 or b.ndim < 1 or a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise GraphError(f"cannot multiply {list(a.shape)} by {list(b.shape)}")


def _product(a, b):
    """The float64 (or exact int64, modulo 2**64) product of `a` and `b`."""
    _check(a, b)
    with np.errstate(all="ignore"):
        if is_float(promote(a.dtype, b.dtype)):
            return np.matmul(_double(a), _double(b))
        if max(a.dtype.itemsize, b.dtype.itemsize) <= 2:
            return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
        return np.matmul(a.astype(np.int64), b.astype(np.int64))


def _double(x):
    return x.astype(np.float32).astype(np.float64) if is_float(x.dtype) else x.astype(np.float64)


def _accumulated(value, out_dtype=None):
    """Rounds a raw product to the accumulator, then to `out_dtype` if there is one."""
    if out_dtype == INT64:
        return value
    value = cast(value, INT32 if value.dtype == np.int64 else FLOAT32)
    return value if out_dtype is None else cast(value, out_dtype)


def _multiply(a, b, out_dtype=None):
    return _accumulated(_product(a, b), out_dtype or promote(a.dtype, b.dtype))


@register("aten.mm", "aten.bmm", "aten.matmul", "aten.mv", "aten.dot")
def _mm(a, b, out_dtype=None):
    return _multiply(a, b, out_dtype)


@register("aten.mm.dtype", "aten.bmm.dtype")
def _mm_dtype(a, b, out_dtype):
    return _multiply(a, b, out_dtype)


def _added(bias, a, b, out_dtype, beta, alpha):
    product = _product(a, b)
    if product.dtype == np.int64:
        total = product * int(alpha) + bias.astype(np.int64) * int(beta)
    else:
        total = product * alpha + (_double(bias) * beta if beta else 0.0)
    return _accumulated(total, out_dtype or promote(bias.dtype, promote(a.dtype, b.dtype)))


@register("aten.addmm", "aten.baddbmm", "aten.addmv")
def _addmm(bias, a, b, beta=1, alpha=1):
    return _added(bias, a, b, None, beta, alpha)


@register("aten.addmm.dtype", "aten.baddbmm.dtype")
def _addmm_dtype(bias, a, b, out_dtype, beta=1, alpha=1):
    return _added(bias, a, b, out_dtype, beta, alpha)


@register("aten._int_mm")
def _int_mm(a, b):
    return _multiply(a, b, INT32)


@register("tile.dot")
def _dot(a, b, acc=None, out_dtype=None):
    """`acc + a @ b`; without `out_dtype` in the accumulator's dtype, which `meta` then rounds."""
    product = _product(a, b)
    if acc is not None:
        product = product + (_double(acc) if product.dtype == np.float64 else acc.astype(np.int64))
    return _accumulated(product, out_dtype)
