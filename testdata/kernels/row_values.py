"""Row values, summed or maximized in a loop, that meet wider tiles: in it, after it, in loops inside.

They are the cases of docs/passes/pre_broadcast.md that attention does not have.
"""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def outer_chain_scale(x: torch.Tensor, width: int) -> torch.Tensor:
    """Return [B, M, width], all lanes equal, of x [B, M, K].

    A lane is the sum, over tiles of K, of the squares so far, times rsqrt(all squares + 1). So it
    depends on the block size of K.
    """
    b, m, k = x.size()
    width = hl.specialize(width)
    out = torch.empty([b, m, width], dtype=x.dtype, device=x.device)
    for tile_b, tile_m in hl.tile([b, m]):
        running = hl.zeros([tile_b, tile_m], dtype=x.dtype)
        acc = hl.zeros([tile_b, tile_m, width], dtype=x.dtype)
        for tile_k in hl.tile(k):
            squares = torch.square(x[tile_b, tile_m, tile_k])
            running = running + torch.sum(squares, -1)
            acc = acc + running[:, :, None]
        scale = torch.rsqrt(running[:, :, None] + 1)
        out[tile_b, tile_m, :] = acc * scale
    return out


@helion.kernel(static_shapes=True)
def attention_columns(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Attention of q, k, v [B, S, D] over all columns, with statistics that keep their dim of 1.

    Returns out [B, S, D] in q's dtype; each row's maximum of the scores q @ k.T / 16 and its sum of
    2**(score - maximum), float32 [B, S].
    """
    batch, s_dim, head_dim = q.size()
    head_dim = hl.specialize(head_dim)
    k_view = k.transpose(1, 2)
    out = torch.empty_like(q)
    top = torch.empty([batch, s_dim], dtype=torch.float32, device=q.device)
    total = torch.empty([batch, s_dim], dtype=torch.float32, device=q.device)
    for tile_b, tile_m in hl.tile([batch, s_dim]):
        m_i = hl.full([tile_b, tile_m, 1], float("-inf"), dtype=torch.float32)
        l_i = hl.zeros([tile_b, tile_m, 1], dtype=torch.float32)
        acc = hl.zeros([tile_b, tile_m, head_dim], dtype=torch.float32)
        for tile_n in hl.tile(s_dim):
            scores = torch.bmm(q[tile_b, tile_m, :], k_view[tile_b, :, tile_n]).float() / 16
            m_new = torch.maximum(m_i, torch.amax(scores, -1, keepdim=True))
            p = torch.exp2(scores - m_new)
            alpha = torch.where(m_i < m_new, torch.exp2(m_i - m_new), 1.0)
            l_i = l_i * alpha + torch.sum(p, -1, keepdim=True)
            acc = acc * alpha
            v_tile = v[tile_b, tile_n, :]
            acc = torch.baddbmm(acc, p.to(v_tile.dtype), v_tile)
            m_i = m_new
        out[tile_b, tile_m, :] = torch.where(l_i > 0.0, acc / l_i, 0.0).to(out.dtype)
        top[tile_b, tile_m] = m_i.squeeze(-1)
        total[tile_b, tile_m] = l_i.squeeze(-1)
    return out, top, total


@helion.kernel(static_shapes=True)
def softmax_of_two(
    x: torch.Tensor, y: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Softmax over the rows of x [M, N] and y [M, K] side by side, in four loops.

    Returns its two parts and each row's logarithm of the sum of exponentials, float32 [M].
    """
    m, n = x.size()
    _, k = y.size()
    out_x, out_y = torch.empty_like(x), torch.empty_like(y)
    lse = torch.empty([m], dtype=torch.float32, device=x.device)
    block_n = hl.register_block_size(n)
    block_k = hl.register_block_size(k)
    for tile_m in hl.tile(m):
        top = hl.full([tile_m], float("-inf"), dtype=torch.float32)
        total = hl.zeros([tile_m], dtype=torch.float32)
        for tile_n in hl.tile(n, block_size=block_n):
            values = x[tile_m, tile_n].to(torch.float32)
            new_top = torch.maximum(top, torch.amax(values, dim=1))
            total = total * torch.exp(top - new_top)
            total = total + torch.exp(values - new_top[:, None]).sum(dim=1)
            top = new_top
        for tile_k in hl.tile(k, block_size=block_k):
            values = y[tile_m, tile_k].to(torch.float32)
            new_top = torch.maximum(top, torch.amax(values, dim=1))
            total = total * torch.exp(top - new_top)
            total = total + torch.exp(values - new_top[:, None]).sum(dim=1)
            top = new_top
        for tile_n in hl.tile(n, block_size=block_n):
            weight = torch.exp(x[tile_m, tile_n].to(torch.float32) - top[:, None])
            out_x[tile_m, tile_n] = (weight / total[:, None]).to(x.dtype)
        for tile_k in hl.tile(k, block_size=block_k):
            weight = torch.exp(y[tile_m, tile_k].to(torch.float32) - top[:, None])
            out_y[tile_m, tile_k] = (weight / total[:, None]).to(y.dtype)
        lse[tile_m] = top + torch.log(total)
    return out_x, out_y, lse


@helion.kernel(static_shapes=True)
def nested_scale(x: torch.Tensor, y: torch.Tensor, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (acc [M, width], running [M]) of x [M, N] and y [M, K].

    For each tile of N: running += its squares; then for each tile of K: running = running / 2 + its
    squares, acc = acc / 4 + running; then acc *= rsqrt(running + 1). It depends on the block sizes.
    """
    m, n = x.size()
    _, k = y.size()
    width = hl.specialize(width)
    out = torch.empty([m, width], dtype=x.dtype, device=x.device)
    sums = torch.empty([m], dtype=x.dtype, device=x.device)
    for tile_m in hl.tile(m):
        running = hl.zeros([tile_m], dtype=x.dtype)
        acc = hl.zeros([tile_m, width], dtype=x.dtype)
        for tile_n in hl.tile(n):
            squares = torch.square(x[tile_m, tile_n])
            running = running + torch.sum(squares, -1)
            for tile_k in hl.tile(k):
                part = torch.square(y[tile_m, tile_k])
                running = running * 0.5 + torch.sum(part, -1)
                acc = acc * 0.25 + running[:, None]
            acc = acc * torch.rsqrt(running + 1)[:, None]
        out[tile_m, :] = acc
        sums[tile_m] = running
    return out, sums
