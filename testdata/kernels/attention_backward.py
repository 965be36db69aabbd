"""The backward pass of attention: delta, then dq, dk and dv in one kernel, or dq, then dk and dv.

q, k, v, out, dout are [B, H, S, D]; lse is float32 [B*H, S] in base 2, as attention.py returns it;
delta is float32 [B*H, S], the rows' sums of dout * out. The probabilities are computed again.
"""

import math

import helion
import helion.language as hl
import torch

LOG2_E = 1.4426950408889634


@helion.kernel(static_shapes=True)
def attention_delta(out: torch.Tensor, dout: torch.Tensor) -> torch.Tensor:
    """Return delta."""
    s_dim = out.size(-2)
    head_dim = hl.specialize(out.size(-1))
    out_view = out.reshape([-1, s_dim, head_dim])
    dout_view = dout.reshape([-1, s_dim, head_dim])
    delta = torch.empty([out_view.size(0), s_dim], dtype=torch.float32, device=out.device)
    for tile_b, tile_m in hl.tile([out_view.size(0), s_dim]):
        o = out_view[tile_b, tile_m, :].to(torch.float32)
        do = dout_view[tile_b, tile_m, :].to(torch.float32)
        delta[tile_b, tile_m] = torch.sum(o * do, -1)
    return delta


@helion.kernel(static_shapes=True)
def attention_dq(
    q_in: torch.Tensor,
    k_in: torch.Tensor,
    v_in: torch.Tensor,
    dout: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
    causal: hl.constexpr,
) -> torch.Tensor:
    """Return dq; a tile of q stays, tiles of k and v pass by."""
    s_dim = q_in.size(-2)
    head_dim = hl.specialize(q_in.size(-1))
    q_view = q_in.reshape([-1, s_dim, head_dim])
    k_view = k_in.reshape([-1, s_dim, head_dim])
    v_view = v_in.reshape([-1, s_dim, head_dim])
    do_view = dout.reshape([-1, s_dim, head_dim])
    dq = torch.empty_like(q_view)
    sm_scale = 1.0 / math.sqrt(head_dim)
    for tile_b, tile_m in hl.tile([q_view.size(0), s_dim]):
        acc = hl.zeros([tile_b, tile_m, head_dim], dtype=torch.float32)
        q = q_view[tile_b, tile_m, :]
        do = do_view[tile_b, tile_m, :]
        lse_m = lse[tile_b, tile_m]
        delta_m = delta[tile_b, tile_m]
        end = tile_m.end if causal else s_dim
        for tile_n in hl.tile(0, end):
            k = k_view[tile_b, tile_n, :]
            v = v_view[tile_b, tile_n, :]
            scores = torch.bmm(q, k.transpose(1, 2), out_dtype=torch.float32)
            p = torch.exp2(scores * (sm_scale * LOG2_E) - lse_m[:, :, None])
            if causal:
                visible = tile_m.index[:, None] >= tile_n.index[None, :]
                p = torch.where(visible[None, :, :], p, 0.0)
            dp = torch.bmm(do, v.transpose(1, 2), out_dtype=torch.float32)
            ds = p * (dp - delta_m[:, :, None]) * sm_scale
            acc = torch.baddbmm(acc, ds.to(k.dtype), k)
        dq[tile_b, tile_m, :] = acc.to(dq.dtype)
    return dq.view(q_in.size())


@helion.kernel(static_shapes=True)
def attention_dkdv(
    q_in: torch.Tensor,
    k_in: torch.Tensor,
    v_in: torch.Tensor,
    dout: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
    causal: hl.constexpr,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (dk, dv); tiles of k and v stay, tiles of q and dout pass by."""
    s_dim = q_in.size(-2)
    head_dim = hl.specialize(q_in.size(-1))
    q_view = q_in.reshape([-1, s_dim, head_dim])
    k_view = k_in.reshape([-1, s_dim, head_dim])
    v_view = v_in.reshape([-1, s_dim, head_dim])
    do_view = dout.reshape([-1, s_dim, head_dim])
    dk = torch.empty_like(k_view)
    dv = torch.empty_like(v_view)
    sm_scale = 1.0 / math.sqrt(head_dim)
    for tile_b, tile_n in hl.tile([q_view.size(0), s_dim]):
        dk_acc = hl.zeros([tile_b, tile_n, head_dim], dtype=torch.float32)
        dv_acc = hl.zeros([tile_b, tile_n, head_dim], dtype=torch.float32)
        k = k_view[tile_b, tile_n, :]
        v = v_view[tile_b, tile_n, :]
        begin = tile_n.begin if causal else 0
        for tile_m in hl.tile(begin, s_dim):
            q = q_view[tile_b, tile_m, :]
            do = do_view[tile_b, tile_m, :]
            scores = torch.bmm(q, k.transpose(1, 2), out_dtype=torch.float32)
            p = torch.exp2(scores * (sm_scale * LOG2_E) - lse[tile_b, tile_m][:, :, None])
            if causal:
                visible = tile_m.index[:, None] >= tile_n.index[None, :]
                p = torch.where(visible[None, :, :], p, 0.0)
            dv_acc = torch.baddbmm(dv_acc, p.to(do.dtype).transpose(1, 2), do)
            dp = torch.bmm(do, v.transpose(1, 2), out_dtype=torch.float32)
            ds = p * (dp - delta[tile_b, tile_m][:, :, None]) * sm_scale
            dk_acc = torch.baddbmm(dk_acc, ds.to(q.dtype).transpose(1, 2), q)
        dk[tile_b, tile_n, :] = dk_acc.to(dk.dtype)
        dv[tile_b, tile_n, :] = dv_acc.to(dv.dtype)
    return dk.view(k_in.size()), dv.view(v_in.size())


@helion.kernel(static_shapes=True)
def attention_backward(
    q_in: torch.Tensor,
    k_in: torch.Tensor,
    v_in: torch.Tensor,
    dout: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
    causal: hl.constexpr,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (dq, dk, dv), from scores that are computed once.

    Tiles of k and v stay, tiles of q and dout pass by; each pair adds its part to dq, in float32.
    """
    s_dim = q_in.size(-2)
    head_dim = hl.specialize(q_in.size(-1))
    q_view = q_in.reshape([-1, s_dim, head_dim])
    k_view = k_in.reshape([-1, s_dim, head_dim])
    v_view = v_in.reshape([-1, s_dim, head_dim])
    do_view = dout.reshape([-1, s_dim, head_dim])
    dq = torch.zeros(q_view.size(), dtype=torch.float32, device=q_in.device)
    dk = torch.empty_like(k_view)
    dv = torch.empty_like(v_view)
    sm_scale = 1.0 / math.sqrt(head_dim)
    for tile_b, tile_n in hl.tile([q_view.size(0), s_dim]):
        dk_acc = hl.zeros([tile_b, tile_n, head_dim], dtype=torch.float32)
        dv_acc = hl.zeros([tile_b, tile_n, head_dim], dtype=torch.float32)
        k = k_view[tile_b, tile_n, :]
        v = v_view[tile_b, tile_n, :]
        begin = tile_n.begin if causal else 0
        for tile_m in hl.tile(begin, s_dim):
            q = q_view[tile_b, tile_m, :]
            do = do_view[tile_b, tile_m, :]
            scores = torch.bmm(q, k.transpose(1, 2), out_dtype=torch.float32)
            p = torch.exp2(scores * (sm_scale * LOG2_E) - lse[tile_b, tile_m][:, :, None])
            if causal:
                visible = tile_m.index[:, None] >= tile_n.index[None, :]
                p = torch.where(visible[None, :, :], p, 0.0)
            dv_acc = torch.baddbmm(dv_acc, p.to(do.dtype).transpose(1, 2), do)
            dp = torch.bmm(do, v.transpose(1, 2), out_dtype=torch.float32)
            ds = (p * (dp - delta[tile_b, tile_m][:, :, None]) * sm_scale).to(q.dtype)
            dk_acc = torch.baddbmm(dk_acc, ds.transpose(1, 2), q)
            part = torch.bmm(ds, k, out_dtype=torch.float32)
            hl.atomic_add(dq, [tile_b, tile_m, slice(None)], part)
        dk[tile_b, tile_n, :] = dk_acc.to(dk.dtype)
        dv[tile_b, tile_n, :] = dv_acc.to(dv.dtype)
    return dq.to(q_in.dtype).view(q_in.size()), dk.view(k_in.size()), dv.view(v_in.size())
