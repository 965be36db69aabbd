"""Rows of uneven lengths, of one array or each with its own, and blocks that a table names."""

import itertools

import numpy as np

from coverage.floors import Needs, bfloat16, distinct, grouped
from coverage.row import Row, family, parameters, shares, steered, tiles, with_data

# ---- formulas ------------------------------------------------------------------------------------


def groups(offsets):
    """The slice of each group's rows."""
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(offsets)]


def weights(s, axis):
    """Softmax along an axis."""
    p = np.exp(s - s.max(axis, keepdims=True, initial=-np.inf))
    return p / p.sum(axis, keepdims=True)


def jagged_sum(x, offsets):
    return (np.stack([x[rows].sum(0) for rows in groups(offsets)]),)


def jagged_mean(x, offsets):
    return (np.stack([x[g].sum(0) / max(g.stop - g.start, 1) for g in groups(offsets)]),)


def jagged_softmax(x, offsets):
    return (np.concatenate([weights(x[rows], 0) for rows in groups(offsets)]),)


def jagged_dense_bmm(x, offsets, w, bias):
    found = [x[rows] @ w[g] + bias[g] for g, rows in enumerate(groups(offsets))]
    return (np.concatenate(found),)


def jagged_attention(q, k, v, offsets):
    def attend(rows):
        return weights(q[rows] @ k[rows].T / np.sqrt(q.shape[1]), 1) @ v[rows]

    return (np.concatenate([attend(rows) for rows in groups(offsets)]),)


def inside(x, lengths):
    """Which elements lie before the end of their row."""
    return np.arange(x.shape[1]) < lengths[:, None]


def ragged_softmax(x, lengths):
    out = np.zeros(x.shape)
    for row, values, n in zip(out, x, lengths.astype(int), strict=True):
        row[:n] = weights(values[:n], 0)
    return (out,)


def ragged_layer_norm(x, lengths, eps=1e-5):
    out = np.zeros(x.shape)
    for row, values, n in zip(out, x, lengths.astype(int), strict=True):
        if n:
            row[:n] = (values[:n] - values[:n].mean()) / np.sqrt(values[:n].var() + eps)
    return (out,)


def ragged_dense_add(x, lengths, y):
    return (y + np.where(inside(x, lengths), x, 0),)


def block_sparse_attention(q, k, v, counts, blocks):
    out = np.zeros(q.shape)
    for i, count in enumerate(counts.astype(int)):
        rows = slice(i * 128, min(i * 128 + 128, len(q)))
        at = [b * 128 + np.arange(128) for b in blocks[i, :count].astype(int)]
        keys = np.concatenate(at)
        out[rows] = weights(q[rows] @ k[keys].T / np.sqrt(q.shape[1]), 1) @ v[keys]
    return (out,)


# ---- inputs --------------------------------------------------------------------------------------


def offsets_of(document, rng, distribution=None):
    """Where groups begin, and where the last ends."""
    named = {x.name: x for x in parameters(document)}
    rows, count = named["x" if "x" in named else "q"].shape[0], named["offsets"].shape[0] - 1
    drawn = np.cumsum(shares(rng, count, distribution))
    ends = np.rint(drawn / drawn[-1] * rows)
    return {"offsets": np.concatenate([[0], ends]).astype(np.int32)}


def lengths_of(document, rng, distribution=None):
    """How long each row is."""
    x = parameters(document)[0]
    drawn = np.rint(shares(rng, x.shape[0], distribution) * x.shape[1]).astype(np.int32)
    drawn[[0, 2]] = x.shape[1], 1
    return {"lengths": drawn}


def longest(document, rng):
    """Of each tile its longest row, which says how far its loops run."""
    lengths = lengths_of(document, rng)["lengths"]
    return [tile.max(keepdims=True) for tile in tiles(document, lengths)]


def blocks_of(document, rng, distribution=None):
    """As many blocks as may be, one at least, in any order."""
    named = {x.name: x for x in parameters(document)}
    most, keys = named["blocks"].shape[1], named["k"].shape[0] // 128
    counts = np.maximum(np.rint(shares(rng, named["counts"].shape[0], distribution) * most), 1)
    return {
        "counts": counts.astype(np.int32),
        "blocks": rng.integers(0, keys, named["blocks"].shape, np.int32),
    }


# ---- what is needed ------------------------------------------------------------------------------


def pairs_of_groups(shapes, data):
    """Rows of a group see each other."""
    pairs = np.square(np.diff(data["offsets"]).astype(int)).sum()
    return Needs(flops=bfloat16(4 * pairs * shapes["q"][1]))


def inside_rows(shapes, data):
    """What lies before the end of its row."""
    return Needs({"x": data["lengths"].sum()})


def named_blocks(shapes, data):
    """The blocks of keys that rows see."""
    counts, dim = data["counts"], shapes["q"][1]
    seen = [b for row, n in zip(data["blocks"], counts, strict=True) for b in row[:n]]
    keys = distinct(seen) * 128 * dim
    flops = bfloat16(4 * len(seen) * 128 * 128 * dim)
    return Needs({"k": keys, "v": keys, "blocks": len(seen)}, flops)


# ---- rows ----------------------------------------------------------------------------------------


ANY_ROW = "groups start at any row, and are of any length"
OWN_ENDS = "each row ends at its own length"

ROWS = [
    steered("jagged sum", "jagged_sum", "16384_512", jagged_sum, None, offsets_of, ANY_ROW),
    Row(
        "jagged sum of 2 GiB",
        "jagged_sum",
        None,
        "jagged_sum_1048576_512",
        jagged_sum,
        {"jagged_sum": {"pallas_fori_dma": True}},
        inputs=with_data(offsets_of),
        steering=offsets_of,
        loops=("fori_loop",),
        note=ANY_ROW + "; windows are copied with the whole tiles around them",
    ),
    steered("jagged mean", "jagged_mean", "16384_256", jagged_mean, [16], offsets_of, ANY_ROW),
    steered(
        "jagged softmax", "jagged_softmax", "8192_256", jagged_softmax, None, offsets_of, ANY_ROW
    ),
    steered(
        "grouped matmul, jagged rows",
        "jagged_dense_bmm",
        "8192_512",
        jagged_dense_bmm,
        None,
        offsets_of,
        ANY_ROW,
        needs=grouped("w", "bias"),
    ),
    steered(
        "jagged attention",
        "jagged_attention",
        "4096_128",
        jagged_attention,
        None,
        offsets_of,
        ANY_ROW,
        needs=pairs_of_groups,
    ),
    steered(
        "softmax of ragged rows",
        "ragged_softmax",
        "8192_4096",
        ragged_softmax,
        None,
        lengths_of,
        OWN_ENDS,
        numbers=longest,
        needs=inside_rows,
    ),
    steered(
        "layer norm of ragged rows",
        "ragged_layer_norm",
        "8192_4096",
        ragged_layer_norm,
        None,
        lengths_of,
        OWN_ENDS,
        numbers=longest,
        needs=inside_rows,
    ),
    family(
        "ragged rows added to a dense array",
        "ragged_dense_add",
        "8192_4096",
        ragged_dense_add,
        inputs=with_data(lengths_of),
        steering=lengths_of,
        needs=inside_rows,
        loops=("fori_loop",),
        note=OWN_ENDS,
    ),
    steered(
        "block-sparse attention",
        "block_sparse_attention",
        "4096_128",
        block_sparse_attention,
        None,
        blocks_of,
        "a table names the blocks of keys",
        needs=named_blocks,
    ),
]
