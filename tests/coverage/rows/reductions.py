"""Reductions: sums, extremes, positions, products, truths, variances, softmax and its gradient."""

import numpy as np
from pallasc.reference.values import DTYPES, cast

from coverage.row import Row


def sum_rows(x):
    """Sums of x [M, N] over its last dim: [M]."""
    return (x.sum(-1),)


def mean_rows(x):
    """Means over the last dim."""
    return (x.mean(-1),)


def extremes(x):
    """The greatest and the least of each row."""
    return x.max(-1), x.min(-1)


def extreme_positions(x):
    """Where they stand, first of equals."""
    return x.argmax(-1).astype(np.int32), x.argmin(-1).astype(np.int32)


def prod_rows(x):
    """Products over the last dim."""
    return (x.prod(-1),)


def any_all(x):
    """Whether any is positive, and whether all are."""
    return (x > 0).any(-1).astype(np.int32), (x > 0).all(-1).astype(np.int32)


def var_mean_rows(x):
    """Unbiased variance and mean over the last dim."""
    return x.var(-1, ddof=1), x.mean(-1)


def std_rows(x):
    """Unbiased standard deviation over the last dim."""
    return (x.std(-1, ddof=1),)


def layer_norm(x, weight, bias):
    """(x - mean) / sqrt(variance + 1e-5) * weight + bias over the last dim."""
    centred = x - x.mean(-1, keepdims=True)
    return (centred / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weight + bias,)


def logsumexp_rows(x):
    """log(sum(exp(x))) over the last dim."""
    top = x.max(-1, keepdims=True)
    return (np.log(np.exp(x - top).sum(-1)) + top[..., 0],)


def softmax(x):
    """exp(x) over its sum over the last dim."""
    weight = np.exp(x - x.max(-1, keepdims=True))
    return (weight / weight.sum(-1, keepdims=True),)


def softmax_bwd(grad, y):
    """The gradient of softmax's operand, of the result's and the result."""
    return (y * (grad - (grad * y).sum(-1, keepdims=True)),)


def near_one(document, rng):
    """Factors whose products of a few hundred neither vanish nor overflow."""
    x = document["tensors"][0]
    factors = rng.uniform(0.95, 1.05, x["shape"]) * rng.choice((-1, 1), x["shape"])
    return [cast(factors.astype(np.float32), DTYPES[x["dtype"]])]


def gradient_and_shares(document, rng):
    """A gradient, and rows of positive numbers whose sum is 1."""
    grad, y = (t for t in document["tensors"] if t["role"] == "input")
    (shares,) = softmax(rng.standard_normal(y["shape"]))
    gradient = rng.standard_normal(grad["shape"])
    arrays = ((gradient, grad), (shares, y))
    return [cast(a.astype(np.float32), DTYPES[t["dtype"]]) for a, t in arrays]


def mostly_positive(document, rng):
    """Rows of which some are positive throughout, some nowhere, and some here and there."""
    x = document["tensors"][0]
    low = rng.choice((-1.0, 0.001, -0.01), (x["shape"][0], 1))
    high = np.where(low > 0, 1.0, rng.choice((1.0, -0.001), (x["shape"][0], 1)))
    return [cast(rng.uniform(low, high, x["shape"]).astype(np.float32), DTYPES[x["dtype"]])]


ROWS = [
    Row(
        name="sum",
        friendly="sum_rows",
        odd="sum_rows_odd",
        production="sum_rows_8192_4096",
        formula=sum_rows,
        second={"block_sizes": [128]},
    ),
    Row(
        name="long sum",
        friendly="long_sum",
        odd="long_sum_odd",
        production="long_sum_512_131072",
        formula=sum_rows,
        second={"block_sizes": [128, 512]},
    ),
    Row(
        name="mean",
        friendly="mean_rows",
        odd="mean_rows_odd",
        production="mean_rows_8192_4096",
        formula=mean_rows,
        second={"block_sizes": [128]},
    ),
    Row(
        name="amax, amin",
        friendly="extremes",
        odd="extremes_odd",
        production="extremes_8192_4096",
        formula=extremes,
        second={"block_sizes": [128]},
    ),
    Row(
        name="max, min in a loop",
        friendly="long_extremes",
        odd="long_extremes_odd",
        production="long_extremes_512_131072",
        formula=extremes,
        second={"block_sizes": [128, 512]},
    ),
    Row(
        name="argmax, argmin",
        friendly="extreme_positions",
        odd="extreme_positions_odd",
        production="extreme_positions_8192_4096",
        formula=extreme_positions,
        second={"block_sizes": [128]},
    ),
    Row(
        name="prod",
        friendly="prod_rows",
        odd="prod_rows_odd",
        production="prod_rows_8192_1024",
        formula=prod_rows,
        second={"block_sizes": [128]},
        inputs=near_one,
    ),
    Row(
        name="any, all",
        friendly="any_all",
        odd="any_all_odd",
        production="any_all_8192_4096",
        formula=any_all,
        second={"block_sizes": [128]},
        inputs=mostly_positive,
    ),
    Row(
        name="var_mean",
        friendly="var_mean_rows",
        odd="var_mean_rows_odd",
        production="var_mean_rows_8192_4096",
        formula=var_mean_rows,
        second={"block_sizes": [128]},
    ),
    Row(
        name="std",
        friendly="std_rows",
        odd="std_rows_odd",
        production="std_rows_8192_4096",
        formula=std_rows,
        second={"block_sizes": [128]},
    ),
    Row(
        name="welford",
        friendly="welford",
        odd="welford_odd",
        production="welford_8192_8192",
        formula=layer_norm,
        second={"block_sizes": [512, 128]},
    ),
    Row(
        name="logsumexp",
        friendly="logsumexp_rows",
        odd="logsumexp_rows_odd",
        production="logsumexp_rows_8192_4096",
        formula=logsumexp_rows,
        second={"block_sizes": [128]},
    ),
    Row(
        name="softmax, torch's op",
        friendly="softmax_op",
        odd="softmax_op_odd",
        production="softmax_op_8192_4096",
        formula=softmax,
        second={"block_sizes": [128]},
    ),
    Row(
        name="softmax, whole rows",
        friendly="softmax",
        odd="softmax_odd",
        production="softmax_8192_4096",
        formula=softmax,
        second={"block_sizes": [128]},
    ),
    Row(
        name="softmax, online in two passes",
        friendly="softmax_two_pass",
        odd="softmax_two_pass_odd",
        production="softmax_two_pass_4096_32768",
        formula=softmax,
        second={"block_sizes": [512, 128]},
    ),
    Row(
        name="softmax of batches",
        friendly="batch_softmax",
        odd="batch_softmax_odd",
        production="batch_softmax_16_1024_2048",
        formula=softmax,
        second={"block_sizes": [1, 32]},
    ),
    Row(
        name="softmax backward",
        friendly="softmax_bwd",
        odd="softmax_bwd_odd",
        production="softmax_bwd_4096_8192",
        formula=softmax_bwd,
        second={"block_sizes": [512, 128]},
        inputs=gradient_and_shares,
    ),
    Row(
        name="sort",
        friendly="sort_rows",
        diagnostic="aten.sort.default is not lowered",
        note="aten.max.dim gives the greatest element and its place; sort outside the kernel",
    ),
    Row(
        name="lgamma",
        friendly="lgamma_rows",
        diagnostic="aten.lgamma.default of float32 does not compile",
        note="Mosaic has no lgamma and no digamma: compute them outside the kernel",
    ),
]
