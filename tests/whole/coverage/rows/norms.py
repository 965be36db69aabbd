"""Rows of normalizations, of rows too long for VMEM, and of squeeze-and-excitation."""

import numpy as np

from coverage.row import LOOPS, family, parameters

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
    arrays = []
    for given in parameters(document):
        array = rng.standard_normal(given.shape)
        if given.name in ("a", "b"):
            array /= np.sqrt(given.shape[0])
        elif given.name == "c":
            array = np.maximum(array, 0.0)
        elif given.name == "d":
            array = 1.0 / (1.0 + np.exp(-array))
        arrays.append(array.astype(given.dtype))
    return arrays


# ---- rows ----------------------------------------------------------------------------------------


def rows_of(name, graph, formula, production, **more):
    """A Row of whole rows: also fewer of them at a time, and rolled."""
    odd = f"{graph}_odd"
    rolled = {
        graph: {"reduction_loops": [128], "pallas_loop_type": "emit_pipeline"},
        odd: {"reduction_loops": [128], "pallas_loop_type": "fori_loop"},
    }
    return family(name, graph, production, formula, [32], extra=[rolled], loops=(), **more)


def long_rows(name, graph, formula, **more):
    """A Row of rows of 1,048,576, rolled because they do not fit whole."""
    return family(
        f"{name}, rows of 1,048,576",
        graph,
        "1048576",
        formula,
        second={graph: {"reduction_loops": [1024]}, f"{graph}_odd": {"reduction_loops": [128]}},
        loops=LOOPS,
        refused={(f"{graph}_1048576", "unroll"): "bytes of VMEM"},
        note="reduction_loops; in production chosen by the compiler, where whole rows do not fit",
        **more,
    )


def excite(name, graph, formula, second):
    """A Row of squeeze-and-excitation, forward or backward."""
    name = f"squeeze-and-excitation{name}"
    return family(name, graph, "4096", formula, second, inputs=gentle)


ROWS = [
    rows_of("layer-norm", "layer_norm", layer_norm, "4096_8192"),
    rows_of("layer-norm backward, partial sums", "layer_norm_bwd", layer_norm_bwd, "4096_10240"),
    rows_of("layer-norm backward, atomics", "layer_norm_bwd_atomic", layer_norm_bwd, "4096_8192"),
    family(
        "layer-norm backward, two levels",
        "layer_norm_bwd_two_level",
        "4096_8192",
        layer_norm_bwd,
        [64, 8],
        refused={"unroll": RUN_TIME_BOUNDS},
    ),
    rows_of("RMS-norm", "rms_norm", rms_norm, "4096_8192"),
    rows_of("RMS-norm backward", "rms_norm_bwd", rms_norm_bwd, "4096_8192"),
    family("matmul + layer-norm", "matmul_layer_norm", "4096", matmul_layer_norm, [32, 256]),
    family(
        "group norm",
        "group_norm",
        "4096",
        group_norm,
        [1, 1],
        extra=[{"reduction_loops": [128, None], "pallas_loop_type": "fori_loop"}],
    ),
    family(
        "layer-norm over two dims",
        "plane_norm",
        "1024",
        plane_norm,
        [1],
        extra=[
            {"reduction_loops": [128, 8], "pallas_loop_type": "fori_loop"},
            {"reduction_loops": [None, 8], "pallas_loop_type": "emit_pipeline"},
        ],
    ),
    family(
        "instance norm",
        "instance_norm",
        "4096",
        instance_norm,
        [1, 8],
        extra=[{"reduction_loops": [128], "pallas_loop_type": "emit_pipeline"}],
    ),
    long_rows("sum", "rolled_sum", row_sums),
    long_rows("softmax", "rolled_softmax", softmax),
    long_rows("RMS-norm", "rolled_rms_norm", rms_norm),
    excite("", "squeeze_excite", squeeze_excite, [32, 256, 128]),
    excite(" backward, x", "squeeze_excite_bwd_x", squeeze_excite_bwd_x, [32, 256, 128]),
    excite(" backward, a", "squeeze_excite_bwd_a", squeeze_excite_bwd_a, [128, 32]),
    excite(" backward, b", "squeeze_excite_bwd_b", squeeze_excite_bwd_b, [128, 256, 64]),
]
