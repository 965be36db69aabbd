"""Kernels of a server: caches whose pages lie anywhere."""

import math

import numpy as np

from coverage.floors import Needs, bfloat16, distinct
from coverage.row import family, lengths, parameters
from coverage.rows.ragged_paged import tokens_of

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


def sum_of_pages(pages, counts, table):
    """The pages that each row names, added up."""
    named = [pages[row[: int(n)].astype(int)] for n, row in zip(counts, table, strict=True)]
    return (np.stack([found.sum(0) for found in named]),)


# ---- inputs --------------------------------------------------------------------------------------


def placed(document, rng, distribution=None):
    """Sequences of any length, of none, of all that the table holds, of one; pages in any order."""
    named = {x.name: x for x in parameters(document)}
    k_pages, table = named["k_pages"], named["table"]
    most = table.shape[1] * k_pages.shape[2]
    return {
        "lengths": lengths(rng, table.shape[0], most, distribution),
        "table": rng.integers(0, k_pages.shape[1], table.shape, table.dtype),
    }


def pages(document, rng, distribution=None):
    """Random numbers, and pages that are placed."""
    found = placed(document, rng, distribution)
    return [
        found[x.name] if x.name in found else rng.standard_normal(x.shape).astype(x.dtype)
        for x in parameters(document)
    ]


def named(document, rng, distribution=None):
    """As many pages for each row as may be, by a Zipf law if none is named, and none."""
    shapes = {x.name: x for x in parameters(document)}
    pages, counts, table = (shapes[name] for name in ("pages", "counts", "table"))
    most = table.shape[1]
    if distribution in (None, "zipf"):
        drawn = np.minimum(rng.zipf(1.3, counts.shape) - 1, most).astype(counts.dtype)
    else:
        drawn = lengths(rng, counts.shape[0], most, distribution)
    drawn[:2] = 0, most
    return {
        "counts": drawn,
        "table": rng.integers(0, pages.shape[0], table.shape, table.dtype),
    }


def named_pages(document, rng, distribution=None):
    """Random numbers, and pages that are named."""
    found = named(document, rng, distribution)
    pages = parameters(document)[0]
    return [rng.standard_normal(pages.shape).astype(pages.dtype), *found.values()]


# ---- what is needed ------------------------------------------------------------------------------


def cached_tokens(shapes, data):
    """Tokens before the end of their sequence, for the query of each of its heads."""
    _, heads, dim = shapes["q"]
    kv_heads, _, page, _ = shapes["k_pages"]
    ends = data["lengths"].astype(int)
    tokens, entries = tokens_of(data["table"], page, 0 * ends, ends)
    pages = dict.fromkeys(("k_pages", "v_pages"), kv_heads * dim * tokens)
    elements = pages | {"q": heads * dim * np.count_nonzero(ends), "table": entries}
    return Needs(elements, bfloat16(4 * heads * dim * ends.sum()))


def named_once(shapes, data):
    """Pages that some row names."""
    found = [page for row, n in zip(data["table"], data["counts"], strict=True) for page in row[:n]]
    size = math.prod(shapes["pages"][1:])
    return Needs({"pages": distinct(found) * size, "table": len(found)})


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
        needs=cached_tokens,
        loops=("fori_loop",),
        note="pages are copied by themselves, those of a step on one semaphore",
    ),
    family(
        "sums of the pages that a table names",
        "sum_of_pages",
        "1024_128",
        sum_of_pages,
        inputs=named_pages,
        steering=named,
        needs=named_once,
        loops=("fori_loop",),
        second={"pallas_fori_dma": "on"},
        note="one page in each step, copied ahead from where the table says",
    ),
]
