"""Tiles that are shifted, rows that are stored between others, values stored one by one."""

import numpy as np

from coverage.row import family

# ---- formulas ------------------------------------------------------------------------------------


def row_differences(x):
    return (np.concatenate([x[:3], x[3:] - x[:-3]]),)


def interleaved_rows(x, y):
    return (np.stack([x, y], 1).reshape(-1, x.shape[1]),)


def segment_norms(x):
    return (np.sqrt((x * x).sum((1, 2)))[:, None],)


# ---- rows ----------------------------------------------------------------------------------------

ROWS = [
    family(
        "rows less those three before",
        "row_differences",
        "8192_4096",
        row_differences,
        [8],
        loops=(),
        note="a tile that starts between blocks comes as a block and its halo",
    ),
    family(
        "rows stored in turns",
        "interleaved_rows",
        "2048_4096",
        interleaved_rows,
        [8],
        loops=(),
        note="stores with a step",
    ),
    family(
        "a norm for each matrix",
        "segment_norms",
        "256_1024_1024",
        segment_norms,
        [64],
        loops=("unroll", "fori_loop"),
        note="single elements are stored at the grid's point",
    ),
]
