"""Kernels of a server: attention over a cache whose pages lie anywhere."""

import math

import helion
import helion.language as hl
import torch


@helion.kernel()
def paged_decode(q, k_pages, v_pages, lengths, table):
    """One query token a sequence; `table` says where the pages of its keys and values are."""
    batch, heads, dim = q.shape
    kv_heads, _, page, _ = k_pages.shape
    group = hl.specialize(heads // kv_heads)
    dim = hl.specialize(dim)
    page = hl.specialize(page)
    q_view = q.view(batch, kv_heads, group, dim)
    out = torch.empty_like(q_view)
    scale = math.log2(math.e) / math.sqrt(dim)
    for b, h in hl.grid([batch, kv_heads]):
        length = lengths[b]
        rows = q_view[b, h, :, :]
        m = hl.full([group], float("-inf"), dtype=torch.float32)
        norm = hl.zeros([group], dtype=torch.float32)
        acc = hl.zeros([group, dim], dtype=torch.float32)
        pages = (length + page - 1) // page
        for tile_p in hl.tile(0, pages):
            numbers = table[b, tile_p]
            tokens = tile_p.block_size * page
            k = k_pages[h, numbers, :, :].reshape(tokens, dim)
            scores = hl.dot(rows, k.transpose(0, 1), out_dtype=torch.float32) * scale
            at = tile_p.begin * page + hl.arange(tokens)
            scores = torch.where((at < length)[None, :], scores, float("-inf"))
            m_new = torch.maximum(m, scores.amax(-1))
            p = torch.exp2(scores - m_new[:, None])
            alpha = torch.exp2(m - m_new)
            norm = norm * alpha + p.sum(-1)
            v = v_pages[h, numbers, :, :].reshape(tokens, dim)
            v = torch.where((at < length)[:, None], v, 0.0)
            acc = acc * alpha[:, None] + hl.dot(p.to(v.dtype), v, out_dtype=torch.float32)
            m = m_new
        norm = torch.where(norm == 0.0, 1.0, norm)
        out[b, h, :, :] = (acc / norm[:, None]).to(out.dtype)
    return out.view(batch, heads, dim)


@helion.kernel()
def sum_of_pages(pages, counts, table):
    """The sum of the pages that `table` names, of each row as many as it counts."""
    rows = counts.size(0)
    page = hl.specialize(pages.size(1))
    dim = hl.specialize(pages.size(2))
    out = torch.empty([rows, page, dim], dtype=torch.float32, device=pages.device)
    for i in hl.grid(rows):
        acc = hl.zeros([page, dim], dtype=torch.float32)
        for j in hl.grid(counts[i]):
            acc = acc + pages[table[i, j], :, :].to(torch.float32)
        out[i, :, :] = acc
    return out
