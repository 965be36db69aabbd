"""Rows of normalizations, of rows too long for VMEM, and of squeeze-and-excitation."""

import numpy as np

from coverage.row import LOOPS, Row

RUN_TIME_BOUNDS = "known only at run time"


# ---- formulas ------------------------------------------------------------------------------------


def normalized(x, eps, axes=(-1,)):
    """(x - mean) / sqrt(variance + eps) over the axes."""
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def layer_norm(x, weight, bias):
    """normalized(x) * weight + bias."""
    return (normalized(x, 1e-5) * weight + bias,)


def layer_norm_bwd(dy, x, mean, rstd, weight):
    """dx, dweight, dbias; mean and rstd [M] are taken as they are given."""
    x_hat = (x - mean[:, None]) * rstd[:, None]
    g = dy * weight
    about = x_hat * (x_hat * g).mean(-1, keepdims=True) + g.mean(-1, keepdims=True)
    return (g - about) * rstd[:, None], (dy * x_hat).sum(0), dy.sum(0)


def rms_norm(x, weight):
    """x / rms * weight, 1 / rms."""
    rstd = 1.0 / np.sqrt((x**2).mean(-1) + 1e-6)
    return x * rstd[:, None] * weight, rstd


def rms_norm_bwd(dy, x, weight, rstd):
    """dx, dweight."""
    x_hat = x * rstd[:, None]
    g = dy * weight
    dx = (g - x_hat * (x_hat * g).mean(-1, keepdims=True)) * rstd[:, None]
    return dx, (dy * x_hat).sum(0)


def matmul_layer_norm(x, y, weight, bias):
    """layer_norm(x @ y)."""
    return layer_norm(x @ y, weight, bias)


def group_norm(x, weight, bias):
    """x [B, G, C, S] over C and S; weight and bias [G, C]."""
    return (normalized(x, 1e-5, (2, 3)) * weight[..., None] + bias[..., None],)


def plane_norm(x, weight):
    """x [B, C, S] over C and S; weight [C, S]."""
    return (normalized(x, 1e-5, (1, 2)) * weight,)


def instance_norm(x):
    """x [B, C, S] over S."""
    return (normalized(x, 1e-5),)


def row_sums(x):
    """The sum of each row."""
    return (x.sum(-1),)


def softmax(x):
    """Over the last dim."""
    weight = np.exp(x - x.max(-1, keepdims=True))
    return (weight / weight.sum(-1, keepdims=True),)


def squeeze_excite(x, a, b):
    """x * d, c, d."""
    c = np.maximum(x @ a, 0.0)
    d = 1.0 / (1.0 + np.exp(-(c @ b)))
    return x * d, c, d


def through_gate(grad, x, d):
    """The gradient of what the sigmoid that gave d was taken of."""
    return grad * x * d * (1.0 - d)


def squeeze_excite_bwd_x(grad, x, a, b, c, d):
    """dx; c and d are taken as they are given."""
    return (grad * d + np.where(c > 0.0, through_gate(grad, x, d) @ b.T, 0.0) @ a.T,)


def squeeze_excite_bwd_a(grad, x, b, c, d):
    """da."""
    return (x.T @ np.where(c > 0.0, through_gate(grad, x, d) @ b.T, 0.0),)


def squeeze_excite_bwd_b(grad, x, c, d):
    """db."""
    return (c.T @ through_gate(grad, x, d),)


# ---- inputs --------------------------------------------------------------------------------------


def gentle(document, rng):
    """Weights that keep values about 1, so that c, rounded, decides little; c >= 0, 0 < d < 1."""
    from pallasc.reference.values import dtype_of

    arrays = []
    for tensor in document["tensors"]:
        if tensor["role"] != "input":
            continue
        array = rng.standard_normal(tensor["shape"])
        if tensor["name"] in ("a", "b"):
            array /= np.sqrt(tensor["shape"][0])
        elif tensor["name"] == "c":
            array = np.maximum(array, 0.0)
        elif tensor["name"] == "d":
            array = 1.0 / (1.0 + np.exp(-array))
        arrays.append(array.astype(dtype_of(tensor["dtype"])))
    return arrays


# ---- rows ----------------------------------------------------------------------------------------


def rows_of(name, graph, formula, production, **more):
    """A Row of whole rows: also fewer of them at a time, and rolled."""
    odd = f"{graph}_odd"
    rolled = {
        graph: {"reduction_loops": [128], "pallas_loop_type": "emit_pipeline"},
        odd: {"reduction_loops": [128], "pallas_loop_type": "fori_loop"},
    }
    return Row(
        name=name,
        friendly=graph,
        odd=odd,
        production=f"{graph}_{production}",
        formula=formula,
        second={"block_sizes": [32]},
        extra=[rolled],
        loops=(),
        **more,
    )


def long_rows(name, graph, formula, **more):
    """A Row of rows of 1,048,576, rolled because they do not fit whole."""
    return Row(
        name=f"{name}, rows of 1,048,576",
        friendly=graph,
        odd=f"{graph}_odd",
        production=f"{graph}_1048576",
        formula=formula,
        second={graph: {"reduction_loops": [1024]}, f"{graph}_odd": {"reduction_loops": [128]}},
        loops=LOOPS,
        refused={(f"{graph}_1048576", "unroll"): "bytes of VMEM"},
        note="reduction_loops; in production chosen by the compiler, where whole rows do not fit",
        **more,
    )


def three(name, graph, formula, second, **more):
    """A Row of GRAPH, GRAPH_odd and GRAPH_4096."""
    graphs = (graph, f"{graph}_odd", f"{graph}_4096")
    return Row(name, *graphs, formula=formula, second={"block_sizes": second}, **more)


def excite(name, graph, formula, second):
    """A Row of squeeze-and-excitation, forward or backward."""
    return three(f"squeeze-and-excitation{name}", graph, formula, second, inputs=gentle)


ROWS = [
    rows_of("layer-norm", "layer_norm", layer_norm, "4096_8192"),
    rows_of("layer-norm backward, partial sums", "layer_norm_bwd", layer_norm_bwd, "4096_10240"),
    rows_of("layer-norm backward, atomics", "layer_norm_bwd_atomic", layer_norm_bwd, "4096_8192"),
    Row(
        name="layer-norm backward, two levels",
        friendly="layer_norm_bwd_two_level",
        odd="layer_norm_bwd_two_level_odd",
        production="layer_norm_bwd_two_level_4096_8192",
        formula=layer_norm_bwd,
        second={"block_sizes": [64, 8]},
        refused={"unroll": RUN_TIME_BOUNDS},
    ),
    rows_of("RMS-norm", "rms_norm", rms_norm, "4096_8192"),
    rows_of("RMS-norm backward", "rms_norm_bwd", rms_norm_bwd, "4096_8192"),
    three("matmul + layer-norm", "matmul_layer_norm", matmul_layer_norm, [32, 256]),
    Row(
        name="group norm",
        friendly="group_norm",
        odd="group_norm_odd",
        production="group_norm_4096",
        formula=group_norm,
        second={"block_sizes": [1, 1]},
        extra=[{"reduction_loops": [128, None], "pallas_loop_type": "fori_loop"}],
    ),
    Row(
        name="layer-norm over two dims",
        friendly="plane_norm",
        odd="plane_norm_odd",
        production="plane_norm_1024",
        formula=plane_norm,
        second={"block_sizes": [1]},
        extra=[
            {"reduction_loops": [128, 8], "pallas_loop_type": "fori_loop"},
            {"reduction_loops": [None, 8], "pallas_loop_type": "emit_pipeline"},
        ],
    ),
    Row(
        name="instance norm",
        friendly="instance_norm",
        odd="instance_norm_odd",
        production="instance_norm_4096",
        formula=instance_norm,
        second={"block_sizes": [1, 8]},
        extra=[{"reduction_loops": [128], "pallas_loop_type": "emit_pipeline"}],
    ),
    long_rows("sum", "rolled_sum", row_sums),
    long_rows("softmax", "rolled_softmax", softmax),
    long_rows("RMS-norm", "rolled_rms_norm", rms_norm),
    excite("", "squeeze_excite", squeeze_excite, [32, 256, 128]),
    excite(
        " backward, x",
        "squeeze_excite_bwd_x",
        squeeze_excite_bwd_x,
        [32, 256, 128],
    ),
    excite(
        " backward, a",
        "squeeze_excite_bwd_a",
        squeeze_excite_bwd_a,
        [128, 32],
    ),
    excite(
        " backward, b",
        "squeeze_excite_bwd_b",
        squeeze_excite_bwd_b,
        [128, 256, 64],
    ),
]
