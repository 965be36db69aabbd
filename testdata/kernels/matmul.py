"""Matrix products: plain, with a bias and GELU behind it, and a batch of them."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x @ y: x [M, K], y [K, N]; accumulated in float32."""
    m, k = x.size()
    _k, n = y.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc.to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def matmul_bias_gelu(x: torch.Tensor, y: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Return gelu(x @ y + bias): x [M, K], y [K, N], bias [N]; exact (erf) GELU in float32."""
    m, k = x.size()
    _k, n = y.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        biased = acc + bias[tile_n].to(torch.float32)[None, :]
        out[tile_m, tile_n] = torch.nn.functional.gelu(biased).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def bmm(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x @ y for each batch: x [B, M, K], y [B, K, N]; accumulated in float32."""
    b, m, k = x.size()
    _b, _k, n = y.size()
    out = torch.empty([b, m, n], dtype=x.dtype, device=x.device)
    for tile_b, tile_m, tile_n in hl.tile([b, m, n]):
        acc = hl.zeros([tile_b, tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.baddbmm(acc, x[tile_b, tile_m, tile_k], y[tile_b, tile_k, tile_n])
        out[tile_b, tile_m, tile_n] = acc.to(x.dtype)
    return out
