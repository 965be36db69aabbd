"""Attention of a server's step over caches in pages: ragged prompts, single tokens, latents."""

import functools
import math

import numpy as np

from coverage.floors import Needs, bfloat16, distinct
from coverage.row import lengths, parameters, steered, with_data

# ---- formulas ------------------------------------------------------------------------------------


def softmax(s):
    """Softmax along the last dim."""
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def attend(q, k_pages, v_pages, lengths, table, starts, window=None, cap=None):
    """Each sequence's tokens over those up to them, of the pages that `table` finds."""
    heads, _, _, dim = q.shape
    out = np.zeros(q.shape)
    for b, length in enumerate(lengths.astype(int)):
        start, end = int(starts[b]), int(starts[b + 1])
        k, v = (
            pages[:, table[b].astype(int)].reshape(heads, -1, dim)[:, None, None, :length]
            for pages in (k_pages, v_pages)
        )
        scores = (k @ q[:, start:end, ..., None])[..., 0] / np.sqrt(dim)
        scores = scores if cap is None else cap * np.tanh(scores / cap)
        far = np.arange(length - end + start, length)[:, None] - np.arange(length)
        visible = (far >= 0) & (far < (window or length + 1))
        scores = np.where(visible[:, None], scores, -np.inf)
        out[:, start:end] = (softmax(scores)[..., None, :] @ v)[..., 0, :] if end > start else 0
    return (out,)


def attend_near(*arrays):
    """As the small graphs have it."""
    return attend(*arrays, window=32, cap=20.0)


def attend_scaled(q, k_pages, v_pages, k_scale, v_scale, *where):
    scales = (x[:, None, None, None] for x in (k_scale, v_scale))
    return attend(q, *(p * s for p, s in zip((k_pages, v_pages), scales, strict=True)), *where)


def latent_decode(q_nope, q_pe, c_pages, pe_pages, lengths, table):
    latent, rope = c_pages.shape[2], pe_pages.shape[2]
    out = np.zeros(q_nope.shape)
    for b, length in enumerate(lengths.astype(int)):
        at = table[b].astype(int)
        c, pe = (x[at].reshape(-1, x.shape[2])[:length] for x in (c_pages, pe_pages))
        scores = (q_nope[b] @ c.T + q_pe[b] @ pe.T) / np.sqrt(latent // 4 + rope)
        out[b] = softmax(scores) @ c if length else 0
    return (out,)


# ---- inputs --------------------------------------------------------------------------------------


def pages_of(document, rng, named):
    """Pages in any order."""
    pages = named["k_pages" if "k_pages" in named else "c_pages"]
    count = pages.shape[-3]
    return rng.integers(0, count, named["table"].shape, np.int32), pages.shape[-2]


def mixed(document, rng, distribution=None):
    """Tokens of a prompt for a quarter of the sequences, by a Zipf law if none is named; none for
    one, single tokens for others, after caches of any length; no sequence for the last tokens."""
    named = {x.name: x for x in parameters(document)}
    table, page = pages_of(document, rng, named)
    (count, most), tokens = table.shape, named["q"].shape[1]
    new = (np.arange(count) % 4 == 0 if distribution == "empties" else np.ones(count)).astype(int)
    new[1] = 0
    prompts = np.arange(count) % 4 == 0
    prompt = 1 if distribution == "uniform" else np.minimum(rng.zipf(1.5, count), 8)
    share = prompt * prompts * rng.random(count)
    new += np.floor(share / share.sum() * (tokens - 2 - count)).astype(int)
    new = np.minimum(new, most * page)
    found = new + np.floor((most * page - new + 1) * rng.random(count)).astype(int)
    found = np.maximum(found, 1)
    found[0] = new[0]
    found[2] = most * page
    return {
        "lengths": found.astype(np.int32),
        "table": table,
        "starts": np.cumsum([0, *new]).astype(np.int32),
    }


def decoded(document, rng, distribution=None):
    """Sequences of any length, of none, of all that the table holds, of one token."""
    named = {x.name: x for x in parameters(document)}
    table, page = pages_of(document, rng, named)
    found = lengths(rng, table.shape[0], table.shape[1] * page, distribution)
    return {"lengths": found, "table": table}


def small_scales(drawn, rng):
    """Scales that keep sums small."""
    for name in drawn.keys() & {"k_scale", "v_scale"}:
        drawn[name] = np.exp2(rng.integers(-7, -4, drawn[name].shape)).astype(np.float32)


# ---- what is needed ------------------------------------------------------------------------------


def tokens_of(table, page, first, end):
    """How many tokens of different places sequences see, and how many entries of the table."""
    seen = [
        row[at // page] * page + at % page
        for row, a, b in zip(table, first, end, strict=True)
        for at in (np.arange(a, b),)
    ]
    entries = np.where(end > first, -(-end // page) - first // page, 0).sum()
    return distinct(np.concatenate(seen)), entries


def seen_tokens(shapes, data, window=math.inf):
    """Tokens of pages that a new token sees, from the first of a sequence's on."""
    heads, _, group, dim = shapes["q"]
    end, new = data["lengths"].astype(int), np.diff(data["starts"])
    first = np.where(new > 0, np.maximum(end - new + 1 - window, 0), end).astype(int)
    tokens, entries = tokens_of(data["table"], shapes["k_pages"][2], first, end)
    pairs = sum(
        np.minimum(np.arange(length - count + 1, length + 1), window).sum()
        for length, count in zip(end, new, strict=True)
    )
    queries = heads * group * dim * int(data["starts"][-1])
    pages = dict.fromkeys(("k_pages", "v_pages"), heads * dim * tokens)
    elements = pages | {"q": queries, "table": entries}
    return Needs(elements, bfloat16(4 * heads * group * dim * pairs))


near_tokens = functools.partial(seen_tokens, window=1024)


def latent_tokens(shapes, data):
    """Tokens before the end of their sequence, once for scores and once for values."""
    _, heads, latent = shapes["q_nope"]
    rope, ends = shapes["q_pe"][2], data["lengths"].astype(int)
    tokens, entries = tokens_of(data["table"], shapes["c_pages"][1], 0 * ends, ends)
    rows = heads * np.count_nonzero(ends)
    elements = {"c_pages": tokens * latent, "pe_pages": tokens * rope, "table": entries}
    elements |= {"q_nope": rows * latent, "q_pe": rows * rope}
    return Needs(elements, bfloat16(2 * heads * ends.sum() * (2 * latent + rope)))


# ---- rows ----------------------------------------------------------------------------------------


MIXED = "prompts and single tokens at once; rows of a token's heads of queries follow each other"

ROWS = [
    steered(
        "ragged paged attention",
        "ragged_paged",
        "2048_128",
        attend,
        [1, 4, 1, 8, 24],
        mixed,
        MIXED,
        needs=seen_tokens,
    ),
    steered(
        "ragged paged attention, sliding window, soft cap",
        "ragged_paged_window",
        "2048_128",
        attend_near,
        [1, 4, 1, 8, 24],
        mixed,
        MIXED,
        needs=near_tokens,
    ),
    steered(
        "ragged paged attention, cache in 8 bits",
        "ragged_paged_scaled",
        "2048_128",
        attend_scaled,
        [1, 4, 1, 8, 24],
        mixed,
        "a scale for each head; the odd size is float8",
        inputs=with_data(mixed, small_scales),
        needs=seen_tokens,
    ),
    steered(
        "latent attention, decode",
        "latent_decode",
        "64_128",
        latent_decode,
        [1],
        decoded,
        "pages of latents and of rotated keys; the values are the latents",
        needs=latent_tokens,
    ),
]
