"""Rows of matrix products: what stands before and behind them, unusual operands and sizes."""

import formulas
import numpy as np

from coverage.row import Row

RUN_TIME_BOUNDS = "known only at run time"


# ---- formulas ------------------------------------------------------------------------------------


def scaled_relu(x, y, bias):
    """relu(relu(x) @ y / 8 + bias)."""
    return (np.maximum(np.maximum(x, 0.0) @ y / 8.0 + bias, 0.0),)


def gelu_tanh(x, y, bias):
    """gelu(x @ y + bias), the tanh form."""
    value = x @ y + bias
    inner = np.sqrt(2.0 / np.pi) * (value + 0.044715 * value**3)
    return (0.5 * value * (1.0 + np.tanh(inner)),)


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
    from pallasc.reference.values import dtype_of

    given = [tensor for tensor in document["tensors"] if tensor["role"] == "input"]
    return [rng.random(t["shape"]).astype(dtype_of(t["dtype"])) for t in given]


# ---- rows ----------------------------------------------------------------------------------------


def three(name, graph, formula, production="4096", blocks=(64, 256, 256), **more):
    """A Row of GRAPH, GRAPH_odd and GRAPH_production; `blocks` are its second configuration."""
    second = {"block_sizes": list(blocks)} if blocks else more.pop("second")
    graphs = (graph, f"{graph}_odd", f"{graph}_{production}")
    return Row(name, *graphs, formula=formula, second=second, **more)


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
    three("matmul, relu, scale, bias", "matmul_scaled_relu", scaled_relu),
    three("matmul, bias, GELU (tanh)", "matmul_gelu_tanh", gelu_tanh),
    three("matmul, scale of K, residual", "matmul_residual", residual),
    three("matmul, x.T @ y", "matmul_tn", matmul_tn, blocks=(128, 256, 64)),
    three("matmul, x @ y.T", "matmul_nt", matmul_nt, blocks=(64, 128, 256)),
    three("matmul, x.T @ y.T", "matmul_tt", matmul_tt, blocks=(256, 128, 128)),
    three("bmm, one y for all", "broadcast_matmul", formulas.bmm, "2048"),
    three("bmm, y expanded", "broadcast_bmm", formulas.bmm, "2048", blocks=(1, 64, 256, 256)),
    three("matmul, no loop over K", "matmul_whole", whole, "2048", blocks=(64, 128), loops=()),
    Row(
        name="bmm",
        friendly="bmm",
        odd="bmm_odd",
        production="bmm_2048",
        formula=formulas.bmm,
        second={"block_sizes": [2, 64, 256, 256]},
    ),
    Row(
        name="Gram matrix",
        friendly="gram",
        odd="gram_odd",
        production="gram_4096",
        formula=gram,
        second={"block_sizes": [64, 128, 256]},
    ),
    Row(
        name="split-K, atomic adds",
        friendly="matmul_split_k",
        odd="matmul_split_k_odd",
        production="matmul_split_k_4096",
        formula=formulas.matmul,
        second={"split_k": 2},
        refused={"unroll": RUN_TIME_BOUNDS},
    ),
    three(
        "split-K, partial sums",
        "matmul_split_k_partial",
        formulas.matmul,
        "32768",
        blocks=None,
        second={"split_k": 2},
        refused={"unroll": RUN_TIME_BOUNDS},
    ),
    three("one tensor at two indices", "neighbour_sums", neighbour_sums, blocks=(64,)),
    thin("K", 1, [64, 256, 1]),
    thin("K", 7, [64, 256, 7]),
    thin("K", 300, [64, 256, 300]),
    thin("N", 1, [64, 1, 256], inputs=positive),
    thin("N", 7, [64, 7, 256]),
    thin("M", 1, [1, 256, 256]),
    thin("M", 7, [7, 256, 256]),
]
