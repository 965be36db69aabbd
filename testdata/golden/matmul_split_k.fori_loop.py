"""matmul_split_k: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "matmul_split_k",
    "target": "v6e",
    "inputs": [
        {"name": "x", "dtype": "bfloat16", "shape": [64, 1024]},
        {"name": "y", "dtype": "bfloat16", "shape": [1024, 64]},
    ],
    "outputs": [
        {"name": "out", "dtype": "bfloat16", "shape": [64, 64]},
    ],
    "config": {
        "block_sizes": [32, 64, 128],
        "pallas_loop_type": "fori_loop",
        "pallas_pre_broadcast": False,
        "split_k": 4,
    },
    "vmem_bytes": 156129,
    "vmem_most_bytes": 2292312,
    "vmem": {
        "windows": 16384,
        "inner": 49152,
        "scratch": 16384,
        "intermediates": 74209,
    },
    "flops": 8388608,
    "hbm_bytes": 401408,
    "estimate": {
        "cycles": 13082,
        "seconds": 7.454e-06,
        "mxu": 128,
        "vector": 24,
        "xlu": 0,
        "eup": 0,
        "load": 43,
        "store": 16,
        "hbm": 438,
        "waits": 7989,
        "start": 609,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.8.3,<0.11",
}


def _matmul_split_k_kernel(
    x_hbm, y_hbm, out_ref, out_acc_ref, x_buf, x_sem, y_buf, y_sem
):
    tile_m = pl.program_id(0)
    outer_k = pl.program_id(2)

    @pl.when(outer_k == 0)
    def first_visit():
        out_acc_ref[...] = jnp.zeros((32, 64), jnp.float32)

    # for inner_k in hl.tile(outer_k.begin, outer_k.end):
    def step(x_win, y_win, acc):
        # acc = torch.addmm(acc, x[tile_m, inner_k], y[inner_k, tile_n])
        load = x_win[...]
        load_1 = y_win[...]
        acc_1_dot = jax.lax.dot_general(
            load, load_1, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
        )
        acc_1 = acc + acc_1_dot
        return acc_1

    def x_copy(i):
        slot = jax.lax.rem(i, 2)
        return pltpu.make_async_copy(
            x_hbm.at[pl.ds(tile_m * 32, 32), pl.ds(outer_k * 256 + i * 128, 128)],
            x_buf.at[slot],
            x_sem.at[slot],
        )

    def y_copy(i):
        slot = jax.lax.rem(i, 2)
        return pltpu.make_async_copy(
            y_hbm.at[:, pl.ds(outer_k * 256 + i * 128, 128)],
            y_buf.at[slot],
            y_sem.at[slot],
        )

    def body(j, acc):
        @pl.when(j + 1 < 2)
        def prefetch():
            x_copy(j + 1).start()
            y_copy(j + 1).start()

        x_copy(j).wait()
        y_copy(j).wait()
        acc = step(x_buf.at[jax.lax.rem(j, 2)], y_buf.at[jax.lax.rem(j, 2)], acc)
        return acc

    # acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
    x_copy(0).start()
    y_copy(0).start()
    acc_2 = jax.lax.fori_loop(0, 2, body, jnp.zeros((32, 64), jnp.float32))
    # hl.atomic_add(out, [tile_m, tile_n], acc)
    out_acc_ref[...] = out_acc_ref[...] + acc_2

    @pl.when(outer_k == 3)
    def last_visit():
        out_ref[...] = out_acc_ref[...].astype(jnp.bfloat16)


@functools.partial(jax.jit, static_argnames=("interpret",))
def _matmul_split_k_jit(x, y, interpret):
    call = _pallas_call(
        _matmul_split_k_kernel,
        name="matmul_split_k",
        grid=(2, 1, 4),
        in_specs=[
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec(memory_space=pl.ANY),
        ],
        out_specs=[
            pl.BlockSpec((32, 64), lambda tile_m, tile_n, outer_k: (tile_m, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((64, 64), jnp.bfloat16),
        ],
        scratch_shapes=[
            pltpu.VMEM((32, 64), jnp.float32),
            pltpu.VMEM((2, 32, 128), jnp.bfloat16),
            pltpu.SemaphoreType.DMA((2,)),
            pltpu.VMEM((2, 64, 128), jnp.bfloat16),
            pltpu.SemaphoreType.DMA((2,)),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary"),
            vmem_limit_bytes=5242880,
        ),
        cost_estimate=pl.CostEstimate(
            flops=8486912, transcendentals=0, bytes_accessed=401408
        ),
        interpret=interpret,
    )
    (out,) = call(x, jnp.transpose(y, (1, 0)))
    return out


def matmul_split_k(x, y, interpret=False):
    """Returns bfloat16[64, 64].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("x", x, "bfloat16[64, 1024]")
    _check("y", y, "bfloat16[1024, 64]")
    if not (0, 8, 3) <= jax.__version_info__ < (0, 11):
        warnings.warn("matmul_split_k: tested with jax >=0.8.3,<0.11", stacklevel=2)
    return _matmul_split_k_jit(x, y, _simulator(interpret))


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
