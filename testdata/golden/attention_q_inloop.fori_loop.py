"""attention_q_inloop: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "attention_q_inloop",
    "target": "v6e",
    "inputs": [
        {"name": "q_in", "dtype": "bfloat16", "shape": [2, 2, 512, 128]},
        {"name": "k_in", "dtype": "bfloat16", "shape": [2, 2, 512, 128]},
        {"name": "v_in", "dtype": "bfloat16", "shape": [2, 2, 512, 128]},
    ],
    "outputs": [
        {"name": "out", "dtype": "bfloat16", "shape": [2, 2, 512, 128]},
        {"name": "lse", "dtype": "float32", "shape": [4, 512]},
    ],
    "config": {
        "block_sizes": [1, 128, 128],
        "pallas_loop_type": "fori_loop",
        "pallas_pre_broadcast": False,
    },
    "vmem_bytes": 760654,
    "vmem_most_bytes": 3047967,
    "vmem": {
        "windows": 132096,
        "inner": 196608,
        "scratch": 65536,
        "intermediates": 366414,
    },
    "flops": 536870912,
    "hbm_bytes": 5251072,
    "estimate": {
        "cycles": 36891,
        "seconds": 2.102e-05,
        "mxu": 4096,
        "vector": 2336,
        "xlu": 1396,
        "eup": 1360,
        "load": 512,
        "store": 72,
        "hbm": 5619,
        "waits": 11930,
        "start": 1271,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.8.3,<0.11",
}


def _attention_q_inloop_kernel(
    q_in_ref,
    k_in_hbm,
    v_in_hbm,
    out_ref,
    lse_ref,
    k_in_buf,
    k_in_sem,
    v_in_buf,
    v_in_sem,
    scores_ref,
):
    tile_b = pl.program_id(0)

    # for tile_n in hl.tile(kv_dim):
    def step_ahead(k_in_win):
        # q = q_view[tile_b, tile_m, :]
        q = q_in_ref[...]
        # k = k_view[tile_b, :, tile_n]
        k = k_in_win[...]
        # scores = torch.bmm(q, k, out_dtype=torch.float32) * qk_scale
        bmm = jax.lax.dot_general(
            k, q, (((2,), (2,)), ((0,), (0,))), preferred_element_type=jnp.float32
        )
        scores = bmm * 0.12751743082459868
        # m_new = torch.maximum(m_i, torch.amax(scores, -1))
        amax = jnp.max(scores, axis=1, keepdims=True)
        return amax, scores

    def step(amax, scores, v_in_win, m_i, l_i, acc):
        m_new = jnp.maximum(m_i, amax)
        # p = torch.exp2(scores - m_new[:, :, None])
        exp2 = jnp.exp2(scores - m_new)
        # alpha = torch.exp2(m_i - m_new)
        alpha = jnp.exp2(m_i - m_new)
        # l_i = l_i * alpha + torch.sum(p, -1)
        l_i_1 = l_i * alpha + jnp.sum(exp2, axis=1, keepdims=True)
        # acc = acc * alpha[:, :, None]
        acc_1 = acc * alpha
        # v = v_view[tile_b, tile_n, :]
        v = v_in_win[...]
        # acc = torch.baddbmm(acc, p.to(v.dtype), v)
        acc_1_1_dot = jax.lax.dot_general(
            v,
            exp2.astype(jnp.bfloat16),
            (((1,), (1,)), ((0,), (0,))),
            preferred_element_type=jnp.float32,
        )
        acc_1_1 = acc_1 + acc_1_1_dot
        return m_new, l_i_1, acc_1_1

    def k_in_copy(i):
        slot = jax.lax.rem(i, 3)
        return pltpu.make_async_copy(
            k_in_hbm.at[pl.ds(tile_b, 1), pl.ds(i * 128, 128), :],
            k_in_buf.at[slot],
            k_in_sem.at[slot],
        )

    def v_in_copy(i):
        slot = jax.lax.rem(i, 3)
        return pltpu.make_async_copy(
            v_in_hbm.at[pl.ds(tile_b, 1), pl.ds(i * 128, 128), :],
            v_in_buf.at[slot],
            v_in_sem.at[slot],
        )

    def body(j, carry):
        m_i, l_i, acc, amax = carry
        ahead = j + 1

        @pl.when(ahead + 2 < 4)
        def prefetch():
            k_in_copy(ahead + 2).start()

        k_in_copy(ahead).wait()

        @pl.when(j + 2 < 4)
        def prefetch_1():
            v_in_copy(j + 2).start()

        v_in_copy(j).wait()
        amax_next, scores_next = step_ahead(k_in_buf.at[jax.lax.rem(ahead, 3)])
        m_i, l_i, acc = step(
            amax, scores_ref[...], v_in_buf.at[jax.lax.rem(j, 3)], m_i, l_i, acc
        )
        amax = amax_next
        scores_ref[...] = scores_next
        return m_i, l_i, acc, amax

    # l_i = hl.zeros([tile_b, tile_m], dtype=torch.float32)
    # acc = hl.zeros([tile_b, tile_m, head_dim], dtype=torch.float32)
    k_in_copy(0).start()
    v_in_copy(0).start()
    k_in_copy(1).start()
    v_in_copy(1).start()
    k_in_copy(2).start()
    k_in_copy(0).wait()
    amax, scores_ref[...] = step_ahead(k_in_buf.at[0])
    m_i_1, l_i_2, acc_2, amax = jax.lax.fori_loop(
        0,
        3,
        body,
        (
            jnp.full((1, 1, 128), -jnp.inf, jnp.float32),
            jnp.zeros((1, 1, 128), jnp.float32),
            jnp.zeros((1, 128, 128), jnp.float32),
            amax,
        ),
    )
    v_in_copy(3).wait()
    m_i_1, l_i_2, acc_2 = step(
        amax, scores_ref[...], v_in_buf.at[0], m_i_1, l_i_2, acc_2
    )
    # out[tile_b, tile_m, :] = (acc / l_i[:, :, None]).to(out.dtype)
    div = acc_2 / l_i_2
    out_ref[...] = jnp.transpose(div, (0, 2, 1)).astype(jnp.bfloat16)
    # lse[tile_b, tile_m] = m_i + torch.log2(l_i)
    lse_ref[...] = m_i_1 + jnp.log2(l_i_2)


@functools.partial(jax.jit, static_argnames=("interpret",))
def _attention_q_inloop_jit(q_in, k_in, v_in, interpret):
    call = _pallas_call(
        _attention_q_inloop_kernel,
        name="attention_q_inloop",
        grid=(4, 4),
        in_specs=[
            pl.BlockSpec((1, 128, 128), lambda tile_b, tile_m: (tile_b, tile_m, 0)),
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec(memory_space=pl.ANY),
        ],
        out_specs=[
            pl.BlockSpec((1, 128, 128), lambda tile_b, tile_m: (tile_b, tile_m, 0)),
            pl.BlockSpec((1, 1, 128), lambda tile_b, tile_m: (tile_b, 0, tile_m)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((4, 512, 128), jnp.bfloat16),
            jax.ShapeDtypeStruct((4, 1, 512), jnp.float32),
        ],
        scratch_shapes=[
            pltpu.VMEM((3, 1, 128, 128), jnp.bfloat16),
            pltpu.SemaphoreType.DMA((3,)),
            pltpu.VMEM((3, 1, 128, 128), jnp.bfloat16),
            pltpu.SemaphoreType.DMA((3,)),
            pltpu.VMEM((1, 128, 128), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel"),
            vmem_limit_bytes=6291456,
        ),
        cost_estimate=pl.CostEstimate(
            flops=546439168, transcendentals=1392640, bytes_accessed=5251072
        ),
        interpret=interpret,
    )
    out, lse = call(
        q_in.reshape((4, 512, 128)),
        k_in.reshape((4, 512, 128)),
        v_in.reshape((4, 512, 128)),
    )
    return out.reshape((2, 2, 512, 128)), lse.reshape((4, 512))


def attention_q_inloop(q_in, k_in, v_in, interpret=False):
    """Returns bfloat16[2, 2, 512, 128], float32[4, 512].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("q_in", q_in, "bfloat16[2, 2, 512, 128]")
    _check("k_in", k_in, "bfloat16[2, 2, 512, 128]")
    _check("v_in", v_in, "bfloat16[2, 2, 512, 128]")
    if not (0, 8, 3) <= jax.__version_info__ < (0, 11):
        warnings.warn("attention_q_inloop: tested with jax >=0.8.3,<0.11", stacklevel=2)
    return _attention_q_inloop_jit(q_in, k_in, v_in, _simulator(interpret))


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
