"""Losses: cross-entropy over a vocabulary, Kullback-Leibler and Jensen-Shannon divergence."""

import numpy as np
from pallasc.reference.values import cast

from coverage.row import family, parameters


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


def logits_and_labels(document, rng):
    """Logits, and labels that are columns of them."""
    (_, shape, dtype), (_, labels, ids) = parameters(document)
    values = rng.standard_normal(shape).astype(np.float32) * 3
    return [cast(values, dtype), rng.integers(0, shape[1], labels).astype(ids)]


def _log_probabilities(shape, rng):
    logits = rng.standard_normal(shape).astype(np.float32)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def prediction_and_truth(document, rng):
    """Log-probabilities, and probabilities of which some are 0."""
    (_, shape, dtype), _ = parameters(document)
    truth = np.exp(_log_probabilities(shape, rng)) * (rng.random(shape) < 0.9)
    return [cast(_log_probabilities(shape, rng), dtype), cast(truth, dtype)]


def two_distributions(document, rng):
    """Log-probabilities twice."""
    return [cast(_log_probabilities(p.shape, rng), p.dtype) for p in parameters(document)]


ROWS = [
    family(
        "cross-entropy",
        "cross_entropy",
        "4096_32000",
        cross_entropy,
        [128],
        inputs=logits_and_labels,
        note="the label's logit is picked by comparing columns with the label: no gather",
    ),
    family(
        "cross-entropy, online",
        "cross_entropy_online",
        "8192_128256",
        cross_entropy,
        [128, 128],
        inputs=logits_and_labels,
    ),
    family(
        "KL divergence", "kl_div", "4096_32768", kl_div, [128, 128], inputs=prediction_and_truth
    ),
    family("JS divergence", "jsd", "4096_32768", jsd, [128, 128], inputs=two_distributions),
]
