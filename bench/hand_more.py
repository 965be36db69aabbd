"""Further kernels of hand_kernels.py: those that the rows of race_more.py have beside them."""

import importlib
import math

SPLASH = {
    "jax": "jax.experimental.pallas.ops.tpu.splash_attention.splash_attention",
    "tokamax": "tokamax._src.ops.experimental.tpu.splash_attention.splash_attention",
}


def splash_modules(library):
    """(kernels, masks) of a library's splash attention."""
    names = (f"{SPLASH[library]}_{part}" for part in ("kernel", "mask"))
    return tuple(importlib.import_module(name) for name in names)


def splash_mask(masks, inputs, config):
    """The mask of a configuration, whose keys "causal" and "window" are taken out of it."""
    shape = (inputs[0][0][2], inputs[1][0][2])
    window = config.pop("window", None)
    if window:
        return masks.LocalMask(shape, window_size=(window - 1, 0), offset=0)
    return masks.CausalMask(shape) if config.pop("causal", False) else masks.FullMask(shape)


# ---- attention with masks: Q [batch, heads, rows, width]; K and V may have fewer heads


def flash_masked(inputs, config):
    """jax's flash attention, causal, or with ids of segments int32 [batch, rows]."""
    from jax.experimental.pallas.ops.tpu import flash_attention as flash

    config = dict(config)
    causal = config.pop("causal", False)
    sizes = flash.BlockSizes(block_b=1, **config)
    scale = 1 / math.sqrt(inputs[0][0][-1])

    def function(q, k, v, *ids):
        return flash.flash_attention(
            *(q, k, v, None, flash.SegmentIds(*ids) if ids else None),
            causal=causal,
            sm_scale=scale,
            block_sizes=sizes,
        )

    return function


def splash_masked(inputs, config):
    """jax's splash attention; besides its block sizes "causal" or "window"; ids as flash takes."""
    import jax

    kernels, masks = splash_modules("jax")
    config = dict(config)
    mask = splash_mask(masks, inputs, config)
    every = masks.MultiHeadMask([mask] * inputs[0][0][1])
    kernel = kernels.make_splash_mha_single_device(
        mask=every, block_sizes=kernels.BlockSizes(**config)
    )

    def function(q, k, v, *ids):
        segments = (kernels.SegmentIds(*ids),) if ids else ()
        return jax.vmap(kernel)(q, k, v, *segments)

    return function


def tokamax_splash_masked(inputs, config):
    """The same of tokamax's, with its experimental scheduler."""
    import jax

    kernels, masks = splash_modules("tokamax")
    config = dict(config)
    mask = splash_mask(masks, inputs, config)
    sizes = kernels.SplashConfig(use_experimental_scheduler=True, **config)
    kernel = kernels.make_splash_mha_single_device(mask, config=sizes)

    def function(q, k, v, *ids):
        segments = (kernels.SegmentIds(*ids),) if ids else ()
        return jax.vmap(kernel)(q, k, v, *segments)

    return function


def xla_attention(inputs, config):
    """Attention as it is written down, the scores in float32; "causal", "window", ids."""
    import jax
    import jax.numpy as jnp

    batch, heads, rows, width = inputs[0][0]
    groups, columns = inputs[1][0][1:3]

    def function(q, k, v, *ids):
        rows_of = q.reshape(batch, groups, heads // groups, rows, width)
        scores = jnp.einsum("bgrsd,bgtd->bgrst", rows_of, k, preferred_element_type=jnp.float32)
        scores = scores / math.sqrt(width)
        behind = jnp.arange(rows)[:, None] - jnp.arange(columns)[None, :]
        if config.get("window"):
            seen = (behind >= 0) & (behind < config["window"])
            scores = jnp.where(seen, scores, -jnp.inf)
        elif config.get("causal"):
            scores = jnp.where(behind >= 0, scores, -jnp.inf)
        if ids:
            same = ids[0][:, None, None, :, None] == ids[1][:, None, None, None, :]
            scores = jnp.where(same, scores, -1e30)
        weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
        found = jnp.einsum("bgrst,bgtd->bgrsd", weights, v, preferred_element_type=jnp.float32)
        return found.reshape(q.shape).astype(q.dtype)

    return function


def xla_decode(inputs, config):
    """One query row for each head: q [batch, heads, width], K, V [batch, groups, rows, width]."""
    import jax
    import jax.numpy as jnp

    batch, heads, width = inputs[0][0]
    groups = inputs[1][0][1]

    def function(q, k, v):
        rows = q.reshape(batch, groups, heads // groups, width)
        scores = jnp.einsum("bgrd,bgtd->bgrt", rows, k, preferred_element_type=jnp.float32)
        weights = jax.nn.softmax(scores / math.sqrt(width), axis=-1).astype(v.dtype)
        found = jnp.einsum("bgrt,bgtd->bgrd", weights, v, preferred_element_type=jnp.float32)
        return found.reshape(q.shape).astype(q.dtype)

    return function


def xla_attention_backward(inputs, config):
    """Attention's gradients of the scores computed again: part "dq", "dkdv" or "all"."""
    import jax.numpy as jnp

    width = inputs[0][0][3]
    part = config["part"]

    def function(q, k, v, dout, lse, delta):
        def product(form, a, b):
            return jnp.einsum(form, a, b, preferred_element_type=jnp.float32)

        lse, delta = (x.reshape(*q.shape[:3], 1) for x in (lse, delta))
        scores = product("bhsd,bhtd->bhst", q, k) * (math.log2(math.e) / math.sqrt(width))
        p = jnp.exp2(scores - lse)
        ds = p * (product("bhsd,bhtd->bhst", dout, v) - delta) / math.sqrt(width)
        p, ds = p.astype(q.dtype), ds.astype(q.dtype)
        dq = product("bhst,bhtd->bhsd", ds, k).astype(q.dtype)
        if part == "dq":
            return dq
        dk = product("bhst,bhsd->bhtd", ds, q).astype(q.dtype)
        dv = product("bhst,bhsd->bhtd", p, dout).astype(q.dtype)
        return (dk, dv) if part == "dkdv" else (dq, dk, dv)

    return function


def tokamax_backward(inputs, config):
    """tokamax's one kernel for dq, dk and dv, what adds its dq up, and delta from `out`."""
    import jax

    kernels, masks = splash_modules("tokamax")
    (_, _, rows, _), _ = inputs[0]
    sizes = kernels.SplashConfig(
        block_q=config["block_q_dkv"], block_kv=config["block_kv_dkv"], **config
    )
    kernel = kernels.make_splash_mha_single_device(masks.FullMask((rows, rows)), config=sizes)
    settings = dict(kernel.kwargs)

    def gradients(q, k, v, dout, lse):
        kept = (q, k, v, None, None, dout, lse, kernel.dkv_mask_info)
        asked = ("save_residuals", "mask_value", "is_mqa", "config", "mask_function")
        asked += ("fwd_mask_sparsity", "dkv_mask_sparsity")
        found = kernels._splash_attention_bwd(*(settings[name] for name in asked), kept, dout)
        return found[2:5]

    def function(q, k, v, dout, lse, delta):
        return jax.vmap(gradients)(q, k, v, dout, lse.reshape(q.shape[:3]))

    return function


# ---- matmuls, with what stands around them


def xla_matmul_bias_gelu(inputs, config):
    """gelu(x @ y + bias), exact."""
    import jax
    import jax.numpy as jnp

    def function(x, y, bias):
        product = jnp.matmul(x, y, preferred_element_type=jnp.float32)
        biased = product + bias.astype(jnp.float32)
        return jax.nn.gelu(biased, approximate=False).astype(x.dtype)

    return function


def xla_matmul_swiglu(inputs, config):
    """silu(x @ gate) * (x @ up)."""
    import jax
    import jax.numpy as jnp

    def function(x, gate, up):
        g, u = (jnp.matmul(x, w, preferred_element_type=jnp.float32) for w in (gate, up))
        return (jax.nn.silu(g) * u).astype(x.dtype)

    return function


def xla_rms_norm_matmul(inputs, config):
    """(x / rms(x) * weight) @ y."""
    import jax
    import jax.numpy as jnp

    def function(x, weight, y):
        rows = x.astype(jnp.float32)
        scale = jax.lax.rsqrt(jnp.mean(rows * rows, axis=1, keepdims=True) + 1e-6)
        normal = (rows * scale * weight.astype(jnp.float32)).astype(x.dtype)
        return jnp.matmul(normal, y)

    return function


def xla_int8_matmul(inputs, config):
    """int8 x @ y in int32, times a scale for each row and column."""
    import jax.numpy as jnp

    def function(x, y, x_scale, y_scale):
        product = jnp.matmul(x, y, preferred_element_type=jnp.int32).astype(jnp.float32)
        return (product * x_scale[:, None] * y_scale[None, :]).astype(jnp.bfloat16)

    return function


def xla_fp8_matmul(inputs, config):
    """float8 x @ y times two scales."""
    import jax.numpy as jnp

    def function(x, y):
        product = jnp.matmul(x, y, preferred_element_type=jnp.float32)
        return (product * 0.125).astype(jnp.bfloat16)

    return function


def xla_int8_weights(inputs, config):
    """x @ w of int8, times a scale for each column."""
    import jax.numpy as jnp

    def function(x, w, scale):
        product = jnp.matmul(x, w.astype(x.dtype), preferred_element_type=jnp.float32)
        return (product * scale[None, :]).astype(x.dtype)

    return function


def xla_int4_weights(inputs, config):
    """x @ weights, two in a byte: the low nibbles are the first half of the rows."""
    import jax.numpy as jnp

    def function(x, w):
        low, high = ((w << 4) >> 4).astype(x.dtype), (w >> 4).astype(x.dtype)
        return jnp.matmul(x, jnp.concatenate([low, high]))

    return function


# ---- rows


def xla_rms_norm(inputs, config):
    """x / rms(x) * weight, and 1 / rms(x)."""
    import jax
    import jax.numpy as jnp

    def function(x, weight):
        rows = x.astype(jnp.float32)
        scale = jax.lax.rsqrt(jnp.mean(rows * rows, axis=1) + 1e-6)
        return (rows * scale[:, None] * weight.astype(jnp.float32)).astype(x.dtype), scale

    return function


def xla_rms_norm_bwd(inputs, config):
    """dx and dweight."""
    import jax.numpy as jnp

    def function(dy, x, weight, rstd):
        grad, x_hat = dy.astype(jnp.float32), x.astype(jnp.float32) * rstd[:, None]
        wdy = grad * weight.astype(jnp.float32)
        dx = (wdy - x_hat * jnp.mean(x_hat * wdy, axis=1, keepdims=True)) * rstd[:, None]
        return dx.astype(x.dtype), jnp.sum(grad * x_hat, axis=0).astype(weight.dtype)

    return function


def xla_softmax_bwd(inputs, config):
    """y * (dy - sum(dy * y))."""
    import jax.numpy as jnp

    def function(dy, y):
        grad, weight = dy.astype(jnp.float32), y.astype(jnp.float32)
        total = jnp.sum(grad * weight, axis=1, keepdims=True)
        return (weight * (grad - total)).astype(y.dtype)

    return function


def xla_linear_cross_entropy(inputs, config):
    """Each row's cross-entropy of x @ w and labels [N, 1]."""
    import jax
    import jax.numpy as jnp

    def function(x, w, labels):
        logits = jnp.matmul(x, w, preferred_element_type=jnp.float32)
        picked = jnp.take_along_axis(logits, labels, axis=1)[:, 0]
        return jax.nn.logsumexp(logits, axis=1) - picked

    return function


def tokamax_linear_cross_entropy(inputs, config):
    """tokamax's, forward: the sum of the losses, and each row's logsumexp."""
    from tokamax._src.ops.linear_softmax_cross_entropy_loss import (
        pallas_mosaic_tpu_kernel as kernels,
    )

    def function(x, w, labels):
        return kernels.linear_softmax_cross_entropy_loss_fwd_pallas_mosaic_tpu(
            x, labels[:, 0], w, **config
        )

    return function


# ---- rows that int tensors name


def xla_embedding(inputs, config):
    """Rows of a table; no id lies outside."""
    return lambda weight, ids: weight.at[ids].get(mode="promise_in_bounds")


KERNELS = {
    "jax.flash_masked": flash_masked,
    "jax.splash_masked": splash_masked,
    "tokamax.splash_masked": tokamax_splash_masked,
    "tokamax.splash_backward": tokamax_backward,
    "tokamax.linear_cross_entropy": tokamax_linear_cross_entropy,
    "xla.attention": xla_attention,
    "xla.attention_backward": xla_attention_backward,
    "xla.decode": xla_decode,
    "xla.embedding": xla_embedding,
    "xla.fp8_matmul": xla_fp8_matmul,
    "xla.int4_weights": xla_int4_weights,
    "xla.int8_matmul": xla_int8_matmul,
    "xla.int8_weights": xla_int8_weights,
    "xla.linear_cross_entropy": xla_linear_cross_entropy,
    "xla.matmul_bias_gelu": xla_matmul_bias_gelu,
    "xla.matmul_swiglu": xla_matmul_swiglu,
    "xla.rms_norm": xla_rms_norm,
    "xla.rms_norm_bwd": xla_rms_norm_bwd,
    "xla.rms_norm_matmul": xla_rms_norm_matmul,
    "xla.softmax_bwd": xla_softmax_bwd,
}
