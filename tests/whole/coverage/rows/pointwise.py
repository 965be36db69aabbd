"""Elementwise rows: groups of functions, broadcast and permuted operands, ints, mixed dtypes."""

import ml_dtypes
import numpy as np
from formulas import gelu

from coverage.row import family


def exp(x):
    """exp(x)."""
    return (np.exp(x),)


def broadcast_add(x, row, column):
    """x * column + row; the product is rounded to bfloat16, as torch rounds it."""
    return ((x * column).astype(ml_dtypes.bfloat16).astype(np.float64) + row,)


def permuted_add(x, y):
    """x + y.T."""
    return (x + y.T,)


def exponentials(x):
    """Exponentials of x, logarithms of |x| + 0.5."""
    p = np.abs(x) + 0.5
    return np.exp2(x), np.expm1(x), np.log(p), np.log2(p), np.log10(p), np.log1p(p)


def powers(x, y):
    """Roots and powers of p = |x| + 0.5, and a quotient."""
    p = np.abs(x) + 0.5
    return np.sqrt(p), 1 / np.sqrt(p), 1 / p, p**y, p**3, x / (np.abs(y) + 1)


def trigonometry(x, y):
    """Circular and hyperbolic functions."""
    return np.sin(x), np.cos(x), np.tan(np.tanh(x)), np.arctan2(x, y), np.sinh(x), np.arcsinh(x)


def rounding(x):
    """Ways to round 8 x, and its remainders."""
    v = 8 * x
    return np.floor(v), np.ceil(v), np.rint(v), np.trunc(v), np.fmod(v, 3), np.mod(v, 3)


def activations(x):
    """The activations by their definitions."""
    sigmoid = 1 / (1 + np.exp(-x))
    return (
        np.maximum(x, 0),
        sigmoid,
        x * sigmoid,
        gelu(x),
        np.where(x > 0, x, 0.1 * x),
        np.where(x > 0, x, np.expm1(x)),
        np.logaddexp(x, 0),
        x * np.clip(x + 3, 0, 6) / 6,
    )


def selection(x, y):
    """Choices between x, y and constants."""
    chosen = np.where(x > y, x, 2 * y)
    return np.maximum(x, y), np.minimum(x, y), chosen, np.clip(x, -0.5, 1), np.where(y < 0, 0, x)


def integers(x, y):
    """Bits, shifts, a product and a quotient of ints, in Python's own arithmetic on int64."""
    x, y = x.astype(np.int64), y.astype(np.int64)
    found = (x & y, x | y, x ^ ~y, (x << 2) + (y >> 1), x * y, x // 3)
    return tuple(value.astype(np.float64) for value in found)


def promotion(i, b, f):
    """Sums, products and quotients of two dtypes."""
    return i + b, b * f, i / 4


def plain(name, formula, note, graph=None):
    """A Row of the graph NAME, elementwise."""
    return family(name, graph or name, "8192", formula, [32, 512], loops=(), note=note)


ROWS = [
    plain("exp", exp, "", "pointwise_exp"),
    plain("broadcast_add", broadcast_add, "x * column + row"),
    plain("permuted_add", permuted_add, "x + y.T, read as it lies"),
    plain("exponentials", exponentials, "exp2 expm1 log log2 log10 log1p"),
    plain("powers", powers, "sqrt rsqrt reciprocal pow, division"),
    plain("trigonometry", trigonometry, "sin cos tan tanh atan2 sinh asinh"),
    plain("rounding", rounding, "floor ceil round trunc fmod remainder"),
    plain(
        "activations",
        activations,
        "relu sigmoid silu gelu leaky_relu elu softplus hardswish; each op alone: docs/ops.md",
    ),
    plain("selection", selection, "maximum minimum where clamp masked_fill, comparisons"),
    plain("integers", integers, "and or xor not, shifts, products, floor division of int32"),
    plain("promotion", promotion, "int8 + bfloat16, bfloat16 * float32, int8 / 4"),
]
