"""Losses: cross-entropy over a vocabulary, Kullback-Leibler and Jensen-Shannon divergence."""

import numpy as np
from pallasc.reference.values import DTYPES, cast

from coverage.row import Row


def cross_entropy(logits, labels):
    """Of logits [N, V] and labels [N, 1]: logsumexp less the label's logit, [N]."""
    top = logits.max(-1, keepdims=True)
    total = np.log(np.exp(logits - top).sum(-1)) + top[:, 0]
    return (total - np.take_along_axis(logits, labels.astype(np.int64), 1)[:, 0],)


def kl_div(log_p, t):
    """Sum of t * (log max(t, 1e-10) - log p) over the last dim."""
    return ((t * (np.log(np.maximum(t, 1e-10)) - log_p)).sum(-1),)


def jsd(log_q, log_p):
    """beta KL(p, m) + (1 - beta) KL(q, m) with m = beta p + (1 - beta) q, and its gradient."""
    beta, q, p = 0.25, np.exp(log_q), np.exp(log_p)
    log_m = np.log(beta * p + (1 - beta) * q)
    loss = beta * p * (log_p - log_m) + (1 - beta) * q * (log_q - log_m)
    return loss.sum(-1), (1 - beta) * q * (log_q - log_m)


def _inputs(document):
    """(shape, dtype) of each input."""
    found = [t for t in document["tensors"] if t["role"] == "input"]
    return [(tuple(t["shape"]), DTYPES[t["dtype"]]) for t in found]


def logits_and_labels(document, rng):
    """Logits, and labels that are columns of them."""
    (shape, dtype), (labels, ids) = _inputs(document)
    values = rng.standard_normal(shape).astype(np.float32) * 3
    return [cast(values, dtype), rng.integers(0, shape[1], labels).astype(ids)]


def _log_probabilities(shape, rng):
    logits = rng.standard_normal(shape).astype(np.float32)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def prediction_and_truth(document, rng):
    """Log-probabilities, and probabilities of which some are 0."""
    (shape, dtype), _ = _inputs(document)
    truth = np.exp(_log_probabilities(shape, rng)) * (rng.random(shape) < 0.9)
    return [cast(_log_probabilities(shape, rng), dtype), cast(truth, dtype)]


def two_distributions(document, rng):
    """Log-probabilities twice."""
    return [cast(_log_probabilities(shape, rng), dtype) for shape, dtype in _inputs(document)]


ROWS = [
    Row(
        name="cross-entropy",
        friendly="cross_entropy",
        odd="cross_entropy_odd",
        production="cross_entropy_4096_32000",
        formula=cross_entropy,
        second={"block_sizes": [128]},
        inputs=logits_and_labels,
        note="the label's logit is picked by comparing columns with the label: no gather",
    ),
    Row(
        name="cross-entropy, online",
        friendly="cross_entropy_online",
        odd="cross_entropy_online_odd",
        production="cross_entropy_online_8192_128256",
        formula=cross_entropy,
        second={"block_sizes": [128, 128]},
        inputs=logits_and_labels,
    ),
    Row(
        name="KL divergence",
        friendly="kl_div",
        odd="kl_div_odd",
        production="kl_div_4096_32768",
        formula=kl_div,
        second={"block_sizes": [128, 128]},
        inputs=prediction_and_truth,
    ),
    Row(
        name="JS divergence",
        friendly="jsd",
        odd="jsd_odd",
        production="jsd_4096_32768",
        formula=jsd,
        second={"block_sizes": [128, 128]},
        inputs=two_distributions,
    ),
]
