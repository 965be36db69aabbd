"""How kernels are put together: several roots, updates in place, run-time scalars, two tilings."""

import numpy as np

from coverage.floors import Needs
from coverage.row import family, parameters

# ---- formulas ------------------------------------------------------------------------------------


def normalise_by_total(x):
    return (x / x.sum(),)


def layer_norm_bwd(grad, x, mean, rstd, weight):
    hat = (x - mean[:, None]) * rstd[:, None]
    gw = grad * weight
    mean_gw, mean_gw_hat = gw.mean(1, keepdims=True), (gw * hat).mean(1, keepdims=True)
    dx = (gw - mean_gw - hat * mean_gw_hat) * rstd[:, None]
    return dx, (grad * hat).sum(0), grad.sum(0)


def add(x, y):
    return (x + y,)


def adamw(p, m, v, g, step=3.0, decay=0.01, rate=0.001):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    m_hat, v_hat = m / (1 - 0.9**step), v / (1 - 0.999**step)
    return p - rate * (m_hat / (np.sqrt(v_hat) + 1e-8) + decay * p), m, v


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return (e / e.sum(1, keepdims=True),)


def halves(x, y):
    return (np.concatenate([x + y, x - y], 1),)


def centred_scores(x):
    return ((x - x.mean(1, keepdims=True)) @ x.T,)


def square(x):
    return (x @ x,)


def twice_and_add(x, y):
    return (2 * x + y,)


def written_twice(x):
    out = x + 1
    out[:, :128] *= 2
    return (out,)


def gradient_step(g, w, rate):
    return (w - rate * g.sum(0),)


def sum_to(x, start, stop):
    return (x[max(int(start), 0) : max(int(stop), 0)].sum(0),)


def put_row(x, out, at, to):
    if 0 <= to < len(out):
        out = out.copy()
        out[int(to)] = 2 * x[min(max(int(at), 0), len(x) - 1)]
    return (out,)


def masked_copy(x, y, out):
    return (np.where(y > 0, np.where(y < 1, x, 0), out),)


# ---- inputs --------------------------------------------------------------------------------------


def _arrays(document, rng):
    """Normal values for each parameter, float64."""
    return [rng.standard_normal(p.shape) for p in parameters(document)]


def _as_declared(document, arrays):
    """The arrays in the dtypes of the parameters."""
    given = parameters(document)
    return [np.asarray(array).astype(p.dtype) for array, p in zip(arrays, given, strict=True)]


def positive(document, rng):
    """A total far from 0."""
    return _as_declared(document, [np.abs(a) + 0.5 for a in _arrays(document, rng)])


def second_moments(document, rng):
    """The third array is a mean of squares; run-time scalars follow: step, decay, rate."""
    p, m, v, g = _arrays(document, rng)
    scalars = [np.float32(x) for x in (7, 0.1, 0.01)]
    given = [s for s in document["scalars"] if "value" in s]
    return _as_declared(document, [p, m, v * v, g]) + ([] if given else scalars)


def range_of(document, rng, distribution=None):
    """Where a range of rows begins and ends."""
    (x,) = parameters(document)
    start, stop = np.sort(rng.integers(0, x.shape[0] + 1, 2, np.int32))
    return {"start": start, "stop": stop}


# ---- what is needed ------------------------------------------------------------------------------


def one_row(shapes, data):
    """A row of x, and one of out, which is not read."""
    return Needs({"x": shapes["x"][1], "out": shapes["out"][1]})


def rows_between(shapes, data):
    """The rows of a range."""
    return Needs({"x": (data["stop"] - data["start"]) * shapes["x"][1]})


# ---- rows ----------------------------------------------------------------------------------------

ROWS = [
    family(
        "two root loops: divided by the total",
        "normalise_by_total",
        "8192_4096",
        normalise_by_total,
        [128, 64],
        inputs=positive,
        loops=(),
    ),
    family(
        "two root loops: layer-norm backward with partial sums",
        "layer_norm_bwd_two_loops",
        "4096_8192",
        layer_norm_bwd,
        {
            "layer_norm_bwd_two_loops": {"block_sizes": [64, 512]},
            "layer_norm_bwd_two_loops_odd": {"block_sizes": [32, 300]},
        },
        loops=(),
    ),
    family(
        "two root loops over one block id",
        "roots_shared_block",
        "8192_4096",
        twice_and_add,
        [128],
        loops=(),
        note="Helion traces no such kernel; the graph is written by hand",
    ),
    family(
        "an output of two root loops",
        "roots_written_twice",
        "8192_4096",
        written_twice,
        [32, 128],
        loops=(),
        note="the second loop changes some columns of what the first stored",
    ),
    family(
        "column sums by atomics, then a step in place",
        "roots_gradient_step",
        "8192_4096",
        gradient_step,
        [128, 256],
        loops=(),
        note="two root loops of different grids, a run-time rate in the second alone",
    ),
    family("x += y in place", "add_in_place", "8192_4096", add, [32, 256], loops=()),
    family(
        "AdamW in place", "adamw", "8192_4096", adamw, [32, 256], inputs=second_moments, loops=()
    ),
    family(
        "AdamW in place, rate, decay and step at run time",
        "adamw_run_time",
        "8192_4096",
        adamw,
        [32, 256],
        inputs=second_moments,
        loops=(),
        helion="structure.py:adamw",
    ),
    family(
        "a store seen by a later loop: softmax through its output",
        "softmax_through_output",
        "4096_8192",
        softmax,
        [32, 256, 256, 128],
        refused={"emit_pipeline": "nothing to pipeline (out: the kernel writes it)"},
    ),
    family(
        "two stores to one tile, at different columns",
        "halves_of_output",
        "65536",
        halves,
        [128],
        loops=(),
    ),
    family(
        "one array at two tilings: (x - mean(x)) @ x.T",
        "centred_scores",
        "4096_2048",
        centred_scores,
        [64, 128, 256],
    ),
    family("one array as both factors: x @ x", "square", "4096", square, [256, 128, 256]),
    family(
        "loop bounds at run time",
        "sum_to",
        "8192_4096",
        sum_to,
        [128, 32],
        refused={
            "unroll": "is known only at run time",
            "emit_pipeline": "nothing to pipeline (x: its windows do not start at multiples",
        },
        steering=range_of,
        needs=rows_between,
        note="clamped to the tensor; rows start anywhere in blocks of 128 columns",
    ),
    family(
        "positions at run time",
        "put_row",
        "4096",
        put_row,
        [256],
        loops=(),
        needs=one_row,
        note="outside, a load gives the nearest element and a store is left out",
    ),
    family("masks of loads and stores", "masked_copy", "8192_4096", masked_copy, [32], loops=()),
]
