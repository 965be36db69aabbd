"""Softmax over the last dim: a whole row at once, and online in two passes."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def softmax(x: torch.Tensor) -> torch.Tensor:
    """Return softmax(x, dim=1) of x [M, N]; a tile holds whole rows, in float32 between."""
    m, _n = x.size()
    out = torch.empty_like(x)
    for tile_m in hl.tile(m):
        row = x[tile_m, :].to(torch.float32)
        row_max = torch.amax(row, dim=1, keepdim=True)
        weight = torch.exp(row - row_max)
        total = torch.sum(weight, dim=1, keepdim=True)
        out[tile_m, :] = (weight / total).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def softmax_two_pass(x: torch.Tensor) -> torch.Tensor:
    """Return softmax(x, dim=1) of x [M, N], reading each row twice, in tiles of columns.

    The first pass keeps each row's running maximum and the sum of exponentials relative to it, in
    float32; the second normalizes.
    """
    m, n = x.size()
    out = torch.empty_like(x)
    block_n = hl.register_block_size(n)
    for tile_m in hl.tile(m):
        row_max = hl.full([tile_m], float("-inf"), dtype=torch.float32)
        row_sum = hl.zeros([tile_m], dtype=torch.float32)
        for tile_n in hl.tile(n, block_size=block_n):
            values = x[tile_m, tile_n].to(torch.float32)
            new_max = torch.maximum(row_max, torch.amax(values, dim=1))
            scaled_sum = row_sum * torch.exp(row_max - new_max)
            row_sum = scaled_sum + torch.exp(values - new_max[:, None]).sum(dim=1)
            row_max = new_max
        for tile_n in hl.tile(n, block_size=block_n):
            values = x[tile_m, tile_n].to(torch.float32)
            weight = torch.exp(values - row_max[:, None])
            out[tile_m, tile_n] = (weight / row_sum[:, None]).to(x.dtype)
    return out
