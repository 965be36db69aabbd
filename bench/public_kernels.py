"""Serving kernels that people wrote, on the data of rows of the coverage (see serving.py).

A kernel of KERNELS is f(arrays, shapes, options) -> (function, arguments): `arrays` are those that
steer it; of all others the shapes alone matter. What public code computes of them by XLA's ops is
followed by the instrument, and not counted.
"""

import importlib
import json
import logging
import os
import sys
import types
from pathlib import Path

import numpy as np


def built(path):
    """(function, arguments) that a job asks for; `path`: of its JSON, beside its arrays."""
    import jax

    job = json.loads(Path(path).read_text())
    # Some of them look up block sizes by the kind of the first device, which is a CPU here.
    jax.devices = lambda *_: [types.SimpleNamespace(device_kind=job["device"], platform="tpu")]
    arrays = dict(np.load(Path(path).with_suffix(".npz")))
    return KERNELS[job["kernel"]](arrays, job["shapes"], job["options"])


def shape(dims, dtype="bfloat16"):
    """An array of which nothing else is known."""
    import jax

    return jax.ShapeDtypeStruct(tuple(dims), dtype)


# ---- grouped matmuls: x [B, R, D], w [G, D, K], offsets [G + 1]


def megablox(arrays, shapes, options):
    """jax's: weights in bfloat16, for it multiplies no others."""
    import jax.numpy as jnp

    module = importlib.import_module("jax.experimental.pallas.ops.tpu.megablox.gmm")
    rows, count, depth, width = of_grouped(shapes)
    tiling = tuple(options["tiling"])

    def function(x, w, sizes):
        return module.gmm(x, w, sizes, jnp.bfloat16, tiling=tiling)

    return function, [
        shape((rows, depth)),
        shape((count, depth, width)),
        np.diff(arrays["offsets"]),
    ]


def tokamax(arrays, shapes, options):
    """tokamax's `ragged_dot`: narrow weights with a scale for each column, int8 by default."""
    import jax
    import jax.numpy as jnp
    import qwix

    module = importlib.import_module("tokamax._src.ops.ragged_dot.pallas_mosaic_tpu_kernel")
    rows, count, depth, width = of_grouped(shapes)
    tiling = tuple(options["tiling"])
    buffers, sizes = options.get("buffers", 2), np.diff(arrays["offsets"])

    def function(x, sizes, w, *scales):
        weights = qwix.QArray(w, *scales) if scales else w
        return module.gmm(
            x,
            weights,
            sizes,
            jax.lax.Precision.DEFAULT,
            jnp.bfloat16,
            tiling=tiling,
            input_buffer_count=buffers,
        )

    if "scales" not in shapes:
        return function, [shape((rows, depth)), sizes, shape((count, depth, width))]
    w = shape((count, depth, width), options.get("weights", "int8"))
    return function, [shape((rows, depth)), sizes, w, shape((count, 1, width), "float32")]


def of_grouped(shapes):
    """(rows, groups, D, K) of a grouped matmul."""
    blocks, block, depth = shapes["x"]
    count, _, width = shapes["w"]
    return blocks * block, count, depth, width


def tpu_inference_gmm(arrays, shapes, options):
    """tpu-inference's second grouped matmul: int8 weights by default, rows left as they are."""
    import jax.numpy as jnp

    module = of_tpu_inference("megablox.gmm_v2")
    rows, count, depth, width = of_grouped(shapes)

    def function(x, w, sizes, scales):
        return module.gmm_v2(
            x,
            w,
            sizes,
            rhs_scale=scales,
            maybe_quantize_lhs=False,
            preferred_element_type=jnp.bfloat16,
            zero_initialize=False,
        )

    sizes = np.diff(arrays["offsets"])
    w = shape((count, depth, width), options.get("weights", "int8"))
    return function, [shape((rows, depth)), w, sizes, shape((count, 1, 1, width), "float32")]


# ---- mixtures of experts: x [B, R, D], w_gate and w_up [G, D, F], w_down [G, F, D]


def megablox_experts(arrays, shapes, options):
    """jax's grouped matmul twice, gate and up beside each other; XLA does what is between."""
    import jax
    import jax.numpy as jnp

    module = importlib.import_module("jax.experimental.pallas.ops.tpu.megablox.gmm")
    rows, count, depth, width = of_experts(shapes)
    first, second = (tuple(tiling) for tiling in options["tilings"])

    def function(x, w, w_down, sizes):
        both = module.gmm(x, w, sizes, jnp.bfloat16, tiling=first)
        inner = jax.nn.silu(both[:, :width]) * both[:, width:]
        return module.gmm(inner, w_down, sizes, jnp.bfloat16, tiling=second)

    w, down = shape((count, depth, 2 * width)), shape((count, width, depth))
    return function, [shape((rows, depth)), w, down, np.diff(arrays["offsets"])]


def tpu_inference_experts(arrays, shapes, options):
    """tpu-inference's second grouped matmul twice, SiLU in the first."""
    module = of_tpu_inference("megablox.gmm_v2")
    rows, count, depth, width = of_experts(shapes)

    def function(x, w, w_down, sizes):
        inner = module.gmm_v2(x, w, sizes, fuse_act="silu", zero_initialize=False)
        return module.gmm_v2(inner, w_down, sizes, zero_initialize=False)

    sizes = np.diff(arrays["offsets"])
    w, down = shape((count, depth, 2 * width)), shape((count, width, depth))
    return function, [shape((rows, depth)), w, down, sizes]


def of_experts(shapes):
    """(rows, experts, D, F) of a mixture."""
    blocks, block, depth = shapes["x"]
    count, _, width = shapes["w_gate"]
    return blocks * block, count, depth, width


# ---- attention over pages


def ragged_paged(arrays, shapes, options):
    """jax's: q [T, heads, D], pages [P, page, 2 heads, D]."""
    from jax.experimental.pallas.ops.tpu.ragged_paged_attention import kernel

    heads, tokens, group, dim = shapes["q"]
    _, pages, page, _ = shapes["k_pages"]
    options = dict(options)
    dtype = options.pop("cache", "bfloat16")

    def function(q, kv_pages, lengths, table, starts, count):
        return kernel.ragged_paged_attention(
            q, kv_pages, lengths, table, starts, count, sm_scale=dim**-0.5, **options
        )

    count = np.array([len(arrays["lengths"])], np.int32)
    steering = [arrays["lengths"], arrays["table"], arrays["starts"], count]
    q, kv_pages = shape((tokens, heads * group, dim)), shape((pages, page, 2 * heads, dim), dtype)
    return function, [q, kv_pages, *steering]


def tpu_inference_ragged(arrays, shapes, options):
    """tpu-inference's third: the tokens' own keys and values are given apart and are stored.

    It has a kernel of its own for sequences of one token, which come first.
    """
    module = of_tpu_inference("ragged_paged_attention.v3.kernel")
    heads, tokens, group, dim = shapes["q"]
    _, pages, page, _ = shapes["k_pages"]
    options = options | {"m_block_sizes": tuple(options["m_block_sizes"])}
    dtype = options.pop("cache", "bfloat16")
    packing = 2 if dtype == "bfloat16" else 4

    def function(q, k, v, cache, lengths, table, starts, distribution):
        return module.ragged_paged_attention(
            q, k, v, cache, lengths, table, starts, distribution, sm_scale=dim**-0.5, **options
        )

    new = np.diff(arrays["starts"])
    order = np.argsort(new != 1, kind="stable")
    count, decoded = len(order), int((new == 1).sum())
    starts = np.cumsum([0, *new[order]]).astype(np.int32)
    distribution = np.array([decoded, decoded, count], np.int32)
    table = arrays["table"][order].reshape(-1)
    steering = [arrays["lengths"][order], table, starts, distribution]
    own = shape((tokens, heads, dim), dtype)
    cache = shape((pages, page, 2 * heads // packing, packing, dim), dtype)
    return function, [shape((tokens, heads * group, dim)), own, own, cache, *steering]


def paged(arrays, shapes, options):
    """jax's attention of one token a sequence."""
    from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention_kernel as kernels

    def function(q, k_pages, v_pages, lengths, table):
        return kernels.paged_attention(q, k_pages, v_pages, lengths, table, **options)

    pages = shape(shapes["k_pages"])
    return function, [shape(shapes["q"]), pages, pages, arrays["lengths"], arrays["table"]]


def tpu_inference_latent(arrays, shapes, options):
    """tpu-inference's second attention over latents, one token a sequence: its own is stored."""
    module = of_tpu_inference("mla.v2.kernel")
    count, heads, latent = shapes["q_nope"]
    pages, page, rope = shapes["pe_pages"]
    wide = -(-latent // 128) * 128 + -(-rope // 128) * 128

    def function(q_nope, q_pe, c, pe, cache, lengths, table, starts, distribution):
        return module.mla_ragged_paged_attention(
            q_nope,
            q_pe,
            c,
            pe,
            cache,
            lengths,
            table,
            starts,
            distribution,
            sm_scale=(latent // 4 + rope) ** -0.5,
            num_queries_per_block=1,
            **options,
        )

    # A sequence has one token at least, the one that is stored.
    lengths = np.maximum(arrays["lengths"], 1)
    starts, distribution = np.arange(count + 1, dtype=np.int32), np.full(3, count, np.int32)
    return function, [
        shape((heads, count, latent)),
        shape((count, heads, rope)),
        shape((count, latent)),
        shape((count, rope)),
        shape((pages, page // 2, 2, wide)),
        lengths,
        arrays["table"].reshape(-1),
        starts,
        distribution,
    ]


# ---- convolutions: x [T, D]


def tpu_inference_conv1d(arrays, shapes, options):
    """tpu-inference's, of one sequence: its last rows are stored."""
    module = of_tpu_inference("causal_conv1d.causal_conv1d")
    tokens, dim = shapes["x"]
    taps = shapes["weight"][0]

    def function(x, state, weight, bias, starts, indices, distribution, has_state):
        return module.ragged_causal_conv1d(
            x,
            state,
            weight,
            bias,
            starts,
            indices,
            distribution,
            has_state,
            kernel_size=taps,
            **options,
        )

    steering = [[0, tokens], [1], [0, 0, 1], [0]]
    return function, [
        shape((tokens, dim)),
        shape((2, taps - 1, dim)),
        shape((dim, 1, taps)),
        shape((dim,)),
        *(np.array(x, np.int32) for x in steering),
    ]


def of_tpu_inference(name):
    """A module of tpu-inference's kernels, without what its packages import.

    TPU_INFERENCE is the folder of its package, of a checkout or of an unpacked wheel.
    """
    root = os.environ.get("TPU_INFERENCE")
    if not root:
        raise ModuleNotFoundError("tpu_inference: TPU_INFERENCE is not set", name="tpu_inference")
    parts = ["tpu_inference", "kernels", *name.split(".")[:-1]]
    for end in range(1, len(parts) + 1):
        package = types.ModuleType(".".join(parts[:end]))
        package.__path__ = [str(Path(root).joinpath(*parts[1:end]))]
        sys.modules.setdefault(package.__name__, package)
    # Its own logger is vllm's.
    logger = types.ModuleType("tpu_inference.logger")
    logger.init_logger = logging.getLogger
    sys.modules.setdefault(logger.__name__, logger)
    return importlib.import_module(f"tpu_inference.kernels.{name}")


KERNELS = {
    "megablox": megablox,
    "megablox experts": megablox_experts,
    "paged": paged,
    "ragged_paged": ragged_paged,
    "tokamax": tokamax,
    "tpu-inference conv1d": tpu_inference_conv1d,
    "tpu-inference experts": tpu_inference_experts,
    "tpu-inference gmm_v2": tpu_inference_gmm,
    "tpu-inference latent": tpu_inference_latent,
    "tpu-inference ragged": tpu_inference_ragged,
}
