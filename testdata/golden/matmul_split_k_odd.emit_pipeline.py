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
        {"name": "x", "dtype": "float32", "shape": [72, 1000]},
        {"name": "y", "dtype": "float32", "shape": [1000, 96]},
    ],
    "outputs": [
        {"name": "out", "dtype": "float32", "shape": [72, 96]},
    ],
    "config": {
        "block_sizes": [24, 96, 128],
        "pallas_loop_type": "emit_pipeline",
        "pallas_pre_broadcast": False,
        "split_k": 4,
    },
    "vmem_bytes": 558466,
    "vmem_most_bytes": 2795232,
    "vmem": {
        "windows": 24576,
        "inner": 155648,
        "scratch": 12288,
        "intermediates": 365954,
    },
    "flops": 14155776,
    "hbm_bytes": 1467648,
    "estimate": {
        "cycles": 21653,
        "seconds": 1.2338e-05,
        "mxu": 864,
        "vector": 411,
        "xlu": 0,
        "eup": 0,
        "load": 188,
        "store": 54,
        "hbm": 1999,
        "waits": 12299,
        "start": 613,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.8.3,<0.11",
}


def _mask(x, axis, count, fill):
    """x where its index along axis is below count, else fill."""
    index = jax.lax.broadcasted_iota(jnp.int32, x.shape, axis)
    return jnp.where(index < count, x, fill)


def _matmul_split_k_kernel(x_hbm, y_hbm, out_ref, acc_ref):
    tile_m = pl.program_id(0)
    outer_k = pl.program_id(2)

    @pl.when(outer_k == 0)
    def first_visit():
        out_ref[...] = jnp.zeros((24, 96), jnp.float32)

    # for inner_k in hl.tile(outer_k.begin, outer_k.end):
    tile_end = jnp.minimum(outer_k * 256 + 256, 1000)

    def step(j, x_win, y_win, acc):
        # acc = torch.addmm(acc, x[tile_m, inner_k], y[inner_k, tile_n])
        load = x_win[...]
        load = _mask(load, 1, tile_end - outer_k * 256 - j * 128, 0)
        load_1 = y_win[...]
        load_1 = _mask(load_1, 0, tile_end - outer_k * 256 - j * 128, 0)
        acc_1_dot = jax.lax.dot_general(
            load,
            load_1,
            (((1,), (0,)), ((), ())),
            precision=jax.lax.Precision.HIGHEST,
            preferred_element_type=jnp.float32,
        )
        acc_1 = acc + acc_1_dot
        return acc_1

    # acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
    acc_ref[...] = jnp.zeros((24, 96), jnp.float32)

    def body(x_win, y_win):
        acc_ref[...] = step(pl.program_id(0), x_win, y_win, acc_ref[...])

    pipeline = pltpu.emit_pipeline(
        body,
        grid=(pl.cdiv(tile_end - outer_k * 256, 128),),
        in_specs=[
            pl.BlockSpec((24, 128), lambda j: (tile_m, outer_k * 2 + j)),
            pl.BlockSpec((128, 96), lambda j: (outer_k * 2 + j, 0)),
        ],
    )
    pipeline(x_hbm, y_hbm)
    acc_2 = acc_ref[...]
    # hl.atomic_add(out, [tile_m, tile_n], acc)
    out_ref[...] = out_ref[...] + acc_2


@functools.partial(jax.jit, static_argnames=("interpret",))
def _matmul_split_k_jit(x, y, interpret):
    call = _pallas_call(
        _matmul_split_k_kernel,
        name="matmul_split_k",
        grid=(3, 1, 4),
        in_specs=[
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec(memory_space=pl.ANY),
        ],
        out_specs=[
            pl.BlockSpec((24, 96), lambda tile_m, tile_n, outer_k: (tile_m, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((72, 96), jnp.float32),
        ],
        scratch_shapes=[
            pltpu.VMEM((24, 96), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary"),
            vmem_limit_bytes=6291456,
        ),
        interpret=interpret,
    )
    (out,) = call(x, y)
    return out


def matmul_split_k(x, y, interpret=False):
    """Returns float32[72, 96].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("x", x, "float32[72, 1000]")
    _check("y", y, "float32[1000, 96]")
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
