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


@helion.kernel(static_shapes=True)
def layer_norm_bwd(
    dy: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients dx [M, N], dweight [N], dbias [N] of layer_norm.

    dy and x are [M, N], mean and rstd float32 [M], weight [N]. Each tile of rows adds up its own part of the weight's and
    the bias' gradients in float32; the sum over tiles follows the kernel.
    """
    m, n = x.size()
    n = hl.specialize(n)
    block_m = hl.register_block_size(m)
    dx = torch.empty_like(x)
    dweight = torch.empty([(m + block_m - 1) // block_m, n], dtype=torch.float32, device=x.device)
    dbias = torch.empty([(m + block_m - 1) // block_m, n], dtype=torch.float32, device=x.device)
    for tile_m in hl.tile(m, block_size=block_m):
        scale = weight[:].to(torch.float32)[None, :]
        rows = x[tile_m, :].to(torch.float32)
        grad = dy[tile_m, :].to(torch.float32)
        row_rstd = rstd[tile_m][:, None]
        x_hat = (rows - mean[tile_m][:, None]) * row_rstd
        dweight[tile_m.id, :] = torch.sum(grad * x_hat, dim=0)
        dbias[tile_m.id, :] = torch.sum(grad, dim=0)
        wdy = grad * scale
        c1 = torch.sum(x_hat * wdy, dim=-1) / n
        c2 = torch.sum(wdy, dim=-1) / n
        dx[tile_m, :] = ((wdy - x_hat * c1[:, None] - c2[:, None]) * row_rstd).to(x.dtype)
    return dx, dweight.sum(0).to(weight.dtype), dbias.sum(0).to(weight.dtype)


@helion.kernel(static_shapes=True)
def layer_norm_bwd_two_level(
    dy: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return what layer_norm_bwd does; each program loops over the rows of its block, tile by tile."""
    m, n = x.size()
    n = hl.specialize(n)
    block_m = hl.register_block_size(m)
    dx = torch.empty_like(x)
    dweight = torch.empty([(m + block_m - 1) // block_m, n], dtype=torch.float32, device=x.device)
    dbias = torch.empty([(m + block_m - 1) // block_m, n], dtype=torch.float32, device=x.device)
    for tile_cta in hl.tile(m, block_size=block_m):
        dweight_acc = torch.zeros([n], dtype=torch.float32, device=x.device)
        dbias_acc = torch.zeros([n], dtype=torch.float32, device=x.device)
        scale = weight[:].to(torch.float32)[None, :]
        for tile_m in hl.tile(tile_cta.begin, tile_cta.end):
            rows = x[tile_m, :].to(torch.float32)
            grad = dy[tile_m, :].to(torch.float32)
            row_rstd = rstd[tile_m][:, None]
            x_hat = (rows - mean[tile_m][:, None]) * row_rstd
            dweight_acc += torch.sum(grad * x_hat, dim=0)
            dbias_acc += torch.sum(grad, dim=0)
            wdy = grad * scale
            c1 = torch.sum(x_hat * wdy, dim=-1) / n
            c2 = torch.sum(wdy, dim=-1) / n
            dx[tile_m, :] = ((wdy - x_hat * c1[:, None] - c2[:, None]) * row_rstd).to(x.dtype)
        dweight[tile_cta.id, :] = dweight_acc
        dbias[tile_cta.id, :] = dbias_acc
    return dx, dweight.sum(0).to(weight.dtype), dbias.sum(0).to(weight.dtype)
