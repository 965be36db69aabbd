"""jsd: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "jsd",
    "target": "v6e",
    "inputs": [
        {"name": "log_q", "dtype": "float32", "shape": [256, 1024]},
        {"name": "log_p", "dtype": "float32", "shape": [256, 1024]},
    ],
    "outputs": [
        {"name": "loss", "dtype": "float32", "shape": [256]},
        {"name": "grad", "dtype": "float32", "shape": [256, 1024]},
    ],
    "config": {"block_sizes": [64, 256], "pallas_loop_type": "fori_loop"},
    "vmem_bytes": 644337,
    "vmem_most_bytes": 2902572,
    "vmem": {"windows": 1024, "inner": 393216, "scratch": 0, "intermediates": 250097},
    "flops": 0,
    "hbm_bytes": 3146752,
    "estimate": {
        "cycles": 14825,
        "seconds": 8.448e-06,
        "mxu": 0,
        "vector": 984,
        "xlu": 291,
        "eup": 768,
        "load": 171,
        "store": 130,
        "hbm": 3369,
        "waits": 9629,
        "start": 601,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.8.3,<0.11",
}


def _to_row(x):
    """A column [..., m, 1] as a row [..., 1, m]."""
    lanes = jnp.broadcast_to(x, (*x.shape[:-1], 128))
    return jnp.swapaxes(lanes, -1, -2)[..., :1, :]


def _jsd_kernel(
    log_q_hbm,
    log_p_hbm,
    grad_hbm,
    loss_ref,
    log_q_buf,
    log_q_sem,
    log_p_buf,
    log_p_sem,
    grad_buf,
    grad_sem,
):
    tile_b = pl.program_id(0)

    # for tile_v in hl.tile(v):
    def step(log_q_win, log_p_win, grad_win, total):
        # lq = log_q[tile_b, tile_v].to(torch.float32)
        lq = log_q_win[...]
        # lp = log_p[tile_b, tile_v].to(torch.float32)
        lp = log_p_win[...]
        # q = torch.exp(lq)
        q = jnp.exp(lq)
        # p = torch.exp(lp)
        exp_1 = jnp.exp(lp)
        # lm = torch.log(beta * p + (1 - beta) * q)
        mul = exp_1 * 0.25
        mul_1 = q * 0.75
        lm = jnp.log(mul + mul_1)
        # total += (beta * p * (lp - lm) + (1 - beta) * q * (lq - lm)).sum(dim=-1)
        mul_5 = mul_1 * (lq - lm)
        sum_1 = jnp.sum(mul * (lp - lm) + mul_5, axis=1, keepdims=True)
        total_1 = total + sum_1
        # grad[tile_b, tile_v] = ((1 - beta) * q * (lq - lm)).to(log_q.dtype)
        grad_win[...] = mul_5
        return total_1

    def log_q_copy(i):
        slot = jax.lax.rem(i, 2)
        return pltpu.make_async_copy(
            log_q_hbm.at[pl.ds(tile_b * 64, 64), pl.ds(i * 256, 256)],
            log_q_buf.at[slot],
            log_q_sem.at[slot],
        )

    def log_p_copy(i):
        slot = jax.lax.rem(i, 2)
        return pltpu.make_async_copy(
            log_p_hbm.at[pl.ds(tile_b * 64, 64), pl.ds(i * 256, 256)],
            log_p_buf.at[slot],
            log_p_sem.at[slot],
        )

    def grad_copy(i):
        slot = jax.lax.rem(i, 2)
        return pltpu.make_async_copy(
            grad_buf.at[slot],
            grad_hbm.at[pl.ds(tile_b * 64, 64), pl.ds(i * 256, 256)],
            grad_sem.at[slot],
        )

    def body(j, total):
        @pl.when(j + 1 < 4)
        def prefetch():
            log_q_copy(j + 1).start()
            log_p_copy(j + 1).start()

        log_q_copy(j).wait()
        log_p_copy(j).wait()

        @pl.when(j >= 2)
        def reuse():
            grad_copy(j - 2).wait()

        total = step(
            log_q_buf.at[jax.lax.rem(j, 2)],
            log_p_buf.at[jax.lax.rem(j, 2)],
            grad_buf.at[jax.lax.rem(j, 2)],
            total,
        )
        grad_copy(j).start()
        return total

    # total = hl.zeros([tile_b], dtype=torch.float32)
    log_q_copy(0).start()
    log_p_copy(0).start()
    total_2 = jax.lax.fori_loop(0, 4, body, jnp.zeros((64, 1), jnp.float32))
    for i in range(2, 4):
        grad_copy(i).wait()
    # loss[tile_b] = total
    loss_ref[0, :, :] = _to_row(total_2)


@functools.partial(jax.jit, static_argnames=("interpret",))
def _jsd_jit(log_q, log_p, interpret):
    call = _pallas_call(
        _jsd_kernel,
        name="jsd",
        grid=(4,),
        in_specs=[
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec(memory_space=pl.ANY),
        ],
        out_specs=[
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec((1, 1, 64), lambda tile_b: (tile_b, 0, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((256, 1024), jnp.float32),
            jax.ShapeDtypeStruct((4, 1, 64), jnp.float32),
        ],
        scratch_shapes=[
            pltpu.VMEM((2, 64, 256), jnp.float32),
            pltpu.SemaphoreType.DMA((2,)),
            pltpu.VMEM((2, 64, 256), jnp.float32),
            pltpu.SemaphoreType.DMA((2,)),
            pltpu.VMEM((2, 64, 256), jnp.float32),
            pltpu.SemaphoreType.DMA((2,)),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel",),
            vmem_limit_bytes=6291456,
        ),
        cost_estimate=pl.CostEstimate(
            flops=4030464, transcendentals=786432, bytes_accessed=3146752
        ),
        interpret=interpret,
    )
    grad, loss = call(log_q, log_p)
    return loss.reshape((256,)), grad


def jsd(log_q, log_p, interpret=False):
    """Returns float32[256], float32[256, 1024].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("log_q", log_q, "float32[256, 1024]")
    _check("log_p", log_p, "float32[256, 1024]")
    if not (0, 8, 3) <= jax.__version_info__ < (0, 11):
        warnings.warn("jsd: tested with jax >=0.8.3,<0.11", stacklevel=2)
    return _jsd_jit(log_q, log_p, _simulator(interpret))


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
