"""nested_scale: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "nested_scale",
    "target": "v6e",
    "inputs": [
        {"name": "x", "dtype": "bfloat16", "shape": [256, 256]},
        {"name": "y", "dtype": "bfloat16", "shape": [256, 384]},
    ],
    "outputs": [
        {"name": "out", "dtype": "bfloat16", "shape": [256, 256]},
        {"name": "sums", "dtype": "bfloat16", "shape": [256]},
    ],
    "config": {
        "block_sizes": [128, 128, 128],
        "pallas_loop_type": "unroll",
        "pallas_pre_broadcast": False,
    },
    "vmem_bytes": 1160506,
    "vmem_most_bytes": 3547782,
    "vmem": {"windows": 459776, "inner": 0, "scratch": 0, "intermediates": 700730},
    "flops": 0,
    "hbm_bytes": 459264,
    "estimate": {
        "cycles": 3483,
        "seconds": 1.985e-06,
        "mxu": 0,
        "vector": 613,
        "xlu": 495,
        "eup": 64,
        "load": 43,
        "store": 17,
        "hbm": 491,
        "waits": 0,
        "start": 1446,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.8.3,<0.11",
}


def _to_row(x):
    """A column [..., m, 1] as a row [..., 1, m]."""
    lanes = jnp.broadcast_to(x, (*x.shape[:-1], 128))
    return jnp.swapaxes(lanes, -1, -2)[..., :1, :]


def _nested_scale_kernel(x_ref, y_ref, out_ref, sums_ref):
    # for tile_n in hl.tile(n):
    def step(x_win, running, acc):
        # squares = torch.square(x[tile_m, tile_n])
        load = x_win[...]
        squares = jnp.power(load.astype(jnp.float32), 2).astype(jnp.bfloat16)
        # running = running + torch.sum(squares, -1)
        running_1 = running + jnp.sum(
            squares.astype(jnp.float32), axis=1, keepdims=True
        ).astype(jnp.bfloat16)

        # for tile_k in hl.tile(k):
        def step_1(y_win, running_2, acc_1):
            # part = torch.square(y[tile_m, tile_k])
            load_1 = y_win[...]
            part = jnp.power(load_1.astype(jnp.float32), 2).astype(jnp.bfloat16)
            # running = running * 0.5 + torch.sum(part, -1)
            running_1_1 = running_2 * 0.5 + jnp.sum(
                part.astype(jnp.float32), axis=1, keepdims=True
            ).astype(jnp.bfloat16)
            # acc = acc * 0.25 + running[:, None]
            acc_1_1 = acc_1 * 0.25 + running_1_1
            return running_1_1, acc_1_1

        running_3 = running_1
        acc_2 = acc
        for j_1 in range(3):
            running_3, acc_2 = step_1(
                y_ref.at[:, pl.ds(j_1 * 128, 128)], running_3, acc_2
            )
        # acc = acc * torch.rsqrt(running + 1)[:, None]
        rsqrt = jax.lax.rsqrt((running_3 + 1).astype(jnp.float32)).astype(jnp.bfloat16)
        acc_1_2 = acc_2 * rsqrt
        return running_3, acc_1_2

    # running = hl.zeros([tile_m], dtype=x.dtype)
    running_4 = jnp.zeros((128, 1), jnp.bfloat16)
    # acc = hl.zeros([tile_m, width], dtype=x.dtype)
    acc_3 = jnp.zeros((128, 256), jnp.bfloat16)
    for j in range(2):
        running_4, acc_3 = step(x_ref.at[:, pl.ds(j * 128, 128)], running_4, acc_3)
    # out[tile_m, :] = acc
    out_ref[...] = acc_3
    # sums[tile_m] = running
    sums_ref[...] = _to_row(running_4)


@functools.partial(jax.jit, static_argnames=("interpret",))
def _nested_scale_jit(x, y, interpret):
    call = _pallas_call(
        _nested_scale_kernel,
        name="nested_scale",
        grid=(2,),
        in_specs=[
            pl.BlockSpec((128, 256), lambda tile_m: (tile_m, 0)),
            pl.BlockSpec((128, 384), lambda tile_m: (tile_m, 0)),
        ],
        out_specs=[
            pl.BlockSpec((128, 256), lambda tile_m: (tile_m, 0)),
            pl.BlockSpec((1, 128), lambda tile_m: (0, tile_m)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((256, 256), jnp.bfloat16),
            jax.ShapeDtypeStruct((1, 256), jnp.bfloat16),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel",),
            vmem_limit_bytes=7340032,
        ),
        cost_estimate=pl.CostEstimate(
            flops=2508800, transcendentals=65536, bytes_accessed=459264
        ),
        interpret=interpret,
    )
    out, sums = call(x, y)
    return out, sums.reshape((256,))


def nested_scale(x, y, interpret=False):
    """Returns bfloat16[256, 256], bfloat16[256].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("x", x, "bfloat16[256, 256]")
    _check("y", y, "bfloat16[256, 384]")
    if not (0, 8, 3) <= jax.__version_info__ < (0, 11):
        warnings.warn("nested_scale: tested with jax >=0.8.3,<0.11", stacklevel=2)
    return _nested_scale_jit(x, y, _simulator(interpret))


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
