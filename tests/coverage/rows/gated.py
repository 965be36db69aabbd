"""Rows of gated activations: SwiGLU and GEGLU, elementwise and behind a matmul; GELU behind one."""

import math

import numpy as np

from coverage.row import Row

# ---- formulas ------------------------------------------------------------------------------------


def silu(x):
    """x times the logistic function of x."""
    return x / (1.0 + np.exp(-x))


def gelu_tanh(x):
    """GELU as it is approximated by tanh."""
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x):
    """x times the normal distribution function of x."""
    return 0.5 * x * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))


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
    return (gelu_erf(gate) * up,)


def matmul_swiglu(x, gate, up):
    """x [M, K], gate and up [K, N]."""
    return (silu(x @ gate) * (x @ up),)


def matmul_geglu(x, gate, up):
    """x [M, K], gate and up [K, N]."""
    return (gelu_tanh(x @ gate) * (x @ up),)


# ---- rows ----------------------------------------------------------------------------------------


def _row(name, graph, formula, second):
    return Row(
        name=name,
        friendly=graph,
        odd=f"{graph}_odd",
        production=f"{graph}_production",
        formula=formula,
        second={"block_sizes": second},
    )


ROWS = [
    _row("SwiGLU", "swiglu", swiglu, [128, 128]),
    _row("SwiGLU of one tensor", "swiglu_packed", swiglu_packed, [128, 256]),
    _row("GEGLU, tanh", "geglu", geglu, [128, 128]),
    _row("GEGLU, erf", "geglu_erf", geglu_erf, [128, 128]),
    _row("matmul + SwiGLU", "matmul_swiglu", matmul_swiglu, [256, 128, 256]),
    _row("matmul + GEGLU", "matmul_geglu", matmul_geglu, [256, 128, 256]),
]
