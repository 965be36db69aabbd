"""What loops see of arrays: one array at two indices, windows of nested loops, loops that share one."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def gram(x: torch.Tensor) -> torch.Tensor:
    """Return x @ x.T in float32: x [M, K]. Each step reads two tiles of x."""
    m, k = x.size()
    out = torch.empty([m, m], dtype=torch.float32, device=x.device)
    for tile_m, tile_n in hl.tile([m, m]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], x[tile_n, tile_k].transpose(0, 1))
        out[tile_m, tile_n] = acc
    return out


@helion.kernel(static_shapes=True)
def nested_sums(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the rows' sums of x @ y in float32: x [M, K], y [K, N].

    The outer loop moves the tile of x, which only the inner one reads; both move that of y.
    """
    m, k = x.size()
    _k, n = y.size()
    out = torch.empty([m], dtype=torch.float32, device=x.device)
    for tile_m in hl.tile(m):
        total = hl.zeros([tile_m], dtype=torch.float32)
        for tile_k in hl.tile(k):
            a = x[tile_m, tile_k]
            for tile_n in hl.tile(n):
                part = hl.dot(a, y[tile_k, tile_n], out_dtype=torch.float32)
                total = total + torch.sum(part, -1)
        out[tile_m] = total
    return out
