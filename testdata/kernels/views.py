"""Kernels that move data: joined, cut, turned over, padded and transposed; rotary embeddings."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def concatenate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x beside y: x [M, N], y [M, K], the result [M, N + K]."""
    m, n = x.size()
    k = y.size(1)
    out = torch.empty([m, n + k], dtype=x.dtype, device=x.device)
    for tile_m in hl.tile(m):
        out[tile_m, :] = torch.cat([x[tile_m, :], y[tile_m, :]], dim=1)
    return out


@helion.kernel(static_shapes=True)
def concatenate_rows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x above y in each batch: x [B, M, N], y [B, K, N], the result [B, M + K, N]."""
    b, m, n = x.size()
    k = y.size(1)
    out = torch.empty([b, m + k, n], dtype=x.dtype, device=x.device)
    for tile_b in hl.tile(b):
        out[tile_b, :, :] = torch.cat([x[tile_b, :, :], y[tile_b, :, :]], dim=1)
    return out


@helion.kernel(static_shapes=True)
def broadcast_operands(
    x: torch.Tensor, row: torch.Tensor, column: torch.Tensor, one: torch.Tensor
) -> torch.Tensor:
    """Return (x + row) * column - one: x [M, N], row [N], column [M, 1], one [1]."""
    m, n = x.size()
    out = torch.empty_like(x)
    for tile_m, tile_n in hl.tile([m, n]):
        moved = x[tile_m, tile_n].to(torch.float32) + row[tile_n]
        out[tile_m, tile_n] = (moved * column[tile_m, :] - one[0]).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def broadcast_3d(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Return x * y + z: x [B, M, N], y [M, N], z [B, 1, N]."""
    b, m, n = x.size()
    out = torch.empty_like(x)
    for tile_b, tile_m in hl.tile([b, m]):
        scaled = x[tile_b, tile_m, :].to(torch.float32) * y[tile_m, :][None, :, :]
        out[tile_b, tile_m, :] = (scaled + z[tile_b, :, :]).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def permuted_operands(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x.T + y: x [N, M], y [M, N]."""
    m, n = y.size()
    out = torch.empty_like(y)
    for tile_m, tile_n in hl.tile([m, n]):
        out[tile_m, tile_n] = x[tile_n, tile_m].T + y[tile_m, tile_n]
    return out


@helion.kernel(static_shapes=True)
def permuted_3d(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x with its last dim first, plus y: x [M, N, B], y [B, M, N]."""
    b, m, n = y.size()
    out = torch.empty_like(y)
    for tile_b, tile_m in hl.tile([b, m]):
        out[tile_b, tile_m, :] = x[tile_m, :, tile_b].permute(2, 0, 1) + y[tile_b, tile_m, :]
    return out


@helion.kernel(static_shapes=True)
def transposed_views(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x.T @ y.T through views of the arguments: x [K, M], y [N, K]."""
    left = x.T
    right = y.T
    m, k = left.size()
    n = right.size(1)
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, left[tile_m, tile_k], right[tile_k, tile_n])
        out[tile_m, tile_n] = acc.to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def transposed_operands(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x.T @ y.T: x [K, M], y [N, K]; the tiles are transposed in the kernel."""
    k, m = x.size()
    n = y.size(0)
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_k, tile_m].T, y[tile_n, tile_k].T)
        out[tile_m, tile_n] = acc.to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def flip_rows(x: torch.Tensor) -> torch.Tensor:
    """Return x with each row backwards: x [M, N]."""
    out = torch.empty_like(x)
    for tile_m in hl.tile(x.size(0)):
        out[tile_m, :] = torch.flip(x[tile_m, :], [1])
    return out


@helion.kernel(static_shapes=True)
def stack(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x and y as [M, 2, N]: x and y [M, N]."""
    m, n = x.size()
    out = torch.empty([m, 2, n], dtype=x.dtype, device=x.device)
    for tile_m in hl.tile(m):
        out[tile_m, :, :] = torch.stack([x[tile_m, :], y[tile_m, :]], dim=1)
    return out


@helion.kernel(static_shapes=True)
def pad(x: torch.Tensor, n: hl.constexpr) -> torch.Tensor:
    """Return x with rows padded to n by ones: x [M, N]."""
    m, size = x.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m in hl.tile(m):
        out[tile_m, :] = torch.nn.functional.pad(x[tile_m, :], (0, n - size), value=1.0)
    return out


@helion.kernel(static_shapes=True)
def swap_pairs(x: torch.Tensor) -> torch.Tensor:
    """Return x with the two lanes of each pair swapped: x [M, N, 2]."""
    out = torch.empty_like(x)
    for tile_m in hl.tile(x.size(0)):
        even, odd = hl.split(x[tile_m, :, :])
        out[tile_m, :, :] = hl.join(odd, even)
    return out


@helion.kernel(static_shapes=True)
def rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Return x with its halves rotated: x [B, H, S, D], cos and sin [S, D / 2]."""
    b, h, s, d = x.size()
    halves = x.reshape(b * h, s, 2, d // 2)
    out = torch.empty_like(halves)
    for tile_b, tile_s in hl.tile([b * h, s]):
        c = cos[tile_s, :].to(torch.float32)[None, :, :]
        r = sin[tile_s, :].to(torch.float32)[None, :, :]
        left = halves[tile_b, tile_s, 0, :].to(torch.float32)
        right = halves[tile_b, tile_s, 1, :].to(torch.float32)
        out[tile_b, tile_s, 0, :] = (left * c - right * r).to(x.dtype)
        out[tile_b, tile_s, 1, :] = (right * c + left * r).to(x.dtype)
    return out.reshape(b, h, s, d)


@helion.kernel(static_shapes=True)
def rotary_pairs(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Return x with its pairs of lanes rotated: x [B, H, S, D], cos and sin [S, D / 2]."""
    b, h, s, d = x.size()
    half = hl.specialize(d // 2)
    flat = x.reshape(b * h, s, d)
    out = torch.empty_like(flat)
    for tile_b, tile_s in hl.tile([b * h, s]):
        tile = flat[tile_b, tile_s, :].to(torch.float32)
        c = cos[tile_s, :].to(torch.float32)[None, :, :]
        r = sin[tile_s, :].to(torch.float32)[None, :, :]
        even, odd = hl.split(tile.reshape(tile_b, tile_s, half, 2))
        turned = hl.join(even * c - odd * r, odd * c + even * r)
        out[tile_b, tile_s, :] = turned.reshape(tile_b, tile_s, d).to(x.dtype)
    return out.reshape(b, h, s, d)
