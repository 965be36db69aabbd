"""attention_columns: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "attention_columns",
    "target": "v6e",
    "inputs": [
        {"name": "q", "dtype": "bfloat16", "shape": [2, 256, 256]},
        {"name": "k", "dtype": "bfloat16", "shape": [2, 256, 256]},
        {"name": "v", "dtype": "bfloat16", "shape": [2, 256, 256]},
    ],
    "outputs": [
        {"name": "out", "dtype": "bfloat16", "shape": [2, 256, 256]},
        {"name": "top", "dtype": "float32", "shape": [2, 256]},
        {"name": "total", "dtype": "float32", "shape": [2, 256]},
    ],
    "config": {
        "block_sizes": [1, 128, 128],
        "pallas_loop_type": "unroll",
        "pallas_pre_broadcast": False,
    },
    "vmem_bytes": 1354347,
    "vmem": {"windows": 788480, "inner": 0, "scratch": 0, "intermediates": 565867},
    "flops": 134217728,
    "hbm_bytes": 1052672,
    "estimate": {
        "cycles": 4892,
        "seconds": 2.787e-06,
        "mxu": 768,
        "vector": 531,
        "xlu": 465,
        "eup": 392,
        "load": 128,
        "store": 36,
        "hbm": 1126,
        "waits": 117,
        "start": 1622,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.10.2,<0.11",
}


def _attention_columns_kernel(q_ref, k_ref, v_ref, out_ref, top_ref, total_ref):
    # for tile_n in hl.tile(s_dim):
    def step_ahead(k_win):
        # scores = torch.bmm(q[tile_b, tile_m, :], k_view[tile_b, :, tile_n]).float(...
        load = q_ref[...]
        load_1 = k_win[...]
        bmm = jax.lax.dot_general(
            load_1,
            load,
            (((2,), (2,)), ((0,), (0,))),
            preferred_element_type=jnp.float32,
        ).astype(jnp.bfloat16)
        scores = bmm.astype(jnp.float32) / 16
        return scores

    def step(scores, v_win, m_i, l_i, acc):
        # m_new = torch.maximum(m_i, torch.amax(scores, -1, keepdim=True))
        m_new = jnp.maximum(m_i, jnp.max(scores, axis=1, keepdims=True))
        # p = torch.exp2(scores - m_new)
        exp2 = jnp.exp2(scores - m_new)
        # alpha = torch.where(m_i < m_new, torch.exp2(m_i - m_new), 1.0)
        alpha = jnp.where(m_i < m_new, jnp.exp2(m_i - m_new), 1.0)
        # l_i = l_i * alpha + torch.sum(p, -1, keepdim=True)
        l_i_1 = l_i * alpha + jnp.sum(exp2, axis=1, keepdims=True)
        # acc = acc * alpha
        acc_1 = acc * alpha
        # v_tile = v[tile_b, tile_n, :]
        v_tile = v_win[...]
        # acc = torch.baddbmm(acc, p.to(v_tile.dtype), v_tile)
        acc_1_1_dot = jax.lax.dot_general(
            v_tile,
            exp2.astype(jnp.bfloat16),
            (((1,), (1,)), ((0,), (0,))),
            preferred_element_type=jnp.float32,
        )
        acc_1_1 = acc_1 + acc_1_1_dot
        return m_new, l_i_1, acc_1_1

    # l_i = hl.zeros([tile_b, tile_m, 1], dtype=torch.float32)
    m_i_1 = jnp.full((1, 1, 128), -jnp.inf, jnp.float32)
    # acc = hl.zeros([tile_b, tile_m, head_dim], dtype=torch.float32)
    l_i_2 = jnp.zeros((1, 1, 128), jnp.float32)
    acc_2 = jnp.zeros((1, 256, 128), jnp.float32)
    waiting = []
    for ahead in range(3):
        if ahead < 2:
            scores_1 = step_ahead(k_ref.at[:, pl.ds(ahead * 128, 128), :])
            waiting.append(scores_1)
        j = ahead - 1
        if j >= 0:
            scores_1 = waiting.pop(0)
            m_i_1, l_i_2, acc_2 = step(
                scores_1, v_ref.at[:, pl.ds(j * 128, 128), :], m_i_1, l_i_2, acc_2
            )
    # out[tile_b, tile_m, :] = torch.where(l_i > 0.0, acc / l_i, 0.0).to(out.dtype)
    where = jnp.where(l_i_2 > 0.0, acc_2 / l_i_2, 0.0)
    out_ref[...] = jnp.transpose(where, (0, 2, 1)).astype(jnp.bfloat16)
    # top[tile_b, tile_m] = m_i.squeeze(-1)
    top_ref[...] = m_i_1
    # total[tile_b, tile_m] = l_i.squeeze(-1)
    total_ref[...] = l_i_2


@functools.partial(jax.jit, static_argnames=("interpret",))
def _attention_columns_jit(q, k, v, interpret):
    call = pl.pallas_call(
        _attention_columns_kernel,
        name="attention_columns",
        grid=(2, 2),
        in_specs=[
            pl.BlockSpec((1, 128, 256), lambda tile_b, tile_m: (tile_b, tile_m, 0)),
            pl.BlockSpec((1, 256, 256), lambda tile_b, tile_m: (tile_b, 0, 0)),
            pl.BlockSpec((1, 256, 256), lambda tile_b, tile_m: (tile_b, 0, 0)),
        ],
        out_specs=[
            pl.BlockSpec((1, 128, 256), lambda tile_b, tile_m: (tile_b, tile_m, 0)),
            pl.BlockSpec((1, 1, 128), lambda tile_b, tile_m: (tile_b, 0, tile_m)),
            pl.BlockSpec((1, 1, 128), lambda tile_b, tile_m: (tile_b, 0, tile_m)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((2, 256, 256), jnp.bfloat16),
            jax.ShapeDtypeStruct((2, 1, 256), jnp.float32),
            jax.ShapeDtypeStruct((2, 1, 256), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel"),
            vmem_limit_bytes=7340032,
        ),
        cost_estimate=pl.CostEstimate(
            flops=136392704, transcendentals=401408, bytes_accessed=1052672
        ),
        interpret=interpret,
    )
    out, top, total = call(q, k, v)
    return out, top.reshape((2, 256)), total.reshape((2, 256))


def attention_columns(q, k, v, interpret=False):
    """Returns bfloat16[2, 256, 256], float32[2, 256], float32[2, 256].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("q", q, "bfloat16[2, 256, 256]")
    _check("k", k, "bfloat16[2, 256, 256]")
    _check("v", v, "bfloat16[2, 256, 256]")
    if not (0, 10, 2) <= jax.__version_info__ < (0, 11):
        warnings.warn("attention_columns: tested with jax >=0.10.2,<0.11", stacklevel=2)
    return _attention_columns_jit(q, k, v, _simulator(interpret))


def _check(name, x, expected):
    """Raises TypeError unless x is an array of exactly the expected dtype and shape."""
    try:
        found = f"{x.dtype}{list(x.shape)}"
    except AttributeError:
        found = "no array"
    if found != expected:
        raise TypeError(f"{name} must be {expected}, not {found}")


def _simulator(interpret):
    """What pallas_call takes: True simulates a TPU, InterpretParams pass through."""
    if not interpret:
        return False
    try:
        from jax._src.pallas.mosaic import tpu_info

        chip = pltpu.get_tpu_info_for_chip(pltpu.ChipVersion.TPU_V6E, 1)
        tpu_info.registry.setdefault(tpu_info.get_device_kind(), lambda: chip)
    except (ImportError, AttributeError):
        return pltpu.InterpretParams()
    if interpret is True:
        return pltpu.InterpretParams(buffer_bounds="padded")
    return interpret
