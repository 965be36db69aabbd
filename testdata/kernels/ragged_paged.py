"""Attention of a server's step: prompts and single tokens at once, caches in pages."""

import math

import helion
import helion.language as hl
import torch

LOG2_E = math.log2(math.e)
# Less than any score: the maximum before the first one.
LEAST = -1e30
# Tokens of a sequence that is decoded, and is given to tiles of few rows.
FEW = 4


def softmax_step(scores, visible, v, known, m, norm, acc):
    """Largest score, sum and weighted values with those of one more step's keys."""
    v = torch.where(known.unsqueeze(-1).unsqueeze(0), v, 0.0)
    scores = torch.where(visible.unsqueeze(0), scores, float("-inf"))
    larger = torch.maximum(m, scores.amax(-1))
    p = torch.exp2(scores - larger.unsqueeze(-1))
    old = torch.exp2(m - larger)
    norm = norm * old + p.sum(-1)
    acc = acc * old.unsqueeze(-1) + hl.dot(p.to(v.dtype), v, out_dtype=torch.float32)
    return larger, norm, acc


@helion.kernel()
def ragged_paged(q, k_pages, v_pages, lengths, table, starts):
    """Causal attention of tokens q [H, T, G, D], G rows for each head of keys.

    Sequence b has the tokens starts[b] up to starts[b + 1], its last ones; table[b] are its pages,
    of which whole steps are read. Sequences of few tokens have tiles of few rows.
    """
    kv_heads, tokens, group, dim = q.shape
    group = hl.specialize(group)
    page = hl.specialize(k_pages.size(2))
    dim = hl.specialize(dim)
    rows = q.view(kv_heads, tokens * group, dim)
    out = torch.zeros_like(rows)
    scale = LOG2_E / math.sqrt(dim)
    few, many = hl.register_block_size(1, 64), hl.register_block_size(1, 64)
    for tile_b, tile_h in hl.tile([lengths.size(0), kv_heads], block_size=[1, None]):
        b = tile_b.begin
        start, end = starts[b] * group, starts[b + 1] * group
        new = starts[b + 1] - starts[b]
        before = lengths[b] - new
        decoded = torch.where(new <= FEW, end, start)
        for tile_s in hl.tile(start, decoded):
            query = rows[tile_h, tile_s, :]
            at = before + (tile_s.index - start) // group
            seen = before + (tile_s.end - 1 - start) // group + 1
            ends = (seen + few * page - 1) // (few * page) * few
            m = hl.full([tile_h, tile_s], LEAST, dtype=torch.float32)
            norm = hl.zeros([tile_h, tile_s], dtype=torch.float32)
            acc = hl.zeros([tile_h, tile_s, dim], dtype=torch.float32)
            for tile_r in hl.tile(0, ends, block_size=few):
                numbers = table[b, tile_r]
                n = tile_r.block_size * page
                key = tile_r.begin * page + hl.arange(n)
                k = k_pages[tile_h, numbers, :, :].reshape(tile_h.block_size, n, dim)
                v = v_pages[tile_h, numbers, :, :].reshape(tile_h.block_size, n, dim)
                scores = hl.dot(query, k.transpose(1, 2), out_dtype=torch.float32) * scale
                visible = key[None, :] <= at[:, None]
                m, norm, acc = softmax_step(scores, visible, v, key < seen, m, norm, acc)
            out[tile_h, tile_s, :] = (acc / norm[:, :, None]).to(out.dtype)
        for tile_q in hl.tile(decoded, end):
            query = rows[tile_h, tile_q, :]
            at = before + (tile_q.index - start) // group
            seen = before + (tile_q.end - 1 - start) // group + 1
            ends = (seen + many * page - 1) // (many * page) * many
            m = hl.full([tile_h, tile_q], LEAST, dtype=torch.float32)
            norm = hl.zeros([tile_h, tile_q], dtype=torch.float32)
            acc = hl.zeros([tile_h, tile_q, dim], dtype=torch.float32)
            for tile_p in hl.tile(0, ends, block_size=many):
                numbers = table[b, tile_p]
                n = tile_p.block_size * page
                key = tile_p.begin * page + hl.arange(n)
                k = k_pages[tile_h, numbers, :, :].reshape(tile_h.block_size, n, dim)
                v = v_pages[tile_h, numbers, :, :].reshape(tile_h.block_size, n, dim)
                scores = hl.dot(query, k.transpose(1, 2), out_dtype=torch.float32) * scale
                visible = key[None, :] <= at[:, None]
                m, norm, acc = softmax_step(scores, visible, v, key < seen, m, norm, acc)
            out[tile_h, tile_q, :] = (acc / norm[:, :, None]).to(out.dtype)
    return out.view(kv_heads, tokens, group, dim)


@helion.kernel()
def ragged_paged_window(
    q, k_pages, v_pages, lengths, table, starts, window: hl.constexpr, cap: hl.constexpr
):
    """That of the last `window` tokens, of scores that tanh keeps below `cap`."""
    kv_heads, tokens, group, dim = q.shape
    group = hl.specialize(group)
    page = hl.specialize(k_pages.size(2))
    dim = hl.specialize(dim)
    rows = q.view(kv_heads, tokens * group, dim)
    out = torch.zeros_like(rows)
    scale = 1 / math.sqrt(dim)
    few, many = hl.register_block_size(1, 64), hl.register_block_size(1, 64)
    for tile_b, tile_h in hl.tile([lengths.size(0), kv_heads], block_size=[1, None]):
        b = tile_b.begin
        start, end = starts[b] * group, starts[b + 1] * group
        new = starts[b + 1] - starts[b]
        before = lengths[b] - new
        decoded = torch.where(new <= FEW, end, start)
        for tile_s in hl.tile(start, decoded):
            query = rows[tile_h, tile_s, :]
            at = before + (tile_s.index - start) // group
            first = before + (tile_s.begin - start) // group
            outside = torch.clamp(first + 1 - window, min=0)
            seen = before + (tile_s.end - 1 - start) // group + 1
            ends = (seen + few * page - 1) // (few * page) * few
            m = hl.full([tile_h, tile_s], LEAST, dtype=torch.float32)
            norm = hl.zeros([tile_h, tile_s], dtype=torch.float32)
            acc = hl.zeros([tile_h, tile_s, dim], dtype=torch.float32)
            for tile_r in hl.tile(outside // (few * page) * few, ends, block_size=few):
                numbers = table[b, tile_r]
                n = tile_r.block_size * page
                key = tile_r.begin * page + hl.arange(n)
                k = k_pages[tile_h, numbers, :, :].reshape(tile_h.block_size, n, dim)
                v = v_pages[tile_h, numbers, :, :].reshape(tile_h.block_size, n, dim)
                scores = hl.dot(query, k.transpose(1, 2), out_dtype=torch.float32) * scale
                scores = torch.tanh(scores / cap) * (cap * LOG2_E)
                visible = (key[None, :] <= at[:, None]) & (key[None, :] > at[:, None] - window)
                m, norm, acc = softmax_step(scores, visible, v, key < seen, m, norm, acc)
            out[tile_h, tile_s, :] = (acc / norm[:, :, None]).to(out.dtype)
        for tile_q in hl.tile(decoded, end):
            query = rows[tile_h, tile_q, :]
            at = before + (tile_q.index - start) // group
            first = before + (tile_q.begin - start) // group
            outside = torch.clamp(first + 1 - window, min=0)
            seen = before + (tile_q.end - 1 - start) // group + 1
            ends = (seen + many * page - 1) // (many * page) * many
            m = hl.full([tile_h, tile_q], LEAST, dtype=torch.float32)
            norm = hl.zeros([tile_h, tile_q], dtype=torch.float32)
            acc = hl.zeros([tile_h, tile_q, dim], dtype=torch.float32)
            for tile_p in hl.tile(outside // (many * page) * many, ends, block_size=many):
                numbers = table[b, tile_p]
                n = tile_p.block_size * page
                key = tile_p.begin * page + hl.arange(n)
                k = k_pages[tile_h, numbers, :, :].reshape(tile_h.block_size, n, dim)
                v = v_pages[tile_h, numbers, :, :].reshape(tile_h.block_size, n, dim)
                scores = hl.dot(query, k.transpose(1, 2), out_dtype=torch.float32) * scale
                scores = torch.tanh(scores / cap) * (cap * LOG2_E)
                visible = (key[None, :] <= at[:, None]) & (key[None, :] > at[:, None] - window)
                m, norm, acc = softmax_step(scores, visible, v, key < seen, m, norm, acc)
            out[tile_h, tile_q, :] = (acc / norm[:, :, None]).to(out.dtype)
    return out.view(kv_heads, tokens, group, dim)


@helion.kernel()
def ragged_paged_scaled(q, k_pages, v_pages, k_scale, v_scale, lengths, table, starts):
    """That of a cache in 8 bits, with a scale for each head of keys and of values."""
    kv_heads, tokens, group, dim = q.shape
    group = hl.specialize(group)
    page = hl.specialize(k_pages.size(2))
    dim = hl.specialize(dim)
    rows = q.view(kv_heads, tokens * group, dim)
    out = torch.zeros_like(rows)
    scale = LOG2_E / math.sqrt(dim)
    few, many = hl.register_block_size(1, 64), hl.register_block_size(1, 64)
    for tile_b, tile_h in hl.tile([lengths.size(0), kv_heads], block_size=[1, None]):
        b = tile_b.begin
        start, end = starts[b] * group, starts[b + 1] * group
        new = starts[b + 1] - starts[b]
        before = lengths[b] - new
        score_scale = k_scale[tile_h] * scale
        decoded = torch.where(new <= FEW, end, start)
        for tile_s in hl.tile(start, decoded):
            query = rows[tile_h, tile_s, :]
            at = before + (tile_s.index - start) // group
            seen = before + (tile_s.end - 1 - start) // group + 1
            ends = (seen + few * page - 1) // (few * page) * few
            m = hl.full([tile_h, tile_s], LEAST, dtype=torch.float32)
            norm = hl.zeros([tile_h, tile_s], dtype=torch.float32)
            acc = hl.zeros([tile_h, tile_s, dim], dtype=torch.float32)
            for tile_r in hl.tile(0, ends, block_size=few):
                numbers = table[b, tile_r]
                n = tile_r.block_size * page
                key = tile_r.begin * page + hl.arange(n)
                k = k_pages[tile_h, numbers, :, :].reshape(tile_h.block_size, n, dim).to(q.dtype)
                v = v_pages[tile_h, numbers, :, :].reshape(tile_h.block_size, n, dim).to(q.dtype)
                scores = (
                    hl.dot(query, k.transpose(1, 2), out_dtype=torch.float32)
                    * score_scale[:, None, None]
                )
                visible = key[None, :] <= at[:, None]
                m, norm, acc = softmax_step(scores, visible, v, key < seen, m, norm, acc)
            out[tile_h, tile_s, :] = (acc / norm[:, :, None] * v_scale[tile_h][:, None, None]).to(
                out.dtype
            )
        for tile_q in hl.tile(decoded, end):
            query = rows[tile_h, tile_q, :]
            at = before + (tile_q.index - start) // group
            seen = before + (tile_q.end - 1 - start) // group + 1
            ends = (seen + many * page - 1) // (many * page) * many
            m = hl.full([tile_h, tile_q], LEAST, dtype=torch.float32)
            norm = hl.zeros([tile_h, tile_q], dtype=torch.float32)
            acc = hl.zeros([tile_h, tile_q, dim], dtype=torch.float32)
            for tile_p in hl.tile(0, ends, block_size=many):
                numbers = table[b, tile_p]
                n = tile_p.block_size * page
                key = tile_p.begin * page + hl.arange(n)
                k = k_pages[tile_h, numbers, :, :].reshape(tile_h.block_size, n, dim).to(q.dtype)
                v = v_pages[tile_h, numbers, :, :].reshape(tile_h.block_size, n, dim).to(q.dtype)
                scores = (
                    hl.dot(query, k.transpose(1, 2), out_dtype=torch.float32)
                    * score_scale[:, None, None]
                )
                visible = key[None, :] <= at[:, None]
                m, norm, acc = softmax_step(scores, visible, v, key < seen, m, norm, acc)
            out[tile_h, tile_q, :] = (acc / norm[:, :, None] * v_scale[tile_h][:, None, None]).to(
                out.dtype
            )
    return out.view(kv_heads, tokens, group, dim)


@helion.kernel()
def latent_decode(q_nope, q_pe, c_pages, pe_pages, lengths, table):
    """One query token a sequence, q_nope [B, H, C] and q_pe [B, H, R], over latents.

    Of these there are c [P, page, C], which are the values too, and rotated k_pe [P, page, R].
    """
    batch, heads, latent = q_nope.shape
    heads = hl.specialize(heads)
    latent = hl.specialize(latent)
    rope = hl.specialize(q_pe.size(2))
    page = hl.specialize(c_pages.size(1))
    out = torch.empty_like(q_nope)
    scale = LOG2_E / math.sqrt(latent // 4 + rope)
    for b in hl.grid(batch):
        length = lengths[b]
        nope = q_nope[b, :, :]
        pe = q_pe[b, :, :]
        m = hl.full([heads], LEAST, dtype=torch.float32)
        norm = hl.zeros([heads], dtype=torch.float32)
        acc = hl.zeros([heads, latent], dtype=torch.float32)
        for tile_p in hl.tile(0, (length + page - 1) // page):
            numbers = table[b, tile_p]
            n = tile_p.block_size * page
            key = tile_p.begin * page + hl.arange(n)
            c = c_pages[numbers, :, :].reshape(n, latent)
            c = torch.where((key < length)[:, None], c, 0.0)
            k_pe = pe_pages[numbers, :, :].reshape(n, rope)
            scores = hl.dot(nope, c.transpose(0, 1), out_dtype=torch.float32)
            scores = hl.dot(pe, k_pe.transpose(0, 1), acc=scores) * scale
            scores = torch.where((key < length)[None, :], scores, float("-inf"))
            larger = torch.maximum(m, scores.amax(-1))
            p = torch.exp2(scores - larger[:, None])
            old = torch.exp2(m - larger)
            norm = norm * old + p.sum(-1)
            acc = acc * old[:, None] + hl.dot(p.to(c.dtype), c, out_dtype=torch.float32)
            m = larger
        norm = torch.where(norm == 0.0, 1.0, norm)
        out[b, :, :] = (acc / norm[:, None]).to(out.dtype)
    return out
