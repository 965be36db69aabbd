"""Rows in order: sorts, places, and the greatest few."""

import numpy as np
from pallasc.reference.values import cast

from coverage.row import family, parameters

# ---- formulas ------------------------------------------------------------------------------------


def sort_rows(x):
    places = np.argsort(-x, axis=1, kind="stable")
    return np.take_along_axis(x, places, 1), places.astype(np.int32)


def argsort_rows(x):
    return (np.argsort(x, axis=1, kind="stable").astype(np.int32),)


def route_tokens(scores):
    """The greatest 8 of each token, their softmax and their experts."""
    top, experts = (part[:, :8] for part in sort_rows(scores))
    weight = np.exp(top - top[:, :1])
    return weight / weight.sum(1, keepdims=True), experts


# ---- inputs --------------------------------------------------------------------------------------


def with_equals(document, rng):
    """Quarters, of which many are equal, in all rows but the first: equal numbers in another."""
    ((_, shape, dtype),) = parameters(document)
    x = np.round(rng.standard_normal(shape) * 8) / 4
    x[0] = 1.5
    return [cast(x.astype(np.float32), dtype)]


# ---- rows ----------------------------------------------------------------------------------------

ROWS = [
    family("sort", "sort_rows", "4096_1024", sort_rows, [32], inputs=with_equals),
    family("argsort", "argsort_rows", "8192_256", argsort_rows, [32], inputs=with_equals),
    family(
        "top 8 of the experts and softmax",
        "route_tokens",
        "8192_128",
        route_tokens,
        [128],
        inputs=with_equals,
        note="one after the other; more than 8 are the front of a sort",
    ),
]
