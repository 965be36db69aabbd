"""Work under a condition: both branches run and are chosen from, a loop makes no step."""

import math

import numpy as np

from coverage.floors import Needs, bfloat16, triangle
from coverage.row import family, of_kinds, parameters

# ---- formulas ------------------------------------------------------------------------------------


def by_row(x, flags):
    """The flag of each row, of blocks of 64."""
    return np.repeat(flags > 0, 64)[: len(x), None]


def flagged_rows(x, flags):
    return (np.where(by_row(x, flags), np.maximum(x, 0), x * 0.5),)


def flagged_sums(x, flags):
    return (np.where(by_row(x, flags), x, 0).sum(1),)


def lower_matmul(x, y):
    return (np.tril(x)[:, : len(x)] @ y[: len(x)],)  # what no row reaches may be NaN


# ---- inputs --------------------------------------------------------------------------------------


def with_flags(document, rng, distribution=None):
    """Random numbers, and flags of -1, 0 and 1, each of them at least once; of others, few set."""
    x, flags = parameters(document)
    kinds = [
        rng.integers(-1, 2, flags.shape),
        rng.zipf(1.5, flags.shape) > 1,
        np.zeros(flags.shape),
    ]
    drawn = of_kinds(kinds, distribution, lambda of: of[0]).astype(flags.dtype)
    drawn[:3] = 1, 0, -1
    return [rng.standard_normal(x.shape).astype(x.dtype), drawn]


# ---- what is needed ------------------------------------------------------------------------------


def flags_of(document, rng, distribution=None):
    """The flags alone, a third of them set."""
    drawn = rng.integers(-1, 2, parameters(document)[1].shape).astype(np.int32)
    drawn[:3] = 1, 0, -1
    return {"flags": drawn}


def flagged_parts(shapes, data):
    """Of x what has a flag: each is of as many elements."""
    return Needs({"x": math.prod(shapes["x"]) * (data["flags"] > 0).mean()})


def lower_half(shapes, data):
    """Of x [M, M] what lies on the diagonal or before it."""
    elements = triangle(shapes["x"][0])
    return Needs({"x": elements}, bfloat16(2 * elements * shapes["y"][1]))


# ---- rows ----------------------------------------------------------------------------------------

ROWS = [
    family(
        "rows of flagged blocks",
        "flagged_rows",
        "8192_4096",
        flagged_rows,
        inputs=with_flags,
        loops=(),
        note="a condition with stores in both branches",
    ),
    family(
        "sums of flagged blocks",
        "flagged_sums",
        "8192_4096",
        flagged_sums,
        [256],
        inputs=with_flags,
        steering=flags_of,
        needs=flagged_parts,
        refused={"unroll": "known only at run time"},
        note="a loop under a condition",
    ),
    family(
        "tril(x) @ y, blocks above the diagonal left out",
        "lower_matmul",
        "4096",
        lower_matmul,
        [64, 128, 128],
        needs=lower_half,
        note="a condition in a loop, which ends with it",
    ),
]
