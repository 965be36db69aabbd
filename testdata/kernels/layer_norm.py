"""Layer normalization over the last dim."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float
) -> torch.Tensor:
    """Return layer_norm(x) * weight + bias: x [M, N], weight and bias [N]; float32 statistics."""
    m, _n = x.size()
    out = torch.empty_like(x)
    for tile_m in hl.tile(m):
        row = x[tile_m, :].to(torch.float32)
        mean = torch.mean(row, dim=1, keepdim=True)
        centered = row - mean
        variance = torch.mean(centered * centered, dim=1, keepdim=True)
        normalized = centered * torch.rsqrt(variance + eps)
        scale = weight[:].to(torch.float32)[None, :]
        shift = bias[:].to(torch.float32)[None, :]
        out[tile_m, :] = (normalized * scale + shift).to(x.dtype)
    return out
