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
        {"name": "x", "dtype": "float32", "shape": [512, 1024]},
        {"name": "y", "dtype": "float32", "shape": [512, 1024]},
    ],
    "outputs": [
        {"name": "out", "dtype": "float32", "shape": [512, 1024]},
    ],
    "config": {"block_sizes": [128, 256], "pallas_pre_broadcast": False},
    "vmem_bytes": 839554,
    "vmem": {"windows": 786432, "inner": 0, "scratch": 0, "intermediates": 53122},
    "flops": 0,
    "hbm_bytes": 6291456,
    "estimate": {
        "cycles": 10163,
        "seconds": 5.791e-06,
        "mxu": 0,
        "vector": 128,
        "xlu": 0,
        "eup": 0,
        "load": 341,
        "store": 256,
        "hbm": 6733,
        "waits": 6874,
        "start": 1621,
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
        grid=(4, 4),
        in_specs=[
            pl.BlockSpec((128, 256), lambda tile_m, tile_n: (tile_m, tile_n)),
            pl.BlockSpec((128, 256), lambda tile_m, tile_n: (tile_m, tile_n)),
        ],
        out_specs=[
            pl.BlockSpec((128, 256), lambda tile_m, tile_n: (tile_m, tile_n)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((512, 1024), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel"),
            vmem_limit_bytes=6291456,
        ),
        cost_estimate=pl.CostEstimate(
            flops=524288, transcendentals=0, bytes_accessed=6291456
        ),
        interpret=interpret,
    )
    (out,) = call(x, y)
    return out


def add(x, y, interpret=False):
    """Returns float32[512, 1024].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("x", x, "float32[512, 1024]")
    _check("y", y, "float32[512, 1024]")
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
