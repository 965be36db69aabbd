"""Tensors that a kernel does not name as arguments, int64 indices, work of the host before the kernel."""

from collections.abc import Callable

import torch

import helion
import helion.language as hl


def with_bias(size, dtype):
    """A matmul with an epilogue that has a bias of its own."""
    bias = torch.linspace(-1, 1, size).to(dtype)

    def bias_and_relu(acc: torch.Tensor, tiles: list[torch.Tensor]) -> torch.Tensor:
        return torch.relu(acc + bias[tiles[1]].to(torch.float32)[None, :])

    @helion.kernel(static_shapes=True)
    def matmul_epilogue(
        x: torch.Tensor, y: torch.Tensor, epilogue: Callable = bias_and_relu
    ) -> torch.Tensor:
        """Return relu(x [M, K] @ y [K, N] + bias)."""
        m, k = x.size()
        n = y.size(1)
        out = torch.empty([m, n], dtype=x.dtype, device=x.device)
        for tile_m, tile_n in hl.tile([m, n]):
            acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
            for tile_k in hl.tile(k):
                acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
            out[tile_m, tile_n] = epilogue(acc, [tile_m, tile_n]).to(x.dtype)
        return out

    return matmul_epilogue


matmul_epilogue = with_bias(256, torch.bfloat16)
matmul_epilogue_odd = with_bias(300, torch.float32)
matmul_epilogue_4096 = with_bias(4096, torch.bfloat16)


@helion.kernel(static_shapes=True)
def embedding_int64(table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Return table[ids] of table [V, N], ids [M] of int64 as torch makes them."""
    out = torch.empty([ids.size(0), table.size(1)], dtype=table.dtype, device=table.device)
    for tile in hl.tile(ids.size(0)):
        out[tile, :] = table[ids[tile], :]
    return out


@helion.kernel(static_shapes=True)
def sums_of_patched(x: torch.Tensor, rows: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return the sums of the rows of x [M, N] after x[rows] = values [K, N]."""
    patched = x.clone()
    patched.index_put_((rows,), values)
    out = torch.empty([x.size(0)], dtype=torch.float32, device=x.device)
    for tile in hl.tile(x.size(0)):
        out[tile] = patched[tile, :].to(torch.float32).sum(-1)
    return out
