"""Work that a condition leaves out: flags of blocks, blocks above the diagonal."""

import torch

import helion
import helion.language as hl


@helion.kernel(static_shapes=True)
def flagged_rows(x: torch.Tensor, flags: torch.Tensor) -> torch.Tensor:
    """Return relu(x) in the blocks of 64 rows that are flagged, x / 2 in the others; x [M, N]."""
    m, _n = x.size()
    out = torch.empty_like(x)
    for tile_m in hl.tile(m, block_size=64):
        if flags[tile_m.id] > 0:
            out[tile_m, :] = torch.relu(x[tile_m, :])
        else:
            out[tile_m, :] = x[tile_m, :] * 0.5
    return out


@helion.kernel(static_shapes=True)
def flagged_sums(x: torch.Tensor, flags: torch.Tensor) -> torch.Tensor:
    """Return the sums of the rows of x [M, N] in float32, 0 in blocks of 64 without a flag."""
    m, n = x.size()
    out = torch.empty([m], dtype=torch.float32, device=x.device)
    for tile_m in hl.tile(m, block_size=64):
        acc = hl.zeros([tile_m], dtype=torch.float32)
        if flags[tile_m.id] > 0:
            for tile_n in hl.tile(n):
                acc += x[tile_m, tile_n].to(torch.float32).sum(-1)
        out[tile_m] = acc
    return out


@helion.kernel(static_shapes=True)
def lower_matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return tril(x) @ y in float32, x [M, K], y [K, N]: blocks above the diagonal are left out."""
    m, k = x.size()
    _k, n = y.size()
    out = torch.empty([m, n], dtype=torch.float32, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            if tile_k.begin < tile_m.end:
                lower = tile_k.index[None, :] <= tile_m.index[:, None]
                rows = torch.where(lower, x[tile_m, tile_k], 0.0)
                acc = torch.addmm(acc, rows, y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out
