"""Comparison of a kernel's outputs with the reference, and the inputs to compare them on.

The tolerances are those of the project's interfaces: relative for float32, in units of the last
place (ulp) for narrower floats, exact for ints, indices and bools. NaN equals NaN, inf equals inf.
"""

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from pallasc.reference.document import Document
from pallasc.reference.errors import GraphError
from pallasc.reference.inputs import make_inputs
from pallasc.reference.slices import Slicer, is_write
from pallasc.reference.values import DTYPES, NAMES, is_float

__all__ = ["Comparison", "Tolerance", "compare", "make_inputs", "tolerance_for"]

KINDS = ("pointwise", "reduction", "matmul", "chain")
_FLOAT32 = {"pointwise": 2e-5, "reduction": 2e-5, "matmul": 2e-5, "chain": 1e-4}
_ULPS = {"pointwise": 2, "reduction": 8, "matmul": 8, "chain": 8}
_MATMULS = {"mm", "bmm", "addmm", "baddbmm", "matmul", "mv", "addmv", "dot"}
_REDUCTIONS = {
    *("sum", "mean", "prod", "var", "std", "var_mean", "logsumexp", "softmax", "_softmax"),
    *("log_softmax", "_log_softmax", "cumsum", "cumprod", "native_layer_norm"),
    *("associative_scan", "reduce", "atomic_add"),
}


@dataclass(frozen=True)
class Tolerance:
    """How far an output may be off: its kind (one of KINDS) and the dtype it was rounded to.

    `dtype` is narrower than the output's own where the graph rounds on the way to it.
    """

    kind: str
    dtype: str

    def __str__(self):
        if self.dtype == "float32":
            return f"{_FLOAT32[self.kind]:g} of |b| + rms ({self.kind})"
        if self.dtype.startswith("float8"):
            return "1 ulp"
        if is_float(DTYPES[self.dtype]):
            return f"{_ULPS[self.kind]} ulp of {self.dtype} ({self.kind})"
        return "exact"

    def bound(self, expected):
        """The allowed |a - b| per element; `expected` is float64 with finite elements or not."""
        finite = np.where(np.isfinite(expected), expected, 0.0)
        size, rms = np.abs(finite), _row_rms(finite, np.isfinite(expected))
        if self.dtype == "float32":
            return _FLOAT32[self.kind] * (size + rms)
        if not is_float(DTYPES[self.dtype]):
            return np.zeros_like(size)
        if self.dtype.startswith("float8"):
            return _ulp(size, self.dtype)
        if self.kind == "pointwise":
            return np.maximum(_ULPS[self.kind] * _ulp(size, self.dtype), 2e-5 * (size + rms))
        return _ULPS[self.kind] * _ulp(np.maximum(size, rms), self.dtype)


@dataclass(frozen=True)
class Comparison:
    """The outcome of a comparison and its worst element.

    `error` is |a - b| there and `ratio` its share of what is allowed (inf for a NaN or inf on one
    side); `actual` and `expected` are the two values at `index`.
    """

    ok: bool
    error: float
    index: tuple
    ratio: float
    tolerance: Tolerance
    actual: float = 0.0
    expected: float = 0.0

    def __str__(self):
        verdict = "ok" if self.ok else "OFF"
        return (
            f"{verdict}: max error {self.error:.3g} ({self.ratio:.3g} of the tolerance, "
            f"{self.tolerance}) at {list(self.index)}: {self.actual!r}, expected {self.expected!r}"
        )


def _row_rms(values, counted):
    """Root mean square over the last dim (all of a 1-d or 0-d array), dims kept."""
    if not values.ndim:
        return np.abs(values)
    count = np.maximum(counted.sum(-1, keepdims=True), 1)
    return np.sqrt(np.square(values).sum(-1, keepdims=True) / count)


def _ulp(size, dtype):
    """The distance between neighbours of `dtype` around the magnitudes `size`."""
    info = ml_dtypes.finfo(DTYPES[dtype])
    least = float(info.smallest_subnormal)
    exponent = np.floor(np.log2(np.maximum(size, least)))
    return np.maximum(np.exp2(exponent - info.nmant), least)


def _dtype_name(array):
    if array.dtype not in NAMES:
        raise GraphError(f"cannot compare arrays of dtype {array.dtype}")
    return NAMES[array.dtype]


def compare(actual, expected, tolerance="pointwise"):
    """Compares an output with the reference's (or with a float64 formula's) value.

    Args:
      actual: array of one of the format's dtypes.
      expected: array of the same shape, of the same dtype or float64.
      tolerance: a Tolerance, or one of KINDS for the dtype of `actual`.

    Returns a Comparison. Raises GraphError where shapes or dtypes cannot be compared.

    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    if isinstance(tolerance, str):
        tolerance = Tolerance(tolerance, _dtype_name(actual))
    if actual.shape != expected.shape:
        raise GraphError(f"shapes differ: {list(actual.shape)}, expected {list(expected.shape)}")
    if expected.dtype not in (actual.dtype, np.float64):
        raise GraphError(f"dtypes differ: {actual.dtype.name}, expected {expected.dtype.name}")
    if not actual.size:
        return Comparison(True, 0.0, (), 0.0, tolerance)
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        error = np.abs(a - b)
        error = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, error)
        error = np.where(np.isnan(error), np.inf, error)
        bound = tolerance.bound(b)
        ratio = np.where(error == 0, 0.0, error / bound)
    index = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    worst = float(ratio[index])
    return Comparison(
        worst <= 1.0,
        float(error[index]),
        tuple(int(i) for i in index),
        worst,
        tolerance,
        float(a[index]),
        float(b[index]),
    )


def _target_kind(target):
    """Whether a target is a "matmul", a "reduction" or None."""
    parts = str(target).split(".")
    base = parts[1] if len(parts) > 1 else ""
    if base in _MATMULS:
        return "matmul"
    return "reduction" if base in _REDUCTIONS else None


def _narrow_dtypes(node):
    """The narrow float dtypes that a computing node rounds to."""
    if node.op == "placeholder" or node.target in ("tile.load", "tile.host_tensor", "getitem"):
        return []
    dtype = (node.meta or {}).get("dtype")
    known = dtype in DTYPES and is_float(DTYPES[dtype])
    return [dtype] if known and dtype != "float32" else []


def tolerance_for(graph, output_index, config=None):
    """The Tolerance of one returned output, from what the graph does on the way to it.

    "chain" after two matmuls or a matmul and a reduction (attention), "matmul" or "reduction" after
    one, else "pointwise". An
    output wider than a value that is rounded after the last matmul or reduction gets that dtype.
    """
    document = Document(graph, config)
    entry, slicer = document.returns[output_index], Slicer(document)
    base = slicer.base(entry["tensor"])
    matmuls, reductions, kinds, narrow, seen = set(), set(), set(), [], set()
    kinds |= {_target_kind(step[0]) for step in entry.get("ops") or []}
    pending = [((g, n.name, None), not kinds - {None}) for g, n in slicer.writers.get(base, [])]
    while pending:
        (where, name, item), direct = pending.pop()
        if (where.id, name, item, direct) in seen or name not in where.by_name:
            continue
        seen.add((where.id, name, item, direct))
        node = where.by_name[name]
        kind = _target_kind(node.target)
        kinds.add(kind)
        if kind == "matmul":
            matmuls.add((where.id, name))
        if kind == "reduction" and not is_write(node):
            reductions.add((where.id, name))
        narrow += _narrow_dtypes(node) if direct else []
        pending += [(step, direct and kind is None) for step in slicer.before((where, name, item))]
    chained = len(matmuls) > 1 or (matmuls and reductions)
    kind = "chain" if chained else next((k for k in KINDS[2:0:-1] if k in kinds), KINDS[0])
    narrow += [dtype for step in entry.get("ops") or [] for dtype in _step_dtypes(step)]
    return Tolerance(kind, _narrowest(document.tensors[base]["dtype"], narrow))


def _step_dtypes(step):
    """The float dtypes that an op after the kernel, `[target, args...]`, rounds to."""
    named = [a["dtype"] for a in step[1:] if isinstance(a, dict) and "dtype" in a]
    return [dtype for dtype in named if dtype in DTYPES and is_float(DTYPES[dtype])]


def _narrowest(dtype, narrow):
    """The dtype of fewest mantissa bits among an output's own and those rounded to."""
    if dtype not in DTYPES or not is_float(DTYPES[dtype]):
        return dtype
    return min([dtype, *narrow], key=lambda name: int(ml_dtypes.finfo(DTYPES[name]).nmant))
