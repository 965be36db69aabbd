"""Tensors that a kernel does not name as arguments, int64 indices, work of the host before it."""

import numpy as np

from coverage.floors import Needs
from coverage.row import family, numbers, parameters
from coverage.rows.indirect import by, named, rows_of

# ---- formulas ------------------------------------------------------------------------------------


def matmul_epilogue(x, y, bias):
    return (np.maximum(x @ y + bias, 0),)


def embedding_int64(table, ids):
    return (table[ids.astype(int)],)


def sums_of_patched(x, rows, values):
    patched = x.copy()
    patched[rows.astype(int)] = values
    return (patched.sum(1),)


# ---- inputs --------------------------------------------------------------------------------------


def with_rows(document, rng):
    """Random numbers, and different rows of the first parameter."""
    given = parameters(document)
    ids = given[1]
    picked = rng.permutation(given[0].shape[0]).astype(ids.dtype)[: ids.shape[0]]
    return [picked if p is ids else numbers(p.shape, p.dtype, rng) for p in given]


# ---- what is needed ------------------------------------------------------------------------------


def unpatched(shapes, data):
    """The rows of x that no others take the place of."""
    rows, columns = shapes["x"]
    return Needs({"x": (rows - shapes["rows"][0]) * columns})


# ---- rows ----------------------------------------------------------------------------------------

ROWS = [
    family(
        "matmul, an epilogue with a bias of its own",
        "matmul_epilogue",
        "4096",
        matmul_epilogue,
        note="the tensor that a function captured is a parameter",
    ),
    family(
        "embedding, indices of int64",
        "embedding_int64",
        "8192_1024",
        embedding_int64,
        inputs=by({"ids": rows_of}),
        needs=named("table"),
        loops=(),
        note="the caller's int64 is int32 in the kernel",
    ),
    family(
        "sums of rows, some of them put by the host",
        "sums_of_patched",
        "8192_4096",
        sums_of_patched,
        inputs=with_rows,
        needs=unpatched,
        loops=(),
        note="the host's clone and index_put_ are kernels of their own, 233 of the 276 thousand "
        "cycles on v7x; Helion leaves them to torch, and its cycles are those of the sums alone",
    ),
]
