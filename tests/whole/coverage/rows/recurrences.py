"""What runs along time or a row by a function: recurrences, segments, state-space layers."""

import numpy as np

from coverage.row import family, parameters

# ---- formulas ------------------------------------------------------------------------------------


def recurrence(a, b):
    out, h = np.zeros_like(b), np.zeros(b.shape[1])
    for t in range(len(b)):
        out[t] = h = a[t] * h + b[t]
    return (out,)


def segmented_scan(x, keys):
    out = np.zeros_like(x)
    for n in range(x.shape[1]):
        same = n > 0 and keys[n] == keys[n - 1]
        out[:, n] = x[:, n] + (out[:, n - 1] if same else 0)
    return (out,)


def argmax_reduce(x):
    return x.max(1), x.argmax(1).astype(np.int32)


def causal_conv1d(x, weight, bias):
    acc = bias + np.zeros_like(x)
    for k in range(4):
        acc[k:] += x[: len(x) - k] * weight[k]
    return (acc / (1 + np.exp(-acc)),)


def gated_delta_rule(q, k, v, log_decay, beta):
    """One step after the other."""
    out = np.zeros_like(v)
    for h in range(len(k)):
        s = np.zeros((k.shape[2], v.shape[2]))
        for t in range(k.shape[1]):
            s = s * np.exp(log_decay[h, t])
            s = s + beta[h, t] * np.outer(k[h, t], v[h, t] - k[h, t] @ s)
            out[h, t] = q[h, t] @ s
    return (out,)


# ---- inputs --------------------------------------------------------------------------------------


def drawn(rng, parameter):
    return rng.standard_normal(parameter.shape).astype(parameter.dtype)


def with_decays(document, rng):
    a, b = parameters(document)
    return [rng.uniform(0.5, 1, a.shape).astype(a.dtype), drawn(rng, b)]


def with_segments(document, rng):
    """Segments of one lane and of many."""
    x, keys = parameters(document)
    starts = rng.random(keys.shape) < np.linspace(0, 0.5, keys.shape[0])
    return [drawn(rng, x), np.cumsum(starts).astype(keys.dtype)]


def with_equals(document, rng):
    """Quarters, of which many are equal."""
    (x,) = parameters(document)
    return [(np.round(rng.standard_normal(x.shape) * 8) / 4).astype(x.dtype)]


def with_gates(document, rng):
    """Keys and queries of length 1, decays below 1, gates between 0 and 1."""
    q, k, v, decay, beta = (drawn(rng, p) for p in parameters(document))
    q, k = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (q, k))
    return [q, k, v, -np.abs(decay) / 8, 1 / (1 + np.exp(-beta))]


# ---- rows ----------------------------------------------------------------------------------------

ROWS = [
    family(
        "linear recurrence, scanned by chunks",
        "recurrence_scan",
        "8192_2048",
        recurrence,
        [128, 32],
        inputs=with_decays,
        note="a scan with a function of pairs",
    ),
    family(
        "linear recurrence, step by step",
        "recurrence_loop",
        "8192_2048",
        recurrence,
        [256],
        inputs=with_decays,
        loops=("fori_loop", "emit_pipeline"),  # unrolled, its many steps compile for minutes
        refused={"emit_pipeline": "nothing to pipeline"},
    ),
    family(
        "segmented scan",
        "segmented_scan",
        "8192_4096",
        segmented_scan,
        [8],
        inputs=with_segments,
        note="a scan with a function of pairs",
    ),
    family(
        "argmax by a function",
        "argmax_reduce",
        "8192_1024",
        argmax_reduce,
        [64],
        inputs=with_equals,
        note="a reduction with a function of pairs",
    ),
    family(
        "causal convolution over time, SiLU",
        "causal_conv1d",
        "8192_2048",
        causal_conv1d,
        [32, 256],
        note="rows loaded at positions before their own, masked",
    ),
    family(
        "gated delta rule, by chunks",
        "gated_delta_rule",
        "4096",
        gated_delta_rule,
        inputs=with_gates,
    ),
]
