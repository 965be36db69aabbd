"""attention_dkdv: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "attention_dkdv",
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
        {"name": "dk", "dtype": "bfloat16", "shape": [1, 2, 256, 128]},
        {"name": "dv", "dtype": "bfloat16", "shape": [1, 2, 256, 128]},
    ],
    "config": {"block_sizes": [1, 128, 128], "pallas_loop_type": "emit_pipeline"},
    "vmem_bytes": 1083233,
    "vmem_most_bytes": 3451192,
    "vmem": {
        "windows": 262144,
        "inner": 133120,
        "scratch": 131072,
        "intermediates": 556897,
    },
    "flops": 134217728,
    "hbm_bytes": 1056768,
    "estimate": {
        "cycles": 9558,
        "seconds": 5.446e-06,
        "mxu": 1024,
        "vector": 304,
        "xlu": 0,
        "eup": 128,
        "load": 176,
        "store": 160,
        "hbm": 1131,
        "waits": 2919,
        "start": 1340,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.8.3,<0.11",
}


def _attention_dkdv_kernel(
    k_in_ref,
    v_in_ref,
    q_in_hbm,
    dout_hbm,
    lse_hbm,
    delta_hbm,
    dk_ref,
    dv_ref,
    dv_acc_ref,
    dk_acc_ref,
):
    tile_b = pl.program_id(0)
    # dk_acc = hl.zeros([tile_b, tile_n, head_dim], dtype=torch.float32)
    dk_acc = jnp.zeros((1, 128, 128), jnp.float32)

    # for tile_m in hl.tile(begin, s_dim):
    def step(q_in_win, dout_win, lse_win, delta_win, dv_acc, dk_acc_1):
        # k = k_view[tile_b, tile_n, :]
        k = k_in_ref[...]
        # v = v_view[tile_b, tile_n, :]
        v = v_in_ref[...]
        # q = q_view[tile_b, tile_m, :]
        q = q_in_win[...]
        # do = do_view[tile_b, tile_m, :]
        do = dout_win[...]
        # scores = torch.bmm(q, k.transpose(1, 2), out_dtype=torch.float32)
        scores = jax.lax.dot_general(
            k, q, (((2,), (2,)), ((0,), (0,))), preferred_element_type=jnp.float32
        )
        # p = torch.exp2(scores * (sm_scale * LOG2_E) - lse[tile_b, tile_m][:, :, No...
        load_2 = lse_win[:, 0, :]
        exp2 = jnp.exp2(scores * 0.12751743082459868 - load_2.reshape((1, 1, 128)))
        # dv_acc = torch.baddbmm(dv_acc, p.to(do.dtype).transpose(1, 2), do)
        dv_acc_1_dot = jax.lax.dot_general(
            exp2.astype(jnp.bfloat16),
            do,
            (((2,), (1,)), ((0,), (0,))),
            preferred_element_type=jnp.float32,
        )
        dv_acc_1 = dv_acc + dv_acc_1_dot
        # dp = torch.bmm(do, v.transpose(1, 2), out_dtype=torch.float32)
        dp = jax.lax.dot_general(
            v, do, (((2,), (2,)), ((0,), (0,))), preferred_element_type=jnp.float32
        )
        # ds = p * (dp - delta[tile_b, tile_m][:, :, None]) * sm_scale
        load_3 = delta_win[:, 0, :]
        ds = exp2 * (dp - load_3.reshape((1, 1, 128))) * 0.08838834764831843
        # dk_acc = torch.baddbmm(dk_acc, ds.to(q.dtype).transpose(1, 2), q)
        dk_acc_1_dot = jax.lax.dot_general(
            ds.astype(jnp.bfloat16),
            q,
            (((2,), (1,)), ((0,), (0,))),
            preferred_element_type=jnp.float32,
        )
        dk_acc_1_1 = dk_acc_1 + dk_acc_1_dot
        return dv_acc_1, dk_acc_1_1

    dv_acc_ref[...] = dk_acc
    dk_acc_ref[...] = dk_acc

    def body(q_in_win, dout_win, lse_win, delta_win):
        dv_acc_ref[...], dk_acc_ref[...] = step(
            q_in_win, dout_win, lse_win, delta_win, dv_acc_ref[...], dk_acc_ref[...]
        )

    pipeline = pltpu.emit_pipeline(
        body,
        grid=(2,),
        in_specs=[
            pl.BlockSpec((1, 128, 128), lambda j: (tile_b, j, 0)),
            pl.BlockSpec((1, 128, 128), lambda j: (tile_b, j, 0)),
            pl.BlockSpec((1, 1, 128), lambda j: (tile_b, 0, j)),
            pl.BlockSpec((1, 1, 128), lambda j: (tile_b, 0, j)),
        ],
    )
    pipeline(q_in_hbm, dout_hbm, lse_hbm, delta_hbm)
    dv_acc_2 = dv_acc_ref[...]
    dk_acc_2 = dk_acc_ref[...]
    # dk[tile_b, tile_n, :] = dk_acc.to(dk.dtype)
    dk_ref[...] = dk_acc_2.astype(jnp.bfloat16)
    # dv[tile_b, tile_n, :] = dv_acc.to(dv.dtype)
    dv_ref[...] = dv_acc_2.astype(jnp.bfloat16)


@functools.partial(jax.jit, static_argnames=("interpret",))
def _attention_dkdv_jit(q_in, k_in, v_in, dout, lse, delta, interpret):
    call = _pallas_call(
        _attention_dkdv_kernel,
        name="attention_dkdv",
        grid=(2, 2),
        in_specs=[
            pl.BlockSpec((1, 128, 128), lambda tile_b, tile_n: (tile_b, tile_n, 0)),
            pl.BlockSpec((1, 128, 128), lambda tile_b, tile_n: (tile_b, tile_n, 0)),
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec(memory_space=pl.ANY),
        ],
        out_specs=[
            pl.BlockSpec((1, 128, 128), lambda tile_b, tile_n: (tile_b, tile_n, 0)),
            pl.BlockSpec((1, 128, 128), lambda tile_b, tile_n: (tile_b, tile_n, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((2, 256, 128), jnp.bfloat16),
            jax.ShapeDtypeStruct((2, 256, 128), jnp.bfloat16),
        ],
        scratch_shapes=[
            pltpu.VMEM((1, 128, 128), jnp.float32),
            pltpu.VMEM((1, 128, 128), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel"),
            vmem_limit_bytes=7340032,
        ),
        cost_estimate=pl.CostEstimate(
            flops=135462912, transcendentals=131072, bytes_accessed=1056768
        ),
        interpret=interpret,
    )
    dk, dv = call(
        k_in.reshape((2, 256, 128)),
        v_in.reshape((2, 256, 128)),
        q_in.reshape((2, 256, 128)),
        dout.reshape((2, 256, 128)),
        lse.reshape((2, 1, 256)),
        delta.reshape((2, 1, 256)),
    )
    return dk.reshape((1, 2, 256, 128)), dv.reshape((1, 2, 256, 128))


def attention_dkdv(q_in, k_in, v_in, dout, lse, delta, interpret=False):
    """Returns bfloat16[1, 2, 256, 128], bfloat16[1, 2, 256, 128].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("q_in", q_in, "bfloat16[1, 2, 256, 128]")
    _check("k_in", k_in, "bfloat16[1, 2, 256, 128]")
    _check("v_in", v_in, "bfloat16[1, 2, 256, 128]")
    _check("dout", dout, "bfloat16[1, 2, 256, 128]")
    _check("lse", lse, "float32[2, 256]")
    _check("delta", delta, "float32[2, 256]")
    if not (0, 8, 3) <= jax.__version_info__ < (0, 11):
        warnings.warn("attention_dkdv: tested with jax >=0.8.3,<0.11", stacklevel=2)
    return _attention_dkdv_jit(
        q_in, k_in, v_in, dout, lse, delta, _simulator(interpret)
    )


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
