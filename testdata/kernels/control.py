"""Control flow that data decides: loops until a tolerance, flags in loops, lists, phases."""

import torch

import helion
import helion.language as hl


@helion.kernel(static_shapes=True)
def newton_roots(x: torch.Tensor) -> torch.Tensor:
    """Return the roots of x > 0 [M, N], by Newton's iteration until none of a tile moves."""
    m, _n = x.size()
    out = torch.empty_like(x)
    for tile_m in hl.tile(m):
        a = x[tile_m, :].to(torch.float32)
        y = a * 0.5 + 0.5
        change = torch.amax(torch.abs(a - y))
        while change > 1e-5:
            new = (y + a / y) * 0.5
            change = torch.amax(torch.abs(new - y) / new)
            y = new
        out[tile_m, :] = y
    return out


@helion.kernel(static_shapes=True)
def collatz(x: torch.Tensor) -> torch.Tensor:
    """Return how many steps each int of x [M, N] takes to 1: halved, or if odd 3 n + 1."""
    m, _n = x.size()
    out = torch.empty_like(x)
    for tile_m in hl.tile(m):
        n = x[tile_m, :]
        steps = torch.zeros_like(n)
        left = torch.amax(n)
        while left > 1:
            active = n > 1
            odd = (n & 1) == 1
            next_n = torch.where(odd, n * 3 + 1, n >> 1)
            n = torch.where(active, next_n, n)
            steps = torch.where(active, steps + 1, steps)
            left = torch.amax(n)
        out[tile_m, :] = steps
    return out


@helion.kernel(static_shapes=True)
def flagged_blocks(x: torch.Tensor, flags: torch.Tensor) -> torch.Tensor:
    """Return exp(x) in blocks of 128 columns that are flagged, 0 in the others; x [M, N]."""
    m, n = x.size()
    out = torch.zeros_like(x)
    for tile_m in hl.tile(m):
        for tile_n in hl.tile(n, block_size=128):
            if flags[tile_n.id] > 0:
                out[tile_m, tile_n] = torch.exp(x[tile_m, tile_n])
    return out


@helion.kernel(static_shapes=True)
def normalized(x: torch.Tensor) -> torch.Tensor:
    """Return x / max(|x|), x [M, N]: two phases, and a barrier between them."""
    m, _n = x.size()
    tops = torch.empty([m], dtype=torch.float32, device=x.device)
    out = torch.empty_like(x)
    for tile_m in hl.tile(m):
        tops[tile_m] = torch.amax(torch.abs(x[tile_m, :]).to(torch.float32), -1)
    hl.barrier()
    for tile_m in hl.tile(m):
        top = torch.amax(tops[:])
        out[tile_m, :] = (x[tile_m, :].to(torch.float32) / top).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def list_sums(x: torch.Tensor, link: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    """Return the sums of the rows of x [M, N] in lists: first[h], link[first[h]], ..., to -1."""
    _m, n = x.size()
    h = first.size(0)
    out = torch.empty([h, n], dtype=torch.float32, device=x.device)
    for i in hl.grid(h):
        at = first[i]
        acc = hl.zeros([n], dtype=torch.float32)
        while at >= 0:
            acc = acc + x[at, :].to(torch.float32)
            at = link[at]
        out[i, :] = acc
    return out
