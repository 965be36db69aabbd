"""attention_dq: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "attention_dq",
    "target": "v6e",
    "inputs": [
        {"name": "q_in", "dtype": "bfloat16", "shape": [1, 2, 256, 128]},
        {"name": "k_in", "dtype": "bfloat16", "shape": [1, 2, 256, 128]},
        {"name": "v_in", "dtype": "bfloat16", "shape": [1, 2, 256, 128]},
        {"name": "dout", "dtype": "bfloat16", "shape": [1, 2, 256, 128]},
        {"name": "lse", "dtype": "float32", "shape": [2, 256]},
        {"name": "delta", "dtype": "float32", "shape": [2, 256]},
    ],
    "outputs": [
        {"name": "dq", "dtype": "bfloat16", "shape": [1, 2, 256, 128]},
    ],
    "config": {"block_sizes": [1, 128, 128], "pallas_loop_type": "fori_loop"},
    "vmem_bytes": 961568,
    "vmem_most_bytes": 3299112,
    "vmem": {"windows": 198656, "inner": 131072, "scratch": 0, "intermediates": 631840},
    "flops": 100663296,
    "hbm_bytes": 921600,
    "estimate": {
        "cycles": 9022,
        "seconds": 5.141e-06,
        "mxu": 768,
        "vector": 248,
        "xlu": 233,
        "eup": 128,
        "load": 91,
        "store": 16,
        "hbm": 986,
        "waits": 4041,
        "start": 1306,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.8.3,<0.11",
}


def _attention_dq_kernel(
    q_in_ref,
    dout_ref,
    lse_ref,
    delta_ref,
    k_in_hbm,
    v_in_hbm,
    dq_ref,
    k_in_buf,
    k_in_sem,
    v_in_buf,
    v_in_sem,
):
    tile_b = pl.program_id(0)

    # for tile_n in hl.tile(0, end):
    def step_ahead(k_in_win, v_in_win):
        # q = q_view[tile_b, tile_m, :]
        q = q_in_ref[...]
        # do = do_view[tile_b, tile_m, :]
        do = dout_ref[...]
        # lse_m = lse[tile_b, tile_m]
        lse_m = lse_ref[:, 0, :]
        # delta_m = delta[tile_b, tile_m]
        lse_m_lanes = lse_m.reshape((1, 1, 128))
        delta_m = delta_ref[:, 0, :]
        # k = k_view[tile_b, tile_n, :]
        delta_m_lanes = delta_m.reshape((1, 1, 128))
        k = k_in_win[...]
        # v = v_view[tile_b, tile_n, :]
        v = v_in_win[...]
        # scores = torch.bmm(q, k.transpose(1, 2), out_dtype=torch.float32)
        scores = jax.lax.dot_general(
            k, q, (((2,), (2,)), ((0,), (0,))), preferred_element_type=jnp.float32
        )
        # p = torch.exp2(scores * (sm_scale * LOG2_E) - lse_m[:, :, None])
        exp2 = jnp.exp2(scores * 0.12751743082459868 - lse_m_lanes)
        # dp = torch.bmm(do, v.transpose(1, 2), out_dtype=torch.float32)
        dp = jax.lax.dot_general(
            v, do, (((2,), (2,)), ((0,), (0,))), preferred_element_type=jnp.float32
        )
        # ds = p * (dp - delta_m[:, :, None]) * sm_scale
        ds = exp2 * (dp - delta_m_lanes) * 0.08838834764831843
        # acc = torch.baddbmm(acc, ds.to(k.dtype), k)
        ds_bf16 = ds.astype(jnp.bfloat16)
        return k, ds_bf16

    def step(k, ds_bf16, acc):
        acc_1_dot = jax.lax.dot_general(
            k, ds_bf16, (((1,), (1,)), ((0,), (0,))), preferred_element_type=jnp.float32
        )
        acc_1 = acc + acc_1_dot
        return acc_1

    def k_in_copy(i):
        slot = jax.lax.rem(i, 2)
        return pltpu.make_async_copy(
            k_in_hbm.at[pl.ds(tile_b, 1), pl.ds(i * 128, 128), :],
            k_in_buf.at[slot],
            k_in_sem.at[slot],
        )

    def v_in_copy(i):
        slot = jax.lax.rem(i, 2)
        return pltpu.make_async_copy(
            v_in_hbm.at[pl.ds(tile_b, 1), pl.ds(i * 128, 128), :],
            v_in_buf.at[slot],
            v_in_sem.at[slot],
        )

    def body(j, carry):
        acc, k, ds_bf16 = carry
        ahead = j + 1

        @pl.when(ahead + 1 < 2)
        def prefetch():
            k_in_copy(ahead + 1).start()
            v_in_copy(ahead + 1).start()

        k_in_copy(ahead).wait()
        v_in_copy(ahead).wait()
        k_next, ds_bf16_next = step_ahead(
            k_in_buf.at[jax.lax.rem(ahead, 2)], v_in_buf.at[jax.lax.rem(ahead, 2)]
        )
        acc = step(k, ds_bf16, acc)
        k = k_next
        ds_bf16 = ds_bf16_next
        return acc, k, ds_bf16

    k_in_copy(0).start()
    v_in_copy(0).start()
    k_in_copy(1).start()
    k_in_copy(0).wait()
    v_in_copy(1).start()
    v_in_copy(0).wait()
    k, ds_bf16 = step_ahead(k_in_buf.at[0], v_in_buf.at[0])
    acc_2, k, ds_bf16 = jax.lax.fori_loop(
        0, 1, body, (jnp.zeros((1, 128, 128), jnp.float32), k, ds_bf16)
    )
    acc_2 = step(k, ds_bf16, acc_2)
    # dq[tile_b, tile_m, :] = acc.to(dq.dtype)
    dq_ref[...] = jnp.transpose(acc_2, (0, 2, 1)).astype(jnp.bfloat16)


@functools.partial(jax.jit, static_argnames=("interpret",))
def _attention_dq_jit(q_in, k_in, v_in, dout, lse, delta, interpret):
    call = _pallas_call(
        _attention_dq_kernel,
        name="attention_dq",
        grid=(2, 2),
        in_specs=[
            pl.BlockSpec((1, 128, 128), lambda tile_b, tile_m: (tile_b, tile_m, 0)),
            pl.BlockSpec((1, 128, 128), lambda tile_b, tile_m: (tile_b, tile_m, 0)),
            pl.BlockSpec((1, 1, 128), lambda tile_b, tile_m: (tile_b, 0, tile_m)),
            pl.BlockSpec((1, 1, 128), lambda tile_b, tile_m: (tile_b, 0, tile_m)),
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec(memory_space=pl.ANY),
        ],
        out_specs=[
            pl.BlockSpec((1, 128, 128), lambda tile_b, tile_m: (tile_b, tile_m, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((2, 256, 128), jnp.bfloat16),
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
        cost_estimate=pl.CostEstimate(
            flops=101679104, transcendentals=131072, bytes_accessed=921600
        ),
        interpret=interpret,
    )
    (dq,) = call(
        q_in.reshape((2, 256, 128)),
        dout.reshape((2, 256, 128)),
        lse.reshape((2, 1, 256)),
        delta.reshape((2, 1, 256)),
        k_in.reshape((2, 256, 128)),
        v_in.reshape((2, 256, 128)),
    )
    return dq.reshape((1, 2, 256, 128))


def attention_dq(q_in, k_in, v_in, dout, lse, delta, interpret=False):
    """Returns bfloat16[1, 2, 256, 128].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("q_in", q_in, "bfloat16[1, 2, 256, 128]")
    _check("k_in", k_in, "bfloat16[1, 2, 256, 128]")
    _check("v_in", v_in, "bfloat16[1, 2, 256, 128]")
    _check("dout", dout, "bfloat16[1, 2, 256, 128]")
    _check("lse", lse, "float32[2, 256]")
    _check("delta", delta, "float32[2, 256]")
    if not (0, 8, 3) <= jax.__version_info__ < (0, 11):
        warnings.warn("attention_dq: tested with jax >=0.8.3,<0.11", stacklevel=2)
    return _attention_dq_jit(q_in, k_in, v_in, dout, lse, delta, _simulator(interpret))


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
