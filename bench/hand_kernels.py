"""Kernels that people wrote, and XLA's own, as functions that jax can compile for any chip.

`jax.*` are the kernels that ship with jax (jax.experimental.pallas.ops.tpu), `tokamax.*` those of
tokamax (requirements-bench.txt; optional), `xla.*` plain jax.numpy, which XLA fuses as it likes.
Attention returns `out` alone here: none of them is charged for lse. Splash attention takes Q scaled
already; the others scale it.
"""

import dataclasses
import math


@dataclasses.dataclass
class Built:
    """A function of one array for each of `inputs` ((shape, dtype name) pairs)."""

    function: object
    inputs: list


def kernel_build(kernel, args, config):
    """The `Built` kernel of a name of KERNELS.

    Args:
      kernel: a name.
      args: texts as `pallasc export --args` takes them, tensors only: "bfloat16[2,3]".
      config: the kernel's own parameters, a dict.

    Raises what the kernel raises where it does not take the configuration.
    """
    inputs = [parsed(text) for text in args]
    function = KERNELS[kernel](inputs, config)
    return Built(function, inputs)


def parsed(text):
    """(shape, dtype name) of "dtype[dims]"."""
    name, _, dims = text.rstrip("]").partition("[")
    return tuple(int(size) for size in dims.split(",")), name


# ---- attention: Q, K and V [batch, heads, rows, width]


def flash(inputs, config):
    """jax's flash attention; block_q, block_k_major, block_k."""
    from jax.experimental.pallas.ops.tpu import flash_attention as flash

    sizes = flash.BlockSizes(block_b=1, **config)
    scale = 1 / math.sqrt(inputs[0][0][-1])

    def function(q, k, v):
        return flash.flash_attention(q, k, v, causal=False, sm_scale=scale, block_sizes=sizes)

    return function


def splash(inputs, config):
    """jax's splash attention; block_q, block_kv, block_kv_compute."""
    import jax
    from jax.experimental.pallas.ops.tpu.splash_attention import (
        splash_attention_kernel as kernels,
    )
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

    (_, heads, rows, _), _ = inputs[0]
    columns = inputs[1][0][2]
    mask = masks.MultiHeadMask([masks.FullMask((rows, columns)) for _ in range(heads)])
    sizes = kernels.BlockSizes(**config)
    return jax.vmap(kernels.make_splash_mha_single_device(mask=mask, block_sizes=sizes))


def tokamax_splash(inputs, config):
    """tokamax's splash attention with its experimental scheduler; jax's block sizes."""
    import jax
    from tokamax._src.ops.experimental.tpu.splash_attention import (
        splash_attention_kernel as kernels,
    )
    from tokamax._src.ops.experimental.tpu.splash_attention import splash_attention_mask as masks

    mask = masks.FullMask((inputs[0][0][2], inputs[1][0][2]))
    sizes = kernels.SplashConfig(use_experimental_scheduler=True, **config)
    return jax.vmap(kernels.make_splash_mha_single_device(mask, config=sizes))


def splash_masked(inputs, config):
    """jax's splash attention under a mask, "causal" or "window" (1024 columns up to the row's)."""
    import jax
    from jax.experimental.pallas.ops.tpu.splash_attention import (
        splash_attention_kernel as kernels,
    )
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

    sizes = {key: value for key, value in config.items() if key != "mask"}
    (_, heads, rows, _), _ = inputs[0]
    shape = (rows, inputs[1][0][2])
    one = masks.CausalMask(shape)
    if config["mask"] == "window":
        one = masks.LocalMask(shape, (1023, 0), 0)
    mask = masks.MultiHeadMask([one] * heads)
    sizes = kernels.BlockSizes(**sizes)
    return jax.vmap(kernels.make_splash_mha_single_device(mask=mask, block_sizes=sizes))


def tokamax_splash_masked(inputs, config):
    """tokamax's splash attention under such a mask."""
    import jax
    from tokamax._src.ops.experimental.tpu.splash_attention import (
        splash_attention_kernel as kernels,
    )
    from tokamax._src.ops.experimental.tpu.splash_attention import splash_attention_mask as masks

    sizes = {key: value for key, value in config.items() if key != "mask"}
    shape = (inputs[0][0][2], inputs[1][0][2])
    mask = masks.CausalMask(shape)
    if config["mask"] == "window":
        mask = masks.LocalMask(shape, (1023, 0), 0)
    sizes = kernels.SplashConfig(use_experimental_scheduler=True, **sizes)
    return jax.vmap(kernels.make_splash_mha_single_device(mask, config=sizes))


# ---- its backward: besides dout like Q, and lse and delta [heads, rows]


def flash_backward(inputs, config):
    """jax's flash attention backward: part "dq" or "dkdv"; block_q, block_k.

    It takes the sum and the maximum of the exponentials by e, of which lse is given as the latter.
    """
    import jax.numpy as jnp
    from jax.experimental.pallas.ops.tpu import flash_attention as flash

    part, block_q, block_k = config["part"], config["block_q"], config["block_k"]
    sizes = {"block_q_major": block_q, "block_k_major": block_k, "block_k": block_k}
    kernel = flash._flash_attention_bwd_dq
    if part == "dkdv":
        kernel, sizes = flash._flash_attention_bwd_dkv, sizes | {"block_q": block_q}
    scale = 1 / math.sqrt(inputs[0][0][-1])

    def function(q, k, v, dout, lse, delta):
        top, delta = (x.reshape(q.shape[:3]) for x in (lse * math.log(2), delta))
        found = kernel(
            *(q, k, v, None, None, jnp.ones_like(top), top, dout, delta),
            **sizes,
            sm_scale=scale,
            causal=False,
            mask_value=flash.DEFAULT_MASK_VALUE,
            debug=False,
        )
        return found[0] if part == "dq" else found

    return function


# ---- the rest


def matmul(inputs, config):
    """jax's example matmul; block_m, block_n, block_k."""
    from jax.experimental.pallas.ops.tpu.matmul import matmul as multiply

    shape = (config["block_m"], config["block_n"])
    return lambda x, y: multiply(x, y, block_shape=shape, block_k=config["block_k"])


def xla_matmul(inputs, config):
    """x @ y."""
    import jax.numpy as jnp

    return jnp.matmul


def xla_split_k(inputs, config):
    """x @ y as a batch of `parts` dots over slices of the contracted dim, and their sum."""
    import jax.numpy as jnp

    def function(x, y):
        parts = config["parts"]
        a = x.reshape(x.shape[0], parts, -1)
        b = y.reshape(parts, -1, y.shape[1])
        dots = jnp.einsum("mpk,pkn->pmn", a, b, preferred_element_type=jnp.float32)
        return dots.sum(0).astype(x.dtype)

    return function


def xla_softmax(inputs, config):
    """softmax over the last dim, computed in float32."""
    import jax
    import jax.numpy as jnp

    return lambda x: jax.nn.softmax(x.astype(jnp.float32), axis=-1).astype(x.dtype)


def xla_layer_norm(inputs, config):
    """layer_norm(x) * weight + bias, in float32: as layer_norm.py does."""
    import jax.numpy as jnp

    def function(x, weight, bias):
        rows = x.astype(jnp.float32)
        centered = rows - rows.mean(1, keepdims=True)
        variance = (centered * centered).mean(1, keepdims=True)
        scaled = centered / jnp.sqrt(variance + 1e-5) * weight.astype(jnp.float32)
        return (scaled + bias.astype(jnp.float32)).astype(x.dtype)

    return function


def xla_cross_entropy(inputs, config):
    """Each row's cross-entropy of logits [N, V] and labels [N, 1], in float32."""
    import jax
    import jax.numpy as jnp

    def function(logits, labels):
        rows = logits.astype(jnp.float32)
        picked = jnp.take_along_axis(rows, labels, axis=1)[:, 0]
        return jax.nn.logsumexp(rows, axis=1) - picked

    return function


def xla_layer_norm_bwd(inputs, config):
    """dx, dweight and dbias from dy, x, mean, rstd and weight: as layer_norm.py does."""
    import jax.numpy as jnp

    def function(dy, x, mean, rstd, weight):
        grad = dy.astype(jnp.float32)
        x_hat = (x.astype(jnp.float32) - mean[:, None]) * rstd[:, None]
        wdy = grad * weight.astype(jnp.float32)
        c1 = jnp.mean(x_hat * wdy, axis=1, keepdims=True)
        c2 = jnp.mean(wdy, axis=1, keepdims=True)
        dx = ((wdy - x_hat * c1 - c2) * rstd[:, None]).astype(x.dtype)
        sums = jnp.sum(grad * x_hat, axis=0), jnp.sum(grad, axis=0)
        return dx, *(total.astype(weight.dtype) for total in sums)

    return function


KERNELS = {
    "jax.flash_attention": flash,
    "jax.flash_backward": flash_backward,
    "jax.splash_attention": splash,
    "tokamax.splash_attention": tokamax_splash,
    "jax.splash_masked": splash_masked,
    "tokamax.splash_masked": tokamax_splash_masked,
    "jax.matmul": matmul,
    "xla.matmul": xla_matmul,
    "xla.split_k": xla_split_k,
    "xla.softmax": xla_softmax,
    "xla.layer_norm": xla_layer_norm,
    "xla.cross_entropy": xla_cross_entropy,
    "xla.layer_norm_bwd": xla_layer_norm_bwd,
}

# Below, so that what stands there does not change the text by which those above are kept.
import hand_more  # noqa: E402

KERNELS |= hand_more.KERNELS
