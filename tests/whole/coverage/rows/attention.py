"""Rows of attention: forward as models run it, and backward."""

import functools

import numpy as np

from coverage.floors import attends, triangle
from coverage.row import family, parameters

UNKNOWN_END = "the end of 'tile_n' is known only at run time"
UNKNOWN_BEGIN = "known only at run time"


# ---- formulas ------------------------------------------------------------------------------------
# q is [B, H, S, D], k and v are [B, G, T, D] with G a divisor of H; all float64.


def scores(q, k):
    """q @ k.T / sqrt(D), [B, H, S, T]; query head h meets K/V head h // (H / G)."""
    k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    return q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])


def behind(q, k):
    """[S, T]: by how many positions column j lies before row i; negative after it."""
    return np.arange(q.shape[2])[:, None] - np.arange(k.shape[2])[None, :]


def weights(s):
    """Softmax over the last dim; a row of -inf gives zeros."""
    top = s.max(-1, keepdims=True)
    weight = np.exp(s - np.where(np.isfinite(top), top, 0.0))
    total = weight.sum(-1, keepdims=True)
    return weight / np.where(total == 0.0, 1.0, total)


def attend(s, v):
    """The weights of scores [B, H, S, T] times v [B, G, T, D]."""
    return weights(s) @ np.repeat(v, s.shape[1] // v.shape[1], axis=1)


def log2_sum(s):
    """The base-2 logarithm of each row's sum of exponentials, [B * H, S]."""
    top = s.max(-1)
    total = np.log(np.exp(s - top[..., None]).sum(-1)) + top
    return (total / np.log(2.0)).reshape(-1, s.shape[2])


def attention(q, k, v):
    """(out, lse)."""
    s = scores(q, k)
    return attend(s, v), log2_sum(s)


def causal_where(s, q, k):
    """Scores with -inf after the diagonal."""
    return np.where(behind(q, k) >= 0, s, -np.inf)


def sliding_attention(q, k, v, window=100):
    """Row i sees columns i - window + 1 .. i."""
    far = behind(q, k)
    return (attend(np.where((far >= 0) & (far < window), scores(q, k), -np.inf), v),)


def bias_attention(q, k, v, bias):
    """Scores plus bias [H, S, T]."""
    return (attend(scores(q, k) + bias, v),)


def alibi_attention(q, k, v, slopes):
    """Causal, scores minus slopes[b * H + h] * (i - j)."""
    s = scores(q, k)
    s = s - slopes.reshape(s.shape[0], s.shape[1], 1, 1) * behind(q, k)
    return (attend(causal_where(s, q, k), v),)


def softcap_attention(q, k, v, cap=30.0):
    """Scores s become cap * tanh(s / cap)."""
    return (attend(cap * np.tanh(scores(q, k) / cap), v),)


def segment_attention(q, k, v, q_ids, kv_ids):
    """Row i sees column j where their ids are equal; where it sees none, it is 0."""
    same = q_ids[:, None, :, None] == kv_ids[:, None, None, :]
    return (attend(np.where(same, scores(q, k), -np.inf), v),)


def decode_attention(q, k, v):
    """q [B, H, D]: one row for each head."""
    return (attend(scores(q[:, :, None, :], k), v)[:, :, 0, :],)


def fp8_attention(q, k, v, q_scale, k_scale, v_scale):
    """Each head's q, k and v times their scales, [B * H]; out [B * H, S, D]."""
    heads = (q.shape[0], q.shape[1], 1, 1)
    s = scores(q * q_scale.reshape(heads), k * k_scale.reshape(heads))
    out = attend(s, v * v_scale.reshape(heads))
    return (out.reshape(-1, *out.shape[2:]),)


def exclusive_attention(q, k, v):
    """Attention less its component along each row's own v."""
    y = attend(scores(q, k), v)
    along = (y * v).sum(-1, keepdims=True) / np.square(v).sum(-1, keepdims=True)
    return (y - along * v,)


def others_attention(q, k, v):
    """Row i sees every column but i."""
    return (attend(np.where(behind(q, k) == 0, -np.inf, scores(q, k)), v),)


def attention_delta(out, dout):
    """Rows' sums of out * dout, [B * H, S]."""
    return ((out * dout).sum(-1).reshape(-1, out.shape[2]),)


def attention_gradients(q, k, v, dout, lse, delta, causal):
    """dq, dk, dv, with lse and delta as they are given."""
    rows = (q.shape[0], q.shape[1], q.shape[2], 1)
    p = np.exp2(scores(q, k) / np.log(2.0) - lse.reshape(rows))
    if causal:
        p = np.where(behind(q, k) >= 0, p, 0.0)
    ds = p * (dout @ np.swapaxes(v, -1, -2) - delta.reshape(rows)) / np.sqrt(q.shape[-1])
    return ds @ k, np.swapaxes(ds, -1, -2) @ q, np.swapaxes(p, -1, -2) @ dout


def attention_dq(*arrays, causal=False):
    """dq."""
    return attention_gradients(*arrays, causal)[:1]


def attention_dkdv(*arrays, causal=False):
    """dk and dv."""
    return attention_gradients(*arrays, causal)[1:]


attention_backward = functools.partial(attention_gradients, causal=False)
causal_attention_dq = functools.partial(attention_dq, causal=True)
causal_attention_dkdv = functools.partial(attention_dkdv, causal=True)
causal_attention_backward = functools.partial(attention_gradients, causal=True)


# ---- inputs --------------------------------------------------------------------------------------


def normal(document, rng):
    """Standard normal arrays for the inputs, in their dtypes."""
    return [rng.standard_normal(p.shape).astype(p.dtype) for p in parameters(document)]


def segment_inputs(document, rng):
    """Segments of uneven lengths; some rows of q are of a segment that k and v do not have."""
    arrays = normal(document, rng)
    for at, last in ((3, 4), (4, 3)):
        shape = arrays[at].shape
        arrays[at] = np.sort(rng.integers(0, last + 1, shape), -1).astype(np.int32)
    return arrays


def slope_inputs(document, rng):
    """Slopes 2**-1, 2**-2, ..., as published."""
    arrays = normal(document, rng)
    arrays[3] = np.exp2(-1.0 - np.arange(arrays[3].size)).astype(np.float32)
    return arrays


def scale_inputs(document, rng):
    """Scales about 1."""
    arrays = normal(document, rng)
    return arrays[:3] + [(0.5 + rng.random(a.shape)).astype(np.float32) for a in arrays[3:]]


def backward_inputs(document, rng, causal=False):
    """lse and delta as the kernels before give them; causal: delta is off by noise."""
    arrays = normal(document, rng)
    q, k, v, dout = (array.astype(np.float64) for array in arrays[:4])
    s = causal_where(scores(q, k), q, k) if causal else scores(q, k)
    arrays[4] = log2_sum(s).astype(np.float32)
    delta = attention_delta(attend(s, v), dout)[0]
    # Row 0 of causal attention sees one column: its gradient is 0, of which rounding is no part.
    delta = delta + rng.standard_normal(delta.shape) if causal else delta
    arrays[5] = delta.astype(np.float32)
    return arrays


causal_inputs = functools.partial(backward_inputs, causal=True)


# ---- what is needed ------------------------------------------------------------------------------


def in_window(rows, window=1024):
    """Pairs of the production size's sliding window."""
    return triangle(rows) - triangle(rows - window)


# ---- rows ----------------------------------------------------------------------------------------


ROWS = [
    *(
        family(f"attention, head dim {d}", f"attention_d{d}", "8192", attention, [2, 128, 256])
        for d in (64, 96, 128, 256)
    ),
    family("attention, grouped heads", "gqa_attention", "8192", attention, [256, 64]),
    family(
        "attention, sliding window",
        "sliding_attention",
        "8192",
        sliding_attention,
        [64, 2, 128],
        refused={"unroll": UNKNOWN_BEGIN},
        needs=attends(2, in_window),
    ),
    family("attention, bias", "bias_attention", "4096", bias_attention, [64, 256]),
    family(
        "attention, ALiBi",
        "alibi_attention",
        "8192",
        alibi_attention,
        {
            "alibi_attention": {"block_sizes": [2, 128, 128]},
            "alibi_attention_odd": {"block_sizes": [3, 128, 256]},
        },
        refused={"unroll": UNKNOWN_END},
        inputs=slope_inputs,
        needs=attends(2),
    ),
    family("attention, softcap", "softcap_attention", "8192", softcap_attention, [2, 128, 256]),
    family(
        "attention, segment ids",
        "segment_attention",
        "4096",
        segment_attention,
        [128, 256],
        inputs=segment_inputs,
    ),
    family("attention, one query row", "decode_attention", "8192", decode_attention, [2, 256]),
    family(
        "attention, float8",
        "fp8_attention",
        "8192",
        fp8_attention,
        [2, 128, 256],
        inputs=scale_inputs,
    ),
    family(
        "attention, exclusive (less what lies along v)",
        "exclusive_attention",
        "8192",
        exclusive_attention,
        [2, 128, 256],
    ),
    family(
        "attention, exclusive (not itself)",
        "others_attention",
        "8192",
        others_attention,
        [2, 128, 256],
    ),
    family(
        "attention backward, delta", "attention_delta", "8192", attention_delta, [2, 256], loops=()
    ),
    family(
        "attention backward, dq",
        "attention_dq",
        "8192",
        attention_dq,
        [2, 128, 256],
        inputs=backward_inputs,
    ),
    family(
        "attention backward, dk and dv",
        "attention_dkdv",
        "8192",
        attention_dkdv,
        [2, 128, 256],
        inputs=backward_inputs,
    ),
    family(
        "attention backward, dq, dk and dv at once",
        "attention_backward",
        "8192",
        attention_backward,
        [2, 128, 256],
        inputs=backward_inputs,
    ),
    family(
        "causal attention backward, dq",
        "causal_attention_dq",
        "8192",
        causal_attention_dq,
        [2, 128, 128],
        needs=attends(3),
        refused={"unroll": UNKNOWN_END},
        inputs=causal_inputs,
    ),
    family(
        "causal attention backward, dk and dv",
        "causal_attention_dkdv",
        "8192",
        causal_attention_dkdv,
        [2, 128, 128],
        needs=attends(4),
        refused={"unroll": UNKNOWN_BEGIN},
        inputs=causal_inputs,
    ),
    family(
        "causal attention backward, dq, dk and dv at once",
        "causal_attention_backward",
        "8192",
        causal_attention_backward,
        [2, 128, 128],
        needs=attends(5),
        refused={"unroll": UNKNOWN_BEGIN},
        inputs=causal_inputs,
    ),
]
