"""decode_attention: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "decode_attention",
    "target": "v6e",
    "inputs": [
        {"name": "q_in", "dtype": "bfloat16", "shape": [2, 8, 128]},
        {"name": "k_in", "dtype": "bfloat16", "shape": [2, 2, 512, 128]},
        {"name": "v_in", "dtype": "bfloat16", "shape": [2, 2, 512, 128]},
    ],
    "outputs": [
        {"name": "out", "dtype": "bfloat16", "shape": [2, 8, 128]},
    ],
    "config": {"block_sizes": [1, 128], "pallas_loop_type": "fori_loop"},
    "vmem_bytes": 835029,
    "vmem_most_bytes": 3140937,
    "vmem": {"windows": 528384, "inner": 0, "scratch": 0, "intermediates": 306645},
    "flops": 4194304,
    "hbm_bytes": 1056768,
    "estimate": {
        "cycles": 5283,
        "seconds": 3.01e-06,
        "mxu": 128,
        "vector": 45,
        "xlu": 58,
        "eup": 36,
        "load": 91,
        "store": 2,
        "hbm": 1131,
        "waits": 0,
        "start": 1483,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.8.3,<0.11",
}


def _decode_attention_kernel(q_in_ref, k_in_ref, v_in_ref, out_ref):
    # for tile_n in hl.tile(kv_dim):
    def step_ahead(k_in_win):
        # q = q_view[tile_b, :, :]
        q = q_in_ref[...]
        # k = k_view[tile_b, :, tile_n]
        k = k_in_win[...]
        # scores = torch.bmm(q, k, out_dtype=torch.float32) * qk_scale
        bmm = jax.lax.dot_general(
            q, k, (((2,), (2,)), ((0,), (0,))), preferred_element_type=jnp.float32
        )
        scores = bmm * 0.12751743082459868
        return scores

    def step(scores, v_in_win, m_i, l_i, acc):
        # m_new = torch.maximum(m_i, torch.amax(scores, -1))
        m_new = jnp.maximum(m_i, jnp.max(scores, axis=2, keepdims=True))
        # p = torch.exp2(scores - m_new[:, :, None])
        exp2 = jnp.exp2(scores - m_new)
        # alpha = torch.exp2(m_i - m_new)
        alpha = jnp.exp2(m_i - m_new)
        # l_i = l_i * alpha + torch.sum(p, -1)
        l_i_1 = l_i * alpha + jnp.sum(exp2, axis=2, keepdims=True)
        # v = v_view[tile_b, tile_n, :]
        v = v_in_win[...]
        # acc = torch.baddbmm(acc * alpha[:, :, None], p.to(v.dtype), v)
        mul_2 = acc * alpha
        acc_1_dot = jax.lax.dot_general(
            exp2.astype(jnp.bfloat16),
            v,
            (((2,), (1,)), ((0,), (0,))),
            preferred_element_type=jnp.float32,
        )
        acc_1 = mul_2 + acc_1_dot
        return m_new, l_i_1, acc_1

    def body(i, carry):
        m_i, l_i, acc, scores = carry
        j = i * 2
        j_1 = j + 1
        scores_next = step_ahead(k_in_ref.at[:, pl.ds(j_1 * 128, 128), :])
        m_i, l_i, acc = step(
            scores, v_in_ref.at[:, pl.ds(j * 128, 128), :], m_i, l_i, acc
        )
        ahead = j_1 + 1
        scores = step_ahead(k_in_ref.at[:, pl.ds(ahead * 128, 128), :])
        m_i, l_i, acc = step(
            scores_next, v_in_ref.at[:, pl.ds(j_1 * 128, 128), :], m_i, l_i, acc
        )
        return m_i, l_i, acc, scores

    # m_i = hl.full([tile_b, group], float("-inf"), dtype=torch.float32)
    # l_i = hl.zeros([tile_b, group], dtype=torch.float32)
    # acc = hl.zeros([tile_b, group, head_dim], dtype=torch.float32)
    scores = step_ahead(k_in_ref.at[:, pl.ds(0, 128), :])
    m_i_1, l_i_2, acc_2, scores = jax.lax.fori_loop(
        0,
        1,
        body,
        (
            jnp.full((1, 4, 128), -jnp.inf, jnp.float32),
            jnp.zeros((1, 4, 128), jnp.float32),
            jnp.zeros((1, 4, 128), jnp.float32),
            scores,
        ),
    )
    scores_next_1 = step_ahead(k_in_ref.at[:, pl.ds(384, 128), :])
    m_i_1, l_i_2, acc_2 = step(
        scores, v_in_ref.at[:, pl.ds(256, 128), :], m_i_1, l_i_2, acc_2
    )
    m_i_1, l_i_2, acc_2 = step(
        scores_next_1, v_in_ref.at[:, pl.ds(384, 128), :], m_i_1, l_i_2, acc_2
    )
    # out[tile_b, :, :] = (acc / l_i[:, :, None]).to(out.dtype)
    out_ref[...] = (acc_2 / l_i_2).astype(jnp.bfloat16)


@functools.partial(jax.jit, static_argnames=("interpret",))
def _decode_attention_jit(q_in, k_in, v_in, interpret):
    call = _pallas_call(
        _decode_attention_kernel,
        name="decode_attention",
        grid=(4,),
        in_specs=[
            pl.BlockSpec((1, 4, 128), lambda tile_b: (tile_b, 0, 0)),
            pl.BlockSpec((1, 512, 128), lambda tile_b: (tile_b, 0, 0)),
            pl.BlockSpec((1, 512, 128), lambda tile_b: (tile_b, 0, 0)),
        ],
        out_specs=[
            pl.BlockSpec((1, 4, 128), lambda tile_b: (tile_b, 0, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((4, 4, 128), jnp.bfloat16),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel",),
            vmem_limit_bytes=6291456,
        ),
        cost_estimate=pl.CostEstimate(
            flops=4376576, transcendentals=36864, bytes_accessed=1056768
        ),
        interpret=interpret,
    )
    (out,) = call(
        q_in.reshape((4, 4, 128)),
        k_in.reshape((4, 512, 128)),
        v_in.reshape((4, 512, 128)),
    )
    return out.reshape((2, 8, 128))


def decode_attention(q_in, k_in, v_in, interpret=False):
    """Returns bfloat16[2, 8, 128].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("q_in", q_in, "bfloat16[2, 8, 128]")
    _check("k_in", k_in, "bfloat16[2, 2, 512, 128]")
    _check("v_in", v_in, "bfloat16[2, 2, 512, 128]")
    if not (0, 8, 3) <= jax.__version_info__ < (0, 11):
        warnings.warn("decode_attention: tested with jax >=0.8.3,<0.11", stacklevel=2)
    return _decode_attention_jit(q_in, k_in, v_in, _simulator(interpret))


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
    mesh = jax.sharding.get_abstract_mesh()
    threads = 4 * mesh.size if mesh.manual_axes and mesh.size > 1 else 0
    if _threads() < threads:
        raise RuntimeError(
            f"{mesh.size} simulated devices need NPROC={threads} or more in the "
            "environment before jax starts: with fewer threads they wait forever"
        )
    try:
        from jax._src.pallas.mosaic import tpu_info

        if hasattr(pltpu, "get_tpu_info_for_chip"):
            chip = pltpu.get_tpu_info_for_chip(pltpu.ChipVersion.TPU_V6E, 1)
            kind = tpu_info.get_device_kind()
        else:
            device = jax.sharding.AbstractDevice("TPU v6 lite", 1)
            chips = jax.sharding.AbstractMesh((), (), abstract_device=device)
            with jax.sharding.use_abstract_mesh(chips):
                chip, kind = tpu_info.get_tpu_info(), "cpu"
        tpu_info.registry.setdefault(kind, lambda: chip)
    except (ImportError, AttributeError):
        pass
    if interpret is not True:
        return interpret
    try:
        return pltpu.InterpretParams(buffer_bounds="padded")
    except TypeError:
        return pltpu.InterpretParams()


@functools.cache
def _threads():
    """How many threads XLA has on a CPU: it counts them once."""
    from os import cpu_count, environ

    count = environ.get("NPROC", "")
    return int(count) if count.isdecimal() else cpu_count() or 1


def _pallas_call(kernel, out_shape, interpret, **options):
    """pl.pallas_call for shard_map and vmap, which says that it has no derivative."""

    def run(*arrays):
        arrays, shapes = _varying(arrays, out_shape)
        call = pl.pallas_call(kernel, out_shape=shapes, interpret=interpret, **options)
        return call(*arrays)

    def batched(*arrays):
        specs = [*options.get("in_specs", [None]), *options.get("out_specs", [None])]
        windows = all(spec and len(spec.block_shape or ()) > 1 for spec in specs)
        half = any(x.dtype == jnp.float16 for x in (*arrays, *out_shape))
        return _batched(run, windows and not half and not interpret)(*arrays)

    def refuse(primals, tangents):
        raise TypeError(
            f"{KERNEL_INFO['name']} has no backward: add one by pallasc --backward or "
            "pallasc grad, or give it jax.lax.stop_gradient of its arguments"
        )

    call = jax.custom_jvp(batched)
    call.defjvp(refuse)
    return call


def _varying(arrays, shapes):
    """The same, varying along all axes of a shard_map along which one of them does."""
    axes = [_axes(x) for x in arrays]
    every = frozenset().union(*axes)
    along = {"vma": every}
    if hasattr(jax.sharding, "ManualAxisType"):
        along = {"manual_axis_type": jax.sharding.ManualAxisType(varying=every)}
    missing = [tuple(every - some) for some in axes]
    return (
        [jax.lax.pcast(x, to, to="varying") for x, to in zip(arrays, missing)],
        [jax.ShapeDtypeStruct(x.shape, x.dtype, **along) for x in shapes],
    )


def _axes(x):
    """The axes along which x varies in a shard_map that checks it."""
    kind = jax.typeof(x)
    return kind.vma if hasattr(kind, "vma") else kind.manual_axis_type.varying


def _batched(run, in_grid):
    """`run` whose vmap is one more dim of the grid, or one run after the other."""
    if not in_grid:
        return jax.custom_batching.sequential_vmap(run)
    call = jax.custom_batching.custom_vmap(run)

    def rule(_, batched, *arrays):
        together = jax.vmap(run, [0 if each else None for each in batched])
        outputs = _batched(together, in_grid)(*arrays)
        return outputs, jax.tree.map(lambda _: True, outputs)

    call.def_vmap(rule)
    return call
