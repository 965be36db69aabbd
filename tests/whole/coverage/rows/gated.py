"""Rows of gated activations: SwiGLU and GEGLU, elementwise and behind a matmul; GELU behind one."""

import numpy as np
from formulas import gelu, gelu_tanh

from coverage.row import family

# ---- formulas ------------------------------------------------------------------------------------


def silu(x):
    """x times the logistic function of x."""
    return x / (1.0 + np.exp(-x))


def swiglu(gate, up):
    """Elementwise."""
    return (silu(gate) * up,)


def swiglu_packed(x):
    """x [M, 2 N]: the gate beside what it gates."""
    half = x.shape[1] // 2
    return (silu(x[:, :half]) * x[:, half:],)


def geglu(gate, up):
    """Elementwise, by tanh."""
    return (gelu_tanh(gate) * up,)


def geglu_erf(gate, up):
    """Elementwise, exact."""
    return (gelu(gate) * up,)


def matmul_swiglu(x, gate, up):
    """x [M, K], gate and up [K, N]."""
    return (silu(x @ gate) * (x @ up),)


def matmul_geglu(x, gate, up):
    """x [M, K], gate and up [K, N]."""
    return (gelu_tanh(x @ gate) * (x @ up),)


# ---- rows ----------------------------------------------------------------------------------------


ROWS = [
    family("SwiGLU", "swiglu", "production", swiglu, [128, 128]),
    family("SwiGLU of one tensor", "swiglu_packed", "production", swiglu_packed, [128, 256]),
    family("GEGLU, tanh", "geglu", "production", geglu, [128, 128]),
    family("GEGLU, erf", "geglu_erf", "production", geglu_erf, [128, 128]),
    family("matmul + SwiGLU", "matmul_swiglu", "production", matmul_swiglu, [256, 128, 256]),
    family("matmul + GEGLU", "matmul_geglu", "production", matmul_geglu, [256, 128, 256]),
]
