"""What the kernels of testdata/graphs compute, as float64 formulas: name -> function of inputs.

Every function takes the inputs as float64 arrays in parameter order and gives a tuple of float64
arrays in the order of `returns`; it rounds nowhere.
"""

import math

import numpy as np

_ERF = np.vectorize(math.erf, otypes=[np.float64])


def add(x, y):
    """x + y."""
    return (x + y,)


def softmax(x):
    """Softmax over the last dim."""
    weight = np.exp(x - x.max(-1, keepdims=True))
    return (weight / weight.sum(-1, keepdims=True),)


def layer_norm(x, weight, bias, eps=1e-5):
    """Layer normalization over the last dim, biased variance."""
    centered = x - x.mean(-1, keepdims=True)
    variance = np.square(centered).mean(-1, keepdims=True)
    return (centered / np.sqrt(variance + eps) * weight + bias,)


def layer_norm_bwd(dy, x, mean, rstd, weight):
    """Gradients of layer_norm: dx [M, N], dweight [N], dbias [N]; mean and rstd are inputs [M]."""
    x_hat = (x - mean[:, None]) * rstd[:, None]
    wdy = dy * weight
    c1 = (x_hat * wdy).mean(-1, keepdims=True)
    c2 = wdy.mean(-1, keepdims=True)
    return (wdy - x_hat * c1 - c2) * rstd[:, None], (dy * x_hat).sum(0), dy.sum(0)


def matmul_bias_gelu(x, y, bias):
    """gelu(x @ y + bias), the exact GELU."""
    value = x @ y + bias
    return (0.5 * value * (1.0 + _ERF(value / math.sqrt(2.0))),)


def matmul(x, y):
    """x @ y."""
    return (x @ y,)


def bmm(x, y):
    """x @ y for each batch."""
    return (x @ y,)


def _attend(q, k, v, visible=None):
    """(out [B, H, S, D], base-2 log-sum-exp [B * H, S]) of scores q @ k.T / sqrt(D)."""
    scores = q @ np.swapaxes(k, -1, -2) * (math.log2(math.e) / math.sqrt(q.shape[-1]))
    scores = scores if visible is None else np.where(visible, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weight = np.exp2(scores - top)
    total = weight.sum(-1, keepdims=True)
    lse = top + np.log2(total)
    return weight @ v / total, lse.reshape(-1, q.shape[-2])


def attention(q, k, v):
    """Attention over all columns."""
    return _attend(q, k, v)


def gram(x):
    """All products of two rows."""
    return (x @ x.T,)


def nested_sums(x, y):
    """The rows' sums of a product."""
    return ((x @ y).sum(-1),)


def causal_attention(q, k, v):
    """Attention of row i over columns 0..i."""
    size = q.shape[-2]
    return _attend(q, k, v, np.tri(size, size, dtype=bool))


FORMULAS = {
    "add": add,
    "softmax": softmax,
    "softmax_two_pass": softmax,
    "layer_norm": layer_norm,
    "layer_norm_bwd": layer_norm_bwd,
    "layer_norm_bwd_two_level": layer_norm_bwd,
    "matmul_bias_gelu": matmul_bias_gelu,
    "matmul": matmul,
    "bmm": bmm,
    "attention": attention,
    "attention_q_inloop": attention,
    "attention_scaled_q": attention,
    "gram": gram,
    "nested_sums": nested_sums,
    "causal_attention": causal_attention,
}


def expected(name, inputs):
    """The float64 outputs of the kernel `name` for arrays of any dtype."""
    return FORMULAS[name](*(np.asarray(x).astype(np.float64) for x in inputs))
