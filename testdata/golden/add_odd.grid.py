"""add: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "add",
    "target": "v6e",
    "inputs": [
        {"name": "x", "dtype": "bfloat16", "shape": [421, 300]},
        {"name": "y", "dtype": "bfloat16", "shape": [421, 300]},
    ],
    "outputs": [
        {"name": "out", "dtype": "bfloat16", "shape": [421, 300]},
    ],
    "config": {"block_sizes": [128, 128], "pallas_pre_broadcast": False},
    "vmem_bytes": 234464,
    "vmem": {"windows": 196608, "inner": 0, "scratch": 0, "intermediates": 37856},
    "flops": 0,
    "hbm_bytes": 757800,
    "estimate": {
        "cycles": 5612,
        "seconds": 3.197e-06,
        "mxu": 0,
        "vector": 48,
        "xlu": 0,
        "eup": 0,
        "load": 64,
        "store": 48,
        "hbm": 1038,
        "waits": 3311,
        "start": 1287,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.10.2,<0.11",
}


def _add_kernel(x_ref, y_ref, out_ref):
    # out[tile_m, tile_n] = x[tile_m, tile_n] + y[tile_m, tile_n]
    load = x_ref[...]
    load_1 = y_ref[...]
    out_ref[...] = load + load_1


@functools.partial(jax.jit, static_argnames=("interpret",))
def _add_jit(x, y, interpret):
    call = pl.pallas_call(
        _add_kernel,
        name="add",
        grid=(4, 3),
        in_specs=[
            pl.BlockSpec((128, 128), lambda tile_m, tile_n: (tile_m, tile_n)),
            pl.BlockSpec((128, 128), lambda tile_m, tile_n: (tile_m, tile_n)),
        ],
        out_specs=[
            pl.BlockSpec((128, 128), lambda tile_m, tile_n: (tile_m, tile_n)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((421, 300), jnp.bfloat16),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel"),
            vmem_limit_bytes=5242880,
        ),
        cost_estimate=pl.CostEstimate(
            flops=196608, transcendentals=0, bytes_accessed=757800
        ),
        interpret=interpret,
    )
    (out,) = call(x, y)
    return out


def add(x, y, interpret=False):
    """Returns bfloat16[421, 300].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("x", x, "bfloat16[421, 300]")
    _check("y", y, "bfloat16[421, 300]")
    if not (0, 10, 2) <= jax.__version_info__ < (0, 11):
        warnings.warn("add: tested with jax >=0.10.2,<0.11", stacklevel=2)
    return _add_jit(x, y, _simulator(interpret))


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
    try:
        from jax._src.pallas.mosaic import tpu_info

        chip = pltpu.get_tpu_info_for_chip(pltpu.ChipVersion.TPU_V6E, 1)
        tpu_info.registry.setdefault(tpu_info.get_device_kind(), lambda: chip)
    except (ImportError, AttributeError):
        return pltpu.InterpretParams()
    if interpret is True:
        return pltpu.InterpretParams(buffer_bounds="padded")
    return interpret
