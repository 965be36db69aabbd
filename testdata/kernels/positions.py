"""Tiles that are shifted, rows that are stored between others, values stored one by one."""

import torch

import helion
import helion.language as hl


@helion.kernel(static_shapes=True)
def row_differences(x: torch.Tensor) -> torch.Tensor:
    """Return x[m] - x[m - 3] of x [M, N], the first three rows as they are."""
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        before = torch.where((tile.index >= 3)[:, None], x[tile.index - 3, :], 0.0)
        out[tile, :] = x[tile, :] - before.to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def interleaved_rows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return [2 M, N] with x [M, N] in the even rows and y [M, N] in the odd ones."""
    m, n = x.size()
    out = torch.empty([2 * m, n], dtype=x.dtype, device=x.device)
    for tile in hl.tile(m):
        out[tile.index * 2, :] = x[tile, :]
        out[tile.index * 2 + 1, :] = y[tile, :]
    return out


@helion.kernel(static_shapes=True)
def segment_norms(x: torch.Tensor) -> torch.Tensor:
    """Return the Euclidean norm of each x[i] of x [I, M, N], stored at [i, 0]."""
    count, m, _ = x.size()
    out = torch.empty([count, 1], dtype=torch.float32, device=x.device)
    for i in hl.grid(count):
        total = hl.zeros([], dtype=torch.float32)
        for tile in hl.tile(m):
            rows = x[i, tile, :].to(torch.float32)
            total = total + (rows * rows).sum()
        out[i, 0] = torch.sqrt(total)
    return out
