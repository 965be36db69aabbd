"""normalise_by_total: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "normalise_by_total",
    "target": "v6e",
    "inputs": [
        {"name": "x", "dtype": "float32", "shape": [256, 384]},
    ],
    "outputs": [
        {"name": "out", "dtype": "float32", "shape": [256, 384]},
    ],
    "config": {"block_sizes": [64, 128]},
    "vmem_bytes": 1001338,
    "vmem": {"windows": 787456, "inner": 0, "scratch": 0, "intermediates": 213882},
    "flops": 0,
    "hbm_bytes": 1181696,
    "estimate": {
        "cycles": 5696,
        "seconds": 3.246e-06,
        "mxu": 0,
        "vector": 89,
        "xlu": 120,
        "eup": 96,
        "load": 65,
        "store": 50,
        "hbm": 1266,
        "waits": 957,
        "start": 2928,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.10.2,<0.11",
}


def _to_row(x):
    """A column [..., m, 1] as a row [..., 1, m]."""
    lanes = jnp.broadcast_to(x, (*x.shape[:-1], 128))
    return jnp.swapaxes(lanes, -1, -2)[..., :1, :]


def _normalise_by_total_0_kernel(x_ref, sums_ref):
    # sums[tile_m] = torch.sum(x[tile_m, :].to(torch.float32), -1)
    load = x_ref[...]
    sum_1 = jnp.sum(load, axis=1, keepdims=True)
    sums_ref[0, :, :] = _to_row(sum_1)


def _normalise_by_total_1_kernel(sums_ref, x_ref, out_ref):
    # total = torch.sum(sums[:], 0)
    load = sums_ref[...]
    total = jnp.sum(load)
    # out[tile_r, :] = (x[tile_r, :].to(torch.float32) / total).to(x.dtype)
    load_1 = x_ref[...]
    out_ref[...] = load_1 / total


@functools.partial(jax.jit, static_argnames=("interpret",))
def _normalise_by_total_jit(x, interpret):
    call = pl.pallas_call(
        _normalise_by_total_0_kernel,
        name="normalise_by_total_0",
        grid=(4,),
        in_specs=[
            pl.BlockSpec((64, 384), lambda tile_m: (tile_m, 0)),
        ],
        out_specs=[
            pl.BlockSpec((1, 1, 64), lambda tile_m: (tile_m, 0, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((4, 1, 64), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel",),
            vmem_limit_bytes=5242880,
        ),
        cost_estimate=pl.CostEstimate(
            flops=163840, transcendentals=0, bytes_accessed=394240
        ),
        interpret=interpret,
    )
    (sums,) = call(x)
    call = pl.pallas_call(
        _normalise_by_total_1_kernel,
        name="normalise_by_total_1",
        grid=(2,),
        in_specs=[
            pl.BlockSpec((1, 256), lambda tile_r: (0, 0)),
            pl.BlockSpec((128, 384), lambda tile_r: (tile_r, 0)),
        ],
        out_specs=[
            pl.BlockSpec((128, 384), lambda tile_r: (tile_r, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((256, 384), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel",),
            vmem_limit_bytes=6291456,
        ),
        cost_estimate=pl.CostEstimate(
            flops=198656, transcendentals=98304, bytes_accessed=787456
        ),
        interpret=interpret,
    )
    (out,) = call(sums.reshape((1, 256)), x)
    return out


def normalise_by_total(x, interpret=False):
    """Returns float32[256, 384].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("x", x, "float32[256, 384]")
    if not (0, 10, 2) <= jax.__version_info__ < (0, 11):
        warnings.warn(
            "normalise_by_total: tested with jax >=0.10.2,<0.11", stacklevel=2
        )
    return _normalise_by_total_jit(x, _simulator(interpret))


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
