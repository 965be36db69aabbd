"""Reductions of rows: sums, extremes and their positions, products, truths, variances, softmax."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def sum_rows(x: torch.Tensor) -> torch.Tensor:
    """Return sum(x, dim=1) of x [M, N]; a tile holds whole rows."""
    m, _n = x.size()
    out = torch.empty([m], dtype=x.dtype, device=x.device)
    for tile_m in hl.tile(m):
        out[tile_m] = x[tile_m, :].sum(-1)
    return out


@helion.kernel(static_shapes=True)
def long_sum(x: torch.Tensor) -> torch.Tensor:
    """Return sum(x, dim=1) of x [M, N] in float32, in tiles of columns."""
    m, n = x.size()
    out = torch.empty([m], dtype=torch.float32, device=x.device)
    for tile_m in hl.tile(m):
        total = hl.zeros([tile_m], dtype=torch.float32)
        for tile_n in hl.tile(n):
            total += x[tile_m, tile_n].to(torch.float32).sum(-1)
        out[tile_m] = total
    return out


@helion.kernel(static_shapes=True)
def mean_rows(x: torch.Tensor) -> torch.Tensor:
    """Return mean(x, dim=1) of x [M, N]."""
    m, _n = x.size()
    out = torch.empty([m], dtype=x.dtype, device=x.device)
    for tile_m in hl.tile(m):
        out[tile_m] = torch.mean(x[tile_m, :], dim=-1)
    return out


@helion.kernel(static_shapes=True)
def extremes(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return amax(x, dim=1) and amin(x, dim=1) of x [M, N]."""
    m, _n = x.size()
    high = torch.empty([m], dtype=x.dtype, device=x.device)
    low = torch.empty([m], dtype=x.dtype, device=x.device)
    for tile_m in hl.tile(m):
        row = x[tile_m, :]
        high[tile_m] = torch.amax(row, dim=-1)
        low[tile_m] = torch.amin(row, dim=-1)
    return high, low


@helion.kernel(static_shapes=True)
def long_extremes(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return amax(x, dim=1) and amin(x, dim=1) of x [M, N], in tiles of columns."""
    m, n = x.size()
    high = torch.empty([m], dtype=torch.float32, device=x.device)
    low = torch.empty([m], dtype=torch.float32, device=x.device)
    for tile_m in hl.tile(m):
        greatest = hl.full([tile_m], float("-inf"), dtype=torch.float32)
        least = hl.full([tile_m], float("inf"), dtype=torch.float32)
        for tile_n in hl.tile(n):
            part = x[tile_m, tile_n].to(torch.float32)
            greatest = torch.maximum(greatest, torch.amax(part, dim=-1))
            least = torch.minimum(least, torch.amin(part, dim=-1))
        high[tile_m] = greatest
        low[tile_m] = least
    return high, low


@helion.kernel(static_shapes=True)
def extreme_positions(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return argmax(x, dim=1) and argmin(x, dim=1) of x [M, N], int32."""
    m, _n = x.size()
    high = torch.empty([m], dtype=torch.int32, device=x.device)
    low = torch.empty([m], dtype=torch.int32, device=x.device)
    for tile_m in hl.tile(m):
        row = x[tile_m, :]
        high[tile_m] = torch.argmax(row, dim=-1).to(torch.int32)
        low[tile_m] = torch.argmin(row, dim=-1).to(torch.int32)
    return high, low


@helion.kernel(static_shapes=True)
def prod_rows(x: torch.Tensor) -> torch.Tensor:
    """Return prod(x, dim=1) of x [M, N]."""
    m, _n = x.size()
    out = torch.empty([m], dtype=x.dtype, device=x.device)
    for tile_m in hl.tile(m):
        out[tile_m] = torch.prod(x[tile_m, :], dim=-1)
    return out


@helion.kernel(static_shapes=True)
def any_all(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return any(x > 0, dim=1) and all(x > 0, dim=1) of x [M, N], as int32."""
    m, _n = x.size()
    some = torch.empty([m], dtype=torch.int32, device=x.device)
    every = torch.empty([m], dtype=torch.int32, device=x.device)
    for tile_m in hl.tile(m):
        positive = x[tile_m, :] > 0
        some[tile_m] = torch.any(positive, dim=-1).to(torch.int32)
        every[tile_m] = torch.all(positive, dim=-1).to(torch.int32)
    return some, every


@helion.kernel(static_shapes=True)
def std_rows(x: torch.Tensor) -> torch.Tensor:
    """Return std(x, dim=1) of x [M, N], unbiased."""
    m, _n = x.size()
    out = torch.empty([m], dtype=x.dtype, device=x.device)
    for tile_m in hl.tile(m):
        out[tile_m] = torch.std(x[tile_m, :], dim=-1)
    return out


@helion.kernel(static_shapes=True)
def welford(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    """Return layer_norm(x, dim=1) of x [M, N]; mean and variance are kept up in tiles of columns.

    weight and bias are [N]; all float32 between.
    """
    m, n = x.size()
    out = torch.empty_like(x)
    block_n = hl.register_block_size(n)
    for tile_m in hl.tile(m):
        count = torch.zeros_like(x[tile_m, 0], dtype=torch.float32)
        mean = torch.zeros_like(count)
        squares = torch.zeros_like(count)
        for tile_n in hl.tile(n, block_size=block_n):
            part = x[tile_m, tile_n].to(torch.float32)
            size = part.size(-1)
            part_sum = torch.sum(part, dim=-1)
            part_squares = torch.sum(part * part, dim=-1)
            part_mean = part_sum / size
            delta = part_mean - mean
            new_count = count + size
            mean = mean + delta * (size / new_count)
            spread = part_squares - part_sum * part_mean
            squares = squares + spread + delta * delta * count * (size / new_count)
            count = new_count
        scale = torch.rsqrt(squares / count + eps)[:, None]
        shift = mean[:, None]
        for tile_n in hl.tile(n, block_size=block_n):
            part = x[tile_m, tile_n].to(torch.float32)
            value = (part - shift) * scale * weight[tile_n][None, :] + bias[tile_n][None, :]
            out[tile_m, tile_n] = value.to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def softmax_op(x: torch.Tensor) -> torch.Tensor:
    """Return softmax(x, dim=1) of x [M, N] by torch's own op."""
    m, _n = x.size()
    out = torch.empty_like(x)
    for tile_m in hl.tile(m):
        out[tile_m, :] = torch.nn.functional.softmax(x[tile_m, :], dim=1)
    return out


@helion.kernel(static_shapes=True)
def batch_softmax(x: torch.Tensor) -> torch.Tensor:
    """Return softmax(x, dim=2) of x [B, M, N]."""
    b, m, _n = x.size()
    out = torch.empty_like(x)
    for tile_b, tile_m in hl.tile([b, m]):
        row = x[tile_b, tile_m, :].to(torch.float32)
        weight = torch.exp(row - torch.amax(row, dim=-1, keepdim=True))
        total = torch.sum(weight, dim=-1, keepdim=True)
        out[tile_b, tile_m, :] = (weight / total).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def softmax_bwd(grad: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the gradient of softmax's operand: y * (grad - sum(grad * y, dim=1)), all [M, N]."""
    m, n = y.size()
    out = torch.empty_like(grad)
    block_n = hl.register_block_size(n)
    for tile_m in hl.tile(m):
        total = hl.zeros([tile_m], dtype=torch.float32)
        for tile_n in hl.tile(n, block_size=block_n):
            gs = grad[tile_m, tile_n].to(torch.float32)
            total += torch.sum(gs * y[tile_m, tile_n].to(torch.float32), dim=1)
        for tile_n in hl.tile(n, block_size=block_n):
            gs = grad[tile_m, tile_n].to(torch.float32)
            ys = y[tile_m, tile_n].to(torch.float32)
            out[tile_m, tile_n] = (ys * (gs - total[:, None])).to(grad.dtype)
    return out
