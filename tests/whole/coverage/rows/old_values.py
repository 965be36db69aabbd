"""What atomics give back: places in queues, tickets, and who came first."""

import numpy as np

from coverage.floors import Needs
from coverage.row import family
from coverage.rows.indirect import by, drawn, ints, summed

# ---- formulas ------------------------------------------------------------------------------------

# How many experts, groups or slots there are, by the number of tokens.
EXPERTS = {256: 8, 301: 130, 64: 8, 70: 7}
SLOTS = {64: 12, 70: 9}
GROUPS = {64: 12, 70: 9}
OWNED = {64: 20, 301: 150}


def earlier(ids):
    """[t, s]: token s is of the same group as t, and comes before it."""
    return np.tri(len(ids), k=-1) * (ids[:, None] == ids)


def counted(x):
    """How many there are in each column."""
    return x.sum(0).astype(float)


def ranks(ids):
    return earlier(ids).sum(1), counted(ids[:, None] == np.arange(EXPERTS[len(ids)]))


def dispatch(x, ids):
    slots = SLOTS[len(ids)]
    rank, count = ranks(ids)
    slot = np.where(rank < slots, ids * slots + rank, -1.0)
    out = np.zeros((len(count) * slots, x.shape[1]))
    out[ints(slot[slot >= 0])] = x[slot >= 0]
    return out, slot, count


def sums_before(x, ids):
    return earlier(ids) @ x, *summed(x, ids, GROUPS[len(ids)])


def tickets(x):
    block = {256: 64, 301: 48}[len(x)]
    found = np.array([counted(x[i : i + block] > 0) for i in range(0, len(x), block)])
    return found.cumsum(0) - found, found.sum(0)


def first_come(keys):
    owner = np.full(OWNED[len(keys)], -1.0)
    tokens = np.arange(float(len(keys)))
    owner[ints(keys)[::-1]] = tokens[::-1]
    first = owner[ints(keys)]
    return np.where(first == tokens, -1, first), owner


# ---- what is needed ------------------------------------------------------------------------------


def numbered(name, counts):
    """The data that steers: numbers below the rows of the output `counts`, drawn as inputs are."""

    def steering(document, rng, distribution=None):
        shapes = {t["name"]: t["shape"] for t in document["tensors"]}
        return {name: drawn(rng, shapes[name], shapes[counts][0], distribution)}

    return steering


def slotted_rows(shapes, data):
    """Tokens that find a slot."""
    (experts,), (places, columns) = shapes["count"], shapes["out"]
    counts = np.bincount(data["ids"], minlength=experts)
    return Needs({"x": np.minimum(counts, places // experts).sum() * columns})


# ---- rows ----------------------------------------------------------------------------------------


def of(sizes, name="ids"):
    """Numbers below what `sizes` says for so many: a third uniform, a third of a Zipf law."""
    return by({name: lambda shape: sizes[shape[0]]})


ROWS = [
    family(
        "places in the queues of experts",
        "ranks",
        "16384",
        ranks,
        [32],
        inputs=of(EXPERTS),
        steering=numbered("ids", "count"),
        note="old values at int tensors: each token finds what those before it left",
    ),
    family(
        "tokens put into slots of experts",
        "dispatch",
        "4096_1024",
        dispatch,
        [16],
        inputs=of(EXPERTS),
        steering=numbered("ids", "count"),
        needs=slotted_rows,
        note="positions made of old values",
    ),
    family(
        "sums of the group's rows before",
        "sums_before",
        "8192_512",
        sums_before,
        [128, 16],
        inputs=of(GROUPS),
        steering=numbered("ids", "sums"),
        note="old values of rows",
    ),
    family(
        "tickets of column tiles",
        "tickets",
        "8192_4096",
        tickets,
        None,
        note="old values of tiles: a load and a store",
    ),
    family(
        "first come, by compare and swap",
        "first_come",
        "16384",
        first_come,
        [16],
        inputs=of(OWNED, "keys"),
        steering=numbered("keys", "owner"),
    ),
]
