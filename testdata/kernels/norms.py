"""Normalizations over rows, and what is fused with them; statistics in float32."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def row_sums(x: torch.Tensor) -> torch.Tensor:
    """Return the sums of x's rows [M], in float32: x [M, N]."""
    m, _n = x.size()
    out = torch.empty([m], dtype=torch.float32, device=x.device)
    for tile_m in hl.tile(m):
        out[tile_m] = torch.sum(x[tile_m, :].to(torch.float32), dim=1)
    return out


@helion.kernel(static_shapes=True)
def rms_norm(
    x: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return x / rms(x) * weight and 1 / rms(x): x [M, N], weight [N]; float32 [M]."""
    m, _n = x.size()
    out = torch.empty_like(x)
    rstd = torch.empty([m], dtype=torch.float32, device=x.device)
    for tile_m in hl.tile(m):
        row = x[tile_m, :].to(torch.float32)
        row_rstd = torch.rsqrt(torch.mean(row * row, dim=-1) + eps)
        scale = weight[:].to(torch.float32)[None, :]
        out[tile_m, :] = (row * row_rstd[:, None] * scale).to(x.dtype)
        rstd[tile_m] = row_rstd
    return out, rstd


@helion.kernel(static_shapes=True)
def rms_norm_bwd(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients dx [M, N] and dweight [N] of rms_norm.

    dy and x are [M, N], weight [N], rstd float32 [M]. Each tile of rows adds up its own part of the
    weight's gradient; the sum over tiles follows the kernel.
    """
    m, n = x.size()
    n = hl.specialize(n)
    block_m = hl.register_block_size(m)
    dx = torch.empty_like(x)
    dweight = torch.empty([(m + block_m - 1) // block_m, n], dtype=torch.float32, device=x.device)
    for tile_m in hl.tile(m, block_size=block_m):
        row_rstd = rstd[tile_m][:, None]
        x_hat = x[tile_m, :].to(torch.float32) * row_rstd
        grad = dy[tile_m, :].to(torch.float32)
        dweight[tile_m.id, :] = torch.sum(grad * x_hat, dim=0)
        wdy = grad * weight[:].to(torch.float32)[None, :]
        c1 = torch.sum(x_hat * wdy, dim=-1) / n
        dx[tile_m, :] = ((wdy - x_hat * c1[:, None]) * row_rstd).to(x.dtype)
    return dx, dweight.sum(0).to(weight.dtype)


@helion.kernel(static_shapes=True)
def layer_norm_bwd_atomic(
    dy: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return what layer_norm.layer_norm_bwd does; dweight and dbias, float32 [N], by atomics."""
    m, n = x.size()
    n = hl.specialize(n)
    dx = torch.empty_like(x)
    dweight = torch.zeros([n], dtype=torch.float32, device=x.device)
    dbias = torch.zeros([n], dtype=torch.float32, device=x.device)
    for tile_m in hl.tile(m):
        row_rstd = rstd[tile_m][:, None]
        x_hat = (x[tile_m, :].to(torch.float32) - mean[tile_m][:, None]) * row_rstd
        grad = dy[tile_m, :].to(torch.float32)
        hl.atomic_add(dweight, [slice(None)], torch.sum(grad * x_hat, dim=0))
        hl.atomic_add(dbias, [slice(None)], torch.sum(grad, dim=0))
        wdy = grad * weight[:].to(torch.float32)[None, :]
        c1 = torch.sum(x_hat * wdy, dim=-1) / n
        c2 = torch.sum(wdy, dim=-1) / n
        dx[tile_m, :] = ((wdy - x_hat * c1[:, None] - c2[:, None]) * row_rstd).to(x.dtype)
    return dx, dweight, dbias


@helion.kernel(static_shapes=True)
def matmul_layer_norm(
    x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    """Return layer_norm(x @ y) * weight + bias: x [M, K], y [K, N], weight and bias [N]."""
    m, k = x.size()
    n = hl.specialize(y.size(1))
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m in hl.tile(m):
        acc = hl.zeros([tile_m, n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, :])
        mean = torch.sum(acc, dim=-1, keepdim=True) / n
        centered = acc - mean
        variance = torch.sum(centered * centered, dim=-1, keepdim=True) / n
        normalized = centered * torch.rsqrt(variance + 1e-5)
        scale = weight[:].to(torch.float32)[None, :]
        shift = bias[:].to(torch.float32)[None, :]
        out[tile_m, :] = (normalized * scale + shift).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def group_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float
) -> torch.Tensor:
    """Normalize x [B, G, C, S], G groups of C channels of S places, then scale and shift it.

    weight and bias are [G, C]; the statistics are those of C * S elements.
    """
    batches, groups, channels, places = x.size()
    out = torch.empty_like(x)
    for tile_b, tile_g in hl.tile([batches, groups]):
        values = x[tile_b, tile_g, :, :].to(torch.float32)
        total = torch.sum(torch.sum(values, dim=-1), dim=-1)
        centered = values - (total / (channels * places))[:, :, None, None]
        squares = torch.sum(torch.sum(centered * centered, dim=-1), dim=-1)
        row_rstd = torch.rsqrt(squares / (channels * places) + eps)
        normalized = centered * row_rstd[:, :, None, None]
        scale = weight[tile_g, :].to(torch.float32)[None, :, :, None]
        shift = bias[tile_g, :].to(torch.float32)[None, :, :, None]
        out[tile_b, tile_g, :, :] = (normalized * scale + shift).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def instance_norm(x: torch.Tensor, eps: float) -> torch.Tensor:
    """Return (x - mean) / std over the last dim of x [B, C, S]."""
    batches, channels, _places = x.size()
    out = torch.empty_like(x)
    for tile_b, tile_c in hl.tile([batches, channels]):
        values = x[tile_b, tile_c, :].to(torch.float32)
        mean = torch.mean(values, dim=-1, keepdim=True)
        centered = values - mean
        variance = torch.mean(centered * centered, dim=-1, keepdim=True)
        out[tile_b, tile_c, :] = (centered * torch.rsqrt(variance + eps)).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def plane_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Return layer-norm over the last two dims of x [B, C, S], times weight [C, S]."""
    batches, channels, places = x.size()
    out = torch.empty_like(x)
    for tile_b in hl.tile(batches):
        values = x[tile_b, :, :].to(torch.float32)
        total = torch.sum(torch.sum(values, dim=-1), dim=-1)
        centered = values - (total / (channels * places))[:, None, None]
        squares = torch.sum(torch.sum(centered * centered, dim=-1), dim=-1)
        row_rstd = torch.rsqrt(squares / (channels * places) + eps)
        scale = weight[:, :].to(torch.float32)[None, :, :]
        out[tile_b, :, :] = (centered * row_rstd[:, None, None] * scale).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def squeeze_excite(
    x: torch.Tensor, a: torch.Tensor, b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return x * d, c and d of squeeze-and-excitation: x [M, N], a [N, K], b [K, N].

    c = relu(x @ a), [M, K]; d = sigmoid(c @ b), [M, N].
    """
    m, n = x.size()
    k = hl.specialize(a.size(1))
    out, d = torch.empty_like(x), torch.empty_like(x)
    c = torch.empty([m, k], dtype=x.dtype, device=x.device)
    for tile_m in hl.tile(m):
        acc = hl.zeros([tile_m, k], dtype=torch.float32)
        for tile_n in hl.tile(n):
            acc = torch.addmm(acc, x[tile_m, tile_n], a[tile_n, :])
        hidden = torch.relu(acc).to(x.dtype)
        c[tile_m, :] = hidden
        for tile_j in hl.tile(n):
            gate = torch.sigmoid(torch.mm(hidden, b[:, tile_j]).to(torch.float32))
            d[tile_m, tile_j] = gate.to(x.dtype)
            out[tile_m, tile_j] = (x[tile_m, tile_j].to(torch.float32) * gate).to(x.dtype)
    return out, c, d


@helion.kernel(static_shapes=True)
def squeeze_excite_bwd_x(
    grad: torch.Tensor,
    x: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    d: torch.Tensor,
) -> torch.Tensor:
    """Return the gradient of squeeze_excite with respect to x [M, N], of `grad` [M, N]."""
    m, n = x.size()
    k = hl.specialize(a.size(1))
    dx = torch.empty_like(x)
    for tile_m in hl.tile(m):
        acc = hl.zeros([tile_m, k], dtype=torch.float32)
        for tile_n in hl.tile(n):
            gate = d[tile_m, tile_n].to(torch.float32)
            up = grad[tile_m, tile_n].to(torch.float32) * x[tile_m, tile_n].to(torch.float32)
            before = (up * gate * (1.0 - gate)).to(x.dtype)
            acc = torch.addmm(acc, before, b[:, tile_n].T)
        open_ = c[tile_m, :] > 0
        hidden = torch.where(open_, acc, 0.0).to(x.dtype)
        for tile_j in hl.tile(n):
            direct = grad[tile_m, tile_j].to(torch.float32) * d[tile_m, tile_j].to(torch.float32)
            through = torch.mm(hidden, a[tile_j, :].T).to(torch.float32)
            dx[tile_m, tile_j] = (direct + through).to(x.dtype)
    return dx


@helion.kernel(static_shapes=True)
def squeeze_excite_bwd_b(
    grad: torch.Tensor, x: torch.Tensor, c: torch.Tensor, d: torch.Tensor
) -> torch.Tensor:
    """Return the gradient with respect to b, [K, N]."""
    m, n = x.size()
    k = c.size(1)
    db = torch.empty([k, n], dtype=x.dtype, device=x.device)
    for tile_k, tile_n in hl.tile([k, n]):
        acc = hl.zeros([tile_k, tile_n], dtype=torch.float32)
        for tile_m in hl.tile(m):
            gate = d[tile_m, tile_n].to(torch.float32)
            up = grad[tile_m, tile_n].to(torch.float32) * x[tile_m, tile_n].to(torch.float32)
            before = (up * gate * (1.0 - gate)).to(x.dtype)
            acc = torch.addmm(acc, c[tile_m, tile_k].T, before)
        db[tile_k, tile_n] = acc.to(x.dtype)
    return db


@helion.kernel(static_shapes=True)
def squeeze_excite_bwd_a(
    grad: torch.Tensor, x: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor
) -> torch.Tensor:
    """Return the gradient with respect to a, [N, K]; each tile of rows reads whole rows of x."""
    m, n = x.size()
    n = hl.specialize(n)
    k = hl.specialize(b.size(0))
    da = torch.empty([n, k], dtype=x.dtype, device=x.device)
    for tile_n in hl.tile(n):
        acc = hl.zeros([tile_n, k], dtype=torch.float32)
        for tile_m in hl.tile(m):
            gate = d[tile_m, :].to(torch.float32)
            up = grad[tile_m, :].to(torch.float32) * x[tile_m, :].to(torch.float32)
            before = (up * gate * (1.0 - gate)).to(x.dtype)
            hidden = torch.mm(before, b[:, :].T).to(torch.float32)
            hidden = torch.where(c[tile_m, :] > 0, hidden, 0.0).to(x.dtype)
            acc = torch.addmm(acc, x[tile_m, tile_n].T, hidden)
        da[tile_n, :] = acc.to(x.dtype)
    return da
