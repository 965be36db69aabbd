"""Gated activations: SwiGLU and GEGLU, elementwise and behind a matmul; GELU behind a matmul."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Return silu(gate) * up in float32: both [M, N]."""
    out = torch.empty_like(up)
    for tile_m, tile_n in hl.tile(up.size()):
        g = gate[tile_m, tile_n].to(torch.float32)
        u = up[tile_m, tile_n].to(torch.float32)
        out[tile_m, tile_n] = (g * torch.sigmoid(g) * u).to(up.dtype)
    return out


@helion.kernel(static_shapes=True)
def swiglu_packed(x: torch.Tensor) -> torch.Tensor:
    """Return silu(a) * b of x, which holds a beside b: x [M, 2 N], the result [M, N]."""
    m, both = x.size()
    halves = x.reshape(m, 2, both // 2)
    out = torch.empty([m, both // 2], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile(out.size()):
        gate = halves[tile_m, 0, tile_n].to(torch.float32)
        up = halves[tile_m, 1, tile_n].to(torch.float32)
        out[tile_m, tile_n] = (torch.nn.functional.silu(gate) * up).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def geglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Return gelu(gate) * up with GELU by tanh, in float32: both [M, N]."""
    out = torch.empty_like(up)
    for tile_m, tile_n in hl.tile(up.size()):
        g = gate[tile_m, tile_n].to(torch.float32)
        u = up[tile_m, tile_n].to(torch.float32)
        inner = 0.7978845608028654 * (g + 0.044715 * g * g * g)
        out[tile_m, tile_n] = (0.5 * g * (1.0 + torch.tanh(inner)) * u).to(up.dtype)
    return out


@helion.kernel(static_shapes=True)
def geglu_erf(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Return gelu(gate) * up with the exact GELU, in float32: both [M, N]."""
    out = torch.empty_like(up)
    for tile_m, tile_n in hl.tile(up.size()):
        g = gate[tile_m, tile_n].to(torch.float32)
        u = up[tile_m, tile_n].to(torch.float32)
        out[tile_m, tile_n] = (torch.nn.functional.gelu(g) * u).to(up.dtype)
    return out


@helion.kernel(static_shapes=True)
def matmul_swiglu(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Return silu(x @ gate) * (x @ up): x [M, K], gate and up [K, N]."""
    m, k = x.size()
    n = up.size(1)
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        g = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        u = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            rows = x[tile_m, tile_k]
            g = torch.addmm(g, rows, gate[tile_k, tile_n])
            u = torch.addmm(u, rows, up[tile_k, tile_n])
        out[tile_m, tile_n] = (torch.nn.functional.silu(g) * u).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def matmul_geglu(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Return gelu(x @ gate) * (x @ up) with GELU by tanh: x [M, K], gate and up [K, N]."""
    m, k = x.size()
    n = up.size(1)
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        g = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        u = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            rows = x[tile_m, tile_k]
            g = torch.addmm(g, rows, gate[tile_k, tile_n])
            u = torch.addmm(u, rows, up[tile_k, tile_n])
        gelu = torch.nn.functional.gelu(g, approximate="tanh")
        out[tile_m, tile_n] = (gelu * u).to(x.dtype)
    return out
