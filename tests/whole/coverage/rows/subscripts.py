"""Values at computed positions, rows that torch selects, every other lane."""

import numpy as np

from coverage.floors import Needs, distinct, generator
from coverage.row import family, parameters
from coverage.rows.indirect import drawn, named

# ---- formulas ------------------------------------------------------------------------------------


def picked_logits(x, ids):
    return (np.take_along_axis(x, ids.astype(int), 1),)


def selected_rows(x, ids):
    return (x[ids.astype(int)],)


def gated_pairs(x):
    return (x[:, ::2] / (1 + np.exp(-x[:, 1::2])),)


# ---- inputs --------------------------------------------------------------------------------------


def with_ids(most):
    """Random numbers, and positions below dim `most` of them."""

    def inputs(document, rng, distribution=None):
        x, ids = parameters(document)
        values = rng.standard_normal(x.shape).astype(x.dtype)
        return [values, drawn(rng, ids.shape, x.shape[most], distribution).astype(ids.dtype)]

    return inputs


# ---- what is needed ------------------------------------------------------------------------------


def named_elements(shapes, data):
    """Elements of a row that its ids name."""
    ids = drawn(generator(), shapes["ids"], shapes["x"][1])
    return Needs({"x": sum(map(distinct, ids))})


# ---- rows ----------------------------------------------------------------------------------------

ROWS = [
    family(
        "a few logits of each row",
        "picked_logits",
        "4096_1024",
        picked_logits,
        inputs=with_ids(1),
        needs=named_elements,
        loops=(),
        note="a gather over values: lanes are compared and summed as bits",
    ),
    family(
        "rows by index_select",
        "selected_rows",
        "8192_1024",
        selected_rows,
        inputs=with_ids(0),
        needs=named("x"),
        loops=(),
        note="the rows of an input are loaded where they lie",
    ),
    family(
        "gates in every other lane",
        "gated_pairs",
        "4096_2048",
        gated_pairs,
        loops=(),
        note="slices with a step",
    ),
]
