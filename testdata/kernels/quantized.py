"""Matrix products of narrow operands: int8, float8, int4 in pairs, int8 and int16 weights."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def int8_matmul(
    x: torch.Tensor, y: torch.Tensor, x_scale: torch.Tensor, y_scale: torch.Tensor
) -> torch.Tensor:
    """x int8 [M, K] @ y int8 [K, N] in int32, times x_scale [M] and y_scale [N]; out bfloat16."""
    m, k = x.size()
    _k, n = y.size()
    out = torch.empty([m, n], dtype=torch.bfloat16, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.int32)
        for tile_k in hl.tile(k):
            acc = hl.dot(x[tile_m, tile_k], y[tile_k, tile_n], acc=acc)
        scaled = acc.to(torch.float32) * x_scale[tile_m][:, None] * y_scale[tile_n][None, :]
        out[tile_m, tile_n] = scaled.to(out.dtype)
    return out


@helion.kernel(static_shapes=True)
def fp8_matmul(x: torch.Tensor, y: torch.Tensor, x_scale: float, y_scale: float) -> torch.Tensor:
    """float8 x [M, K] @ y [K, N] with one scale for each operand; out bfloat16."""
    m, k = x.size()
    _k, n = y.size()
    out = torch.empty([m, n], dtype=torch.bfloat16, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = hl.dot(x[tile_m, tile_k], y[tile_k, tile_n], acc=acc)
        out[tile_m, tile_n] = (acc * (x_scale * y_scale)).to(out.dtype)
    return out


@helion.kernel(static_shapes=True)
def fp8_row_matmul(
    x: torch.Tensor, y: torch.Tensor, x_scale: torch.Tensor, y_scale: torch.Tensor
) -> torch.Tensor:
    """float8 x [M, K] @ y [K, N] with a scale for each row, [M], and column, [N]; out bfloat16."""
    m, k = x.size()
    _k, n = y.size()
    out = torch.empty([m, n], dtype=torch.bfloat16, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = hl.dot(x[tile_m, tile_k], y[tile_k, tile_n], acc=acc)
        scaled = acc * x_scale[tile_m][:, None] * y_scale[tile_n][None, :]
        out[tile_m, tile_n] = scaled.to(out.dtype)
    return out


@helion.kernel(static_shapes=True)
def weight_matmul(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """x bfloat16 [M, K] @ w int16 or int8 [K, N], converted to bfloat16 in the kernel."""
    m, k = x.size()
    _k, n = w.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = hl.dot(x[tile_m, tile_k], w[tile_k, tile_n].to(x.dtype), acc=acc)
        out[tile_m, tile_n] = acc.to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def weight_only_matmul(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """x bfloat16 [M, K] @ w int8 [K, N] times scale [N], float32: the scale after the product."""
    m, k = x.size()
    _k, n = w.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = hl.dot(x[tile_m, tile_k], w[tile_k, tile_n].to(x.dtype), acc=acc)
        out[tile_m, tile_n] = (acc * scale[tile_n][None, :]).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def int4_matmul(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """x bfloat16 [M, K] @ weights int4 [K, N], two in an int8 of w [K / 2, N], half-split.

    The low nibble of w[k, n] is the weight of row k, the high one that of row k + K / 2.
    """
    m, _k = x.size()
    half, n = w.size()
    first = x[:, :half]
    second = x[:, half:]
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(half):
            packed = w[tile_k, tile_n]
            low = ((packed << 4) >> 4).to(x.dtype)
            high = (packed >> 4).to(x.dtype)
            acc = hl.dot(first[tile_m, tile_k], low, acc=acc)
            acc = hl.dot(second[tile_m, tile_k], high, acc=acc)
        out[tile_m, tile_n] = acc.to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def int4_interleaved_matmul(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The same with row 2 k in the low and row 2 k + 1 in the high nibble of w[k, n].

    The wrapper takes x apart into its even and odd columns, so that no row of weights moves.
    """
    m, _k = x.size()
    half, n = w.size()
    even = x[:, 0::2]
    odd = x[:, 1::2]
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(half):
            packed = w[tile_k, tile_n]
            acc = hl.dot(even[tile_m, tile_k], ((packed << 4) >> 4).to(x.dtype), acc=acc)
            acc = hl.dot(odd[tile_m, tile_k], (packed >> 4).to(x.dtype), acc=acc)
        out[tile_m, tile_n] = acc.to(x.dtype)
    return out
