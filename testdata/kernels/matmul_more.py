"""Matrix products with what models put before and behind them, of unusual operands and sizes."""

import helion
import helion.language as hl
import torch
from helion.autotuner import PowerOfTwoFragment


@helion.kernel(static_shapes=True)
def matmul_scaled_relu(
    x: torch.Tensor, y: torch.Tensor, scale: float, bias: torch.Tensor
) -> torch.Tensor:
    """Return relu(relu(x) @ y * scale + bias): x [M, K], y [K, N], bias [N]; float32 inside."""
    m, k = x.size()
    _k, n = y.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, torch.relu(x[tile_m, tile_k]), y[tile_k, tile_n])
        out[tile_m, tile_n] = torch.relu(acc * scale + bias[tile_n].to(torch.float32)[None, :]).to(
            x.dtype
        )
    return out


@helion.kernel(static_shapes=True)
def matmul_gelu_tanh(x: torch.Tensor, y: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Return gelu(x @ y + bias), the tanh form: x [M, K], y [K, N], bias [N]."""
    m, k = x.size()
    _k, n = y.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        biased = acc + bias[tile_n].to(torch.float32)[None, :]
        out[tile_m, tile_n] = torch.nn.functional.gelu(biased, approximate="tanh").to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def matmul_residual(
    x: torch.Tensor, y: torch.Tensor, scale: torch.Tensor, residual: torch.Tensor
) -> torch.Tensor:
    """Return (x * scale) @ y + residual: x [M, K], scale [K], y [K, N], residual [M, N]."""
    m, k = x.size()
    _k, n = y.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = residual[tile_m, tile_n].to(torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k] * scale[tile_k][None, :], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc.to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def matmul_tn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x.T @ y: x [K, M], y [K, N]."""
    k, m = x.size()
    _k, n = y.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_k, tile_m].transpose(0, 1), y[tile_k, tile_n])
        out[tile_m, tile_n] = acc.to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def matmul_nt(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x @ y.T: x [M, K], y [N, K]."""
    m, k = x.size()
    n, _k = y.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_n, tile_k].transpose(0, 1))
        out[tile_m, tile_n] = acc.to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def matmul_tt(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x.T @ y.T: x [K, M], y [N, K]."""
    k, m = x.size()
    n, _k = y.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(
                acc, x[tile_k, tile_m].transpose(0, 1), y[tile_n, tile_k].transpose(0, 1)
            )
        out[tile_m, tile_n] = acc.to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def broadcast_matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x @ y, one y for the whole batch: x [B, M, K], y [K, N]."""
    b, m, k = x.size()
    _k, n = y.size()
    out = torch.empty([b, m, n], dtype=x.dtype, device=x.device)
    for tile_b, tile_m, tile_n in hl.tile([b, m, n], block_size=[1, None, None]):
        batch = tile_b.begin
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[batch, tile_m, tile_k], y[tile_k, tile_n])
        out[batch, tile_m, tile_n] = acc.to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def broadcast_bmm(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The same as broadcast_matmul with tiles of several batches: y is expanded."""
    b, m, k = x.size()
    _k, n = y.size()
    out = torch.empty([b, m, n], dtype=x.dtype, device=x.device)
    for tile_b, tile_m, tile_n in hl.tile([b, m, n]):
        acc = hl.zeros([tile_b, tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            right = y[tile_k, tile_n][None, :, :].expand(tile_b.block_size, tile_k, tile_n)
            acc = torch.baddbmm(acc, x[tile_b, tile_m, tile_k], right)
        out[tile_b, tile_m, tile_n] = acc.to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def matmul_whole(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return relu(2 * x @ y + 1) without a loop over K: x [M, K], y [K, N]."""
    m, k = x.size()
    _k, n = y.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.dot(x[tile_m, :] * 2, y[:, tile_n], out_dtype=torch.float32)
        out[tile_m, tile_n] = torch.relu(acc + 1.0).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def matmul_split_k_partial(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x @ y: the parts of K are stored apart in float32 and added up by the wrapper."""
    m, k = x.size()
    _k, n = y.size()
    split_k = hl.register_tunable("split_k", PowerOfTwoFragment(1, 256))
    k_block = helion.next_power_of_2(helion.cdiv(k, split_k))
    parts = torch.empty([helion.cdiv(k, k_block), m, n], dtype=torch.float32, device=x.device)
    for tile_m, tile_n, outer_k in hl.tile([m, n, k], block_size=[None, None, k_block]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for inner_k in hl.tile(outer_k.begin, outer_k.end):
            acc = torch.addmm(acc, x[tile_m, inner_k], y[inner_k, tile_n])
        parts[outer_k.id, tile_m, tile_n] = acc
    return parts.sum(0)
