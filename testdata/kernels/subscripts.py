"""Values at computed positions, rows that torch selects, every other lane."""

import torch

import helion
import helion.language as hl


@helion.kernel(static_shapes=True)
def picked_logits(x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Return x[m, ids[m, j]] of x [M, V], ids [M, K]."""
    m, k = ids.size()
    out = torch.empty([m, k], dtype=x.dtype, device=x.device)
    for tile in hl.tile(m):
        out[tile, :] = torch.gather(x[tile, :], 1, ids[tile, :].to(torch.int64))
    return out


@helion.kernel(static_shapes=True)
def selected_rows(x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Return x[ids] of x [V, N], ids [M], by index_select."""
    out = torch.empty([ids.size(0), x.size(1)], dtype=x.dtype, device=x.device)
    for tile in hl.tile(ids.size(0)):
        out[tile, :] = torch.index_select(x[:, :], 0, ids[tile])
    return out


@helion.kernel(static_shapes=True)
def gated_pairs(x: torch.Tensor) -> torch.Tensor:
    """Return x[m, 2 j] * sigmoid(x[m, 2 j + 1]) of x [M, 2 N]."""
    m, n = x.size()
    out = torch.empty([m, n // 2], dtype=x.dtype, device=x.device)
    for tile in hl.tile(m):
        out[tile, :] = x[tile, ::2] * torch.sigmoid(x[tile, 1::2].to(torch.float32)).to(x.dtype)
    return out
