"""Rows and columns where int tensors say: gathers, scatters, sums by index."""

import math

import numpy as np

from coverage.floors import Needs, distinct, generator
from coverage.row import family, of_kinds, parameters

# ---- formulas ------------------------------------------------------------------------------------


def ints(x):
    """Numbers of rows, as NumPy indexes by them."""
    return x.astype(int)


def embedding(weight, ids):
    return (weight[ints(ids)],)


def odd_rows(weight, ids):
    return (weight[ints(ids) * 2 + 1] * ids[:, None],)


def columns(x, ids):
    return (x[:, ints(ids)],)


def crossed(x, rows, cols):
    return (x[np.ix_(ints(rows), ints(cols))],)


def gather_gemv(weight, x, ids):
    return (weight[ints(ids)] @ x,)


def summed(values, ids, rows):
    """Rows added up by their numbers."""
    out = np.zeros((rows, values.shape[1]))
    np.add.at(out, ints(ids), values)
    return (out,)


def embedding_backward(grad, ids):
    return summed(grad, ids, {64: 48, 70: 37}[len(grad)])


def permute_rows(x, ids):
    out = np.zeros(x.shape)
    out[ints(ids)] = x
    return (out,)


def histogram(ids):
    return summed(np.ones((len(ids), 1)), ids, {64: 48, 70: 37}[len(ids)])


def put_flagged(x, ids, keep):
    out = np.zeros(x.shape)
    for row, number, flag in zip(x, ints(ids), keep, strict=True):
        if flag > 0:
            out[number] = row
    return (out,)


# ---- inputs --------------------------------------------------------------------------------------


def drawn(rng, size, most, distribution=None):
    """A third each of uniform numbers, of a Zipf law, and of one number alone; some never come."""
    uniform = rng.integers(0, most, size)
    zipf = np.minimum(rng.zipf(1.5, size) - 1, most - 1)
    which = rng.integers(0, 3, size)
    kinds = [uniform, zipf, np.full(size, most // 2)]
    return of_kinds(kinds, distribution, lambda of: np.choose(which, of)).astype(np.int32)


def by(dims):
    """Inputs whose int parameters lie in a dim of the first one: {parameter: dim}, or a number."""

    def inputs(document, rng, distribution=None):
        arrays = parameters(document)
        first = arrays[0].shape
        found = []
        for x in arrays:
            most = dims.get(x.name)
            if most is None:
                kind = np.dtype(x.dtype).kind
                values = (
                    rng.integers(-1, 2, x.shape) if kind == "i" else rng.standard_normal(x.shape)
                )
                found.append(values.astype(x.dtype))
            else:
                found.append(drawn(rng, x.shape, most(first), distribution))
        return found

    return inputs


def permuted(document, rng):
    """Random numbers, and each row once."""
    x, ids = parameters(document)
    return [
        rng.standard_normal(x.shape).astype(x.dtype),
        rng.permutation(ids.shape[0]).astype(ids.dtype),
    ]


def rows_of(shape):
    """As many as the first parameter has rows."""
    return shape[0]


# ---- what is needed ------------------------------------------------------------------------------


def named(table, dim=0, step=1):
    """Of a table the rows, or what else dim counts, that `ids` name, each `step`th of them."""

    def needs(shapes, data):
        size = shapes[table][dim]
        found = distinct(drawn(generator(), shapes["ids"], size // step))
        return Needs({table: math.prod(shapes[table]) // size * found})

    return needs


def named_crossing(shapes, data):
    """Elements in named rows and named columns."""
    rng, (rows, columns) = generator(), shapes["x"]
    found = [distinct(drawn(rng, shapes[n], m)) for n, m in (("rows", rows), ("cols", columns))]
    return Needs({"x": math.prod(found)})


def put_rows(shapes, data):
    """Of the flagged rows for each place the last."""
    rng, (rows, columns) = generator(), shapes["x"]
    ids, keep = drawn(rng, shapes["ids"], rows), rng.integers(-1, 2, shapes["keep"])
    return Needs({"x": distinct(ids[keep > 0]) * columns})


# ---- rows ----------------------------------------------------------------------------------------

ROWS = [
    family(
        "embedding",
        "embedding",
        "8192_1024",
        embedding,
        [16, 256],
        inputs=by({"ids": rows_of}),
        needs=named("weight"),
    ),
    family(
        "rows of computed numbers",
        "odd_rows",
        "8192_512",
        odd_rows,
        [16, 256],
        inputs=by({"ids": lambda shape: shape[0] // 2}),
        needs=named("weight", step=2),
        note="their numbers are copied to SMEM",
    ),
    family(
        "columns in another order",
        "columns",
        "1024_2048",
        columns,
        [16, 128],
        inputs=by({"ids": lambda shape: shape[1]}),
        needs=named("x", dim=1),
    ),
    family(
        "rows by a table of two dims",
        "table_rows",
        "4096_512",
        embedding,
        [2, 8],
        inputs=by({"ids": rows_of}),
        needs=named("weight"),
    ),
    family(
        "rows and columns crossed",
        "crossed",
        "256_256",
        crossed,
        [16, 128],
        inputs=by({"rows": rows_of, "cols": lambda shape: shape[1]}),
        needs=named_crossing,
        note="element by element, from SMEM",
    ),
    family(
        "gather GEMV",
        "gather_gemv",
        "4096_2048",
        gather_gemv,
        [16, 256],
        inputs=by({"ids": rows_of}),
        needs=named("weight"),
    ),
    family(
        "embedding backward",
        "embedding_backward",
        "8192_512",
        embedding_backward,
        [16, 256],
        inputs=by({"ids": lambda shape: {64: 48, 70: 37}[shape[0]]}),
        note="rows are added in the order of the index",
    ),
    family(
        "rows put in another order",
        "permute_rows",
        "8192_512",
        permute_rows,
        [16, 256],
        inputs=permuted,
    ),
    family(
        "histogram",
        "histogram",
        "16384",
        histogram,
        [16],
        inputs=by({"ids": lambda shape: {64: 48, 70: 37}[shape[0]]}),
    ),
    family(
        "flagged rows put in another order",
        "put_flagged",
        "8192_512",
        put_flagged,
        [16],
        inputs=by({"ids": rows_of}),
        needs=put_rows,
        note="of several for one place the last stays",
    ),
]
