"""How kernels are put together: several roots, updates in place, run-time scalars, two tilings."""

import numpy as np

from coverage.row import Row

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
    parameters = [t for t in document["tensors"] if t["role"] in ("input", "inout")]
    return [rng.standard_normal(t["shape"]) for t in parameters]


def _as_declared(document, arrays):
    """The arrays in the dtypes of the parameters."""
    from pallasc.reference.values import dtype_of

    parameters = [t for t in document["tensors"] if t["role"] in ("input", "inout")]
    return [
        np.asarray(array).astype(dtype_of(t["dtype"]))
        for array, t in zip(arrays, parameters, strict=True)
    ]


def positive(document, rng):
    """A total far from 0."""
    return _as_declared(document, [np.abs(a) + 0.5 for a in _arrays(document, rng)])


def second_moments(document, rng):
    """The third array is a mean of squares; run-time scalars follow: step, decay, rate."""
    p, m, v, g = _arrays(document, rng)
    scalars = [np.float32(x) for x in (7, 0.1, 0.01)]
    given = [s for s in document["scalars"] if "value" in s]
    return _as_declared(document, [p, m, v * v, g]) + ([] if given else scalars)


ROWS = [
    Row(
        name="two root loops: divided by the total",
        friendly="normalise_by_total",
        odd="normalise_by_total_odd",
        production="normalise_by_total_8192_4096",
        formula=normalise_by_total,
        inputs=positive,
        second={"block_sizes": [128, 64]},
        loops=(),
    ),
    Row(
        name="two root loops: layer-norm backward with partial sums",
        friendly="layer_norm_bwd_two_loops",
        odd="layer_norm_bwd_two_loops_odd",
        production="layer_norm_bwd_two_loops_4096_8192",
        formula=layer_norm_bwd,
        second={
            "layer_norm_bwd_two_loops": {"block_sizes": [64, 512]},
            "layer_norm_bwd_two_loops_odd": {"block_sizes": [32, 300]},
        },
        loops=(),
    ),
    Row(
        name="two root loops over one block id",
        friendly="roots_shared_block",
        odd="roots_shared_block_odd",
        production="roots_shared_block_8192_4096",
        formula=twice_and_add,
        second={"block_sizes": [128]},
        loops=(),
        note="Helion traces no such kernel; the graph is written by hand",
    ),
    Row(
        name="an output of two root loops",
        friendly="roots_written_twice",
        odd="roots_written_twice_odd",
        production="roots_written_twice_8192_4096",
        formula=written_twice,
        second={"block_sizes": [32, 128]},
        loops=(),
        note="the second loop changes some columns of what the first stored",
    ),
    Row(
        name="column sums by atomics, then a step in place",
        friendly="roots_gradient_step",
        odd="roots_gradient_step_odd",
        production="roots_gradient_step_8192_4096",
        formula=gradient_step,
        second={"block_sizes": [128, 256]},
        loops=(),
        note="two root loops of different grids, a run-time rate in the second alone",
    ),
    Row(
        name="x += y in place",
        friendly="add_in_place",
        odd="add_in_place_odd",
        production="add_in_place_8192_4096",
        formula=add,
        second={"block_sizes": [32, 256]},
        loops=(),
    ),
    Row(
        name="AdamW in place",
        friendly="adamw",
        odd="adamw_odd",
        production="adamw_8192_4096",
        formula=adamw,
        inputs=second_moments,
        second={"block_sizes": [32, 256]},
        loops=(),
    ),
    Row(
        name="AdamW in place, rate, decay and step at run time",
        friendly="adamw_run_time",
        odd="adamw_run_time_odd",
        production="adamw_run_time_8192_4096",
        formula=adamw,
        inputs=second_moments,
        second={"block_sizes": [32, 256]},
        loops=(),
        helion="structure.py:adamw",
    ),
    Row(
        name="a store seen by a later loop: softmax through its output",
        friendly="softmax_through_output",
        odd="softmax_through_output_odd",
        production="softmax_through_output_4096_8192",
        formula=softmax,
        second={"block_sizes": [32, 256, 256, 128]},
        refused={"emit_pipeline": "nothing to pipeline (out: the kernel writes it)"},
    ),
    Row(
        name="two stores to one tile, at different columns",
        friendly="halves_of_output",
        odd="halves_of_output_odd",
        production="halves_of_output_65536",
        formula=halves,
        second={"block_sizes": [128]},
        loops=(),
    ),
    Row(
        name="one array at two tilings: (x - mean(x)) @ x.T",
        friendly="centred_scores",
        odd="centred_scores_odd",
        production="centred_scores_4096_2048",
        formula=centred_scores,
        second={"block_sizes": [64, 128, 256]},
    ),
    Row(
        name="one array as both factors: x @ x",
        friendly="square",
        odd="square_odd",
        production="square_4096",
        formula=square,
        second={"block_sizes": [256, 128, 256]},
    ),
    Row(
        name="loop bounds at run time",
        friendly="sum_to",
        odd="sum_to_odd",
        production="sum_to_8192_4096",
        formula=sum_to,
        second={"block_sizes": [128, 32]},
        refused={
            "unroll": "is known only at run time",
            "emit_pipeline": "nothing to pipeline (x: its windows do not start at multiples",
        },
        note="clamped to the tensor; rows start anywhere in blocks of 128 columns",
    ),
    Row(
        name="positions at run time",
        friendly="put_row",
        odd="put_row_odd",
        production="put_row_4096",
        formula=put_row,
        second={"block_sizes": [256]},
        loops=(),
        note="outside, a load gives the nearest element and a store is left out",
    ),
    Row(
        name="masks of loads and stores",
        friendly="masked_copy",
        odd="masked_copy_odd",
        production="masked_copy_8192_4096",
        formula=masked_copy,
        second={"block_sizes": [32]},
        loops=(),
    ),
]
