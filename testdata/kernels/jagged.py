"""Rows of uneven lengths: group g has the rows offsets[g] up to offsets[g + 1] of one array."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def jagged_sum(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Return the sum of each group's rows: x [L, M], offsets [G + 1]."""
    _, m = x.size()
    groups = offsets.size(0) - 1
    out = torch.empty([groups, m], dtype=x.dtype, device=x.device)
    for tile_g, tile_m in hl.tile([groups, m], block_size=[1, None]):
        g = tile_g.begin
        total = hl.zeros([tile_m], dtype=torch.float32)
        for tile_l in hl.tile(offsets[g], offsets[g + 1]):
            total = total + x[tile_l, tile_m].to(torch.float32).sum(0)
        out[g, tile_m] = total.to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def jagged_mean(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Return the mean of each group's rows, 0 of an empty one: x [L, M], offsets [G + 1]."""
    _, m = x.size()
    groups = offsets.size(0) - 1
    out = torch.empty([groups, m], dtype=x.dtype, device=x.device)
    for tile_g in hl.tile(groups, block_size=1):
        g = tile_g.begin
        start, end = offsets[g], offsets[g + 1]
        total = hl.zeros([m], dtype=torch.float32)
        for tile_l in hl.tile(start, end):
            total = total + x[tile_l, :].to(torch.float32).sum(0)
        rows = torch.clamp(end - start, min=1).to(torch.float32)
        out[g, :] = (total / rows).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def jagged_softmax(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """The softmax over the rows of each group, by column: x [L, M], offsets [G + 1]."""
    _, m = x.size()
    groups = offsets.size(0) - 1
    out = torch.empty_like(x)
    for tile_g in hl.tile(groups, block_size=1):
        g = tile_g.begin
        start, end = offsets[g], offsets[g + 1]
        largest = hl.full([m], float("-inf"), dtype=torch.float32)
        total = hl.zeros([m], dtype=torch.float32)
        for tile_l in hl.tile(start, end):
            rows = x[tile_l, :].to(torch.float32)
            larger = torch.maximum(largest, torch.amax(rows, 0))
            total = total * torch.exp(largest - larger) + torch.exp(rows - larger[None, :]).sum(0)
            largest = larger
        for tile_l in hl.tile(start, end):
            rows = x[tile_l, :].to(torch.float32)
            out[tile_l, :] = (torch.exp(rows - largest[None, :]) / total[None, :]).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def jagged_dense_bmm(
    x: torch.Tensor, offsets: torch.Tensor, w: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    """Each group's rows times its matrix, w [G, D, K], plus bias [G, K]: x [L, D]."""
    groups, _, k = w.size()
    out = torch.empty([x.size(0), k], dtype=x.dtype, device=x.device)
    for tile_g, tile_k in hl.tile([groups, k], block_size=[1, None]):
        g = tile_g.begin
        for tile_l in hl.tile(offsets[g], offsets[g + 1]):
            acc = hl.dot(x[tile_l, :], w[g, :, tile_k], out_dtype=torch.float32)
            out[tile_l, tile_k] = (acc + bias[g, tile_k][None, :].to(torch.float32)).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def jagged_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, offsets: torch.Tensor
) -> torch.Tensor:
    """Attention of each group's rows to its own: q, k, v [L, D], offsets [G + 1]; one head."""
    _, d = q.size()
    groups = offsets.size(0) - 1
    scale = 1.4426950408889634 / d**0.5
    out = torch.empty_like(q)
    for tile_g in hl.tile(groups, block_size=1):
        g = tile_g.begin
        start, end = offsets[g], offsets[g + 1]
        for tile_q in hl.tile(start, end):
            rows = q[tile_q, :]
            largest = hl.full([tile_q], float("-inf"), dtype=torch.float32)
            total = hl.zeros([tile_q], dtype=torch.float32)
            acc = hl.zeros([tile_q, d], dtype=torch.float32)
            for tile_k in hl.tile(start, end):
                scores = hl.dot(rows, k[tile_k, :].T, out_dtype=torch.float32) * scale
                larger = torch.maximum(largest, torch.amax(scores, -1))
                p = torch.exp2(scores - larger[:, None])
                old = torch.exp2(largest - larger)
                total = total * old + torch.sum(p, -1)
                acc = acc * old[:, None]
                acc = hl.dot(p.to(v.dtype), v[tile_k, :], acc=acc)
                largest = larger
            out[tile_q, :] = (acc / total[:, None]).to(q.dtype)
    return out


@helion.kernel(static_shapes=True)
def ragged_rows_sum(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Return the sums of the first lengths[i] of each row: x [M, N], lengths [M]."""
    m, _ = x.size()
    out = torch.empty([m], dtype=torch.float32, device=x.device)
    for tile_m in hl.tile(m):
        total = hl.zeros([tile_m], dtype=torch.float32)
        row_lengths = lengths[tile_m]
        for tile_n in hl.jagged_tile(row_lengths):
            total = total + x[tile_m, tile_n].to(torch.float32).sum(-1)
        out[tile_m] = total
    return out


@helion.kernel(static_shapes=True)
def ragged_softmax(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """The softmax of the first lengths[i] of each row, 0 after them: x [M, N]."""
    m, _ = x.size()
    out = torch.zeros_like(x)
    for tile_m in hl.tile(m):
        row_lengths = lengths[tile_m]
        largest = hl.full([tile_m], float("-inf"), dtype=torch.float32)
        total = hl.zeros([tile_m], dtype=torch.float32)
        for tile_n in hl.jagged_tile(row_lengths):
            values = x[tile_m, tile_n].to(torch.float32)
            larger = torch.maximum(largest, torch.amax(values, -1))
            part = torch.where(
                tile_n.index[None, :] < row_lengths[:, None],
                torch.exp(values - larger[:, None]),
                0.0,
            )
            total = total * torch.exp(largest - larger) + part.sum(-1)
            largest = larger
        for tile_n in hl.jagged_tile(row_lengths):
            values = x[tile_m, tile_n].to(torch.float32)
            out[tile_m, tile_n] = (torch.exp(values - largest[:, None]) / total[:, None]).to(
                x.dtype
            )
    return out


@helion.kernel(static_shapes=True)
def ragged_dense_add(x: torch.Tensor, lengths: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Add the first lengths[i] of each row of x to y: x, y [M, N], lengths [M]."""
    m, n = x.size()
    out = torch.empty_like(y)
    for tile_m in hl.tile(m):
        row_lengths = lengths[tile_m]
        for tile_n in hl.tile(n):
            inside = tile_n.index[None, :] < row_lengths[:, None]
            rows = hl.load(x, [tile_m, tile_n], extra_mask=inside)
            out[tile_m, tile_n] = rows + y[tile_m, tile_n]
    return out


@helion.kernel(static_shapes=True)
def ragged_layer_norm(x: torch.Tensor, lengths: torch.Tensor, eps: float) -> torch.Tensor:
    """Layer norm over the first lengths[i] of each row, 0 after them: x [M, N], lengths [M]."""
    m, _ = x.size()
    out = torch.zeros_like(x)
    for tile_m in hl.tile(m):
        row_lengths = lengths[tile_m]
        count = torch.clamp(row_lengths, min=1).to(torch.float32)
        total = hl.zeros([tile_m], dtype=torch.float32)
        for tile_n in hl.jagged_tile(row_lengths):
            total = total + x[tile_m, tile_n].to(torch.float32).sum(-1)
        mean = total / count
        squares = hl.zeros([tile_m], dtype=torch.float32)
        for tile_n in hl.jagged_tile(row_lengths):
            centred = x[tile_m, tile_n].to(torch.float32) - mean[:, None]
            centred = torch.where(tile_n.index[None, :] < row_lengths[:, None], centred, 0.0)
            squares = squares + (centred * centred).sum(-1)
        rstd = torch.rsqrt(squares / count + eps)
        for tile_n in hl.jagged_tile(row_lengths):
            centred = x[tile_m, tile_n].to(torch.float32) - mean[:, None]
            out[tile_m, tile_n] = (centred * rstd[:, None]).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def block_sparse_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, counts: torch.Tensor, blocks: torch.Tensor
) -> torch.Tensor:
    """Attention to the blocks of 128 keys that a table names, blocks [M / 128, B]; q [M, D]."""
    m, d = q.size()
    keys = k.view(k.size(0) // 128, 128, d)
    values = v.view(v.size(0) // 128, 128, d)
    scale = 1.4426950408889634 / d**0.5
    out = torch.empty_like(q)
    for tile_m in hl.tile(m, block_size=128):
        rows = q[tile_m, :]
        largest = hl.full([tile_m], float("-inf"), dtype=torch.float32)
        total = hl.zeros([tile_m], dtype=torch.float32)
        acc = hl.zeros([tile_m, d], dtype=torch.float32)
        for tile_b in hl.tile(0, counts[tile_m.id], block_size=1):
            at = blocks[tile_m.id, tile_b.begin]
            scores = hl.dot(rows, keys[at, :, :].T, out_dtype=torch.float32) * scale
            larger = torch.maximum(largest, torch.amax(scores, -1))
            p = torch.exp2(scores - larger[:, None])
            old = torch.exp2(largest - larger)
            total = total * old + torch.sum(p, -1)
            acc = acc * old[:, None]
            acc = hl.dot(p.to(v.dtype), values[at, :, :], acc=acc)
            largest = larger
        out[tile_m, :] = (acc / total[:, None]).to(q.dtype)
    return out
