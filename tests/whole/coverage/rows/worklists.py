"""Grouped matmuls whose steps a list names: blocks of rows, and the groups that have rows there."""

import numpy as np

from coverage.floors import grouped
from coverage.row import family, parameters, shares
from coverage.rows import experts


def flat(formula):
    """The formula of rows, of rows in blocks [B, R, D]."""

    def blocks(x, at, groups, offsets, *weights):
        (out,) = formula(x.reshape(-1, x.shape[2]), offsets, *weights)
        return (out.reshape(*x.shape[:2], -1),)

    return blocks


def lists_of(document, rng, distribution=None):
    """All blocks and groups that meet, by rows; the last of them fill the list."""
    x, at, *_ = parameters(document)
    count, rows, _ = x.shape
    groups = {p.name: p for p in parameters(document)}["offsets"].shape[0] - 1
    sums = np.cumsum(shares(rng, groups, distribution))
    offsets = np.concatenate([[0], np.rint(sums / sums[-1] * count * rows)]).astype(np.int32)
    met = [
        (b, g)
        for b in range(count)
        for g in range(groups)
        if max(offsets[g], b * rows) < min(offsets[g + 1], b * rows + rows)
    ]
    met += met[-1:] * (at.shape[0] - len(met))
    found = np.array(met, np.int32)
    return {"blocks": found[:, 0], "groups": found[:, 1], "offsets": offsets}


def row(name, graph, production, formula, second, note, needs):
    """A row whose list says whose rows are where."""
    return family(
        name,
        graph,
        production,
        flat(formula),
        second,
        inputs=experts.with_data(lists_of),
        steering=lists_of,
        needs=needs,
        loops=(),
        note=note,
    )


NOTE = "a list of blocks of rows and of groups that have rows there"

ROWS = [
    row(
        "grouped matmul, int8 weights, worklist",
        "grouped_worklist",
        "8192_1024",
        experts.grouped_scaled,
        {"grouped_worklist": {"block_sizes": [512]}},
        NOTE + "; the odd size is float32",
        grouped("w", "scales"),
    ),
    row(
        "grouped matmul, int4 weights, worklist",
        "grouped_worklist_int4",
        "8192_1024",
        experts.grouped_scaled,
        {"grouped_worklist_int4": {"block_sizes": [512]}},
        NOTE,
        grouped("w", "scales"),
    ),
    row(
        "grouped matmul, float8 weights, worklist",
        "grouped_worklist_float8",
        "8192_1024",
        experts.grouped_scaled,
        {"grouped_worklist_float8": {"block_sizes": [512]}},
        NOTE,
        grouped("w", "scales"),
    ),
    row(
        "experts, fused, worklist",
        "experts_worklist",
        "4096_2048",
        experts.experts_fused,
        None,
        NOTE,
        experts.mlp_needs,
    ),
]
