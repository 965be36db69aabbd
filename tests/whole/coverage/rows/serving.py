"""Kernels of a server: caches whose pages lie anywhere."""

import numpy as np

from coverage.row import family, parameters

# ---- formulas ------------------------------------------------------------------------------------


def paged_decode(q, k_pages, v_pages, lengths, table):
    """Attention of one query token a sequence over the tokens that `table` finds."""
    heads, dim = q.shape[1:]
    group = heads // len(k_pages)
    out = np.zeros(q.shape)
    for b, length in enumerate(lengths):
        k, v = (
            pages[:, table[b].astype(int)].reshape(len(pages), -1, dim)[:, : int(length)]
            for pages in (k_pages, v_pages)
        )
        for h in range(heads if length else 0):
            scores = k[h // group] @ q[b, h] / np.sqrt(dim)
            p = np.exp(scores - scores.max())
            out[b, h] = p @ v[h // group] / p.sum()
    return (out,)


# ---- inputs --------------------------------------------------------------------------------------


def placed(document, rng):
    """Sequences of any length, of none, of all that the table holds, of one; pages in any order."""
    named = {x.name: x for x in parameters(document)}
    k_pages, lengths, table = (named[name] for name in ("k_pages", "lengths", "table"))
    most = table.shape[1] * k_pages.shape[2]
    drawn = rng.integers(0, most + 1, lengths.shape, lengths.dtype)
    drawn[:3] = 0, most, 1
    return {
        "lengths": drawn,
        "table": rng.integers(0, k_pages.shape[1], table.shape, table.dtype),
    }


def pages(document, rng):
    """Random numbers, and pages that are placed."""
    found = placed(document, rng)
    return [
        found[x.name] if x.name in found else rng.standard_normal(x.shape).astype(x.dtype)
        for x in parameters(document)
    ]


# ---- rows ----------------------------------------------------------------------------------------

ROWS = [
    family(
        "paged attention, decode",
        "paged_decode",
        "64_32_128",
        paged_decode,
        [1],
        inputs=pages,
        steering=placed,
        loops=("fori_loop",),
        note="pages are copied by themselves, those of a step on one semaphore",
    ),
]
