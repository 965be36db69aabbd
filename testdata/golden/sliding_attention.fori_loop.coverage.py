"""sliding_attention: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "sliding_attention",
    "target": "v6e",
    "inputs": [
        {"name": "q_in", "dtype": "bfloat16", "shape": [1, 2, 512, 128]},
        {"name": "k_in", "dtype": "bfloat16", "shape": [1, 2, 512, 128]},
        {"name": "v_in", "dtype": "bfloat16", "shape": [1, 2, 512, 128]},
    ],
    "outputs": [
        {"name": "out", "dtype": "bfloat16", "shape": [1, 2, 512, 128]},
    ],
    "config": {"block_sizes": [128, 1, 128], "pallas_loop_type": "fori_loop"},
    "vmem_bytes": 543291,
    "vmem_most_bytes": 2776262,
    "vmem": {"windows": 131072, "inner": 131072, "scratch": 0, "intermediates": 281147},
    "flops": 117440512,
    "hbm_bytes": 1441792,
    "estimate": {
        "cycles": 17433,
        "seconds": 9.933e-06,
        "mxu": 896,
        "vector": 899,
        "xlu": 436,
        "eup": 366,
        "load": 112,
        "store": 32,
        "hbm": 1543,
        "waits": 5866,
        "start": 1270,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.8.3,<0.11",
}


def _sliding_attention_kernel(
    q_in_ref, k_in_hbm, v_in_hbm, out_ref, k_in_buf, k_in_sem, v_in_buf, v_in_sem
):
    tile_b = pl.program_id(0)
    tile_m = pl.program_id(1)
    # begin = max(tile_m.begin - window + 1, 0) // block_n * block_n
    sym_max = jnp.maximum(0, tile_m * 128 - 99)
    floordiv = sym_max // 128

    # for tile_n in hl.tile(begin, tile_m.end, block_size=block_n):
    def step(j, k_in_win, v_in_win, m_i, l_i, acc):
        # q = q_view[tile_b, tile_m, :]
        q = q_in_ref[...]
        # k = k_view[tile_b, :, tile_n]
        k = k_in_win[...]
        # scores = torch.bmm(q, k, out_dtype=torch.float32) * qk_scale
        bmm = jax.lax.dot_general(
            k, q, (((2,), (2,)), ((0,), (0,))), preferred_element_type=jnp.float32
        )
        scores = bmm * 0.12751743082459868
        # behind = tile_m.index[:, None] - tile_n.index[None, :]
        tile_index = tile_m * 128 + jax.lax.broadcasted_iota(jnp.int32, (1, 128), 1)
        tile_index_1 = (
            floordiv * 128 + j * 128 + jax.lax.broadcasted_iota(jnp.int32, (128, 1), 0)
        )
        behind = tile_index - tile_index_1
        # visible = (behind >= 0) & (behind < window)
        visible = (behind >= 0) & (behind < 100)
        # scores = torch.where(visible[None, :, :], scores, float("-inf"))
        scores_1 = jnp.where(
            visible.astype(jnp.int32)[None, :, :].astype(jnp.bool_), scores, -jnp.inf
        )
        # m_new = torch.maximum(m_i, torch.amax(scores, -1))
        m_new = jnp.maximum(m_i, jnp.max(scores_1, axis=1, keepdims=True))
        # m_safe = torch.where(m_new == float("-inf"), 0.0, m_new)
        m_safe = jnp.where(m_new == -jnp.inf, 0.0, m_new)
        # p = torch.exp2(scores - m_safe[:, :, None])
        exp2 = jnp.exp2(scores_1 - m_safe)
        # alpha = torch.exp2(m_i - m_safe)
        alpha = jnp.exp2(m_i - m_safe)
        # l_i = l_i * alpha + torch.sum(p, -1)
        l_i_1 = l_i * alpha + jnp.sum(exp2, axis=1, keepdims=True)
        # v = v_view[tile_b, tile_n, :]
        v = v_in_win[...]
        # acc = torch.baddbmm(acc * alpha[:, :, None], p.to(v.dtype), v)
        mul_2 = acc * alpha
        acc_1_dot = jax.lax.dot_general(
            v,
            exp2.astype(jnp.bfloat16),
            (((1,), (1,)), ((0,), (0,))),
            preferred_element_type=jnp.float32,
        )
        acc_1 = mul_2 + acc_1_dot
        return m_new, l_i_1, acc_1

    def k_in_copy(i):
        slot = jax.lax.rem(i, 2)
        return pltpu.make_async_copy(
            k_in_hbm.at[pl.ds(tile_b, 1), pl.ds(floordiv * 128 + i * 128, 128), :],
            k_in_buf.at[slot],
            k_in_sem.at[slot],
        )

    def v_in_copy(i):
        slot = jax.lax.rem(i, 2)
        return pltpu.make_async_copy(
            v_in_hbm.at[pl.ds(tile_b, 1), pl.ds(floordiv * 128 + i * 128, 128), :],
            v_in_buf.at[slot],
            v_in_sem.at[slot],
        )

    def body(j, carry):
        m_i, l_i, acc = carry

        @pl.when(j + 1 < tile_m - floordiv + 1)
        def prefetch():
            k_in_copy(j + 1).start()
            v_in_copy(j + 1).start()

        k_in_copy(j).wait()
        v_in_copy(j).wait()
        m_i, l_i, acc = step(
            j,
            k_in_buf.at[jax.lax.rem(j, 2)],
            v_in_buf.at[jax.lax.rem(j, 2)],
            m_i,
            l_i,
            acc,
        )
        return m_i, l_i, acc

    # l_i = hl.zeros([tile_b, tile_m], dtype=torch.float32)
    # acc = hl.zeros([tile_b, tile_m, head_dim], dtype=torch.float32)

    @pl.when(0 < tile_m - floordiv + 1)
    def prefetch_1():
        k_in_copy(0).start()
        v_in_copy(0).start()

    _, l_i_2, acc_2 = jax.lax.fori_loop(
        0,
        tile_m - floordiv + 1,
        body,
        (
            jnp.full((1, 1, 128), -jnp.inf, jnp.float32),
            jnp.zeros((1, 1, 128), jnp.float32),
            jnp.zeros((1, 128, 128), jnp.float32),
        ),
    )
    # out[tile_b, tile_m, :] = (acc / l_i[:, :, None]).to(out.dtype)
    div = acc_2 / l_i_2
    out_ref[...] = jnp.transpose(div, (0, 2, 1)).astype(jnp.bfloat16)


@functools.partial(jax.jit, static_argnames=("interpret",))
def _sliding_attention_jit(q_in, k_in, v_in, interpret):
    call = _pallas_call(
        _sliding_attention_kernel,
        name="sliding_attention",
        grid=(2, 4),
        in_specs=[
            pl.BlockSpec((1, 128, 128), lambda tile_b, tile_m: (tile_b, tile_m, 0)),
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec(memory_space=pl.ANY),
        ],
        out_specs=[
            pl.BlockSpec((1, 128, 128), lambda tile_b, tile_m: (tile_b, tile_m, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((2, 512, 128), jnp.bfloat16),
        ],
        scratch_shapes=[
            pltpu.VMEM((2, 1, 128, 128), jnp.bfloat16),
            pltpu.SemaphoreType.DMA((2,)),
            pltpu.VMEM((2, 1, 128, 128), jnp.bfloat16),
            pltpu.SemaphoreType.DMA((2,)),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel"),
            vmem_limit_bytes=6291456,
        ),
        interpret=interpret,
    )
    (out,) = call(
        q_in.reshape((2, 512, 128)),
        k_in.reshape((2, 512, 128)),
        v_in.reshape((2, 512, 128)),
    )
    return out.reshape((1, 2, 512, 128))


def sliding_attention(q_in, k_in, v_in, interpret=False):
    """Returns bfloat16[1, 2, 512, 128].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("q_in", q_in, "bfloat16[1, 2, 512, 128]")
    _check("k_in", k_in, "bfloat16[1, 2, 512, 128]")
    _check("v_in", v_in, "bfloat16[1, 2, 512, 128]")
    if not (0, 8, 3) <= jax.__version_info__ < (0, 11):
        warnings.warn("sliding_attention: tested with jax >=0.8.3,<0.11", stacklevel=2)
    return _sliding_attention_jit(q_in, k_in, v_in, _simulator(interpret))


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
