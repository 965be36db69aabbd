"""What data decides: loops until a tolerance, flags in loops, lists of any length, two phases."""

import numpy as np

from coverage.floors import Needs
from coverage.row import family, of_kinds, parameters, tiles, with_data
from coverage.rows.branches import flagged_parts, flags_of, with_flags

# ---- formulas ------------------------------------------------------------------------------------


def newton_roots(x):
    return (np.sqrt(x),)


def collatz(x):
    n, steps = x.astype(np.int64), np.zeros(x.shape, np.int64)
    while (n > 1).any():
        active = n > 1
        n = np.where(active, np.where(n & 1, n * 3 + 1, n >> 1), n)
        steps += active
    return (steps.astype(np.int32),)


def flagged_blocks(x, flags):
    on = np.repeat(flags > 0, 128)[None, : x.shape[1]]
    return (np.where(on, np.exp(x), 0),)


def list_sums(x, link, first):
    out = np.zeros((len(first), x.shape[1]))
    link = link.astype(int)
    for head, at in enumerate(first.astype(int)):
        while at >= 0:
            out[head] += x[at]
            at = link[at]
    return (out,)


def normalized(x):
    return (x / np.abs(x).max(),)


# ---- inputs --------------------------------------------------------------------------------------


def positive(document, rng):
    (x,) = parameters(document)
    return [(10.0 ** rng.uniform(-1, 2, x.shape)).astype(x.dtype)]


def uniform_zipf_and_none(document, rng, distribution=None):
    """Ints of three kinds, a third of the rows each: uniform, Zipf's, and none to count."""
    (x,) = parameters(document)
    kinds = [rng.integers(1, 10000, x.shape), rng.zipf(1.3, x.shape) % 10000, np.zeros(x.shape)]
    row = np.arange(x.shape[0])[:, None] * 3 // x.shape[0]
    return [of_kinds(kinds, distribution, lambda of: np.choose(row, of)).astype(x.dtype)]


def lists(document, rng, distribution=None):
    """Lists of uniform and of Zipf's lengths, and empty ones, over rows in any order."""
    x, link, first = parameters(document)
    rows, heads = x.shape[0], first.shape[0]
    few = np.arange(heads) % 5 == 4 if distribution else np.zeros(heads, int)
    kinds = [rng.integers(1, 9, heads), np.minimum(rng.zipf(1.5, heads), 40), few]
    turn = np.arange(heads) % 3
    lengths = of_kinds(kinds, distribution, lambda of: np.choose(turn, of))
    order, links = rng.permutation(rows), np.full(rows, -1, link.dtype)
    firsts, start = np.full(heads, -1, first.dtype), 0
    for head, length in enumerate(lengths):
        of = order[start : start + length]
        start += len(of)
        firsts[head] = of[0] if len(of) else -1
        links[of[:-1]] = of[1:]
    return {link.name: links, first.name: firsts}


# ---- numbers of vectors --------------------------------------------------------------------------


def newton_changes(document, rng):
    """Of each tile the greatest change before each step, and that which ends it."""
    (x,) = positive(document, rng)
    return [np.array(list(changes(tile)), np.float32) for tile in tiles(document, x)]


def changes(a):
    """How far Newton's iteration moves the square roots of a tile, from step to step."""
    y = a * np.float32(0.5) + np.float32(0.5)
    change = np.abs(a - y).max()
    while change > 1e-5:
        yield change
        new = (y + a / y) * np.float32(0.5)
        change, y = (np.abs(new - y) / new).max(), new
    yield change


def collatz_maxima(document, rng):
    """Of each tile its greatest number before each step, and that which ends it."""
    (x,) = uniform_zipf_and_none(document, rng)
    return [np.array(list(maxima(tile)), np.int32) for tile in tiles(document, x)]


def maxima(n):
    """The greatest numbers of a tile, from step to step."""
    n = np.unique(n)
    while n.max() > 1:
        yield n.max()
        n = np.unique(np.where(n > 1, np.where(n & 1, n * 3 + 1, n >> 1), n))
    yield n.max()


def steps_between(numbers):
    """How often a while runs that looks at such numbers: between each two of a tile once."""
    return lambda document, rng: np.mean([len(tile) - 1 for tile in numbers(document, rng)])


def listed(document, rng):
    """How long a list is."""
    data = lists(document, rng)
    return sum(np.count_nonzero(at >= 0) for at in data.values()) / len(data["first"])


# ---- what is needed ------------------------------------------------------------------------------


def listed_rows(shapes, data):
    """Rows that are in lists, and their links."""
    rows = sum(np.count_nonzero(data[name] >= 0) for name in ("link", "first"))
    return Needs({"x": rows * shapes["x"][1], "link": rows})


# ---- rows ----------------------------------------------------------------------------------------

ROWS = [
    family(
        "square roots by Newton's iteration, to a tolerance",
        "newton_roots",
        "8192_4096",
        newton_roots,
        [32],
        inputs=positive,
        loops=(),
        numbers=newton_changes,
        steps=steps_between(newton_changes),
        note="a while, which a maximum over the tile ends",
    ),
    family(
        "steps of the Collatz sequence",
        "collatz",
        "65536",
        collatz,
        [64],
        inputs=uniform_zipf_and_none,
        loops=(),
        numbers=collatz_maxima,
        steps=steps_between(collatz_maxima),
        note="a while over a tile of ints, as long as its longest",
    ),
    family(
        "exp of flagged blocks in a loop",
        "flagged_blocks",
        "8192_4096",
        flagged_blocks,
        [128],
        inputs=with_flags,
        steering=flags_of,
        needs=flagged_parts,
        note="a store under a loaded flag in a loop",
    ),
    family(
        "sums of the rows of linked lists",
        "list_sums",
        "4096_1024",
        list_sums,
        inputs=with_data(lists),
        steering=lists,
        steps=listed,
        needs=listed_rows,
        loops=(),
        note="loads at positions that a while carries",
    ),
    family(
        "x over its greatest magnitude",
        "normalized",
        "8192_4096",
        normalized,
        [64, 32],
        loops=(),
        note="two phases with a barrier between them",
    ),
]
