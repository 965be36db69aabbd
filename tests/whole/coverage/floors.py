"""The floor of each row of docs/coverage.md: the fewest cycles that its production size takes.

What a kernel reads, writes and multiplies follows from the graph (`pallasc.profile.floor`). Where
data say what of it is needed (rows that a table names, groups without rows, tokens behind a
sequence's end), or a mask leaves out matmuls, the row says it: `Row.needs`, made by the functions
of this file. The data are those by which the row's cycles are estimated, or drawn as they are.
"""

import dataclasses
import functools
import math

import numpy as np
import proof
from pallasc.profile import floor


@dataclasses.dataclass(frozen=True)
class Needs:
    """What a kernel needs.

    Attributes:
      elements: {tensor: how many of its elements are read and written}; of others: all.
      flops: {dtype: FLOP} of its matmuls; None: those of the graph.
    """

    elements: dict = dataclasses.field(default_factory=dict)
    flops: dict | None = None


@functools.cache
def work(row):
    """(bytes, {dtype: FLOP}) that a row's production size needs."""
    document = proof.document(row.production)
    moved, needs = floor.moved(document), Needs()
    if row.needs:
        shapes = {tensor["name"]: tensor["shape"] for tensor in document["tensors"]}
        data = row.steering(document, generator()) if row.steering else {}
        needs = row.needs(shapes, data)
    dtypes = {tensor["name"]: tensor["dtype"] for tensor in document["tensors"]}
    for name, count in needs.elements.items():
        moved[name] = floor.array_bytes(dtypes[name], [int(count)])
    flops = floor.matmul_flops(document) if needs.flops is None else needs.flops
    return sum(moved.values()), flops


def cycles(row, chip):
    """The floor of a row's production size on a chip, in cycles."""
    return floor.cycles(chip, *work(row))


def generator():
    """That by which the data of the estimates are drawn."""
    return np.random.default_rng(1)


def bfloat16(flops):
    """FLOP of bfloat16 matmuls."""
    return {"bfloat16": int(flops)}


def distinct(ids):
    """How many different ones there are."""
    return np.unique(ids).size


def triangle(n):
    """Pairs of a row and a column of n, on the diagonal or before it."""
    return n * (n + 1) // 2


def attends(matmuls, pairs=triangle):
    """Attention of q [B, H, S, D] with so many matmuls over the pairs(S) that see each other."""

    def needs(shapes, _data):
        batch, heads, rows, dim = next(iter(shapes.values()))
        return Needs(flops=bfloat16(2 * matmuls * batch * heads * pairs(rows) * dim))

    return needs


def grouped(*weights, dtype="bfloat16"):
    """Rows times the weights [G, K, N] of their groups; scales [G, N]: of groups that have rows."""

    def needs(shapes, data):
        if "offsets" in data:
            rows, used = data["offsets"][-1], np.count_nonzero(np.diff(data["offsets"]))
        else:
            rows, used = shapes["x"][0], distinct(data["expert_of"])
        sizes = {name: math.prod(shapes[name][1:]) for name in weights}
        each = sum(size for name, size in sizes.items() if len(shapes[name]) == 3)
        elements = {name: used * size for name, size in sizes.items()}
        return Needs(elements, {dtype: 2 * int(rows) * each})

    return needs
