"""Elementwise rows: groups of functions, broadcast and permuted operands, ints, mixed dtypes."""

import math

import ml_dtypes
import numpy as np

from coverage.row import Row

_ERF = np.vectorize(math.erf, otypes=[np.float64])


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
        0.5 * x * (1 + _ERF(x / math.sqrt(2))),
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


def _row(name, formula, graph=None, **more):
    """A row of the graph NAME at its three sizes."""
    graph = graph or name
    return Row(
        name=name,
        friendly=graph,
        odd=f"{graph}_odd",
        production=f"{graph}_8192",
        formula=formula,
        second={"block_sizes": [32, 512]},
        loops=(),
        **more,
    )


ROWS = [
    _row("exp", exp, "pointwise_exp"),
    _row("broadcast_add", broadcast_add, note="x * column + row"),
    _row("permuted_add", permuted_add, note="x + y.T, read as it lies"),
    _row("exponentials", exponentials, note="exp2 expm1 log log2 log10 log1p"),
    _row("powers", powers, note="sqrt rsqrt reciprocal pow, division"),
    _row("trigonometry", trigonometry, note="sin cos tan tanh atan2 sinh asinh"),
    _row("rounding", rounding, note="floor ceil round trunc fmod remainder"),
    _row(
        *("activations", activations),
        note="relu sigmoid silu gelu leaky_relu elu softplus hardswish; each op alone: docs/ops.md",
    ),
    _row("selection", selection, note="maximum minimum where clamp masked_fill, comparisons"),
    _row("integers", integers, note="and or xor not, shifts, products, floor division of int32"),
    _row("promotion", promotion, note="int8 + bfloat16, bfloat16 * float32, int8 / 4"),
]
