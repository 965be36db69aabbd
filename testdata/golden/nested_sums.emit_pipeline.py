"""nested_sums: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "nested_sums",
    "target": "v6e",
    "inputs": [
        {"name": "x", "dtype": "bfloat16", "shape": [256, 256]},
        {"name": "y", "dtype": "bfloat16", "shape": [256, 256]},
    ],
    "outputs": [
        {"name": "out", "dtype": "float32", "shape": [256]},
    ],
    "config": {
        "block_sizes": [128, 128, 128],
        "pallas_loop_type": "emit_pipeline",
        "pallas_pre_broadcast": False,
    },
    "vmem_bytes": 538518,
    "vmem_most_bytes": 2770297,
    "vmem": {
        "windows": 1024,
        "inner": 131072,
        "scratch": 131072,
        "intermediates": 275350,
    },
    "flops": 33554432,
    "hbm_bytes": 394240,
    "estimate": {
        "cycles": 9383,
        "seconds": 5.346e-06,
        "mxu": 256,
        "vector": 56,
        "xlu": 291,
        "eup": 0,
        "load": 107,
        "store": 97,
        "hbm": 422,
        "waits": 4583,
        "start": 601,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.8.3,<0.11",
}


def _to_row(x):
    """A column [..., m, 1] as a row [..., 1, m]."""
    lanes = jnp.broadcast_to(x, (*x.shape[:-1], 128))
    return jnp.swapaxes(lanes, -1, -2)[..., :1, :]


def _nested_sums_kernel(x_hbm, y_hbm, out_ref, total_ref, total_ref_1):
    tile_m = pl.program_id(0)

    # for tile_k in hl.tile(k):
    def step(j, x_win, total):
        # for tile_n in hl.tile(n):
        def step_1(y_win, total_1):
            # a = x[tile_m, tile_k]
            load_1 = x_win[...]
            # part = hl.dot(a, y[tile_k, tile_n], out_dtype=torch.float32)
            load = y_win[...]
            part = jax.lax.dot_general(
                load_1,
                load,
                (((1,), (0,)), ((), ())),
                preferred_element_type=jnp.float32,
            )
            # total = total + torch.sum(part, -1)
            total_1_1 = total_1 + jnp.sum(part, axis=1, keepdims=True)
            return total_1_1

        total_ref_1[...] = total

        def body(y_win):
            total_ref_1[...] = step_1(y_win, total_ref_1[...])

        pipeline = pltpu.emit_pipeline(
            body,
            grid=(2,),
            in_specs=[
                pl.BlockSpec((128, 128), lambda j_1: (j, j_1)),
            ],
        )
        pipeline(y_hbm)
        total_2 = total_ref_1[...]
        return total_2

    # total = hl.zeros([tile_m], dtype=torch.float32)
    total_ref[...] = jnp.zeros((128, 1), jnp.float32)

    def body_1(x_win):
        total_ref[...] = step(pl.program_id(0), x_win, total_ref[...])

    pipeline_1 = pltpu.emit_pipeline(
        body_1,
        grid=(2,),
        in_specs=[
            pl.BlockSpec((128, 128), lambda j: (tile_m, j)),
        ],
    )
    pipeline_1(x_hbm)
    total_3 = total_ref[...]
    # out[tile_m] = total
    out_ref[...] = _to_row(total_3)


@functools.partial(jax.jit, static_argnames=("interpret",))
def _nested_sums_jit(x, y, interpret):
    call = _pallas_call(
        _nested_sums_kernel,
        name="nested_sums",
        grid=(2,),
        in_specs=[
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec(memory_space=pl.ANY),
        ],
        out_specs=[
            pl.BlockSpec((1, 128), lambda tile_m: (0, tile_m)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((1, 256), jnp.float32),
        ],
        scratch_shapes=[
            pltpu.VMEM((128, 1), jnp.float32),
            pltpu.VMEM((128, 1), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel",),
            vmem_limit_bytes=6291456,
        ),
        cost_estimate=pl.CostEstimate(
            flops=33783808, transcendentals=0, bytes_accessed=394240
        ),
        interpret=interpret,
    )
    (out,) = call(x, y)
    return out.reshape((256,))


def nested_sums(x, y, interpret=False):
    """Returns float32[256].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("x", x, "bfloat16[256, 256]")
    _check("y", y, "bfloat16[256, 256]")
    if not (0, 8, 3) <= jax.__version_info__ < (0, 11):
        warnings.warn("nested_sums: tested with jax >=0.8.3,<0.11", stacklevel=2)
    return _nested_sums_jit(x, y, _simulator(interpret))


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
