"""Mixtures of experts: what each makes of its tokens, and the sum of that for each token."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def experts_fused(x, offsets, w_gate, w_up, w_down):
    """Each expert's MLP of its rows of x [L, D]: w_gate and w_up [E, D, F], w_down [E, F, D]."""
    experts, dim, wide = w_gate.size()
    out = torch.empty_like(x)
    for e in hl.grid(experts):
        for tile_l in hl.tile(offsets[e], offsets[e + 1]):
            rows = x[tile_l, :]
            acc = hl.zeros([tile_l, dim], dtype=torch.float32)
            for tile_f in hl.tile(wide):
                gate = hl.dot(rows, w_gate[e, :, tile_f], out_dtype=torch.float32)
                up = hl.dot(rows, w_up[e, :, tile_f], out_dtype=torch.float32)
                inner = (gate * torch.sigmoid(gate) * up).to(x.dtype)
                acc = hl.dot(inner, w_down[e, tile_f, :], acc=acc)
            out[tile_l, :] = acc.to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def experts_blocks(x, expert_of, w_gate, w_up, w_down):
    """That of rows in blocks of 128, each of one expert, [L / 128]."""
    _, dim, wide = w_gate.size()
    out = torch.empty_like(x)
    for tile_l in hl.tile(x.size(0), block_size=128):
        e = expert_of[tile_l.id]
        rows = x[tile_l, :]
        acc = hl.zeros([tile_l, dim], dtype=torch.float32)
        for tile_f in hl.tile(wide):
            gate = hl.dot(rows, w_gate[e, :, tile_f], out_dtype=torch.float32)
            up = hl.dot(rows, w_up[e, :, tile_f], out_dtype=torch.float32)
            inner = (gate * torch.sigmoid(gate) * up).to(x.dtype)
            acc = hl.dot(inner, w_down[e, tile_f, :], acc=acc)
        out[tile_l, :] = acc.to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def combine(y, places, weights):
    """Each token's sum of the rows at `places`, times `weights` [T, K]: y [L, D]."""
    tokens = places.size(0)
    out = torch.empty([tokens, y.size(1)], dtype=y.dtype, device=y.device)
    for tile_d, tile_t in hl.tile([y.size(1), tokens]):
        rows = y[places[tile_t, :], tile_d].to(torch.float32)
        out[tile_t, tile_d] = (rows * weights[tile_t, :][:, :, None]).sum(1).to(y.dtype)
    return out


@helion.kernel(static_shapes=True)
def grouped_scaled(x, offsets, w, scales):
    """Each group's rows times its narrow matrix, w [G, D, K], with scales [G, K]: x [L, D]."""
    groups, _, k = w.size()
    out = torch.empty([x.size(0), k], dtype=x.dtype, device=x.device)
    for tile_g, tile_k in hl.tile([groups, k], block_size=[1, None]):
        g = tile_g.begin
        scale = scales[g, tile_k]
        for tile_l in hl.tile(offsets[g], offsets[g + 1]):
            acc = hl.dot(x[tile_l, :], w[g, :, tile_k].to(x.dtype), out_dtype=torch.float32)
            out[tile_l, tile_k] = (acc * scale[None, :]).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def grouped_int8(x, offsets, w, row_scales, scales):
    """That of int8 rows with scales of their own: x [L, D], row_scales [L]."""
    groups, _, k = w.size()
    out = torch.empty([x.size(0), k], dtype=torch.bfloat16, device=x.device)
    for tile_g, tile_k in hl.tile([groups, k], block_size=[1, None]):
        g = tile_g.begin
        scale = scales[g, tile_k]
        for tile_l in hl.tile(offsets[g], offsets[g + 1]):
            acc = hl.dot(x[tile_l, :], w[g, :, tile_k])
            scaled = acc.to(torch.float32) * row_scales[tile_l][:, None] * scale[None, :]
            out[tile_l, tile_k] = scaled.to(out.dtype)
    return out


@helion.kernel(static_shapes=True)
def blocks_scaled(x, expert_of, w, scales):
    """Blocks of 128 rows, each times the narrow matrix of its expert: expert_of [L / 128]."""
    _, dim, k = w.size()
    out = torch.empty([x.size(0), k], dtype=x.dtype, device=x.device)
    for tile_k, tile_l in hl.tile([k, x.size(0)], block_size=[None, 128]):
        e = expert_of[tile_l.id]
        acc = hl.zeros([tile_l, tile_k], dtype=torch.float32)
        for tile_d in hl.tile(dim):
            acc = hl.dot(x[tile_l, tile_d], w[e, tile_d, tile_k].to(x.dtype), acc=acc)
        out[tile_l, tile_k] = (acc * scales[e, tile_k][None, :]).to(x.dtype)
    return out
