"""outer_chain_scale: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "outer_chain_scale",
    "target": "v6e",
    "inputs": [
        {"name": "x", "dtype": "bfloat16", "shape": [2, 200, 300]},
    ],
    "outputs": [
        {"name": "out", "dtype": "bfloat16", "shape": [2, 200, 128]},
    ],
    "config": {
        "block_sizes": [1, 128, 128],
        "pallas_loop_type": "emit_pipeline",
        "pallas_pre_broadcast": False,
    },
    "vmem_bytes": 301696,
    "vmem_most_bytes": 2474272,
    "vmem": {
        "windows": 131072,
        "inner": 65536,
        "scratch": 65536,
        "intermediates": 39552,
    },
    "flops": 0,
    "hbm_bytes": 297600,
    "estimate": {
        "cycles": 9413,
        "seconds": 5.363e-06,
        "mxu": 0,
        "vector": 416,
        "xlu": 349,
        "eup": 64,
        "load": 96,
        "store": 112,
        "hbm": 548,
        "waits": 4827,
        "start": 1255,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.8.3,<0.11",
}


def _mask(x, axis, count, fill):
    """x where its index along axis is below count, else fill."""
    index = jax.lax.broadcasted_iota(jnp.int32, x.shape, axis)
    return jnp.where(index < count, x, fill)


def _outer_chain_scale_kernel(x_hbm, x_tail_ref, out_ref, running_ref, acc_ref):
    tile_b = pl.program_id(0)
    tile_m = pl.program_id(1)

    # for tile_k in hl.tile(k):
    def step(x_win, running, acc, ragged=False):
        # squares = torch.square(x[tile_b, tile_m, tile_k])
        load = x_win[...]
        load = _mask(load, 2, 44, 0) if ragged else load
        squares = jnp.power(load.astype(jnp.float32), 2).astype(jnp.bfloat16)
        # running = running + torch.sum(squares, -1)
        running_1 = running + jnp.sum(
            squares.astype(jnp.float32), axis=2, keepdims=True
        ).astype(jnp.bfloat16)
        # acc = acc + running[:, :, None]
        acc_1 = acc + running_1
        return running_1, acc_1

    # running = hl.zeros([tile_b, tile_m], dtype=x.dtype)
    running_ref[...] = jnp.zeros((1, 128, 1), jnp.bfloat16)
    # acc = hl.zeros([tile_b, tile_m, width], dtype=x.dtype)
    acc_ref[...] = jnp.zeros((1, 128, 128), jnp.bfloat16)

    def body(x_win):
        running_ref[...], acc_ref[...] = step(x_win, running_ref[...], acc_ref[...])

    pipeline = pltpu.emit_pipeline(
        body,
        grid=(2,),
        in_specs=[
            pl.BlockSpec((1, 128, 128), lambda j: (tile_b, tile_m, j)),
        ],
    )
    pipeline(x_hbm)
    running_2 = running_ref[...]
    acc_2 = acc_ref[...]
    running_2, acc_2 = step(x_tail_ref, running_2, acc_2, ragged=True)
    # scale = torch.rsqrt(running[:, :, None] + 1)
    scale = jax.lax.rsqrt((running_2 + 1).astype(jnp.float32)).astype(jnp.bfloat16)
    # out[tile_b, tile_m, :] = acc * scale
    out_ref[...] = acc_2 * scale


@functools.partial(jax.jit, static_argnames=("interpret",))
def _outer_chain_scale_jit(x, interpret):
    call = _pallas_call(
        _outer_chain_scale_kernel,
        name="outer_chain_scale",
        grid=(2, 2),
        in_specs=[
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec((1, 128, 128), lambda tile_b, tile_m: (tile_b, tile_m, 2)),
        ],
        out_specs=[
            pl.BlockSpec((1, 128, 128), lambda tile_b, tile_m: (tile_b, tile_m, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((2, 200, 128), jnp.bfloat16),
        ],
        scratch_shapes=[
            pltpu.VMEM((1, 128, 1), jnp.bfloat16),
            pltpu.VMEM((1, 128, 128), jnp.bfloat16),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel"),
            vmem_limit_bytes=5242880,
        ),
        cost_estimate=pl.CostEstimate(
            flops=1703936, transcendentals=65536, bytes_accessed=297600
        ),
        interpret=interpret,
    )
    (out,) = call(x, x)
    return out


def outer_chain_scale(x, interpret=False):
    """Returns bfloat16[2, 200, 128].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("x", x, "bfloat16[2, 200, 300]")
    if not (0, 8, 3) <= jax.__version_info__ < (0, 11):
        warnings.warn("outer_chain_scale: tested with jax >=0.8.3,<0.11", stacklevel=2)
    return _outer_chain_scale_jit(x, _simulator(interpret))


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
