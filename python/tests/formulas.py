"""What the kernels of testdata/graphs compute, as float64 formulas: name -> function of inputs.

Every function takes the inputs as float64 arrays in parameter order and gives a tuple of float64
arrays in the order of `returns`; it rounds only where its docstring says so.
"""

import math

import ml_dtypes
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


def gelu(x):
    """x times the normal distribution function of x."""
    return 0.5 * x * (1.0 + _ERF(x / math.sqrt(2.0)))


def gelu_tanh(x):
    """GELU as it is approximated by tanh."""
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def matmul_bias_gelu(x, y, bias):
    """gelu(x @ y + bias), the exact GELU."""
    return (gelu(x @ y + bias),)


def matmul(x, y):
    """x @ y."""
    return (x @ y,)


def matmul_split_k(x, y):
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


def attention_scaled_q(q, k, v):
    """Attention of a q that is rounded to bfloat16 after it was scaled, as the graph asks for."""
    scale = math.log2(math.e) / math.sqrt(q.shape[-1])
    rounded = (q * scale).astype(ml_dtypes.bfloat16).astype(np.float64)
    return _attend(rounded / scale, k, v)


def gram(x):
    """All products of two rows."""
    return (x @ x.T,)


def nested_sums(x, y):
    """The rows' sums of a product."""
    return ((x @ y).sum(-1),)


def neighbours(x):
    """Each row's sum of products of elements 128 apart."""
    return ((x[:, :-128] * x[:, 128:]).sum(-1),)


def positions(x, w):
    """The sum of planes, each times its row."""
    return ((x * w[:, None, :]).sum(0),)


def halves(x):
    """The second 128 columns plus the last 128, then the first 128."""
    return (np.concatenate([x[:, 128:256] + x[:, -128:], x[:, :128]], axis=1),)


def causal_attention(q, k, v):
    """Attention of row i over columns 0..i."""
    size = q.shape[-2]
    return _attend(q, k, v, np.tri(size, size, dtype=bool))


def attention_columns(q, k, v):
    """Attention over all columns, scores in base 2 over 16; maxima and sums of the rows."""
    scores = q @ np.swapaxes(k, -1, -2) / 16
    top = scores.max(-1, keepdims=True)
    weight = np.exp2(scores - top)
    total = weight.sum(-1, keepdims=True)
    return weight @ v / total, top[..., 0], total[..., 0]


def softmax_of_two(x, y):
    """The softmax of [x, y] side by side in two parts; the log-sum-exp of the rows."""
    both = np.concatenate([x, y], -1)
    top = both.max(-1, keepdims=True)
    total = np.exp(both - top).sum(-1, keepdims=True)
    out = np.exp(both - top) / total
    return out[:, : x.shape[1]], out[:, x.shape[1] :], (top + np.log(total))[:, 0]


def _tile_sums(x, block):
    """The sums of squares of x over each tile of its last dim: a list of arrays without it."""
    return [np.square(x[..., at : at + block]).sum(-1) for at in range(0, x.shape[-1], block)]


def outer_chain_scale(shape, blocks, x):
    """A sum over tiles of running sums, scaled by all of it; in every lane of `shape`."""
    running = np.cumsum(_tile_sums(x, blocks[2]), 0)
    lanes = running.sum(0) / np.sqrt(running[-1] + 1)
    return (np.broadcast_to(lanes[..., None], shape),)


def nested_scale(shape, blocks, x, y):
    """See the kernel in testdata/kernels/row_values.py; acc in every lane of `shape`."""
    running = acc = np.zeros(len(x))
    for outer in _tile_sums(x, blocks[1]):
        running = running + outer
        for inner in _tile_sums(y, blocks[2]):
            running = running / 2 + inner
            acc = acc / 4 + running
        acc = acc / np.sqrt(running + 1)
    return np.broadcast_to(acc[:, None], shape), running


FORMULAS = {
    "add": add,
    "softmax": softmax,
    "softmax_two_pass": softmax,
    "layer_norm": layer_norm,
    "layer_norm_bwd": layer_norm_bwd,
    "layer_norm_bwd_two_level": layer_norm_bwd,
    "matmul_bias_gelu": matmul_bias_gelu,
    "matmul": matmul,
    "matmul_split_k": matmul_split_k,
    "bmm": bmm,
    "attention": attention,
    "attention_q_inloop": attention,
    "attention_scaled_q": attention_scaled_q,
    "gram": gram,
    "nested_sums": nested_sums,
    "neighbours": neighbours,
    "positions": positions,
    "halves": halves,
    "causal_attention": causal_attention,
    "attention_columns": attention_columns,
    "softmax_of_two": softmax_of_two,
}
# Those that depend on the tiles also take the first output's shape and the block sizes.
OF_TILES = {"outer_chain_scale": outer_chain_scale, "nested_scale": nested_scale}


def expected(document, inputs, blocks=None):
    """The float64 outputs of a document's kernel for arrays of any dtype.

    `blocks` are the block sizes in the order of the configuration, by default the document's own.
    """
    name, wide = document["name"], [np.asarray(x).astype(np.float64) for x in inputs]
    if name not in OF_TILES:
        return FORMULAS[name](*wide)
    first = document["returns"][0]["tensor"]
    shape = next(item["shape"] for item in document["tensors"] if item["name"] == first)
    return OF_TILES[name](shape, blocks or document["config"]["block_sizes"], *wide)
