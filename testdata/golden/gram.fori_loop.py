"""gram: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "gram",
    "target": "v6e",
    "inputs": [
        {"name": "x", "dtype": "bfloat16", "shape": [256, 256]},
    ],
    "outputs": [
        {"name": "out", "dtype": "float32", "shape": [256, 256]},
    ],
    "config": {
        "block_sizes": [128, 128, 128],
        "pallas_loop_type": "fori_loop",
        "pallas_pre_broadcast": False,
    },
    "vmem_bytes": 427526,
    "vmem_most_bytes": 2631557,
    "vmem": {"windows": 131072, "inner": 131072, "scratch": 0, "intermediates": 165382},
    "flops": 33554432,
    "hbm_bytes": 786432,
    "estimate": {
        "cycles": 7339,
        "seconds": 4.182e-06,
        "mxu": 256,
        "vector": 32,
        "xlu": 0,
        "eup": 0,
        "load": 43,
        "store": 32,
        "hbm": 842,
        "waits": 4273,
        "start": 670,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.8.3,<0.11",
}


def _gram_kernel(x_hbm, out_ref, x_buf, x_sem, x_w_buf, x_w_sem):
    tile_m = pl.program_id(0)
    tile_n = pl.program_id(1)

    # for tile_k in hl.tile(k):
    def step(x_win, x_win_1, acc):
        # acc = torch.addmm(acc, x[tile_m, tile_k], x[tile_n, tile_k].transpose(0, 1...
        load = x_win[...]
        load_1 = x_win_1[...]
        acc_1_dot = jax.lax.dot_general(
            load, load_1, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
        )
        acc_1 = acc + acc_1_dot
        return acc_1

    def x_copy(i):
        slot = jax.lax.rem(i, 2)
        return pltpu.make_async_copy(
            x_hbm.at[pl.ds(tile_m * 128, 128), pl.ds(i * 128, 128)],
            x_buf.at[slot],
            x_sem.at[slot],
        )

    def x_copy_1(i):
        slot = jax.lax.rem(i, 2)
        return pltpu.make_async_copy(
            x_hbm.at[pl.ds(tile_n * 128, 128), pl.ds(i * 128, 128)],
            x_w_buf.at[slot],
            x_w_sem.at[slot],
        )

    def body(j, acc):
        @pl.when(j + 1 < 2)
        def prefetch():
            x_copy(j + 1).start()
            x_copy_1(j + 1).start()

        x_copy(j).wait()
        x_copy_1(j).wait()
        acc = step(x_buf.at[jax.lax.rem(j, 2)], x_w_buf.at[jax.lax.rem(j, 2)], acc)
        return acc

    # acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
    x_copy(0).start()
    x_copy_1(0).start()
    acc_2 = jax.lax.fori_loop(0, 2, body, jnp.zeros((128, 128), jnp.float32))
    # out[tile_m, tile_n] = acc
    out_ref[...] = acc_2


@functools.partial(jax.jit, static_argnames=("interpret",))
def _gram_jit(x, interpret):
    call = _pallas_call(
        _gram_kernel,
        name="gram",
        grid=(2, 2),
        in_specs=[
            pl.BlockSpec(memory_space=pl.ANY),
        ],
        out_specs=[
            pl.BlockSpec((128, 128), lambda tile_m, tile_n: (tile_m, tile_n)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((256, 256), jnp.float32),
        ],
        scratch_shapes=[
            pltpu.VMEM((2, 128, 128), jnp.bfloat16),
            pltpu.SemaphoreType.DMA((2,)),
            pltpu.VMEM((2, 128, 128), jnp.bfloat16),
            pltpu.SemaphoreType.DMA((2,)),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel"),
            vmem_limit_bytes=5242880,
        ),
        cost_estimate=pl.CostEstimate(
            flops=33685504, transcendentals=0, bytes_accessed=786432
        ),
        interpret=interpret,
    )
    (out,) = call(x)
    return out


def gram(x, interpret=False):
    """Returns float32[256, 256].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("x", x, "bfloat16[256, 256]")
    if not (0, 8, 3) <= jax.__version_info__ < (0, 11):
        warnings.warn("gram: tested with jax >=0.8.3,<0.11", stacklevel=2)
    return _gram_jit(x, _simulator(interpret))


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
