"""Reductions: sums, extremes, positions, products, truths, variances, softmax and its gradient."""

import numpy as np
from pallasc.reference.values import cast

from coverage.row import Row, family, parameters


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
    ((_, shape, dtype),) = parameters(document)
    factors = rng.uniform(0.95, 1.05, shape) * rng.choice((-1, 1), shape)
    return [cast(factors.astype(np.float32), dtype)]


def gradient_and_shares(document, rng):
    """A gradient, and rows of positive numbers whose sum is 1."""
    grad, y = parameters(document)
    (shares,) = softmax(rng.standard_normal(y.shape))
    gradient = rng.standard_normal(grad.shape)
    arrays = ((gradient, grad), (shares, y))
    return [cast(a.astype(np.float32), p.dtype) for a, p in arrays]


def mostly_positive(document, rng):
    """Rows of which some are positive throughout, some nowhere, and some here and there."""
    ((_, shape, dtype),) = parameters(document)
    low = rng.choice((-1.0, 0.001, -0.01), (shape[0], 1))
    high = np.where(low > 0, 1.0, rng.choice((1.0, -0.001), (shape[0], 1)))
    return [cast(rng.uniform(low, high, shape).astype(np.float32), dtype)]


ROWS = [
    family("sum", "sum_rows", "8192_4096", sum_rows, [128]),
    family("long sum", "long_sum", "512_131072", sum_rows, [128, 512]),
    family("mean", "mean_rows", "8192_4096", mean_rows, [128]),
    family("amax, amin", "extremes", "8192_4096", extremes, [128]),
    family("max, min in a loop", "long_extremes", "512_131072", extremes, [128, 512]),
    family("argmax, argmin", "extreme_positions", "8192_4096", extreme_positions, [128]),
    family("prod", "prod_rows", "8192_1024", prod_rows, [128], inputs=near_one),
    family("any, all", "any_all", "8192_4096", any_all, [128], inputs=mostly_positive),
    family("var_mean", "var_mean_rows", "8192_4096", var_mean_rows, [128]),
    family("std", "std_rows", "8192_4096", std_rows, [128]),
    family("welford", "welford", "8192_8192", layer_norm, [512, 128]),
    family("logsumexp", "logsumexp_rows", "8192_4096", logsumexp_rows, [128]),
    family("softmax, torch's op", "softmax_op", "8192_4096", softmax, [128]),
    family("softmax, whole rows", "softmax", "8192_4096", softmax, [128]),
    family("softmax, online in two passes", "softmax_two_pass", "4096_32768", softmax, [512, 128]),
    family("softmax of batches", "batch_softmax", "16_1024_2048", softmax, [1, 32]),
    family(
        "softmax backward",
        "softmax_bwd",
        "4096_8192",
        softmax_bwd,
        [512, 128],
        inputs=gradient_and_shares,
    ),
    Row(
        name="lgamma",
        friendly="lgamma_rows",
        diagnostic="aten.lgamma.default of float32 does not compile",
        note="Mosaic has no lgamma and no digamma: compute them outside the kernel",
    ),
]
