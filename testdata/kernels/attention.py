"""Attention with an online softmax in base 2: plain, with Q loaded in the loop, with Q
scaled before it, and causal.

All take q, k, v [B, H, S, D] and return (out, lse). `out` is [B, H, S, D] in q's dtype. `lse` is
float32 [B*H, S], the base-2 logarithm of each row's sum of 2**(scores * log2(e)): multiply it by
ln(2) for the natural log-sum-exp of the scores q @ k.T / sqrt(D).
"""

import math

import helion
import helion.language as hl
import torch

LOG2_E = 1.4426950408889634


@helion.kernel(static_shapes=True)
def attention(
    q_in: torch.Tensor, k_in: torch.Tensor, v_in: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (out, lse), see above; a tile of Q stays, tiles of K and V pass by."""
    s_dim = q_in.size(-2)
    kv_dim = k_in.size(-2)
    head_dim = hl.specialize(q_in.size(-1))
    q_view = q_in.reshape([-1, s_dim, head_dim])
    k_view = k_in.reshape([-1, kv_dim, head_dim]).transpose(1, 2)
    v_view = v_in.reshape([-1, kv_dim, head_dim])
    out = torch.empty_like(q_view)
    lse = torch.empty([q_view.size(0), s_dim], dtype=torch.float32, device=q_in.device)
    qk_scale = LOG2_E / math.sqrt(head_dim)
    for tile_b, tile_m in hl.tile([q_view.size(0), s_dim]):
        m_i = hl.full([tile_b, tile_m], float("-inf"), dtype=torch.float32)
        l_i = hl.zeros([tile_b, tile_m], dtype=torch.float32)
        acc = hl.zeros([tile_b, tile_m, head_dim], dtype=torch.float32)
        q = q_view[tile_b, tile_m, :]
        for tile_n in hl.tile(kv_dim):
            k = k_view[tile_b, :, tile_n]
            scores = torch.bmm(q, k, out_dtype=torch.float32) * qk_scale
            m_new = torch.maximum(m_i, torch.amax(scores, -1))
            p = torch.exp2(scores - m_new[:, :, None])
            alpha = torch.exp2(m_i - m_new)
            l_i = l_i * alpha + torch.sum(p, -1)
            acc = acc * alpha[:, :, None]
            v = v_view[tile_b, tile_n, :]
            acc = torch.baddbmm(acc, p.to(v.dtype), v)
            m_i = m_new
        out[tile_b, tile_m, :] = (acc / l_i[:, :, None]).to(out.dtype)
        lse[tile_b, tile_m] = m_i + torch.log2(l_i)
    return out.view(q_in.size()), lse


@helion.kernel(static_shapes=True)
def attention_q_inloop(
    q_in: torch.Tensor, k_in: torch.Tensor, v_in: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (out, lse), see above; Q is loaded anew beside each tile of K and V."""
    s_dim = q_in.size(-2)
    kv_dim = k_in.size(-2)
    head_dim = hl.specialize(q_in.size(-1))
    q_view = q_in.reshape([-1, s_dim, head_dim])
    k_view = k_in.reshape([-1, kv_dim, head_dim]).transpose(1, 2)
    v_view = v_in.reshape([-1, kv_dim, head_dim])
    out = torch.empty_like(q_view)
    lse = torch.empty([q_view.size(0), s_dim], dtype=torch.float32, device=q_in.device)
    qk_scale = LOG2_E / math.sqrt(head_dim)
    for tile_b, tile_m in hl.tile([q_view.size(0), s_dim]):
        m_i = hl.full([tile_b, tile_m], float("-inf"), dtype=torch.float32)
        l_i = hl.zeros([tile_b, tile_m], dtype=torch.float32)
        acc = hl.zeros([tile_b, tile_m, head_dim], dtype=torch.float32)
        for tile_n in hl.tile(kv_dim):
            q = q_view[tile_b, tile_m, :]
            k = k_view[tile_b, :, tile_n]
            scores = torch.bmm(q, k, out_dtype=torch.float32) * qk_scale
            m_new = torch.maximum(m_i, torch.amax(scores, -1))
            p = torch.exp2(scores - m_new[:, :, None])
            alpha = torch.exp2(m_i - m_new)
            l_i = l_i * alpha + torch.sum(p, -1)
            acc = acc * alpha[:, :, None]
            v = v_view[tile_b, tile_n, :]
            acc = torch.baddbmm(acc, p.to(v.dtype), v)
            m_i = m_new
        out[tile_b, tile_m, :] = (acc / l_i[:, :, None]).to(out.dtype)
        lse[tile_b, tile_m] = m_i + torch.log2(l_i)
    return out.view(q_in.size()), lse


@helion.kernel(static_shapes=True)
def attention_scaled_q(
    q_in: torch.Tensor, k_in: torch.Tensor, v_in: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (out, lse), see above; Q is scaled before the loop, and rounded to its dtype."""
    s_dim = q_in.size(-2)
    kv_dim = k_in.size(-2)
    head_dim = hl.specialize(q_in.size(-1))
    q_view = q_in.reshape([-1, s_dim, head_dim])
    k_view = k_in.reshape([-1, kv_dim, head_dim]).transpose(1, 2)
    v_view = v_in.reshape([-1, kv_dim, head_dim])
    out = torch.empty_like(q_view)
    lse = torch.empty([q_view.size(0), s_dim], dtype=torch.float32, device=q_in.device)
    qk_scale = LOG2_E / math.sqrt(head_dim)
    for tile_b, tile_m in hl.tile([q_view.size(0), s_dim]):
        m_i = hl.full([tile_b, tile_m], float("-inf"), dtype=torch.float32)
        l_i = hl.zeros([tile_b, tile_m], dtype=torch.float32)
        acc = hl.zeros([tile_b, tile_m, head_dim], dtype=torch.float32)
        q = q_view[tile_b, tile_m, :] * qk_scale
        for tile_n in hl.tile(kv_dim):
            k = k_view[tile_b, :, tile_n]
            scores = torch.bmm(q, k, out_dtype=torch.float32)
            m_new = torch.maximum(m_i, torch.amax(scores, -1))
            p = torch.exp2(scores - m_new[:, :, None])
            alpha = torch.exp2(m_i - m_new)
            l_i = l_i * alpha + torch.sum(p, -1)
            acc = acc * alpha[:, :, None]
            v = v_view[tile_b, tile_n, :]
            acc = torch.baddbmm(acc, p.to(v.dtype), v)
            m_i = m_new
        out[tile_b, tile_m, :] = (acc / l_i[:, :, None]).to(out.dtype)
        lse[tile_b, tile_m] = m_i + torch.log2(l_i)
    return out.view(q_in.size()), lse


@helion.kernel(static_shapes=True)
def causal_attention(
    q_in: torch.Tensor, k_in: torch.Tensor, v_in: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (out, lse), see above, where row i attends to columns 0..i (square, S x S).

    Tiles wholly above the diagonal are never visited. The first tile of each row holds column 0,
    which every row sees, so the running maximum is finite from the first step on.
    """
    s_dim = q_in.size(-2)
    head_dim = hl.specialize(q_in.size(-1))
    q_view = q_in.reshape([-1, s_dim, head_dim])
    k_view = k_in.reshape([-1, s_dim, head_dim]).transpose(1, 2)
    v_view = v_in.reshape([-1, s_dim, head_dim])
    out = torch.empty_like(q_view)
    lse = torch.empty([q_view.size(0), s_dim], dtype=torch.float32, device=q_in.device)
    qk_scale = LOG2_E / math.sqrt(head_dim)
    for tile_b, tile_m in hl.tile([q_view.size(0), s_dim]):
        m_i = hl.full([tile_b, tile_m], float("-inf"), dtype=torch.float32)
        l_i = hl.zeros([tile_b, tile_m], dtype=torch.float32)
        acc = hl.zeros([tile_b, tile_m, head_dim], dtype=torch.float32)
        q = q_view[tile_b, tile_m, :]
        for tile_n in hl.tile(0, tile_m.end):
            k = k_view[tile_b, :, tile_n]
            scores = torch.bmm(q, k, out_dtype=torch.float32) * qk_scale
            visible = tile_m.index[:, None] >= tile_n.index[None, :]
            scores = torch.where(visible[None, :, :], scores, float("-inf"))
            m_new = torch.maximum(m_i, torch.amax(scores, -1))
            p = torch.exp2(scores - m_new[:, :, None])
            alpha = torch.exp2(m_i - m_new)
            l_i = l_i * alpha + torch.sum(p, -1)
            acc = acc * alpha[:, :, None]
            v = v_view[tile_b, tile_n, :]
            acc = torch.baddbmm(acc, p.to(v.dtype), v)
            m_i = m_new
        out[tile_b, tile_m, :] = (acc / l_i[:, :, None]).to(out.dtype)
        lse[tile_b, tile_m] = m_i + torch.log2(l_i)
    return out.view(q_in.size()), lse
