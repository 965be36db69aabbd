"""Dropout and noise: with a seed of the caller's, and with one that torch draws for each call."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def dropout(x: torch.Tensor, p: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (x / (1 - p) where it is kept, else 0; what is kept) of any [M, N]."""
    out = torch.empty_like(x)
    kept = torch.empty(x.size(), dtype=torch.bool, device=x.device)
    for tile_m, tile_n in hl.tile(x.size()):
        keep = hl.rand([tile_m, tile_n], seed=seed) >= p
        out[tile_m, tile_n] = torch.where(keep, x[tile_m, tile_n] / (1 - p), 0.0)
        kept[tile_m, tile_n] = keep
    return out, kept


@helion.kernel(static_shapes=True)
def native_dropout(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return torch's dropout of a quarter of any [M, N], and what is kept."""
    out = torch.empty_like(x)
    kept = torch.empty(x.size(), dtype=torch.bool, device=x.device)
    for tile_m, tile_n in hl.tile(x.size()):
        value, keep = torch.native_dropout(x[tile_m, tile_n], 0.25, True)
        out[tile_m, tile_n] = value
        kept[tile_m, tile_n] = keep
    return out, kept


@helion.kernel(static_shapes=True)
def four_masks(x: torch.Tensor, seed: int) -> torch.Tensor:
    """Return x times how many of four words of a place are at least a half, of any [M]."""
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        place = hl.tile_index(tile).to(torch.int64)
        total = torch.zeros_like(x[tile])
        for word in hl.rand4x(seed=seed, offsets=place):
            total = total + (word >= 0.5).to(x.dtype)
        out[tile] = x[tile] * total
    return out
