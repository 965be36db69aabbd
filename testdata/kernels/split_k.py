"""A matrix product whose contracted dim is split over the grid; the parts meet in atomic adds."""

import helion
import helion.language as hl
import torch
from helion.autotuner import PowerOfTwoFragment


@helion.kernel(static_shapes=True)
def matmul_split_k(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x @ y: x [M, K], y [K, N]; split_k parts of K, each accumulated in float32."""
    m, k = x.size()
    _k, n = y.size()
    out = torch.zeros([m, n], dtype=x.dtype, device=x.device)
    split_k = hl.register_tunable("split_k", PowerOfTwoFragment(1, 256))
    k_block = helion.next_power_of_2(helion.cdiv(k, split_k))
    for tile_m, tile_n, outer_k in hl.tile([m, n, k], block_size=[None, None, k_block]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for inner_k in hl.tile(outer_k.begin, outer_k.end):
            acc = torch.addmm(acc, x[tile_m, inner_k], y[inner_k, tile_n])
        hl.atomic_add(out, [tile_m, tile_n], acc)
    return out
