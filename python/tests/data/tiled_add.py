"""tiled_add, a Pallas TPU kernel. Written by hand in the style of pallasc's output."""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "tiled_add",
    "target": "v6e",
    "inputs": [
        {"name": "x", "dtype": "float32", "shape": [40, 300]},
        {"name": "y", "dtype": "float32", "shape": [40, 300]},
    ],
    "outputs": [{"name": "out", "dtype": "float32", "shape": [40, 300]}],
    "scalars": [{"name": "scale", "dtype": "float32"}],
    "config": {"block_sizes": [16, 128]},
    "vmem_bytes": 49152,
    "flops": 24000,
    "hbm_bytes": 144000,
    "compiler": "0.1.0",
    "jax": ">=0.10.2,<0.11",
}


def _tiled_add_kernel(scale_ref, x_ref, y_ref, out_ref):
    # out[tile] = x[tile] + scale * y[tile]
    out_ref[...] = x_ref[...] + scale_ref[0] * y_ref[...]


@functools.partial(jax.jit, static_argnames=("interpret",))
def tiled_add(*inputs, interpret=False):
    """x, y: float32[40, 300], scale: float32. Returns float32[40, 300]."""
    x, y, scale = inputs
    for name, value in (("x", x), ("y", y)):
        if value.shape != (40, 300) or value.dtype != jnp.float32:
            raise ValueError(
                f"tiled_add: {name} is {value.dtype}{value.shape}, not float32[40, 300]"
            )
    block = pl.BlockSpec((16, 128), lambda i, j: (i, j))
    return pl.pallas_call(
        _tiled_add_kernel,
        out_shape=jax.ShapeDtypeStruct((40, 300), jnp.float32),
        grid=(3, 3),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), block, block],
        out_specs=block,
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
        interpret=_simulator(interpret),
        name="tiled_add",
    )(jnp.reshape(scale, (1,)), x, y)


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
