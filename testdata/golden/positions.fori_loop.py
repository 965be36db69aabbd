"""positions: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "positions",
    "target": "v6e",
    "inputs": [
        {"name": "x", "dtype": "float32", "shape": [4, 256, 128]},
        {"name": "w", "dtype": "float32", "shape": [4, 128]},
    ],
    "outputs": [
        {"name": "out", "dtype": "float32", "shape": [256, 128]},
    ],
    "config": {
        "block_sizes": [128],
        "pallas_loop_type": "fori_loop",
        "pallas_pre_broadcast": False,
    },
    "vmem_bytes": 707191,
    "vmem": {"windows": 657408, "inner": 0, "scratch": 0, "intermediates": 49783},
    "flops": 0,
    "hbm_bytes": 657408,
    "estimate": {
        "cycles": 2314,
        "seconds": 1.318e-06,
        "mxu": 0,
        "vector": 64,
        "xlu": 0,
        "eup": 0,
        "load": 45,
        "store": 16,
        "hbm": 704,
        "waits": 380,
        "start": 1553,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.10.2,<0.11",
}


def _positions_kernel(x_ref, w_ref, out_ref):
    def step(j, x_win, w_win, acc):
        # plane = x[tile_n.id, tile_m, :]
        plane = x_win[j, :, :]
        # row = w[tile_n.id, :]
        row = w_win[pl.ds(j, 1), :]
        # acc += plane * row
        v = plane * row
        acc_1 = acc + v
        return acc_1

    def body(j, acc):
        acc = step(j, x_ref, w_ref, acc)
        return acc

    acc_2 = jax.lax.fori_loop(0, 4, body, jnp.zeros((128, 128), jnp.float32))
    out_ref[...] = acc_2


@functools.partial(jax.jit, static_argnames=("interpret",))
def _positions_jit(x, w, interpret):
    call = pl.pallas_call(
        _positions_kernel,
        name="positions",
        grid=(2,),
        in_specs=[
            pl.BlockSpec((4, 128, 128), lambda tile_m: (0, tile_m, 0)),
            pl.BlockSpec((4, 128), lambda tile_m: (0, 0)),
        ],
        out_specs=[
            pl.BlockSpec((128, 128), lambda tile_m: (tile_m, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((256, 128), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel",),
            vmem_limit_bytes=6291456,
        ),
        cost_estimate=pl.CostEstimate(
            flops=262144, transcendentals=0, bytes_accessed=657408
        ),
        interpret=interpret,
    )
    (out,) = call(x, w)
    return out


def positions(x, w, interpret=False):
    """Returns float32[256, 128].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("x", x, "float32[4, 256, 128]")
    _check("w", w, "float32[4, 128]")
    if not (0, 10, 2) <= jax.__version_info__ < (0, 11):
        warnings.warn("positions: tested with jax >=0.10.2,<0.11", stacklevel=2)
    return _positions_jit(x, w, _simulator(interpret))


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
