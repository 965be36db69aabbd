"""Random numbers: Philox-4x32-10, of a seed and each element's place."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def noise(x: torch.Tensor, seed: int) -> torch.Tensor:
    """Return x + u of any [M, N], u in [0, 1)."""
    out = torch.empty_like(x)
    for tile_m, tile_n in hl.tile(x.size()):
        out[tile_m, tile_n] = x[tile_m, tile_n] + hl.rand([tile_m, tile_n], seed=seed)
    return out


@helion.kernel(static_shapes=True)
def dice(x: torch.Tensor, seed: int) -> torch.Tensor:
    """Return x + d of any [M, N], d from 1 to 6; int32."""
    out = torch.empty_like(x)
    for tile_m, tile_n in hl.tile(x.size()):
        out[tile_m, tile_n] = x[tile_m, tile_n] + hl.randint(
            [tile_m, tile_n], low=1, high=7, seed=seed
        )
    return out
