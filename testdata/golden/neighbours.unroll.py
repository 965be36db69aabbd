"""neighbours: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "neighbours",
    "target": "v6e",
    "inputs": [
        {"name": "x", "dtype": "float32", "shape": [256, 512]},
    ],
    "outputs": [
        {"name": "out", "dtype": "float32", "shape": [256]},
    ],
    "config": {
        "block_sizes": [128],
        "pallas_loop_type": "unroll",
        "pallas_pre_broadcast": False,
    },
    "vmem_bytes": 1020599,
    "vmem": {"windows": 525312, "inner": 0, "scratch": 0, "intermediates": 495287},
    "flops": 0,
    "hbm_bytes": 525312,
    "estimate": {
        "cycles": 2567,
        "seconds": 1.463e-06,
        "mxu": 0,
        "vector": 72,
        "xlu": 233,
        "eup": 0,
        "load": 64,
        "store": 1,
        "hbm": 562,
        "waits": 225,
        "start": 1481,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.10.2,<0.11",
}


def _to_row(x):
    """A column [..., m, 1] as a row [..., 1, m]."""
    lanes = jnp.broadcast_to(x, (*x.shape[:-1], 128))
    return jnp.swapaxes(lanes, -1, -2)[..., :1, :]


def _neighbours_kernel(x_ref, out_ref):
    def step(j, x_win, x_win_1, acc):
        # here = x[tile_m, tile_n]
        here = x_win[...]
        # next = x[tile_m, tile_n.begin + 128 : tile_n.begin + 256]
        next_1 = x_win_1[:, pl.ds(j * 128 + 128, 128)]
        # acc += (here * next).sum(-1)
        p = here * next_1
        acc_1 = acc + jnp.sum(p, axis=1, keepdims=True)
        return acc_1

    acc_2 = jnp.zeros((128, 1), jnp.float32)
    for j in range(3):
        acc_2 = step(j, x_ref.at[:, pl.ds(j * 128, 128)], x_ref, acc_2)
    out_ref[...] = _to_row(acc_2)


@functools.partial(jax.jit, static_argnames=("interpret",))
def _neighbours_jit(x, interpret):
    call = pl.pallas_call(
        _neighbours_kernel,
        name="neighbours",
        grid=(2,),
        in_specs=[
            pl.BlockSpec((128, 512), lambda tile_m: (tile_m, 0)),
        ],
        out_specs=[
            pl.BlockSpec((1, 128), lambda tile_m: (0, tile_m)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((1, 256), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel",),
            vmem_limit_bytes=6291456,
        ),
        cost_estimate=pl.CostEstimate(
            flops=294912, transcendentals=0, bytes_accessed=525312
        ),
        interpret=interpret,
    )
    (out,) = call(x)
    return out.reshape((256,))


def neighbours(x, interpret=False):
    """Returns float32[256].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("x", x, "float32[256, 512]")
    if not (0, 10, 2) <= jax.__version_info__ < (0, 11):
        warnings.warn("neighbours: tested with jax >=0.10.2,<0.11", stacklevel=2)
    return _neighbours_jit(x, _simulator(interpret))


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
