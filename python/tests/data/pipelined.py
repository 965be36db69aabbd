"""pipelined, a Pallas TPU kernel. Written by hand in the style of pallasc's output."""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "pipelined",
    "target": "v6e",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [37, 300]}],
    "outputs": [{"name": "out", "dtype": "float32", "shape": [37, 300]}],
    "config": {"block_sizes": [8]},
    "vmem_bytes": 32768,
    "flops": 16384,
    "hbm_bytes": 65536,
    "compiler": "0.1.0",
    "jax": ">=0.10.2,<0.11",
}


def _pipelined_kernel(x_ref, out_ref):
    def body(x_window, out_window):
        # out[tm, tn] = x[tm, tn] * 2
        out_window[...] = x_window[...] * 2.0

    block = pl.BlockSpec((16, 128), lambda i, j: (i, j))
    pltpu.emit_pipeline(body, grid=(3, 3), in_specs=[block], out_specs=[block])(x_ref, out_ref)


@functools.partial(jax.jit, static_argnames=("interpret",))
def pipelined(*inputs, interpret=False):
    """x: float32[37, 300]. Returns float32[37, 300]."""
    (x,) = inputs
    if x.shape != (37, 300) or x.dtype != jnp.float32:
        raise ValueError(f"pipelined: x is {x.dtype}{x.shape}, not float32[37, 300]")
    return pl.pallas_call(
        _pipelined_kernel,
        out_shape=jax.ShapeDtypeStruct((37, 300), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        interpret=_simulator(interpret),
        name="pipelined",
    )(x)


def _simulator(interpret):
    """Parameters of interpret mode: True simulates strictly, InterpretParams pass through."""
    if not interpret:
        return False
    try:
        from jax._src.pallas.mosaic import tpu_info

        chip = pltpu.get_tpu_info_for_chip(pltpu.ChipVersion.TPU_V6E, 1)
        tpu_info.registry.setdefault(tpu_info.get_device_kind(), lambda: chip)
    except (ImportError, AttributeError):
        return pltpu.InterpretParams()
    return pltpu.InterpretParams(buffer_bounds="padded") if interpret is True else interpret
