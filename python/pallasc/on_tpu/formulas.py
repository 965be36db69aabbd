"""What the kernels of the race compute: plain jax.numpy in float32, at the size of the row.

A formula takes the kernel's arguments and gives a tuple of float32 arrays. What would not fit as a
whole, attention's scores, is computed some rows at a time.
"""

import math

from ..errors import KernelError
from ..simulate import telling_line

# Rows of Q whose scores are computed at once, of K and V of 8192 rows.
_ROWS, _OF = 1024, 8192


def attention(q, k, v):
    """softmax(q @ k.T / sqrt(D)) @ v, and the base-2 logarithm of each row's sum of exp2."""
    import jax
    import jax.numpy as jnp

    *outer, rows, width = q.shape
    heads = math.prod(outer)
    q, k, v = (x.reshape(heads, -1, width).astype(jnp.float32) for x in (q, k, v))
    at_once = max(1, math.gcd(rows, _ROWS * _OF // max(k.shape[1], _OF)))

    def head(q, k, v):
        def some(q):
            scores = _matmul(q, k.T) * (math.log2(math.e) / math.sqrt(width))
            highest = scores.max(-1, keepdims=True)
            weights = jnp.exp2(scores - highest)
            total = weights.sum(-1, keepdims=True)
            return _matmul(weights, v) / total, (highest + jnp.log2(total))[:, 0]

        out, lse = jax.lax.map(some, q.reshape(-1, at_once, width))
        return out.reshape(rows, width), lse.reshape(rows)

    out, lse = jax.lax.map(lambda each: head(*each), (q, k, v))
    return out.reshape(*outer, rows, width), lse


def matmul(x, y):
    """x @ y."""
    import jax.numpy as jnp

    return (_matmul(x.astype(jnp.float32), y.astype(jnp.float32)),)


def layer_norm_bwd(dy, x, mean, rstd, weight):
    """dx, dweight and dbias of a layer norm."""
    import jax.numpy as jnp

    grad, rows, weight = (a.astype(jnp.float32) for a in (dy, x, weight))
    x_hat = (rows - mean[:, None]) * rstd[:, None]
    scaled = grad * weight
    along = jnp.mean(x_hat * scaled, 1, keepdims=True)
    dx = (scaled - x_hat * along - jnp.mean(scaled, 1, keepdims=True)) * rstd[:, None]
    return dx, jnp.sum(grad * x_hat, 0), jnp.sum(grad, 0)


def softmax(x):
    """Over the last dim."""
    import jax
    import jax.numpy as jnp

    return (jax.nn.softmax(x.astype(jnp.float32), axis=-1),)


def _matmul(x, y):
    """With float32 factors as they are: by default a TPU rounds them to bfloat16."""
    import jax
    import jax.numpy as jnp

    return jnp.matmul(x, y, precision=jax.lax.Precision.HIGHEST)


FORMULAS = {
    "attention": attention,
    "matmul": matmul,
    "layer_norm_bwd": layer_norm_bwd,
    "softmax": softmax,
}


def evaluate(name, arrays):
    """A formula's outputs on arguments, float32 numpy arrays; on jax's first device.

    Raises KernelError, where it does not fit beside the kernel.
    """
    import jax
    import numpy as np

    try:
        return [np.asarray(output) for output in jax.jit(FORMULAS[name])(*arrays)]
    except Exception as error:
        raise KernelError(f"the formula: {telling_line(error)}") from error
