"""layer_norm: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "layer_norm",
    "target": "v6e",
    "inputs": [
        {"name": "x", "dtype": "bfloat16", "shape": [421, 1000]},
        {"name": "weight", "dtype": "bfloat16", "shape": [1000]},
        {"name": "bias", "dtype": "bfloat16", "shape": [1000]},
    ],
    "outputs": [
        {"name": "out", "dtype": "bfloat16", "shape": [421, 1000]},
    ],
    "config": {"block_sizes": [64], "pallas_pre_broadcast": False},
    "vmem_bytes": 848014,
    "vmem_most_bytes": 3157167,
    "vmem": {"windows": 532480, "inner": 0, "scratch": 0, "intermediates": 315534},
    "flops": 0,
    "hbm_bytes": 1688000,
    "estimate": {
        "cycles": 5950,
        "seconds": 3.39e-06,
        "mxu": 0,
        "vector": 1008,
        "xlu": 204,
        "eup": 56,
        "load": 79,
        "store": 112,
        "hbm": 1850,
        "waits": 1172,
        "start": 1468,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.8.3,<0.11",
}


def _layer_norm_kernel(x_ref, weight_ref, bias_ref, out_ref):
    # row = x[tile_m, :].to(torch.float32)
    load = x_ref[...]
    row = load.astype(jnp.float32)
    # mean = torch.mean(row, dim=1, keepdim=True)
    mean = jnp.mean(row, axis=1, keepdims=True)
    # centered = row - mean
    centered = row - mean
    # variance = torch.mean(centered * centered, dim=1, keepdim=True)
    variance = jnp.mean(centered * centered, axis=1, keepdims=True)
    # normalized = centered * torch.rsqrt(variance + eps)
    normalized = centered * jax.lax.rsqrt(variance + 1e-05)
    # scale = weight[:].to(torch.float32)[None, :]
    load_1 = weight_ref[...]
    load_1_f32 = load_1.astype(jnp.float32)
    # shift = bias[:].to(torch.float32)[None, :]
    load_2 = bias_ref[...]
    load_2_f32 = load_2.astype(jnp.float32)
    # out[tile_m, :] = (normalized * scale + shift).to(x.dtype)
    out_ref[...] = (normalized * load_1_f32 + load_2_f32).astype(jnp.bfloat16)


@functools.partial(jax.jit, static_argnames=("interpret",))
def _layer_norm_jit(x, weight, bias, interpret):
    call = _pallas_call(
        _layer_norm_kernel,
        name="layer_norm",
        grid=(7,),
        in_specs=[
            pl.BlockSpec((64, 1000), lambda tile_m: (tile_m, 0)),
            pl.BlockSpec((1, 1000), lambda tile_m: (0, 0)),
            pl.BlockSpec((1, 1000), lambda tile_m: (0, 0)),
        ],
        out_specs=[
            pl.BlockSpec((64, 1000), lambda tile_m: (tile_m, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((421, 1000), jnp.bfloat16),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel",),
            vmem_limit_bytes=6291456,
        ),
        cost_estimate=pl.CostEstimate(
            flops=4128768, transcendentals=57344, bytes_accessed=1688000
        ),
        interpret=interpret,
    )
    (out,) = call(x, weight.reshape((1, 1000)), bias.reshape((1, 1000)))
    return out


def layer_norm(x, weight, bias, interpret=False):
    """Returns bfloat16[421, 1000].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("x", x, "bfloat16[421, 1000]")
    _check("weight", weight, "bfloat16[1000]")
    _check("bias", bias, "bfloat16[1000]")
    if not (0, 8, 3) <= jax.__version_info__ < (0, 11):
        warnings.warn("layer_norm: tested with jax >=0.8.3,<0.11", stacklevel=2)
    return _layer_norm_jit(x, weight, bias, _simulator(interpret))


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
