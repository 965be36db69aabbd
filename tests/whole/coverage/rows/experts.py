"""Mixtures of experts: tokens in groups of any size, weights of any dtype."""

import numpy as np

from coverage.floors import Needs, distinct, grouped
from coverage.row import Row, parameters, shares, steered, with_data
from coverage.rows.indirect import drawn
from coverage.rows.jagged import groups, offsets_of

# ---- formulas ------------------------------------------------------------------------------------


def mlp(x, w_gate, w_up, w_down):
    """One expert."""
    gate = x @ w_gate
    return gate / (1 + np.exp(-gate)) * (x @ w_up) @ w_down


def experts_fused(x, offsets, *weights):
    found = [mlp(x[g], *(w[e] for w in weights)) for e, g in enumerate(groups(offsets))]
    return (np.concatenate(found),)


def by_block(x, expert_of, what, *weights):
    """What is made of each block of rows with the weights of its expert."""
    blocks = [x[i * 128 : i * 128 + 128] for i in range(len(expert_of))]
    found = [what(b, *(w[int(e)] for w in weights)) for e, b in zip(expert_of, blocks, strict=True)]
    return (np.concatenate(found),)


def experts_blocks(x, expert_of, *weights):
    return by_block(x, expert_of, mlp, *weights)


def blocks_scaled(x, expert_of, *weights):
    return by_block(x, expert_of, lambda rows, w, scales: rows @ w * scales, *weights)


def combine(y, places, weights):
    return ((y[places.astype(int)] * weights[..., None]).sum(1),)


def grouped_scaled(x, offsets, w, scales):
    found = [x[g] @ w[e] * scales[e] for e, g in enumerate(groups(offsets))]
    return (np.concatenate(found),)


def grouped_int8(x, offsets, w, row_scales, scales):
    return grouped_scaled(x * row_scales[:, None], offsets, w, scales)


# ---- inputs --------------------------------------------------------------------------------------


def experts_of(document, rng, distribution=None):
    """Which expert each block is of, in order; some have none, some many."""
    named = {x.name: x for x in parameters(document)}
    (count,), experts = named["expert_of"].shape, parameters(document)[2].shape[0]
    share = np.append(shares(rng, experts - 1, distribution), 0.5)
    chosen = rng.choice(experts, count, p=share / share.sum())
    return {"expert_of": np.sort(chosen).astype(np.int32)}


def places_of(document, rng, distribution=None):
    """A row of its own for each expert of each token, in any order; of other distributions, any."""
    y, places, _ = parameters(document)
    if distribution in ("zipf", "empties"):
        return {"places": drawn(rng, places.shape, y.shape[0], distribution)}
    rows = rng.permutation(y.shape[0])[: np.prod(places.shape)]
    return {"places": rows.reshape(places.shape).astype(np.int32)}


def small_sums(given, rng):
    """Scales and weights that keep sums small."""
    for name, values in given.items():
        if name.startswith("w_"):
            values *= values.dtype.type(values.shape[1] ** -0.5)
        if name.endswith("scales"):
            given[name] = np.exp2(rng.integers(-7, -4, values.shape)).astype(values.dtype)


# ---- what is needed ------------------------------------------------------------------------------

mlp_needs = grouped("w_gate", "w_up", "w_down")


def placed_rows(shapes, data):
    """Rows that have a place."""
    return Needs({"y": distinct(data["places"]) * shapes["y"][1]})


# ---- rows ----------------------------------------------------------------------------------------


ANY_ROW = "groups start at any row, and are of any length"
WIDE = "8192_1024"

ROWS = [
    steered(
        "experts, fused, rows sorted",
        "experts_fused",
        "4096_2048",
        experts_fused,
        [64, 136],
        offsets_of,
        ANY_ROW,
        inputs=with_data(offsets_of, small_sums),
        needs=mlp_needs,
    ),
    steered(
        "experts, fused, rows in blocks",
        "experts_blocks",
        "8192_2048",
        experts_blocks,
        None,
        experts_of,
        "a table says whose block it is",
        inputs=with_data(experts_of, small_sums),
        needs=mlp_needs,
    ),
    steered(
        "experts, sum for each token",
        "combine",
        "2048_2048",
        combine,
        None,
        places_of,
        "rows are gathered",
        loops=(),
        inputs=with_data(places_of, small_sums),
        needs=placed_rows,
    ),
    steered(
        "grouped matmul, int8 weights",
        "grouped_scaled",
        WIDE,
        grouped_scaled,
        None,
        offsets_of,
        "a scale for each column; the odd size is float8",
        inputs=with_data(offsets_of, small_sums),
        needs=grouped("w", "scales"),
    ),
    Row(
        "grouped matmul, int4 weights, rows in blocks",
        "blocks_int4",
        None,
        "blocks_int4_8192_2048",
        blocks_scaled,
        {"block_sizes": [128, 256]},
        loops=("fori_loop",),
        inputs=with_data(experts_of, small_sums),
        steering=experts_of,
        needs=grouped("w", "scales"),
        note="a scale for each column",
    ),
    steered(
        "grouped matmul, int8",
        "grouped_int8",
        WIDE,
        grouped_int8,
        None,
        offsets_of,
        "scales of rows and columns",
        inputs=with_data(offsets_of, small_sums),
        needs=grouped("w", "scales", dtype="int8"),
    ),
]
