"""Rows of matrix products of narrow operands."""

import numpy as np

from coverage.row import family, parameters

# ---- formulas ------------------------------------------------------------------------------------


def scaled(x, y, x_scale, y_scale):
    """x @ y times a scale for each row and each column."""
    return (x @ y * x_scale[:, None] * y_scale,)


def scaled_by_one(x, y):
    """x @ y * 0.5 * 0.25."""
    return (x @ y / 8.0,)


def matmul(x, w):
    """x @ w."""
    return (x @ w,)


def weight_only(x, w, scale):
    """x @ w times a scale for each column."""
    return (x @ w * scale,)


def nibbles(w):
    """The low and the high int4 of each int8, signed."""
    bits = w.astype(np.int64) & 0xFF
    low, high = bits & 0xF, bits >> 4
    return tuple(np.where(n >= 8, n - 16, n).astype(np.float64) for n in (low, high))


def int4_halves(x, w):
    """x @ weights, of which the low nibbles are the first half of the rows."""
    return (x @ np.concatenate(nibbles(w)),)


def int4_pairs(x, w):
    """x @ weights, of which the low nibbles are the even rows."""
    return (x @ np.stack(nibbles(w), 1).reshape(-1, w.shape[1]),)


# ---- inputs --------------------------------------------------------------------------------------


def narrow(document, rng):
    """Ints over their dtype's whole range, scales about 1, the rest standard normal."""
    arrays = []
    for _, shape, dtype in parameters(document):
        if np.issubdtype(dtype, np.integer):
            info = np.iinfo(dtype)
            arrays.append(rng.integers(info.min, info.max + 1, shape).astype(dtype))
        elif len(shape) == 1:
            arrays.append((0.5 + rng.random(shape)).astype(dtype))
        else:
            arrays.append(rng.standard_normal(shape).astype(dtype))
    return arrays


# ---- rows ----------------------------------------------------------------------------------------


KERNELS = (
    ("matmul, int8, scales of rows and columns", "int8_matmul", scaled),
    ("matmul, float8, two scales", "fp8_matmul", scaled_by_one),
    ("matmul, float8, scales of rows and columns", "fp8_row_matmul", scaled),
    ("matmul, float8_e5m2, scales of rows and columns", "fp8_e5m2_matmul", scaled),
    ("matmul, bfloat16 x int16 weights", "int16_weight_matmul", matmul),
    ("matmul, bfloat16 x int8 weights", "int8_weight_matmul", weight_only),
    ("matmul, int4 weights, half-split", "int4_matmul", int4_halves),
    ("matmul, int4 weights, interleaved", "int4_interleaved_matmul", int4_pairs),
)
ROWS = [
    family(name, graph, "4096", formula, [64, 256, 256], inputs=narrow)
    for name, graph, formula in KERNELS
]
