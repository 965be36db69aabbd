"""softmax_two_pass: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "softmax_two_pass",
    "target": "v6e",
    "inputs": [
        {"name": "x", "dtype": "float32", "shape": [256, 1024]},
    ],
    "outputs": [
        {"name": "out", "dtype": "float32", "shape": [256, 1024]},
    ],
    "config": {
        "block_sizes": [256, 64],
        "pallas_loop_type": "fori_loop",
        "pallas_pre_broadcast": True,
    },
    "vmem_bytes": 558817,
    "vmem_most_bytes": 2795672,
    "vmem": {"windows": 0, "inner": 458752, "scratch": 0, "intermediates": 100065},
    "flops": 0,
    "hbm_bytes": 3145728,
    "estimate": {
        "cycles": 19407,
        "seconds": 1.1058e-05,
        "mxu": 0,
        "vector": 768,
        "xlu": 465,
        "eup": 896,
        "load": 171,
        "store": 128,
        "hbm": 3366,
        "waits": 13005,
        "start": 0,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.8.3,<0.11",
}


def _softmax_two_pass_kernel(
    x_hbm, out_hbm, x_buf, x_sem, x_buf_1, x_sem_1, out_buf, out_sem
):
    tile_m = pl.program_id(0)

    # for tile_n in hl.tile(n, block_size=block_n):
    def step(x_win, row_max, row_sum):
        # values = x[tile_m, tile_n].to(torch.float32)
        values = x_win[...]
        # new_max = torch.maximum(row_max, torch.amax(values, dim=1))
        new_max = jnp.maximum(row_max, jnp.max(values, axis=1, keepdims=True))
        # scaled_sum = row_sum * torch.exp(row_max - new_max)
        scaled_sum = row_sum * jnp.exp(row_max - new_max)
        # row_sum = scaled_sum + torch.exp(values - new_max[:, None]).sum(dim=1)
        sum_1 = jnp.sum(
            jnp.exp(values - jnp.tile(new_max, (1, 2))), axis=1, keepdims=True
        )
        row_sum_1 = scaled_sum + sum_1
        return new_max, row_sum_1

    def x_copy(i):
        slot = jax.lax.rem(i, 3)
        return pltpu.make_async_copy(
            x_hbm.at[pl.ds(tile_m * 64, 64), pl.ds(i * 256, 256)],
            x_buf.at[slot],
            x_sem.at[slot],
        )

    def body(j, carry):
        row_max, row_sum = carry

        @pl.when(j + 2 < 4)
        def prefetch():
            x_copy(j + 2).start()

        x_copy(j).wait()
        row_max, row_sum = step(x_buf.at[jax.lax.rem(j, 3)], row_max, row_sum)
        return row_max, row_sum

    # row_max = hl.full([tile_m], float("-inf"), dtype=torch.float32)
    # row_sum = hl.zeros([tile_m], dtype=torch.float32)
    x_copy(0).start()
    x_copy(1).start()
    row_max_1, row_sum_2 = jax.lax.fori_loop(
        0,
        4,
        body,
        (jnp.full((64, 128), -jnp.inf, jnp.float32), jnp.zeros((64, 128), jnp.float32)),
    )

    # line 41: for tile_n in hl.tile(n, block_size=block_n):
    def step_1(x_win_1, out_win):
        # line 42: values = x[tile_m, tile_n].to(torch.float32)
        values_1 = x_win_1[...]
        # weight = torch.exp(values - row_max[:, None])
        weight = jnp.exp(values_1 - jnp.tile(row_max_1, (1, 2)))
        # out[tile_m, tile_n] = (weight / row_sum[:, None]).to(x.dtype)
        out_win[...] = weight / jnp.tile(row_sum_2, (1, 2))

    def x_copy_1(i):
        slot = jax.lax.rem(i, 2)
        return pltpu.make_async_copy(
            x_hbm.at[pl.ds(tile_m * 64, 64), pl.ds(i * 256, 256)],
            x_buf_1.at[slot],
            x_sem_1.at[slot],
        )

    def out_copy(i):
        slot = jax.lax.rem(i, 2)
        return pltpu.make_async_copy(
            out_buf.at[slot],
            out_hbm.at[pl.ds(tile_m * 64, 64), pl.ds(i * 256, 256)],
            out_sem.at[slot],
        )

    def body_1(j_1, carry):
        @pl.when(j_1 + 1 < 4)
        def prefetch_1():
            x_copy_1(j_1 + 1).start()

        x_copy_1(j_1).wait()

        @pl.when(j_1 >= 2)
        def reuse():
            out_copy(j_1 - 2).wait()

        step_1(x_buf_1.at[jax.lax.rem(j_1, 2)], out_buf.at[jax.lax.rem(j_1, 2)])
        out_copy(j_1).start()
        return carry

    x_copy_1(0).start()
    jax.lax.fori_loop(0, 4, body_1, None)
    for i in range(2, 4):
        out_copy(i).wait()


@functools.partial(jax.jit, static_argnames=("interpret",))
def _softmax_two_pass_jit(x, interpret):
    call = _pallas_call(
        _softmax_two_pass_kernel,
        name="softmax_two_pass",
        grid=(4,),
        in_specs=[
            pl.BlockSpec(memory_space=pl.ANY),
        ],
        out_specs=[
            pl.BlockSpec(memory_space=pl.ANY),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((256, 1024), jnp.float32),
        ],
        scratch_shapes=[
            pltpu.VMEM((3, 64, 256), jnp.float32),
            pltpu.SemaphoreType.DMA((3,)),
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
            flops=3145728, transcendentals=917504, bytes_accessed=3145728
        ),
        interpret=interpret,
    )
    (out,) = call(x)
    return out


def softmax_two_pass(x, interpret=False):
    """Returns float32[256, 1024].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("x", x, "float32[256, 1024]")
    if not (0, 8, 3) <= jax.__version_info__ < (0, 11):
        warnings.warn("softmax_two_pass: tested with jax >=0.8.3,<0.11", stacklevel=2)
    return _softmax_two_pass_jit(x, _simulator(interpret))


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
