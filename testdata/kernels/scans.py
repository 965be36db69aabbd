"""Rows in order: sorts, their places, and the greatest few with softmax (routing to experts)."""

import torch

import helion
import helion.language as hl


@helion.kernel(static_shapes=True)
def sort_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rows of x [M, N] in order, the greatest first, and where each element stood."""
    m, n = x.size()
    out = torch.empty_like(x)
    places = torch.empty([m, n], dtype=torch.int32, device=x.device)
    for tile_m in hl.tile(m):
        values, order = torch.sort(x[tile_m, :], dim=-1, descending=True)
        out[tile_m, :] = values
        places[tile_m, :] = order.to(torch.int32)
    return out, places


@helion.kernel(static_shapes=True)
def argsort_rows(x: torch.Tensor) -> torch.Tensor:
    """Return the places of the elements of each row of x [M, N], the least first."""
    m, n = x.size()
    places = torch.empty([m, n], dtype=torch.int32, device=x.device)
    for tile_m in hl.tile(m):
        places[tile_m, :] = torch.argsort(x[tile_m, :], dim=-1).to(torch.int32)
    return places


@helion.kernel(static_shapes=True)
def route_tokens(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the softmax of the 8 greatest scores [M, experts] of each token, and their experts."""
    m, _experts = scores.size()
    weights = torch.empty([m, 8], dtype=torch.float32, device=scores.device)
    chosen = torch.empty([m, 8], dtype=torch.int32, device=scores.device)
    for tile_m in hl.tile(m):
        top, expert = torch.topk(scores[tile_m, :].to(torch.float32), 8, dim=-1)
        weights[tile_m, :] = torch.softmax(top, -1)
        chosen[tile_m, :] = expert.to(torch.int32)
    return weights, chosen
