"""softmax: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "softmax",
    "target": "v6e",
    "inputs": [
        {"name": "x", "dtype": "float32", "shape": [16, 4096]},
    ],
    "outputs": [
        {"name": "out", "dtype": "float32", "shape": [16, 4096]},
    ],
    "config": {
        "block_sizes": [8],
        "reduction_loops": [512],
        "pallas_loop_type": "fori_loop",
    },
    "vmem_bytes": 200847,
    "vmem_most_bytes": 2348207,
    "vmem": {"windows": 0, "inner": 163840, "scratch": 0, "intermediates": 37007},
    "flops": 0,
    "hbm_bytes": 1048576,
    "estimate": {
        "cycles": 18753,
        "seconds": 1.0685e-05,
        "mxu": 0,
        "vector": 160,
        "xlu": 58,
        "eup": 192,
        "load": 64,
        "store": 32,
        "hbm": 1122,
        "waits": 12560,
        "start": 0,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.8.3,<0.11",
}


def _softmax_kernel(
    x_hbm, out_hbm, x_buf, x_sem, x_buf_1, x_sem_1, x_buf_2, x_sem_2, out_buf, out_sem
):
    tile_m = pl.program_id(0)

    def step(x_win, row_max_acc):
        # row = x[tile_m, :].to(torch.float32)
        row = x_win[...]
        # row_max = torch.amax(row, dim=1, keepdim=True)
        row_max_so_far = jnp.maximum(row_max_acc, jnp.max(row, axis=1, keepdims=True))
        return row_max_so_far

    def x_copy(i):
        slot = jax.lax.rem(i, 3)
        return pltpu.make_async_copy(
            x_hbm.at[pl.ds(tile_m * 8, 8), pl.ds(i * 512, 512)],
            x_buf.at[slot],
            x_sem.at[slot],
        )

    def body(j, row_max_acc):
        @pl.when(j + 2 < 8)
        def prefetch():
            x_copy(j + 2).start()

        x_copy(j).wait()
        row_max_acc = step(x_buf.at[jax.lax.rem(j, 3)], row_max_acc)
        return row_max_acc

    x_copy(0).start()
    x_copy(1).start()
    row_max_acc_1 = jax.lax.fori_loop(
        0, 8, body, jnp.full((8, 1), -jnp.inf, jnp.float32)
    )
    row_max_1_wide = jnp.broadcast_to(row_max_acc_1, (8, 128))

    def step_1(x_win_1, total_acc):
        row_1 = x_win_1[...]
        # weight = torch.exp(row - row_max)
        weight = jnp.exp(row_1 - jnp.tile(row_max_1_wide, (1, 4)))
        # total = torch.sum(weight, dim=1, keepdim=True)
        total_so_far = total_acc + jnp.sum(weight, axis=1, keepdims=True)
        return total_so_far

    def x_copy_1(i):
        slot = jax.lax.rem(i, 3)
        return pltpu.make_async_copy(
            x_hbm.at[pl.ds(tile_m * 8, 8), pl.ds(i * 512, 512)],
            x_buf_1.at[slot],
            x_sem_1.at[slot],
        )

    def body_1(j_1, total_acc):
        @pl.when(j_1 + 2 < 8)
        def prefetch_1():
            x_copy_1(j_1 + 2).start()

        x_copy_1(j_1).wait()
        total_acc = step_1(x_buf_1.at[jax.lax.rem(j_1, 3)], total_acc)
        return total_acc

    x_copy_1(0).start()
    x_copy_1(1).start()
    total_acc_1 = jax.lax.fori_loop(0, 8, body_1, jnp.zeros((8, 1), jnp.float32))
    total_1_wide = jnp.broadcast_to(total_acc_1, (8, 128))

    def step_2(x_win_2, out_win):
        row_2 = x_win_2[...]
        weight_1 = jnp.exp(row_2 - jnp.tile(row_max_1_wide, (1, 4)))
        # out[tile_m, :] = (weight / total).to(x.dtype)
        out_win[...] = weight_1 / jnp.tile(total_1_wide, (1, 4))

    def x_copy_2(i):
        slot = jax.lax.rem(i, 2)
        return pltpu.make_async_copy(
            x_hbm.at[pl.ds(tile_m * 8, 8), pl.ds(i * 512, 512)],
            x_buf_2.at[slot],
            x_sem_2.at[slot],
        )

    def out_copy(i):
        slot = jax.lax.rem(i, 2)
        return pltpu.make_async_copy(
            out_buf.at[slot],
            out_hbm.at[pl.ds(tile_m * 8, 8), pl.ds(i * 512, 512)],
            out_sem.at[slot],
        )

    def body_2(j_2, carry):
        @pl.when(j_2 + 1 < 8)
        def prefetch_2():
            x_copy_2(j_2 + 1).start()

        x_copy_2(j_2).wait()

        @pl.when(j_2 >= 2)
        def reuse():
            out_copy(j_2 - 2).wait()

        step_2(x_buf_2.at[jax.lax.rem(j_2, 2)], out_buf.at[jax.lax.rem(j_2, 2)])
        out_copy(j_2).start()
        return carry

    x_copy_2(0).start()
    jax.lax.fori_loop(0, 8, body_2, None)
    for i in range(6, 8):
        out_copy(i).wait()


@functools.partial(jax.jit, static_argnames=("interpret",))
def _softmax_jit(x, interpret):
    call = _pallas_call(
        _softmax_kernel,
        name="softmax",
        grid=(2,),
        in_specs=[
            pl.BlockSpec(memory_space=pl.ANY),
        ],
        out_specs=[
            pl.BlockSpec(memory_space=pl.ANY),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((16, 4096), jnp.float32),
        ],
        scratch_shapes=[
            pltpu.VMEM((3, 8, 512), jnp.float32),
            pltpu.SemaphoreType.DMA((3,)),
            pltpu.VMEM((3, 8, 512), jnp.float32),
            pltpu.SemaphoreType.DMA((3,)),
            pltpu.VMEM((2, 8, 512), jnp.float32),
            pltpu.SemaphoreType.DMA((2,)),
            pltpu.VMEM((2, 8, 512), jnp.float32),
            pltpu.SemaphoreType.DMA((2,)),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel",),
            vmem_limit_bytes=5242880,
        ),
        cost_estimate=pl.CostEstimate(
            flops=655360, transcendentals=196608, bytes_accessed=1048576
        ),
        interpret=interpret,
    )
    (out,) = call(x)
    return out


def softmax(x, interpret=False):
    """Returns float32[16, 4096].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("x", x, "float32[16, 4096]")
    if not (0, 8, 3) <= jax.__version_info__ < (0, 11):
        warnings.warn("softmax: tested with jax >=0.8.3,<0.11", stacklevel=2)
    return _softmax_jit(x, _simulator(interpret))


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
