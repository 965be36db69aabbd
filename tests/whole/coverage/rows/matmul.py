"""Rows of matrix products: what stands before and behind them, unusual operands and sizes."""

import math

import formulas
import numpy as np
from formulas import gelu_tanh

from coverage.floors import Needs, bfloat16, triangle
from coverage.row import Row, family, parameters

RUN_TIME_BOUNDS = "known only at run time"


# ---- formulas ------------------------------------------------------------------------------------


def scaled_relu(x, y, bias):
    """relu(relu(x) @ y / 8 + bias)."""
    return (np.maximum(np.maximum(x, 0.0) @ y / 8.0 + bias, 0.0),)


def matmul_gelu_tanh(x, y, bias):
    """gelu(x @ y + bias), the tanh form."""
    return (gelu_tanh(x @ y + bias),)


def residual(x, y, scale, rest):
    """(x * scale) @ y + rest."""
    return ((x * scale) @ y + rest,)


def matmul_tn(x, y):
    """x.T @ y."""
    return (x.T @ y,)


def matmul_nt(x, y):
    """x @ y.T."""
    return (x @ y.T,)


def matmul_tt(x, y):
    """x.T @ y.T."""
    return (x.T @ y.T,)


def whole(x, y):
    """relu(2 * x @ y + 1)."""
    return (np.maximum(2.0 * (x @ y) + 1.0, 0.0),)


def gram(x):
    """x @ x.T."""
    return (x @ x.T,)


def neighbour_sums(x):
    """x[:, k] + x[:, k + 128], for all whole tiles of 128 columns that have a next one."""
    columns = (x.shape[1] // 128 - 1) * 128
    return (x[:, :columns] + x[:, 128 : columns + 128],)


# ---- inputs --------------------------------------------------------------------------------------


def positive(document, rng):
    """Between 0 and 1: a row of one sum that cancels has no scale to be judged by."""
    return [rng.random(p.shape).astype(p.dtype) for p in parameters(document)]


# ---- what is needed ------------------------------------------------------------------------------


def whole_product(shapes, data):
    """All of x @ y, whoever computes which part of it."""
    return Needs(flops=bfloat16(2 * math.prod(shapes["x"]) * shapes["y"][1]))


def symmetric(shapes, data):
    """Of x @ x.T the diagonal and what lies before it."""
    rows, depth = shapes["x"]
    return Needs(flops=bfloat16(2 * triangle(rows) * depth))


# ---- rows ----------------------------------------------------------------------------------------


def thin(dim, size, blocks, **more):
    """A Row of a product of which one dim is so small."""
    return Row(
        name=f"matmul, {dim} = {size}",
        friendly=f"matmul_{dim.lower()}{size}",
        odd=f"matmul_{dim.lower()}{size}_bf16",
        production=f"matmul_{dim.lower()}{size}_4096",
        formula=formulas.matmul,
        second={"block_sizes": blocks},
        **more,
    )


ROWS = [
    family("matmul, relu, scale, bias", "matmul_scaled_relu", "4096", scaled_relu, [64, 256, 256]),
    family(
        "matmul, bias, GELU (tanh)", "matmul_gelu_tanh", "4096", matmul_gelu_tanh, [64, 256, 256]
    ),
    family("matmul, scale of K, residual", "matmul_residual", "4096", residual, [64, 256, 256]),
    family("matmul, x.T @ y", "matmul_tn", "4096", matmul_tn, [128, 256, 64]),
    family("matmul, x @ y.T", "matmul_nt", "4096", matmul_nt, [64, 128, 256]),
    family("matmul, x.T @ y.T", "matmul_tt", "4096", matmul_tt, [256, 128, 128]),
    family("bmm, one y for all", "broadcast_matmul", "2048", formulas.bmm, [64, 256, 256]),
    family("bmm, y expanded", "broadcast_bmm", "2048", formulas.bmm, [1, 64, 256, 256]),
    family("matmul, no loop over K", "matmul_whole", "2048", whole, [64, 128], loops=()),
    family("bmm", "bmm", "2048", formulas.bmm, [2, 64, 256, 256]),
    family("Gram matrix", "gram", "4096", gram, [64, 128, 256], needs=symmetric),
    family(
        "split-K, atomic adds",
        "matmul_split_k",
        "4096",
        formulas.matmul,
        {"split_k": 2},
        needs=whole_product,
        refused={"unroll": RUN_TIME_BOUNDS},
    ),
    family(
        "split-K, partial sums",
        "matmul_split_k_partial",
        "32768",
        formulas.matmul,
        {"split_k": 2},
        needs=whole_product,
        refused={"unroll": RUN_TIME_BOUNDS},
    ),
    family("one tensor at two indices", "neighbour_sums", "4096", neighbour_sums, [64]),
    thin("K", 1, [64, 256, 1]),
    thin("K", 7, [64, 256, 7]),
    thin("K", 300, [64, 256, 300]),
    thin("N", 1, [64, 1, 256], inputs=positive),
    thin("N", 7, [64, 7, 256]),
    thin("M", 1, [1, 256, 256]),
    thin("M", 7, [7, 256, 256]),
]
