"""What the differentiated kernels compute, as plain JAX of float32."""

import jax
import jax.numpy as jnp


def softmax(x):
    return jax.nn.softmax(x, -1)


def layer_norm(x, weight, bias):
    centered = x - x.mean(-1, keepdims=True)
    variance = (centered * centered).mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt(variance + 1e-5) * weight + bias


def rms_norm(x, weight):
    rstd = jax.lax.rsqrt((x * x).mean(-1) + 1e-6)
    return x * rstd[:, None] * weight, rstd


def matmul(x, y):
    return jnp.dot(x, y, precision="highest")


def matmul_bias_gelu(x, y, bias):
    return jax.nn.gelu(matmul(x, y) + bias, approximate=False)


def swiglu(gate, up):
    return jax.nn.silu(gate) * up


def swiglu_packed(x):
    return swiglu(*jnp.split(x, 2, axis=1))


def kl_div(pred, true):
    return (true * (jnp.log(jnp.maximum(true, 1e-10)) - pred)).sum(-1)


def cross_entropy(logits, labels):
    picked = jnp.take_along_axis(logits, labels, 1)[:, 0]
    return jax.nn.logsumexp(logits, -1) - picked


def fused_linear_cross_entropy(x, weight, ids):
    return cross_entropy(matmul(x, weight.T), ids[:, None])


def matmul_swiglu(x, gate, up):
    return swiglu(matmul(x, gate), matmul(x, up))


def attention(q, k, v, causal=False):
    """The output, and the log-sum-exp of base 2 that the kernels leave; k and v of fewer heads."""
    shared = q.shape[1] // k.shape[1]
    k, v = jnp.repeat(k, shared, 1), jnp.repeat(v, shared, 1)
    scores = jnp.einsum("bhmd,bhnd->bhmn", q, k, precision="highest") / q.shape[-1] ** 0.5
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    out = jnp.einsum("bhmn,bhnd->bhmd", softmax(scores), v, precision="highest")
    top = jax.nn.logsumexp(scores, -1) / jnp.log(2.0)
    return out, top.reshape(-1, top.shape[-1])


def causal_attention(q, k, v):
    return attention(q, k, v, causal=True)


OF = {
    name: function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", "") == __name__
} | {
    "softmax_two_pass": softmax,
    "cross_entropy_online": cross_entropy,
    "layer_norm_two_level": layer_norm,
    "gqa_attention": attention,
}
