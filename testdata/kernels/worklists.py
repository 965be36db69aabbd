"""Grouped matmuls by worklists: each step is a block of rows and a group that has rows in it."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def grouped_worklist(x, blocks, groups, offsets, w, scales):
    """Rows of x [B, R, D] times their group's narrow matrix, w [G, D, K], with scales [G, K].

    Step i makes the rows of block blocks[i] that are of group groups[i]: offsets [G + 1].
    """
    _, rows, _ = x.size()
    _, _, k = w.size()
    out = torch.empty([x.size(0), rows, k], dtype=x.dtype, device=x.device)
    for tile_k, tile_i in hl.tile([k, blocks.size(0)], block_size=[None, 1]):
        at = blocks[tile_i.begin]
        g = groups[tile_i.begin]
        acc = hl.dot(x[at, :, :], w[g, :, tile_k].to(x.dtype), out_dtype=torch.float32)
        row = at * rows + hl.arange(rows)
        own = (row >= offsets[g]) & (row < offsets[g + 1])
        scaled = (acc * scales[g, tile_k][None, :]).to(x.dtype)
        hl.store(out, [at, slice(None), tile_k], scaled, extra_mask=own[:, None])
    return out


@helion.kernel(static_shapes=True)
def experts_worklist(x, blocks, groups, offsets, w_gate, w_up, w_down):
    """Each expert's MLP of its rows, the same way: w_gate and w_up [G, D, F], w_down [G, F, D]."""
    _, rows, _ = x.size()
    out = torch.empty_like(x)
    for tile_i in hl.tile(blocks.size(0), block_size=1):
        at = blocks[tile_i.begin]
        g = groups[tile_i.begin]
        tokens = x[at, :, :]
        gate = hl.dot(tokens, w_gate[g, :, :], out_dtype=torch.float32)
        up = hl.dot(tokens, w_up[g, :, :], out_dtype=torch.float32)
        inner = (gate * torch.sigmoid(gate) * up).to(x.dtype)
        acc = hl.dot(inner, w_down[g, :, :], out_dtype=torch.float32)
        row = at * rows + hl.arange(rows)
        own = (row >= offsets[g]) & (row < offsets[g + 1])
        hl.store(out, [at, slice(None), slice(None)], acc.to(x.dtype), extra_mask=own[:, None])
    return out
