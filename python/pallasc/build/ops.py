"""A function for each op of the op table that computes, moves or makes values.

Generated from `include/ops.def` by `make docs`; do not edit. What an op means is its ATen schema's
semantics, the `tile.` ones are in docs/graph-format.md. `PARAMS` has all targets: those without a
function are `call(target, ...)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .sizes import Dim
from .values import Index, Operand, Operators, Tensor, Value, current


def call(target: str, *args: Any, **kwargs: Any) -> Any:
    """Any op by its target: gives a `Value`, a tuple of them, or None of a store."""
    return current().call(target, *args, **kwargs)


def abs(x: Operand) -> Value:
    """`aten.abs.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.abs.default", x)


def acos(x: Operand) -> Value:
    """`aten.acos.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.acos.default", x)


def acosh(x: Operand) -> Value:
    """`aten.acosh.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.acosh.default", x)


def add(x: Operand, other: Operand, *, alpha: float = 1) -> Value:
    """`aten.add.Tensor`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.add.Tensor", x, other, alpha=alpha)


def addcdiv(x: Operand, tensor1: Operand, tensor2: Operand, *, value: float = 1) -> Value:
    """`aten.addcdiv.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.addcdiv.default", x, tensor1, tensor2, value=value)


def addcmul(x: Operand, tensor1: Operand, tensor2: Operand, *, value: float = 1) -> Value:
    """`aten.addcmul.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.addcmul.default", x, tensor1, tensor2, value=value)


def addmm(
    x: Operators, mat1: Operators, mat2: Operators, *, beta: float = 1, alpha: float = 1
) -> Value:
    """`aten.addmm.default`.

    Dtype: promoted.
    """
    return current().call_value("aten.addmm.default", x, mat1, mat2, beta=beta, alpha=alpha)


def addmm_dtype(
    x: Operators,
    mat1: Operators,
    mat2: Operators,
    out_dtype: str,
    *,
    beta: float = 1,
    alpha: float = 1,
) -> Value:
    """`aten.addmm.dtype`.

    Dtype: its dtype argument.
    """
    return current().call_value(
        "aten.addmm.dtype", x, mat1, mat2, out_dtype, beta=beta, alpha=alpha
    )


def alias(x: Operand) -> Value:
    """`aten.alias.default`.

    Shape: all operands together.
    Dtype: its first operand's.
    """
    return current().call_value("aten.alias.default", x)


def all(x: Operators, dim: Dim | Sequence[Dim] | None = None, keepdim: bool = False) -> Value:
    """`aten.all.dims`.

    Shape: without `dim` (int, list; null or []: all), or with 1s under `keepdim`.
    Dtype: bool.
    """
    return current().call_value("aten.all.dims", x, dim, keepdim)


def amax(x: Operators, dim: Dim | Sequence[Dim] = (), keepdim: bool = False) -> Value:
    """`aten.amax.default`.

    Shape: without `dim` (int, list; null or []: all), or with 1s under `keepdim`.
    Dtype: its first operand's.
    """
    return current().call_value("aten.amax.default", x, dim, keepdim)


def amin(x: Operators, dim: Dim | Sequence[Dim] = (), keepdim: bool = False) -> Value:
    """`aten.amin.default`.

    Shape: without `dim` (int, list; null or []: all), or with 1s under `keepdim`.
    Dtype: its first operand's.
    """
    return current().call_value("aten.amin.default", x, dim, keepdim)


def any(x: Operators, dim: Dim | Sequence[Dim] | None = None, keepdim: bool = False) -> Value:
    """`aten.any.dims`.

    Shape: without `dim` (int, list; null or []: all), or with 1s under `keepdim`.
    Dtype: bool.
    """
    return current().call_value("aten.any.dims", x, dim, keepdim)


def arange(end: Operand, *, dtype: str | None = None) -> Value:
    """`aten.arange.default`.

    Dtype: its dtype argument.
    """
    return current().call_value("aten.arange.default", end, dtype=dtype)


def arange_start(start: Operand, end: Operand, *, dtype: str | None = None) -> Value:
    """`aten.arange.start`.

    Dtype: its dtype argument.
    """
    return current().call_value("aten.arange.start", start, end, dtype=dtype)


def arange_start_step(
    start: Operand, end: Operand, step: Operand = 1, *, dtype: str | None = None
) -> Value:
    """`aten.arange.start_step`.

    Dtype: its dtype argument.
    """
    return current().call_value("aten.arange.start_step", start, end, step, dtype=dtype)


def argmax(x: Operators, dim: Dim | None = None, keepdim: bool = False) -> Value:
    """`aten.argmax.default`.

    Shape: without `dim` (int, list; null or []: all), or with 1s under `keepdim`.
    Dtype: int32.
    """
    return current().call_value("aten.argmax.default", x, dim, keepdim)


def argmin(x: Operators, dim: Dim | None = None, keepdim: bool = False) -> Value:
    """`aten.argmin.default`.

    Shape: without `dim` (int, list; null or []: all), or with 1s under `keepdim`.
    Dtype: int32.
    """
    return current().call_value("aten.argmin.default", x, dim, keepdim)


def asin(x: Operand) -> Value:
    """`aten.asin.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.asin.default", x)


def asinh(x: Operand) -> Value:
    """`aten.asinh.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.asinh.default", x)


def atan(x: Operand) -> Value:
    """`aten.atan.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.atan.default", x)


def atan2(x: Operand, other: Operand) -> Value:
    """`aten.atan2.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.atan2.default", x, other)


def atanh(x: Operand) -> Value:
    """`aten.atanh.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.atanh.default", x)


def aten_dot(x: Operators, tensor: Operators) -> Value:
    """`aten.dot.default`.

    Dtype: promoted.
    """
    return current().call_value("aten.dot.default", x, tensor)


def aten_full(size: Dim | Sequence[Dim], fill_value: Operand, *, dtype: str | None = None) -> Value:
    """`aten.full.default`.

    Shape: the shape argument (first, or `size`).
    Dtype: its dtype argument.
    """
    return current().call_value("aten.full.default", size, fill_value, dtype=dtype)


def aten_split(x: Operators, split_size: Dim, dim: Dim = 0) -> tuple[Value, ...]:
    """`aten.split.Tensor`.

    Shape: a tuple of pieces of one size.
    Dtype: its first operand's.
    """
    result: tuple[Value, ...] = current().call("aten.split.Tensor", x, split_size, dim)
    return result


def atomic_add(tensor: Tensor, index: Index, value: Operand) -> Value:
    """`tile.atomic_add`.

    Dtype: its first operand's.
    """
    return current().call_value("tile.atomic_add", tensor, index, value)


def atomic_and(tensor: Tensor, index: Index, value: Operand) -> Value:
    """`tile.atomic_and`.

    Dtype: its first operand's.
    """
    return current().call_value("tile.atomic_and", tensor, index, value)


def atomic_cas(tensor: Tensor, index: Index, expected: Operand, value: Operand) -> Value:
    """`tile.atomic_cas`.

    Dtype: its first operand's.
    """
    return current().call_value("tile.atomic_cas", tensor, index, expected, value)


def atomic_max(tensor: Tensor, index: Index, value: Operand) -> Value:
    """`tile.atomic_max`.

    Dtype: its first operand's.
    """
    return current().call_value("tile.atomic_max", tensor, index, value)


def atomic_min(tensor: Tensor, index: Index, value: Operand) -> Value:
    """`tile.atomic_min`.

    Dtype: its first operand's.
    """
    return current().call_value("tile.atomic_min", tensor, index, value)


def atomic_or(tensor: Tensor, index: Index, value: Operand) -> Value:
    """`tile.atomic_or`.

    Dtype: its first operand's.
    """
    return current().call_value("tile.atomic_or", tensor, index, value)


def atomic_xchg(tensor: Tensor, index: Index, value: Operand) -> Value:
    """`tile.atomic_xchg`.

    Dtype: its first operand's.
    """
    return current().call_value("tile.atomic_xchg", tensor, index, value)


def atomic_xor(tensor: Tensor, index: Index, value: Operand) -> Value:
    """`tile.atomic_xor`.

    Dtype: its first operand's.
    """
    return current().call_value("tile.atomic_xor", tensor, index, value)


def baddbmm(
    x: Operators, batch1: Operators, batch2: Operators, *, beta: float = 1, alpha: float = 1
) -> Value:
    """`aten.baddbmm.default`.

    Dtype: promoted.
    """
    return current().call_value("aten.baddbmm.default", x, batch1, batch2, beta=beta, alpha=alpha)


def baddbmm_dtype(
    x: Operators,
    batch1: Operators,
    batch2: Operators,
    out_dtype: str,
    *,
    beta: float = 1,
    alpha: float = 1,
) -> Value:
    """`aten.baddbmm.dtype`.

    Dtype: its dtype argument.
    """
    return current().call_value(
        "aten.baddbmm.dtype", x, batch1, batch2, out_dtype, beta=beta, alpha=alpha
    )


def bitwise_and(x: Operand, other: Operand) -> Value:
    """`aten.bitwise_and.Tensor`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.bitwise_and.Tensor", x, other)


def bitwise_left_shift(x: Operand, other: Operand) -> Value:
    """`aten.bitwise_left_shift.Tensor`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.bitwise_left_shift.Tensor", x, other)


def bitwise_not(x: Operand) -> Value:
    """`aten.bitwise_not.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.bitwise_not.default", x)


def bitwise_or(x: Operand, other: Operand) -> Value:
    """`aten.bitwise_or.Tensor`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.bitwise_or.Tensor", x, other)


def bitwise_right_shift(x: Operand, other: Operand) -> Value:
    """`aten.bitwise_right_shift.Tensor`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.bitwise_right_shift.Tensor", x, other)


def bitwise_xor(x: Operand, other: Operand) -> Value:
    """`aten.bitwise_xor.Tensor`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.bitwise_xor.Tensor", x, other)


def bmm(x: Operators, mat2: Operators) -> Value:
    """`aten.bmm.default`.

    Dtype: promoted.
    """
    return current().call_value("aten.bmm.default", x, mat2)


def bmm_dtype(x: Operators, mat2: Operators, out_dtype: str) -> Value:
    """`aten.bmm.dtype`.

    Dtype: its dtype argument.
    """
    return current().call_value("aten.bmm.dtype", x, mat2, out_dtype)


def cat(tensors: Sequence[Operand | None], dim: Dim = 0) -> Value:
    """`aten.cat.default`.

    Dtype: promoted.
    """
    return current().call_value("aten.cat.default", tensors, dim)


def ceil(x: Operand) -> Value:
    """`aten.ceil.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.ceil.default", x)


def clamp(x: Operand, min: Operand | None = None, max: Operand | None = None) -> Value:
    """`aten.clamp.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.clamp.default", x, min, max)


def clamp_max(x: Operand, max: Operand) -> Value:
    """`aten.clamp_max.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.clamp_max.default", x, max)


def clamp_min(x: Operand, min: Operand) -> Value:
    """`aten.clamp_min.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.clamp_min.default", x, min)


def clone(x: Operand) -> Value:
    """`aten.clone.default`.

    Shape: all operands together.
    Dtype: its first operand's.
    """
    return current().call_value("aten.clone.default", x)


def constant_pad_nd(x: Operators, pad: Dim | Sequence[Dim], value: float = 0) -> Value:
    """`aten.constant_pad_nd.default`.

    Dtype: its first operand's.
    """
    return current().call_value("aten.constant_pad_nd.default", x, pad, value)


def contiguous(x: Operand) -> Value:
    """`aten.contiguous.default`.

    Shape: all operands together.
    Dtype: its first operand's.
    """
    return current().call_value("aten.contiguous.default", x)


def convert_element_type(a: Operand, dtype: str) -> Value:
    """`prims.convert_element_type.default`.

    Shape: all operands together.
    Dtype: its dtype argument.
    """
    return current().call_value("prims.convert_element_type.default", a, dtype)


def copysign(x: Operand, other: Operand) -> Value:
    """`aten.copysign.Tensor`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.copysign.Tensor", x, other)


def cos(x: Operand) -> Value:
    """`aten.cos.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.cos.default", x)


def cosh(x: Operand) -> Value:
    """`aten.cosh.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.cosh.default", x)


def cumprod(x: Operators, dim: Dim, *, dtype: str | None = None) -> Value:
    """`aten.cumprod.default`.

    Shape: the first operand's.
    Dtype: its operand's; ints become int32.
    """
    return current().call_value("aten.cumprod.default", x, dim, dtype=dtype)


def cumsum(x: Operators, dim: Dim, *, dtype: str | None = None) -> Value:
    """`aten.cumsum.default`.

    Shape: the first operand's.
    Dtype: its operand's; ints become int32.
    """
    return current().call_value("aten.cumsum.default", x, dim, dtype=dtype)


def detach(x: Operand) -> Value:
    """`aten.detach.default`.

    Shape: all operands together.
    Dtype: its first operand's.
    """
    return current().call_value("aten.detach.default", x)


def digamma(x: Operand) -> Value:
    """`aten.digamma.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.digamma.default", x)


def div(x: Operand, other: Operand, *, rounding_mode: str | None = None) -> Value:
    """`aten.div.Tensor_mode`.

    Shape: all operands together.
    Dtype: promoted; float without a rounding mode.
    """
    return current().call_value("aten.div.Tensor_mode", x, other, rounding_mode=rounding_mode)


def dot(
    a: Operators, b: Operators, acc: Operators | None = None, out_dtype: str | None = None
) -> Value:
    """`tile.dot`.

    Shape: tile.dot: ranks of at least 2, batch dims broadcast.
    """
    return current().call_value("tile.dot", a, b, acc, out_dtype)


def elu(x: Operand, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    """`aten.elu.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.elu.default", x, alpha, scale, input_scale)


def embedding(
    weight: Operators,
    indices: Operators,
    padding_idx: Dim = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    """`aten.embedding.default`.

    Shape: index lists and memory (shapes_index.c).
    Dtype: its first operand's.
    """
    return current().call_value(
        "aten.embedding.default", weight, indices, padding_idx, scale_grad_by_freq, sparse
    )


def empty(size: Dim | Sequence[Dim], *, dtype: str | None = None) -> Value:
    """`aten.empty.memory_format`.

    Shape: the shape argument (first, or `size`).
    Dtype: its dtype argument.
    """
    return current().call_value("aten.empty.memory_format", size, dtype=dtype)


def empty_like(x: Operators, *, dtype: str | None = None) -> Value:
    """`aten.empty_like.default`.

    Shape: the first operand's.
    Dtype: its first operand's.
    """
    return current().call_value("aten.empty_like.default", x, dtype=dtype)


def eq(x: Operand, other: Operand) -> Value:
    """`aten.eq.Tensor`.

    Shape: all operands together.
    Dtype: bool.
    """
    return current().call_value("aten.eq.Tensor", x, other)


def erf(x: Operand) -> Value:
    """`aten.erf.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.erf.default", x)


def erfc(x: Operand) -> Value:
    """`aten.erfc.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.erfc.default", x)


def erfinv(x: Operand) -> Value:
    """`aten.erfinv.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.erfinv.default", x)


def exp(x: Operand) -> Value:
    """`aten.exp.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.exp.default", x)


def exp2(x: Operand) -> Value:
    """`aten.exp2.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.exp2.default", x)


def expand(x: Operators, size: Dim | Sequence[Dim], *, implicit: bool = False) -> Value:
    """`aten.expand.default`.

    Dtype: its first operand's.
    """
    return current().call_value("aten.expand.default", x, size, implicit=implicit)


def expm1(x: Operand) -> Value:
    """`aten.expm1.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.expm1.default", x)


def flip(x: Operators, dims: Dim | Sequence[Dim]) -> Value:
    """`aten.flip.default`.

    Shape: the first operand's.
    Dtype: its first operand's.
    """
    return current().call_value("aten.flip.default", x, dims)


def floor(x: Operand) -> Value:
    """`aten.floor.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.floor.default", x)


def floor_divide(x: Operand, other: Operand) -> Value:
    """`aten.floor_divide.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.floor_divide.default", x, other)


def fma(a: Operand, b: Operand, c: Operand) -> Value:
    """`prims.fma.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("prims.fma.default", a, b, c)


def fmod(x: Operand, other: Operand) -> Value:
    """`aten.fmod.Tensor`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.fmod.Tensor", x, other)


def frac(x: Operand) -> Value:
    """`aten.frac.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.frac.default", x)


def full(shape: Dim | Sequence[Dim], value: Operand, dtype: str) -> Value:
    """`tile.full`.

    Shape: the shape argument (first, or `size`).
    Dtype: its dtype argument.
    """
    return current().call_value("tile.full", shape, value, dtype)


def full_like(x: Operators, fill_value: Operand, *, dtype: str | None = None) -> Value:
    """`aten.full_like.default`.

    Shape: the first operand's.
    Dtype: its first operand's.
    """
    return current().call_value("aten.full_like.default", x, fill_value, dtype=dtype)


def gather(x: Operators, dim: Dim, index: Operators, *, sparse_grad: bool = False) -> Value:
    """`aten.gather.default`.

    Shape: the index operand's.
    Dtype: its first operand's.
    """
    return current().call_value("aten.gather.default", x, dim, index, sparse_grad=sparse_grad)


def ge(x: Operand, other: Operand) -> Value:
    """`aten.ge.Tensor`.

    Shape: all operands together.
    Dtype: bool.
    """
    return current().call_value("aten.ge.Tensor", x, other)


def gelu(x: Operand, *, approximate: str = "none") -> Value:
    """`aten.gelu.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.gelu.default", x, approximate=approximate)


def gt(x: Operand, other: Operand) -> Value:
    """`aten.gt.Tensor`.

    Shape: all operands together.
    Dtype: bool.
    """
    return current().call_value("aten.gt.Tensor", x, other)


def hardsigmoid(x: Operand) -> Value:
    """`aten.hardsigmoid.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.hardsigmoid.default", x)


def hardswish(x: Operand) -> Value:
    """`aten.hardswish.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.hardswish.default", x)


def hardtanh(x: Operand, min_val: float = -1, max_val: float = 1) -> Value:
    """`aten.hardtanh.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.hardtanh.default", x, min_val, max_val)


def hypot(x: Operand, other: Operand) -> Value:
    """`aten.hypot.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.hypot.default", x, other)


def index(x: Operators, indices: Sequence[Operand | None]) -> Value:
    """`aten.index.Tensor`.

    Dtype: its first operand's.
    """
    return current().call_value("aten.index.Tensor", x, indices)


def index_select(x: Operators, dim: Dim, index: Operators) -> Value:
    """`aten.index_select.default`.

    Dtype: its first operand's.
    """
    return current().call_value("aten.index_select.default", x, dim, index)


def iota(
    length: Dim,
    *,
    start: Dim = 0,
    step: Dim = 1,
    dtype: str | None = None,
    requires_grad: bool = False,
) -> Value:
    """`prims.iota.default`.

    Shape: products (shapes_matmul.c).
    Dtype: int32.
    """
    return current().call_value(
        "prims.iota.default",
        length,
        start=start,
        step=step,
        dtype=dtype,
        requires_grad=requires_grad,
    )


def isfinite(x: Operand) -> Value:
    """`aten.isfinite.default`.

    Shape: all operands together.
    Dtype: bool.
    """
    return current().call_value("aten.isfinite.default", x)


def isinf(x: Operand) -> Value:
    """`aten.isinf.default`.

    Shape: all operands together.
    Dtype: bool.
    """
    return current().call_value("aten.isinf.default", x)


def isnan(x: Operand) -> Value:
    """`aten.isnan.default`.

    Shape: all operands together.
    Dtype: bool.
    """
    return current().call_value("aten.isnan.default", x)


def join(a: Operand, b: Operand) -> Value:
    """`tile.join`.

    Shape: a new last dim of 2.
    Dtype: promoted.
    """
    return current().call_value("tile.join", a, b)


def le(x: Operand, other: Operand) -> Value:
    """`aten.le.Tensor`.

    Shape: all operands together.
    Dtype: bool.
    """
    return current().call_value("aten.le.Tensor", x, other)


def leaky_relu(x: Operand, negative_slope: float = 0.01) -> Value:
    """`aten.leaky_relu.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.leaky_relu.default", x, negative_slope)


def lerp(x: Operand, end: Operand, weight: Operand) -> Value:
    """`aten.lerp.Tensor`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.lerp.Tensor", x, end, weight)


def lgamma(x: Operand) -> Value:
    """`aten.lgamma.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.lgamma.default", x)


def lift_fresh_copy(x: Operand) -> Value:
    """`aten.lift_fresh_copy.default`.

    Shape: all operands together.
    Dtype: its first operand's.
    """
    return current().call_value("aten.lift_fresh_copy.default", x)


def linalg_vector_norm(
    x: Operators,
    ord: float = 2,
    dim: Dim | Sequence[Dim] | None = None,
    keepdim: bool = False,
    *,
    dtype: str | None = None,
) -> Value:
    """`aten.linalg_vector_norm.default`.

    Shape: without `dim` (int, list; null or []: all), or with 1s under `keepdim`.
    Dtype: its first operand's.
    """
    return current().call_value(
        "aten.linalg_vector_norm.default", x, ord, dim, keepdim, dtype=dtype
    )


def load(tensor: Tensor, index: Index, extra_mask: Operators | None = None) -> Value:
    """`tile.load`.

    Dtype: its first operand's.
    """
    return current().call_value("tile.load", tensor, index, extra_mask)


def log(x: Operand) -> Value:
    """`aten.log.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.log.default", x)


def log10(x: Operand) -> Value:
    """`aten.log10.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.log10.default", x)


def log1p(x: Operand) -> Value:
    """`aten.log1p.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.log1p.default", x)


def log2(x: Operand) -> Value:
    """`aten.log2.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.log2.default", x)


def log_sigmoid(x: Operand) -> Value:
    """`aten.log_sigmoid.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.log_sigmoid.default", x)


def log_softmax(x: Operators, dim: Dim, dtype: str | None = None) -> Value:
    """`aten.log_softmax.int`.

    Shape: the first operand's.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.log_softmax.int", x, dim, dtype)


def logaddexp(x: Operand, other: Operand) -> Value:
    """`aten.logaddexp.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.logaddexp.default", x, other)


def logical_and(x: Operand, other: Operand) -> Value:
    """`aten.logical_and.default`.

    Shape: all operands together.
    Dtype: bool.
    """
    return current().call_value("aten.logical_and.default", x, other)


def logical_not(x: Operand) -> Value:
    """`aten.logical_not.default`.

    Shape: all operands together.
    Dtype: bool.
    """
    return current().call_value("aten.logical_not.default", x)


def logical_or(x: Operand, other: Operand) -> Value:
    """`aten.logical_or.default`.

    Shape: all operands together.
    Dtype: bool.
    """
    return current().call_value("aten.logical_or.default", x, other)


def logical_xor(x: Operand, other: Operand) -> Value:
    """`aten.logical_xor.default`.

    Shape: all operands together.
    Dtype: bool.
    """
    return current().call_value("aten.logical_xor.default", x, other)


def logsumexp(x: Operators, dim: Dim | Sequence[Dim], keepdim: bool = False) -> Value:
    """`aten.logsumexp.default`.

    Shape: without `dim` (int, list; null or []: all), or with 1s under `keepdim`.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.logsumexp.default", x, dim, keepdim)


def lt(x: Operand, other: Operand) -> Value:
    """`aten.lt.Tensor`.

    Shape: all operands together.
    Dtype: bool.
    """
    return current().call_value("aten.lt.Tensor", x, other)


def mT(x: Operators) -> Value:
    """`aten.mT.default`.

    Dtype: its first operand's.
    """
    return current().call_value("aten.mT.default", x)


def mask_to(x: Operators, value: Operand) -> Value:
    """`tile.mask_to`.

    Shape: the first operand's, into which the others broadcast.
    Dtype: its first operand's.
    """
    return current().call_value("tile.mask_to", x, value)


def masked_fill(x: Operand, mask: Operand, value: Operand) -> Value:
    """`aten.masked_fill.Scalar`.

    Shape: all operands together.
    Dtype: its first operand's.
    """
    return current().call_value("aten.masked_fill.Scalar", x, mask, value)


def matmul(x: Operators, other: Operators) -> Value:
    """`aten.matmul.default`.

    Shape: torch.matmul's: any ranks, batch dims broadcast.
    Dtype: promoted.
    """
    return current().call_value("aten.matmul.default", x, other)


def max(x: Operators) -> Value:
    """`aten.max.default`.

    Shape: without `dim` (int, list; null or []: all), or with 1s under `keepdim`.
    Dtype: its first operand's.
    """
    return current().call_value("aten.max.default", x)


def max_dim(x: Operators, dim: Dim, keepdim: bool = False) -> tuple[Value, ...]:
    """`aten.max.dim`.

    Shape: a tuple of values and int32 positions: max.dim, min.dim.
    Dtype: its first operand's.
    """
    result: tuple[Value, ...] = current().call("aten.max.dim", x, dim, keepdim)
    return result


def max_other(x: Operand, other: Operand) -> Value:
    """`aten.max.other`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.max.other", x, other)


def maximum(x: Operand, other: Operand) -> Value:
    """`aten.maximum.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.maximum.default", x, other)


def mean(
    x: Operators,
    dim: Dim | Sequence[Dim] | None = (),
    keepdim: bool = False,
    *,
    dtype: str | None = None,
) -> Value:
    """`aten.mean.dim`.

    Shape: without `dim` (int, list; null or []: all), or with 1s under `keepdim`.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.mean.dim", x, dim, keepdim, dtype=dtype)


def min(x: Operators) -> Value:
    """`aten.min.default`.

    Shape: without `dim` (int, list; null or []: all), or with 1s under `keepdim`.
    Dtype: its first operand's.
    """
    return current().call_value("aten.min.default", x)


def min_dim(x: Operators, dim: Dim, keepdim: bool = False) -> tuple[Value, ...]:
    """`aten.min.dim`.

    Shape: a tuple of values and int32 positions: max.dim, min.dim.
    Dtype: its first operand's.
    """
    result: tuple[Value, ...] = current().call("aten.min.dim", x, dim, keepdim)
    return result


def min_other(x: Operand, other: Operand) -> Value:
    """`aten.min.other`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.min.other", x, other)


def minimum(x: Operand, other: Operand) -> Value:
    """`aten.minimum.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.minimum.default", x, other)


def mish(x: Operand) -> Value:
    """`aten.mish.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.mish.default", x)


def mm(x: Operators, mat2: Operators) -> Value:
    """`aten.mm.default`.

    Dtype: promoted.
    """
    return current().call_value("aten.mm.default", x, mat2)


def mm_dtype(x: Operators, mat2: Operators, out_dtype: str) -> Value:
    """`aten.mm.dtype`.

    Dtype: its dtype argument.
    """
    return current().call_value("aten.mm.dtype", x, mat2, out_dtype)


def mul(x: Operand, other: Operand) -> Value:
    """`aten.mul.Tensor`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.mul.Tensor", x, other)


def mv(x: Operators, vec: Operators) -> Value:
    """`aten.mv.default`.

    Dtype: promoted.
    """
    return current().call_value("aten.mv.default", x, vec)


def ne(x: Operand, other: Operand) -> Value:
    """`aten.ne.Tensor`.

    Shape: all operands together.
    Dtype: bool.
    """
    return current().call_value("aten.ne.Tensor", x, other)


def neg(x: Operand) -> Value:
    """`aten.neg.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.neg.default", x)


def new_empty(x: Operators, size: Dim | Sequence[Dim], *, dtype: str | None = None) -> Value:
    """`aten.new_empty.default`.

    Shape: the shape argument (first, or `size`).
    Dtype: its first operand's.
    """
    return current().call_value("aten.new_empty.default", x, size, dtype=dtype)


def new_full(
    x: Operators, size: Dim | Sequence[Dim], fill_value: Operand, *, dtype: str | None = None
) -> Value:
    """`aten.new_full.default`.

    Shape: the shape argument (first, or `size`).
    Dtype: its first operand's.
    """
    return current().call_value("aten.new_full.default", x, size, fill_value, dtype=dtype)


def new_ones(x: Operators, size: Dim | Sequence[Dim], *, dtype: str | None = None) -> Value:
    """`aten.new_ones.default`.

    Shape: the shape argument (first, or `size`).
    Dtype: its first operand's.
    """
    return current().call_value("aten.new_ones.default", x, size, dtype=dtype)


def new_zeros(x: Operators, size: Dim | Sequence[Dim], *, dtype: str | None = None) -> Value:
    """`aten.new_zeros.default`.

    Shape: the shape argument (first, or `size`).
    Dtype: its first operand's.
    """
    return current().call_value("aten.new_zeros.default", x, size, dtype=dtype)


def nextafter(x: Operand, other: Operand) -> Value:
    """`aten.nextafter.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.nextafter.default", x, other)


def ones(size: Dim | Sequence[Dim], *, dtype: str | None = None) -> Value:
    """`aten.ones.default`.

    Shape: the shape argument (first, or `size`).
    Dtype: its dtype argument.
    """
    return current().call_value("aten.ones.default", size, dtype=dtype)


def ones_like(x: Operators, *, dtype: str | None = None) -> Value:
    """`aten.ones_like.default`.

    Shape: the first operand's.
    Dtype: its first operand's.
    """
    return current().call_value("aten.ones_like.default", x, dtype=dtype)


def part(tensor: Tensor, index: Index) -> Value:
    """`tile.part`.

    Shape: what a load gives.
    Dtype: its first operand's.
    """
    return current().call_value("tile.part", tensor, index)


def permute(x: Operators, dims: Dim | Sequence[Dim]) -> Value:
    """`aten.permute.default`.

    Dtype: its first operand's.
    """
    return current().call_value("aten.permute.default", x, dims)


def pow(x: Operand, exponent: Operand) -> Value:
    """`aten.pow.Tensor_Tensor`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.pow.Tensor_Tensor", x, exponent)


def pre_broadcast_tile(x: Operators, size: Dim) -> Value:
    """`tile.pre_broadcast_tile`.

    Shape: the last dim becomes `size`: tile.pre_broadcast_tile.
    Dtype: its first operand's.
    """
    return current().call_value("tile.pre_broadcast_tile", x, size)


def prod(x: Operators, *, dtype: str | None = None) -> Value:
    """`aten.prod.default`.

    Shape: without `dim` (int, list; null or []: all), or with 1s under `keepdim`.
    Dtype: its operand's; ints become int32.
    """
    return current().call_value("aten.prod.default", x, dtype=dtype)


def prod_dim_int(
    x: Operators, dim: Dim, keepdim: bool = False, *, dtype: str | None = None
) -> Value:
    """`aten.prod.dim_int`.

    Shape: without `dim` (int, list; null or []: all), or with 1s under `keepdim`.
    Dtype: its operand's; ints become int32.
    """
    return current().call_value("aten.prod.dim_int", x, dim, keepdim, dtype=dtype)


def rand(
    shape: Dim | Sequence[Dim], seed: Operand, offsets: Operand | Sequence[Operand] | None = None
) -> Value:
    """`tile.rand`.

    Shape: the shape argument (first, or `size`).
    """
    return current().call_value("tile.rand", shape, seed, offsets)


def randint(
    shape: Dim | Sequence[Dim],
    low: Dim,
    high: Dim,
    seed: Operand,
    offsets: Operand | Sequence[Operand] | None = None,
) -> Value:
    """`tile.randint`.

    Shape: the shape argument (first, or `size`).
    Dtype: int32.
    """
    return current().call_value("tile.randint", shape, low, high, seed, offsets)


def reciprocal(x: Operand) -> Value:
    """`aten.reciprocal.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.reciprocal.default", x)


def relu(x: Operand) -> Value:
    """`aten.relu.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.relu.default", x)


def relu6(x: Operand) -> Value:
    """`aten.relu6.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.relu6.default", x)


def remainder(x: Operand, other: Operand) -> Value:
    """`aten.remainder.Tensor`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.remainder.Tensor", x, other)


def remote_copy(
    tensor: Tensor,
    index: Index,
    source: Operators,
    device: Operand,
    channel: float,
    pred: Operand | None = None,
) -> Value:
    """`tile.remote_copy`.

    Shape: no value: copies between devices, and waits for them.
    """
    return current().call_value("tile.remote_copy", tensor, index, source, device, channel, pred)


def remote_wait(
    tensor: Tensor, index: Index, channel: float, ends: str = "both", pred: Operand | None = None
) -> Value:
    """`tile.remote_wait`.

    Shape: no value: copies between devices, and waits for them.
    """
    return current().call_value("tile.remote_wait", tensor, index, channel, ends, pred)


def repeat(x: Operators, repeats: Dim | Sequence[Dim]) -> Value:
    """`aten.repeat.default`.

    Dtype: its first operand's.
    """
    return current().call_value("aten.repeat.default", x, repeats)


def reshape(x: Operators, shape: Dim | Sequence[Dim]) -> Value:
    """`aten.reshape.default`.

    Dtype: its first operand's.
    """
    return current().call_value("aten.reshape.default", x, shape)


def rev(a: Operators, dims: Dim | Sequence[Dim]) -> Value:
    """`prims.rev.default`.

    Shape: the first operand's.
    Dtype: its first operand's.
    """
    return current().call_value("prims.rev.default", a, dims)


def roll(x: Operators, shifts: Dim | Sequence[Dim], dims: Dim | Sequence[Dim] = ()) -> Value:
    """`aten.roll.default`.

    Shape: the first operand's.
    Dtype: its first operand's.
    """
    return current().call_value("aten.roll.default", x, shifts, dims)


def round(x: Operand) -> Value:
    """`aten.round.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.round.default", x)


def round_decimals(x: Operand, *, decimals: float) -> Value:
    """`aten.round.decimals`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.round.decimals", x, decimals=decimals)


def rsqrt(x: Operand) -> Value:
    """`aten.rsqrt.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.rsqrt.default", x)


def rsub(x: Operand, other: Operand, *, alpha: float = 1) -> Value:
    """`aten.rsub.Tensor`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.rsub.Tensor", x, other, alpha=alpha)


def scalar_tensor(s: Operand, *, dtype: str | None = None) -> Value:
    """`aten.scalar_tensor.default`.

    Shape: [].
    Dtype: its dtype argument.
    """
    return current().call_value("aten.scalar_tensor.default", s, dtype=dtype)


def select(x: Operators, dim: Dim, index: Dim) -> Value:
    """`aten.select.int`.

    Dtype: its first operand's.
    """
    return current().call_value("aten.select.int", x, dim, index)


def sgn(x: Operand) -> Value:
    """`aten.sgn.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.sgn.default", x)


def sigmoid(x: Operand) -> Value:
    """`aten.sigmoid.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.sigmoid.default", x)


def sign(x: Operand) -> Value:
    """`aten.sign.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.sign.default", x)


def signbit(x: Operand) -> Value:
    """`aten.signbit.default`.

    Shape: all operands together.
    Dtype: bool.
    """
    return current().call_value("aten.signbit.default", x)


def silu(x: Operand) -> Value:
    """`aten.silu.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.silu.default", x)


def sin(x: Operand) -> Value:
    """`aten.sin.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.sin.default", x)


def sinh(x: Operand) -> Value:
    """`aten.sinh.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.sinh.default", x)


def slice(
    x: Operators, dim: Dim = 0, start: Dim | None = None, end: Dim | None = None, step: Dim = 1
) -> Value:
    """`aten.slice.Tensor`.

    Dtype: its first operand's.
    """
    return current().call_value("aten.slice.Tensor", x, dim, start, end, step)


def softmax(x: Operators, dim: Dim, dtype: str | None = None) -> Value:
    """`aten.softmax.int`.

    Shape: the first operand's.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.softmax.int", x, dim, dtype)


def softplus(x: Operand, beta: float = 1, threshold: float = 20) -> Value:
    """`aten.softplus.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.softplus.default", x, beta, threshold)


def sort(
    x: Operators, *, stable: bool | None = None, dim: Dim = -1, descending: bool = False
) -> tuple[Value, ...]:
    """`aten.sort.stable`.

    Shape: a tuple of values and int32 positions of the operand's shape.
    Dtype: its first operand's.
    """
    result: tuple[Value, ...] = current().call(
        "aten.sort.stable", x, stable=stable, dim=dim, descending=descending
    )
    return result


def split(x: Operators) -> tuple[Value, ...]:
    """`tile.split`.

    Shape: a tuple of two: the halves of a last dim of 2.
    Dtype: its first operand's.
    """
    result: tuple[Value, ...] = current().call("tile.split", x)
    return result


def split_with_sizes(
    x: Operators, split_sizes: Dim | Sequence[Dim], dim: Dim = 0
) -> tuple[Value, ...]:
    """`aten.split_with_sizes.default`.

    Shape: a tuple of pieces of the sizes listed.
    Dtype: its first operand's.
    """
    result: tuple[Value, ...] = current().call("aten.split_with_sizes.default", x, split_sizes, dim)
    return result


def sqrt(x: Operand) -> Value:
    """`aten.sqrt.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.sqrt.default", x)


def square(x: Operand) -> Value:
    """`aten.square.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.square.default", x)


def squeeze(x: Operators) -> Value:
    """`aten.squeeze.default`.

    Dtype: its first operand's.
    """
    return current().call_value("aten.squeeze.default", x)


def squeeze_dim(x: Operators, dim: Dim) -> Value:
    """`aten.squeeze.dim`.

    Dtype: its first operand's.
    """
    return current().call_value("aten.squeeze.dim", x, dim)


def squeeze_dims(x: Operators, dim: Dim | Sequence[Dim]) -> Value:
    """`aten.squeeze.dims`.

    Dtype: its first operand's.
    """
    return current().call_value("aten.squeeze.dims", x, dim)


def stack(tensors: Sequence[Operand | None], dim: Dim = 0) -> Value:
    """`aten.stack.default`.

    Dtype: promoted.
    """
    return current().call_value("aten.stack.default", tensors, dim)


def std(
    x: Operators,
    dim: Dim | Sequence[Dim] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Value:
    """`aten.std.correction`.

    Shape: without `dim` (int, list; null or []: all), or with 1s under `keepdim`.
    Dtype: its first operand's.
    """
    return current().call_value(
        "aten.std.correction", x, dim, correction=correction, keepdim=keepdim
    )


def store(
    tensor: Tensor, index: Index, value: Operand, extra_mask: Operators | None = None
) -> None:
    """`tile.store`."""
    current().call("tile.store", tensor, index, value, extra_mask)


def sub(x: Operand, other: Operand, *, alpha: float = 1) -> Value:
    """`aten.sub.Tensor`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.sub.Tensor", x, other, alpha=alpha)


def subscript(x: Operators, index: Index) -> Value:
    """`tile.subscript`.

    Dtype: its first operand's.
    """
    return current().call_value("tile.subscript", x, index)


def sum(
    x: Operators,
    dim: Dim | Sequence[Dim] | None = (),
    keepdim: bool = False,
    *,
    dtype: str | None = None,
) -> Value:
    """`aten.sum.dim_IntList`.

    Shape: without `dim` (int, list; null or []: all), or with 1s under `keepdim`.
    Dtype: its operand's; ints become int32.
    """
    return current().call_value("aten.sum.dim_IntList", x, dim, keepdim, dtype=dtype)


def t(x: Operators) -> Value:
    """`aten.t.default`.

    Dtype: its first operand's.
    """
    return current().call_value("aten.t.default", x)


def tan(x: Operand) -> Value:
    """`aten.tan.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.tan.default", x)


def tanh(x: Operand) -> Value:
    """`aten.tanh.default`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.tanh.default", x)


def topk(
    x: Operators, k: Dim, dim: Dim = -1, largest: bool = True, sorted: bool = True
) -> tuple[Value, ...]:
    """`aten.topk.default`.

    Shape: the same, with k along `dim`.
    Dtype: its first operand's.
    """
    result: tuple[Value, ...] = current().call("aten.topk.default", x, k, dim, largest, sorted)
    return result


def transpose(x: Operators, dim0: Dim, dim1: Dim) -> Value:
    """`aten.transpose.int`.

    Dtype: its first operand's.
    """
    return current().call_value("aten.transpose.int", x, dim0, dim1)


def tril(x: Operators, diagonal: Dim = 0) -> Value:
    """`aten.tril.default`.

    Shape: the first operand's.
    Dtype: its first operand's.
    """
    return current().call_value("aten.tril.default", x, diagonal)


def triu(x: Operators, diagonal: Dim = 0) -> Value:
    """`aten.triu.default`.

    Shape: the first operand's.
    Dtype: its first operand's.
    """
    return current().call_value("aten.triu.default", x, diagonal)


def true_divide(x: Operand, other: Operand) -> Value:
    """`aten.true_divide.Tensor`.

    Shape: all operands together.
    Dtype: promoted, at least float.
    """
    return current().call_value("aten.true_divide.Tensor", x, other)


def trunc(x: Operand) -> Value:
    """`aten.trunc.default`.

    Shape: all operands together.
    Dtype: promoted.
    """
    return current().call_value("aten.trunc.default", x)


def unbind(x: Operators, dim: Dim = 0) -> tuple[Value, ...]:
    """`aten.unbind.int`.

    Shape: a tuple of the dim's positions, without it.
    Dtype: its first operand's.
    """
    result: tuple[Value, ...] = current().call("aten.unbind.int", x, dim)
    return result


def unsqueeze(x: Operators, dim: Dim) -> Value:
    """`aten.unsqueeze.default`.

    Dtype: its first operand's.
    """
    return current().call_value("aten.unsqueeze.default", x, dim)


def var(
    x: Operators,
    dim: Dim | Sequence[Dim] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Value:
    """`aten.var.correction`.

    Shape: without `dim` (int, list; null or []: all), or with 1s under `keepdim`.
    Dtype: its first operand's.
    """
    return current().call_value(
        "aten.var.correction", x, dim, correction=correction, keepdim=keepdim
    )


def var_dim(
    x: Operators,
    dim: Dim | Sequence[Dim] | None = None,
    unbiased: bool = True,
    keepdim: bool = False,
) -> Value:
    """`aten.var.dim`.

    Shape: without `dim` (int, list; null or []: all), or with 1s under `keepdim`.
    Dtype: its first operand's.
    """
    return current().call_value("aten.var.dim", x, dim, unbiased, keepdim)


def var_mean(
    x: Operators,
    dim: Dim | Sequence[Dim] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Value, ...]:
    """`aten.var_mean.correction`.

    Shape: a tuple of two such, of one dtype: var_mean.
    Dtype: its first operand's.
    """
    result: tuple[Value, ...] = current().call(
        "aten.var_mean.correction", x, dim, correction=correction, keepdim=keepdim
    )
    return result


def view(x: Operators, size: Dim | Sequence[Dim]) -> Value:
    """`aten.view.default`.

    Dtype: its first operand's.
    """
    return current().call_value("aten.view.default", x, size)


def view_dtype(x: Operators, dtype: str) -> Value:
    """`aten.view.dtype`.

    Shape: view.dtype: the last dim is rescaled.
    Dtype: its dtype argument.
    """
    return current().call_value("aten.view.dtype", x, dtype)


def where(condition: Operand, x: Operand, other: Operand) -> Value:
    """`aten.where.self`.

    Shape: all operands together.
    Dtype: promoted, without the condition.
    """
    return current().call_value("aten.where.self", condition, x, other)


def zeros(size: Dim | Sequence[Dim], *, dtype: str | None = None) -> Value:
    """`aten.zeros.default`.

    Shape: the shape argument (first, or `size`).
    Dtype: its dtype argument.
    """
    return current().call_value("aten.zeros.default", size, dtype=dtype)


def zeros_like(x: Operators, *, dtype: str | None = None) -> Value:
    """`aten.zeros_like.default`.

    Shape: the first operand's.
    Dtype: its first operand's.
    """
    return current().call_value("aten.zeros_like.default", x, dtype=dtype)


PARAMS: Final[dict[str, str]] = {
    "tile.host_tensor": "name:T",
    "tile.scalar": "name:C",
    "tile.symnode": "symbol:S",
    "sym_size": "x:t dim:i",
    "tile.for_loop": "graph:G begins:I ends:I args:X",
    "tile.if": "pred:x graph:G else_graph:G?=null args:X=[] else_args:X=[]",
    "tile.while": "cond:G graph:G args:X",
    "getitem": "tuple:V index:i",
    "tile.phi": "initial:x result:x",
    "tile.new_var": "x:x",
    "add": "a:x b:x",
    "sub": "a:x b:x",
    "mul": "a:x b:x",
    "floordiv": "a:x b:x",
    "mod": "a:x b:x",
    "sym_max": "a:x b:x",
    "sym_min": "a:x b:x",
    "neg": "a:x",
    "eq": "a:x b:x",
    "ne": "a:x b:x",
    "lt": "a:x b:x",
    "le": "a:x b:x",
    "gt": "a:x b:x",
    "ge": "a:x b:x",
    "and_": "a:x b:x",
    "or_": "a:x b:x",
    "not_": "a:x",
    "tile.begin": "tile:S",
    "tile.end": "tile:S",
    "tile.id": "tile:S",
    "tile.count": "tile:S",
    "tile.index": "tile:S",
    "tile.block_size": "tile:S",
    "tile.load": "tensor:t index:N extra_mask:t?=null",
    "tile.store": "tensor:t index:N value:x extra_mask:t?=null",
    "tile.atomic_add": "tensor:t index:N value:x",
    "tile.atomic_max": "tensor:t index:N value:x",
    "tile.atomic_min": "tensor:t index:N value:x",
    "tile.atomic_and": "tensor:t index:N value:x",
    "tile.atomic_or": "tensor:t index:N value:x",
    "tile.atomic_xor": "tensor:t index:N value:x",
    "tile.atomic_xchg": "tensor:t index:N value:x",
    "tile.atomic_cas": "tensor:t index:N expected:x value:x",
    "tile.mask_to": "x:t value:x",
    "tile.part": "tensor:t index:N",
    "tile.remote_copy": "tensor:t index:N source:t device:x channel:n pred:x?=null",
    "tile.remote_wait": 'tensor:t index:N channel:n ends:s="both" pred:x?=null',
    "tile.remote_barrier": "",
    "tile.device_id": "",
    "tile.subscript": "x:t index:N",
    "tile.split": "x:t",
    "tile.join": "a:x b:x",
    "tile.pre_broadcast_tile": "x:t size:i",
    "aten.permute.default": "self:t dims:I",
    "aten.transpose.int": "self:t dim0:i dim1:i",
    "aten.t.default": "self:t",
    "aten.mT.default": "self:t",
    "aten.view.default": "self:t size:I",
    "aten._unsafe_view.default": "self:t size:I",
    "aten.reshape.default": "self:t shape:I",
    "aten.view.dtype": "self:t dtype:d",
    "aten.squeeze.default": "self:t",
    "aten.squeeze.dim": "self:t dim:i",
    "aten.squeeze.dims": "self:t dim:I",
    "aten.unsqueeze.default": "self:t dim:i",
    "aten.expand.default": "self:t size:I * implicit:b=false",
    "aten.repeat.default": "self:t repeats:I",
    "aten.cat.default": "tensors:X dim:i=0",
    "aten.stack.default": "tensors:X dim:i=0",
    "aten.flip.default": "self:t dims:I",
    "prims.rev.default": "a:t dims:I",
    "aten.roll.default": "self:t shifts:I dims:I=[]",
    "aten.split.Tensor": "self:t split_size:i dim:i=0",
    "aten.split_with_sizes.default": "self:t split_sizes:I dim:i=0",
    "aten.unbind.int": "self:t dim:i=0",
    "aten.slice.Tensor": "self:t dim:i=0 start:i?=null end:i?=null step:i=1",
    "aten.select.int": "self:t dim:i index:i",
    "aten.constant_pad_nd.default": "self:t pad:I value:n=0",
    "aten.gather.default": "self:t dim:i index:t * sparse_grad:b=false",
    "aten.index_select.default": "self:t dim:i index:t",
    "aten.index.Tensor": "self:t indices:X",
    "aten.embedding.default": (
        "weight:t indices:t padding_idx:i=-1 scale_grad_by_freq:b=false sparse:b=false"
    ),
    "tile.full": "shape:I value:x dtype:d",
    "aten.full.default": "size:I fill_value:x * dtype:d?=null",
    "aten.zeros.default": "size:I * dtype:d?=null",
    "aten.ones.default": "size:I * dtype:d?=null",
    "aten.empty.memory_format": "size:I * dtype:d?=null",
    "aten.new_full.default": "self:t size:I fill_value:x * dtype:d?=null",
    "aten.new_zeros.default": "self:t size:I * dtype:d?=null",
    "aten.new_ones.default": "self:t size:I * dtype:d?=null",
    "aten.new_empty.default": "self:t size:I * dtype:d?=null",
    "aten.full_like.default": "self:t fill_value:x * dtype:d?=null",
    "aten.zeros_like.default": "self:t * dtype:d?=null",
    "aten.ones_like.default": "self:t * dtype:d?=null",
    "aten.empty_like.default": "self:t * dtype:d?=null",
    "aten.scalar_tensor.default": "s:x * dtype:d?=null",
    "aten.arange.default": "end:x * dtype:d?=null",
    "aten.arange.start": "start:x end:x * dtype:d?=null",
    "aten.arange.start_step": "start:x end:x step:x=1 * dtype:d?=null",
    "prims.iota.default": ("length:i * start:i=0 step:i=1 dtype:d?=null requires_grad:b=false"),
    "tile.rand": "shape:I seed:x offsets:V=null",
    "tile.randint": "shape:I low:i high:i seed:x offsets:V=null",
    "tile.dot": "a:t b:t acc:t?=null out_dtype:d?=null",
    "aten.mm.default": "self:t mat2:t",
    "aten.mm.dtype": "self:t mat2:t out_dtype:d",
    "aten._int_mm.default": "self:t mat2:t",
    "aten.bmm.default": "self:t mat2:t",
    "aten.bmm.dtype": "self:t mat2:t out_dtype:d",
    "aten.addmm.default": "self:t mat1:t mat2:t * beta:n=1 alpha:n=1",
    "aten.addmm.dtype": "self:t mat1:t mat2:t out_dtype:d * beta:n=1 alpha:n=1",
    "aten.baddbmm.default": "self:t batch1:t batch2:t * beta:n=1 alpha:n=1",
    "aten.baddbmm.dtype": "self:t batch1:t batch2:t out_dtype:d * beta:n=1 alpha:n=1",
    "aten.matmul.default": "self:t other:t",
    "aten.mv.default": "self:t vec:t",
    "aten.dot.default": "self:t tensor:t",
    "aten.sum.default": "self:t * dtype:d?=null",
    "aten.sum.dim_IntList": "self:t dim:I?=[] keepdim:b=false * dtype:d?=null",
    "aten.prod.default": "self:t * dtype:d?=null",
    "aten.prod.dim_int": "self:t dim:i keepdim:b=false * dtype:d?=null",
    "aten.mean.default": "self:t * dtype:d?=null",
    "aten.mean.dim": "self:t dim:I?=[] keepdim:b=false * dtype:d?=null",
    "aten.amax.default": "self:t dim:I=[] keepdim:b=false",
    "aten.amin.default": "self:t dim:I=[] keepdim:b=false",
    "aten.max.default": "self:t",
    "aten.min.default": "self:t",
    "aten.max.dim": "self:t dim:i keepdim:b=false",
    "aten.min.dim": "self:t dim:i keepdim:b=false",
    "aten.argmax.default": "self:t dim:i?=null keepdim:b=false",
    "aten.argmin.default": "self:t dim:i?=null keepdim:b=false",
    "aten.any.default": "self:t",
    "aten.any.dim": "self:t dim:i keepdim:b=false",
    "aten.any.dims": "self:t dim:I?=null keepdim:b=false",
    "aten.all.default": "self:t",
    "aten.all.dim": "self:t dim:i keepdim:b=false",
    "aten.all.dims": "self:t dim:I?=null keepdim:b=false",
    "aten.var.correction": "self:t dim:I?=null * correction:n?=null keepdim:b=false",
    "aten.var.dim": "self:t dim:I?=null unbiased:b=true keepdim:b=false",
    "aten.var_mean.correction": "self:t dim:I?=null * correction:n?=null keepdim:b=false",
    "aten.std.correction": "self:t dim:I?=null * correction:n?=null keepdim:b=false",
    "aten.logsumexp.default": "self:t dim:I keepdim:b=false",
    "aten.linalg_vector_norm.default": "self:t ord:n=2 dim:I?=null keepdim:b=false * dtype:d?=null",
    "aten._softmax.default": "self:t dim:i half_to_float:b=false",
    "aten.softmax.int": "self:t dim:i dtype:d?=null",
    "aten._log_softmax.default": "self:t dim:i half_to_float:b=false",
    "aten.log_softmax.int": "self:t dim:i dtype:d?=null",
    "aten.cumsum.default": "self:t dim:i * dtype:d?=null",
    "aten.cumprod.default": "self:t dim:i * dtype:d?=null",
    "aten.sort.default": "self:t dim:i=-1 descending:b=false",
    "aten.sort.stable": "self:t * stable:b?=null dim:i=-1 descending:b=false",
    "aten.topk.default": "self:t k:i dim:i=-1 largest:b=true sorted:b=true",
    "tile.associative_scan": "combine:G x:V dim:i reverse:b=false",
    "tile.reduce": "combine:G x:V dim:i?=null keep_dims:b=false",
    "prims.convert_element_type.default": "a:x dtype:d",
    "aten._to_copy.default": "self:x * dtype:d?=null non_blocking:b=false",
    "aten.clone.default": "self:x",
    "aten.alias.default": "self:x",
    "aten.detach.default": "self:x",
    "aten.lift_fresh_copy.default": "self:x",
    "aten.contiguous.default": "self:x",
    "aten.add.Tensor": "self:x other:x * alpha:n=1",
    "aten.add.Scalar": "self:x other:x alpha:n=1",
    "aten.sub.Tensor": "self:x other:x * alpha:n=1",
    "aten.sub.Scalar": "self:x other:x alpha:n=1",
    "aten.rsub.Tensor": "self:x other:x * alpha:n=1",
    "aten.rsub.Scalar": "self:x other:x alpha:n=1",
    "aten.mul.Tensor": "self:x other:x",
    "aten.mul.Scalar": "self:x other:x",
    "aten.div.Tensor": "self:x other:x",
    "aten.div.Scalar": "self:x other:x",
    "aten.true_divide.Tensor": "self:x other:x",
    "aten.div.Tensor_mode": "self:x other:x * rounding_mode:s?=null",
    "aten.div.Scalar_mode": "self:x other:x * rounding_mode:s?=null",
    "aten.floor_divide.default": "self:x other:x",
    "aten.floor_divide.Scalar": "self:x other:x",
    "aten.fmod.Tensor": "self:x other:x",
    "aten.fmod.Scalar": "self:x other:x",
    "aten.remainder.Tensor": "self:x other:x",
    "aten.remainder.Scalar": "self:x other:x",
    "aten.neg.default": "self:x",
    "aten.abs.default": "self:x",
    "aten.sign.default": "self:x",
    "aten.sgn.default": "self:x",
    "aten.square.default": "self:x",
    "aten.maximum.default": "self:x other:x",
    "aten.minimum.default": "self:x other:x",
    "aten.max.other": "self:x other:x",
    "aten.min.other": "self:x other:x",
    "aten.clamp.default": "self:x min:x?=null max:x?=null",
    "aten.clamp.Tensor": "self:x min:x?=null max:x?=null",
    "aten.clamp_min.default": "self:x min:x",
    "aten.clamp_min.Tensor": "self:x min:x",
    "aten.clamp_max.default": "self:x max:x",
    "aten.clamp_max.Tensor": "self:x max:x",
    "aten.addcmul.default": "self:x tensor1:x tensor2:x * value:n=1",
    "aten.addcdiv.default": "self:x tensor1:x tensor2:x * value:n=1",
    "aten.lerp.Tensor": "self:x end:x weight:x",
    "aten.lerp.Scalar": "self:x end:x weight:x",
    "prims.fma.default": "a:x b:x c:x",
    "aten.floor.default": "self:x",
    "aten.ceil.default": "self:x",
    "aten.round.default": "self:x",
    "aten.round.decimals": "self:x * decimals:n",
    "aten.trunc.default": "self:x",
    "aten.frac.default": "self:x",
    "aten.pow.Tensor_Tensor": "self:x exponent:x",
    "aten.pow.Tensor_Scalar": "self:x exponent:x",
    "aten.pow.Scalar": "self:x exponent:x",
    "aten.sqrt.default": "self:x",
    "aten.rsqrt.default": "self:x",
    "aten.reciprocal.default": "self:x",
    "aten.exp.default": "self:x",
    "aten.exp2.default": "self:x",
    "aten.expm1.default": "self:x",
    "aten.log.default": "self:x",
    "aten.log2.default": "self:x",
    "aten.log10.default": "self:x",
    "aten.log1p.default": "self:x",
    "aten.logaddexp.default": "self:x other:x",
    "aten.sin.default": "self:x",
    "aten.cos.default": "self:x",
    "aten.tan.default": "self:x",
    "aten.asin.default": "self:x",
    "aten.acos.default": "self:x",
    "aten.atan.default": "self:x",
    "aten.atan2.default": "self:x other:x",
    "aten.hypot.default": "self:x other:x",
    "aten.sinh.default": "self:x",
    "aten.cosh.default": "self:x",
    "aten.tanh.default": "self:x",
    "aten.asinh.default": "self:x",
    "aten.acosh.default": "self:x",
    "aten.atanh.default": "self:x",
    "aten.erf.default": "self:x",
    "aten.erfc.default": "self:x",
    "aten.erfinv.default": "self:x",
    "aten.lgamma.default": "self:x",
    "aten.digamma.default": "self:x",
    "aten.copysign.Tensor": "self:x other:x",
    "aten.copysign.Scalar": "self:x other:x",
    "aten.nextafter.default": "self:x other:x",
    "aten.sigmoid.default": "self:x",
    "aten.log_sigmoid.default": "self:x",
    "aten.relu.default": "self:x",
    "aten.relu6.default": "self:x",
    "aten.leaky_relu.default": "self:x negative_slope:n=0.01",
    "aten.elu.default": "self:x alpha:n=1 scale:n=1 input_scale:n=1",
    "aten.gelu.default": 'self:x * approximate:s="none"',
    "aten.silu.default": "self:x",
    "aten.softplus.default": "self:x beta:n=1 threshold:n=20",
    "aten.hardtanh.default": "self:x min_val:n=-1 max_val:n=1",
    "aten.hardsigmoid.default": "self:x",
    "aten.hardswish.default": "self:x",
    "aten.mish.default": "self:x",
    "aten.where.self": "condition:x self:x other:x",
    "aten.where.ScalarSelf": "condition:x self:x other:x",
    "aten.where.ScalarOther": "condition:x self:x other:x",
    "aten.where.Scalar": "condition:x self:x other:x",
    "aten.masked_fill.Scalar": "self:x mask:x value:x",
    "aten.masked_fill.Tensor": "self:x mask:x value:x",
    "aten.tril.default": "self:t diagonal:i=0",
    "aten.triu.default": "self:t diagonal:i=0",
    "aten.eq.Tensor": "self:x other:x",
    "aten.eq.Scalar": "self:x other:x",
    "aten.ne.Tensor": "self:x other:x",
    "aten.ne.Scalar": "self:x other:x",
    "aten.lt.Tensor": "self:x other:x",
    "aten.lt.Scalar": "self:x other:x",
    "aten.le.Tensor": "self:x other:x",
    "aten.le.Scalar": "self:x other:x",
    "aten.gt.Tensor": "self:x other:x",
    "aten.gt.Scalar": "self:x other:x",
    "aten.ge.Tensor": "self:x other:x",
    "aten.ge.Scalar": "self:x other:x",
    "aten.isnan.default": "self:x",
    "aten.isinf.default": "self:x",
    "aten.isfinite.default": "self:x",
    "aten.signbit.default": "self:x",
    "aten.logical_and.default": "self:x other:x",
    "aten.logical_or.default": "self:x other:x",
    "aten.logical_xor.default": "self:x other:x",
    "aten.logical_not.default": "self:x",
    "aten.bitwise_and.Tensor": "self:x other:x",
    "aten.bitwise_and.Scalar": "self:x other:x",
    "aten.bitwise_or.Tensor": "self:x other:x",
    "aten.bitwise_or.Scalar": "self:x other:x",
    "aten.bitwise_xor.Tensor": "self:x other:x",
    "aten.bitwise_xor.Scalar": "self:x other:x",
    "aten.bitwise_not.default": "self:x",
    "aten.bitwise_left_shift.Tensor": "self:x other:x",
    "aten.bitwise_left_shift.Tensor_Scalar": "self:x other:x",
    "aten.bitwise_right_shift.Tensor": "self:x other:x",
    "aten.bitwise_right_shift.Tensor_Scalar": "self:x other:x",
    "aten.__lshift__.Tensor": "self:x other:x",
    "aten.__lshift__.Scalar": "self:x other:x",
    "aten.__rshift__.Tensor": "self:x other:x",
    "aten.__rshift__.Scalar": "self:x other:x",
}
