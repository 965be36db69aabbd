"""Attention as models run it: grouped heads, windows, biases, caps, segments, one query, fp8.

All are forward passes with an online softmax in base 2, as in attention.py. q is [B, H, S, D];
k and v are [B, H / group, T, D]: query head h reads K/V head h // group. `out` is [B, H, S, D].
Where a tile may hold no visible key for a row, its running maximum is still -inf: then `m_safe`
stands for it, since exp2(-inf - -inf) would be NaN.
"""

import math

import helion
import helion.language as hl
import torch

LOG2_E = 1.4426950408889634


@helion.kernel(static_shapes=True)
def gqa_attention(
    q_in: torch.Tensor, k_in: torch.Tensor, v_in: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (out, lse); lse [B*H, S] float32 in base 2."""
    s_dim = q_in.size(-2)
    kv_dim = k_in.size(-2)
    head_dim = hl.specialize(q_in.size(-1))
    group = q_in.size(1) // k_in.size(1)
    q_view = q_in.reshape([-1, s_dim, head_dim])
    k_view = k_in.reshape([-1, kv_dim, head_dim])
    v_view = v_in.reshape([-1, kv_dim, head_dim])
    out = torch.empty_like(q_view)
    lse = torch.empty([q_view.size(0), s_dim], dtype=torch.float32, device=q_in.device)
    qk_scale = LOG2_E / math.sqrt(head_dim)
    for tile_b, tile_m in hl.tile([q_view.size(0), s_dim], block_size=[1, None]):
        head = tile_b.begin
        m_i = hl.full([tile_m], float("-inf"), dtype=torch.float32)
        l_i = hl.zeros([tile_m], dtype=torch.float32)
        acc = hl.zeros([tile_m, head_dim], dtype=torch.float32)
        q = q_view[head, tile_m, :]
        for tile_n in hl.tile(kv_dim):
            k = k_view[head // group, tile_n, :]
            scores = hl.dot(q, k.transpose(0, 1), out_dtype=torch.float32) * qk_scale
            m_new = torch.maximum(m_i, torch.amax(scores, -1))
            p = torch.exp2(scores - m_new[:, None])
            alpha = torch.exp2(m_i - m_new)
            l_i = l_i * alpha + torch.sum(p, -1)
            v = v_view[head // group, tile_n, :]
            acc = torch.addmm(acc * alpha[:, None], p.to(v.dtype), v)
            m_i = m_new
        out[head, tile_m, :] = (acc / l_i[:, None]).to(out.dtype)
        lse[head, tile_m] = m_i + torch.log2(l_i)
    return out.view(q_in.size()), lse


@helion.kernel(static_shapes=True)
def sliding_attention(
    q_in: torch.Tensor, k_in: torch.Tensor, v_in: torch.Tensor, window: hl.constexpr
) -> torch.Tensor:
    """Row i attends to columns i - window + 1 .. i (causal); tiles outside are never visited.

    The first tile starts at a multiple of its block: it may hold no visible column for some rows.
    """
    s_dim = q_in.size(-2)
    head_dim = hl.specialize(q_in.size(-1))
    q_view = q_in.reshape([-1, s_dim, head_dim])
    k_view = k_in.reshape([-1, s_dim, head_dim]).transpose(1, 2)
    v_view = v_in.reshape([-1, s_dim, head_dim])
    out = torch.empty_like(q_view)
    qk_scale = LOG2_E / math.sqrt(head_dim)
    block_n = hl.register_block_size(s_dim)
    for tile_b, tile_m in hl.tile([q_view.size(0), s_dim]):
        m_i = hl.full([tile_b, tile_m], float("-inf"), dtype=torch.float32)
        l_i = hl.zeros([tile_b, tile_m], dtype=torch.float32)
        acc = hl.zeros([tile_b, tile_m, head_dim], dtype=torch.float32)
        q = q_view[tile_b, tile_m, :]
        begin = max(tile_m.begin - window + 1, 0) // block_n * block_n
        for tile_n in hl.tile(begin, tile_m.end, block_size=block_n):
            k = k_view[tile_b, :, tile_n]
            scores = torch.bmm(q, k, out_dtype=torch.float32) * qk_scale
            behind = tile_m.index[:, None] - tile_n.index[None, :]
            visible = (behind >= 0) & (behind < window)
            scores = torch.where(visible[None, :, :], scores, float("-inf"))
            m_new = torch.maximum(m_i, torch.amax(scores, -1))
            m_safe = torch.where(m_new == float("-inf"), 0.0, m_new)
            p = torch.exp2(scores - m_safe[:, :, None])
            alpha = torch.exp2(m_i - m_safe)
            l_i = l_i * alpha + torch.sum(p, -1)
            v = v_view[tile_b, tile_n, :]
            acc = torch.baddbmm(acc * alpha[:, :, None], p.to(v.dtype), v)
            m_i = m_new
        out[tile_b, tile_m, :] = (acc / l_i[:, :, None]).to(out.dtype)
    return out.view(q_in.size())


@helion.kernel(static_shapes=True)
def bias_attention(
    q_in: torch.Tensor, k_in: torch.Tensor, v_in: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    """Scores plus bias [H, S, T] (natural units); one bias for the whole batch."""
    s_dim = q_in.size(-2)
    kv_dim = k_in.size(-2)
    heads = q_in.size(1)
    head_dim = hl.specialize(q_in.size(-1))
    out = torch.empty_like(q_in)
    qk_scale = 1.0 / math.sqrt(head_dim)
    for tile_z, tile_h, tile_m in hl.tile([q_in.size(0), heads, s_dim], block_size=[1, 1, None]):
        z = tile_z.begin
        h = tile_h.begin
        m_i = hl.full([tile_m], float("-inf"), dtype=torch.float32)
        l_i = hl.zeros([tile_m], dtype=torch.float32)
        acc = hl.zeros([tile_m, head_dim], dtype=torch.float32)
        q = q_in[z, h, tile_m, :]
        for tile_n in hl.tile(kv_dim):
            k = k_in[z, h, tile_n, :]
            scores = hl.dot(q, k.transpose(0, 1), out_dtype=torch.float32) * qk_scale
            scores = (scores + bias[h, tile_m, tile_n]) * LOG2_E
            m_new = torch.maximum(m_i, torch.amax(scores, -1))
            p = torch.exp2(scores - m_new[:, None])
            alpha = torch.exp2(m_i - m_new)
            l_i = l_i * alpha + torch.sum(p, -1)
            v = v_in[z, h, tile_n, :]
            acc = torch.addmm(acc * alpha[:, None], p.to(v.dtype), v)
            m_i = m_new
        out[z, h, tile_m, :] = (acc / l_i[:, None]).to(out.dtype)
    return out


@helion.kernel(static_shapes=True)
def alibi_attention(
    q_in: torch.Tensor, k_in: torch.Tensor, v_in: torch.Tensor, slopes: torch.Tensor
) -> torch.Tensor:
    """Causal; scores minus slopes[h] * (i - j), slopes float32 [B*H]."""
    s_dim = q_in.size(-2)
    head_dim = hl.specialize(q_in.size(-1))
    q_view = q_in.reshape([-1, s_dim, head_dim])
    k_view = k_in.reshape([-1, s_dim, head_dim]).transpose(1, 2)
    v_view = v_in.reshape([-1, s_dim, head_dim])
    out = torch.empty_like(q_view)
    qk_scale = LOG2_E / math.sqrt(head_dim)
    for tile_b, tile_m in hl.tile([q_view.size(0), s_dim]):
        m_i = hl.full([tile_b, tile_m], float("-inf"), dtype=torch.float32)
        l_i = hl.zeros([tile_b, tile_m], dtype=torch.float32)
        acc = hl.zeros([tile_b, tile_m, head_dim], dtype=torch.float32)
        q = q_view[tile_b, tile_m, :]
        slope = slopes[tile_b] * LOG2_E
        for tile_n in hl.tile(0, tile_m.end):
            k = k_view[tile_b, :, tile_n]
            scores = torch.bmm(q, k, out_dtype=torch.float32) * qk_scale
            behind = tile_m.index[:, None] - tile_n.index[None, :]
            distance = behind.to(torch.float32)
            scores = scores - slope[:, None, None] * distance[None, :, :]
            scores = torch.where((behind >= 0)[None, :, :], scores, float("-inf"))
            m_new = torch.maximum(m_i, torch.amax(scores, -1))
            p = torch.exp2(scores - m_new[:, :, None])
            alpha = torch.exp2(m_i - m_new)
            l_i = l_i * alpha + torch.sum(p, -1)
            v = v_view[tile_b, tile_n, :]
            acc = torch.baddbmm(acc * alpha[:, :, None], p.to(v.dtype), v)
            m_i = m_new
        out[tile_b, tile_m, :] = (acc / l_i[:, :, None]).to(out.dtype)
    return out.view(q_in.size())


@helion.kernel(static_shapes=True)
def softcap_attention(
    q_in: torch.Tensor, k_in: torch.Tensor, v_in: torch.Tensor, cap: float
) -> torch.Tensor:
    """Scores s become cap * tanh(s / cap) before the softmax."""
    s_dim = q_in.size(-2)
    kv_dim = k_in.size(-2)
    head_dim = hl.specialize(q_in.size(-1))
    q_view = q_in.reshape([-1, s_dim, head_dim])
    k_view = k_in.reshape([-1, kv_dim, head_dim]).transpose(1, 2)
    v_view = v_in.reshape([-1, kv_dim, head_dim])
    out = torch.empty_like(q_view)
    qk_scale = 1.0 / math.sqrt(head_dim)
    for tile_b, tile_m in hl.tile([q_view.size(0), s_dim]):
        m_i = hl.full([tile_b, tile_m], float("-inf"), dtype=torch.float32)
        l_i = hl.zeros([tile_b, tile_m], dtype=torch.float32)
        acc = hl.zeros([tile_b, tile_m, head_dim], dtype=torch.float32)
        q = q_view[tile_b, tile_m, :]
        for tile_n in hl.tile(kv_dim):
            k = k_view[tile_b, :, tile_n]
            scores = torch.bmm(q, k, out_dtype=torch.float32) * qk_scale
            scores = torch.tanh(scores / cap) * cap * LOG2_E
            m_new = torch.maximum(m_i, torch.amax(scores, -1))
            p = torch.exp2(scores - m_new[:, :, None])
            alpha = torch.exp2(m_i - m_new)
            l_i = l_i * alpha + torch.sum(p, -1)
            v = v_view[tile_b, tile_n, :]
            acc = torch.baddbmm(acc * alpha[:, :, None], p.to(v.dtype), v)
            m_i = m_new
        out[tile_b, tile_m, :] = (acc / l_i[:, :, None]).to(out.dtype)
    return out.view(q_in.size())


@helion.kernel(static_shapes=True)
def segment_attention(
    q_in: torch.Tensor,
    k_in: torch.Tensor,
    v_in: torch.Tensor,
    q_ids: torch.Tensor,
    kv_ids: torch.Tensor,
) -> torch.Tensor:
    """Row i sees column j where q_ids[b, i] == kv_ids[b, j], int32 [B, S]; none: a row of 0."""
    s_dim = q_in.size(-2)
    kv_dim = k_in.size(-2)
    head_dim = hl.specialize(q_in.size(-1))
    out = torch.empty_like(q_in)
    qk_scale = LOG2_E / math.sqrt(head_dim)
    for tile_z, tile_h, tile_m in hl.tile(
        [q_in.size(0), q_in.size(1), s_dim], block_size=[1, 1, None]
    ):
        z = tile_z.begin
        h = tile_h.begin
        m_i = hl.full([tile_m], float("-inf"), dtype=torch.float32)
        l_i = hl.zeros([tile_m], dtype=torch.float32)
        acc = hl.zeros([tile_m, head_dim], dtype=torch.float32)
        q = q_in[z, h, tile_m, :]
        rows = q_ids[z, tile_m]
        for tile_n in hl.tile(kv_dim):
            k = k_in[z, h, tile_n, :]
            scores = hl.dot(q, k.transpose(0, 1), out_dtype=torch.float32) * qk_scale
            columns = kv_ids[z, tile_n]
            scores = torch.where(rows[:, None] == columns[None, :], scores, float("-inf"))
            m_new = torch.maximum(m_i, torch.amax(scores, -1))
            m_safe = torch.where(m_new == float("-inf"), 0.0, m_new)
            p = torch.exp2(scores - m_safe[:, None])
            alpha = torch.exp2(m_i - m_safe)
            l_i = l_i * alpha + torch.sum(p, -1)
            v = v_in[z, h, tile_n, :]
            acc = torch.addmm(acc * alpha[:, None], p.to(v.dtype), v)
            m_i = m_new
        l_safe = torch.where(l_i == 0.0, 1.0, l_i)
        out[z, h, tile_m, :] = (acc / l_safe[:, None]).to(out.dtype)
    return out


@helion.kernel(static_shapes=True)
def decode_attention(q_in: torch.Tensor, k_in: torch.Tensor, v_in: torch.Tensor) -> torch.Tensor:
    """One query row for each head, q [B, H, D]: the heads of a group are the rows of one tile."""
    _batch, heads, head_dim = q_in.size()
    head_dim = hl.specialize(head_dim)
    kv_dim = k_in.size(-2)
    group = hl.specialize(heads // k_in.size(1))
    q_view = q_in.reshape([-1, group, head_dim])
    k_view = k_in.reshape([-1, kv_dim, head_dim]).transpose(1, 2)
    v_view = v_in.reshape([-1, kv_dim, head_dim])
    out = torch.empty_like(q_view)
    qk_scale = LOG2_E / math.sqrt(head_dim)
    for tile_b in hl.tile(q_view.size(0)):
        m_i = hl.full([tile_b, group], float("-inf"), dtype=torch.float32)
        l_i = hl.zeros([tile_b, group], dtype=torch.float32)
        acc = hl.zeros([tile_b, group, head_dim], dtype=torch.float32)
        q = q_view[tile_b, :, :]
        for tile_n in hl.tile(kv_dim):
            k = k_view[tile_b, :, tile_n]
            scores = torch.bmm(q, k, out_dtype=torch.float32) * qk_scale
            m_new = torch.maximum(m_i, torch.amax(scores, -1))
            p = torch.exp2(scores - m_new[:, :, None])
            alpha = torch.exp2(m_i - m_new)
            l_i = l_i * alpha + torch.sum(p, -1)
            v = v_view[tile_b, tile_n, :]
            acc = torch.baddbmm(acc * alpha[:, :, None], p.to(v.dtype), v)
            m_i = m_new
        out[tile_b, :, :] = (acc / l_i[:, :, None]).to(out.dtype)
    return out.view(q_in.size())


@helion.kernel(static_shapes=True)
def fp8_attention(
    q_in: torch.Tensor,
    k_in: torch.Tensor,
    v_in: torch.Tensor,
    q_scale: torch.Tensor,
    k_scale: torch.Tensor,
    v_scale: torch.Tensor,
) -> torch.Tensor:
    """float8_e4m3fn q, k, v with a float32 scale for each head, [B*H]; out [B*H, S, D] bfloat16.

    The probabilities, at most 1, meet v in bfloat16: float8 has 3 bits for them.
    """
    s_dim = q_in.size(-2)
    kv_dim = k_in.size(-2)
    head_dim = hl.specialize(q_in.size(-1))
    q_view = q_in.reshape([-1, s_dim, head_dim])
    k_view = k_in.reshape([-1, kv_dim, head_dim]).transpose(1, 2)
    v_view = v_in.reshape([-1, kv_dim, head_dim])
    out = torch.empty([q_view.size(0), s_dim, head_dim], dtype=torch.bfloat16, device=q_in.device)
    qk_scale = LOG2_E / math.sqrt(head_dim)
    for tile_b, tile_m in hl.tile([q_view.size(0), s_dim]):
        m_i = hl.full([tile_b, tile_m], float("-inf"), dtype=torch.float32)
        l_i = hl.zeros([tile_b, tile_m], dtype=torch.float32)
        acc = hl.zeros([tile_b, tile_m, head_dim], dtype=torch.float32)
        q = q_view[tile_b, tile_m, :]
        scale = q_scale[tile_b] * k_scale[tile_b] * qk_scale
        for tile_n in hl.tile(kv_dim):
            k = k_view[tile_b, :, tile_n]
            scores = hl.dot(q, k, out_dtype=torch.float32) * scale[:, None, None]
            m_new = torch.maximum(m_i, torch.amax(scores, -1))
            p = torch.exp2(scores - m_new[:, :, None])
            alpha = torch.exp2(m_i - m_new)
            l_i = l_i * alpha + torch.sum(p, -1)
            v = v_view[tile_b, tile_n, :]
            acc = torch.baddbmm(acc * alpha[:, :, None], p.to(torch.bfloat16), v.to(torch.bfloat16))
            m_i = m_new
        total = (acc / l_i[:, :, None]) * v_scale[tile_b][:, None, None]
        out[tile_b, tile_m, :] = total.to(out.dtype)
    return out


@helion.kernel(static_shapes=True)
def exclusive_attention(q_in: torch.Tensor, k_in: torch.Tensor, v_in: torch.Tensor) -> torch.Tensor:
    """Exclusive self-attention: of the result y of row i, what lies along v[i] is taken away.

    z = y - (y . v[i]) v[i] / (v[i] . v[i]): a token reads from the others only. Not causal: the
    first row of a causal one would see itself alone, and be 0 but for rounding.
    """
    s_dim = q_in.size(-2)
    head_dim = hl.specialize(q_in.size(-1))
    q_view = q_in.reshape([-1, s_dim, head_dim])
    k_view = k_in.reshape([-1, s_dim, head_dim]).transpose(1, 2)
    v_view = v_in.reshape([-1, s_dim, head_dim])
    out = torch.empty_like(q_view)
    qk_scale = LOG2_E / math.sqrt(head_dim)
    for tile_b, tile_m in hl.tile([q_view.size(0), s_dim]):
        m_i = hl.full([tile_b, tile_m], float("-inf"), dtype=torch.float32)
        l_i = hl.zeros([tile_b, tile_m], dtype=torch.float32)
        acc = hl.zeros([tile_b, tile_m, head_dim], dtype=torch.float32)
        q = q_view[tile_b, tile_m, :]
        for tile_n in hl.tile(s_dim):
            k = k_view[tile_b, :, tile_n]
            scores = torch.bmm(q, k, out_dtype=torch.float32) * qk_scale
            m_new = torch.maximum(m_i, torch.amax(scores, -1))
            p = torch.exp2(scores - m_new[:, :, None])
            alpha = torch.exp2(m_i - m_new)
            l_i = l_i * alpha + torch.sum(p, -1)
            v = v_view[tile_b, tile_n, :]
            acc = torch.baddbmm(acc * alpha[:, :, None], p.to(v.dtype), v)
            m_i = m_new
        y = acc / l_i[:, :, None]
        own = v_view[tile_b, tile_m, :].to(torch.float32)
        along = torch.sum(y * own, -1) / torch.sum(own * own, -1)
        out[tile_b, tile_m, :] = (y - along[:, :, None] * own).to(out.dtype)
    return out.view(q_in.size())


@helion.kernel(static_shapes=True)
def others_attention(q_in: torch.Tensor, k_in: torch.Tensor, v_in: torch.Tensor) -> torch.Tensor:
    """The other reading of exclusive self-attention: row i sees every column but i (not causal)."""
    s_dim = q_in.size(-2)
    head_dim = hl.specialize(q_in.size(-1))
    q_view = q_in.reshape([-1, s_dim, head_dim])
    k_view = k_in.reshape([-1, s_dim, head_dim]).transpose(1, 2)
    v_view = v_in.reshape([-1, s_dim, head_dim])
    out = torch.empty_like(q_view)
    qk_scale = LOG2_E / math.sqrt(head_dim)
    for tile_b, tile_m in hl.tile([q_view.size(0), s_dim]):
        m_i = hl.full([tile_b, tile_m], float("-inf"), dtype=torch.float32)
        l_i = hl.zeros([tile_b, tile_m], dtype=torch.float32)
        acc = hl.zeros([tile_b, tile_m, head_dim], dtype=torch.float32)
        q = q_view[tile_b, tile_m, :]
        for tile_n in hl.tile(s_dim):
            k = k_view[tile_b, :, tile_n]
            scores = torch.bmm(q, k, out_dtype=torch.float32) * qk_scale
            itself = tile_m.index[:, None] == tile_n.index[None, :]
            scores = torch.where(itself[None, :, :], float("-inf"), scores)
            m_new = torch.maximum(m_i, torch.amax(scores, -1))
            m_safe = torch.where(m_new == float("-inf"), 0.0, m_new)
            p = torch.exp2(scores - m_safe[:, :, None])
            alpha = torch.exp2(m_i - m_safe)
            l_i = l_i * alpha + torch.sum(p, -1)
            v = v_view[tile_b, tile_n, :]
            acc = torch.baddbmm(acc * alpha[:, :, None], p.to(v.dtype), v)
            m_i = m_new
        out[tile_b, tile_m, :] = (acc / l_i[:, :, None]).to(out.dtype)
    return out.view(q_in.size())
