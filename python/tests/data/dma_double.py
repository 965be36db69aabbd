"""dma_double, a Pallas TPU kernel. Written by hand in the style of pallasc's output."""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "dma_double",
    "target": "v6e",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [64, 128]}],
    "outputs": [{"name": "out", "dtype": "float32", "shape": [64, 128]}],
    "config": {"block_sizes": [8]},
    "vmem_bytes": 40960,
    "flops": 16384,
    "hbm_bytes": 65536,
    "compiler": "0.1.0",
    "jax": ">=0.10.2,<0.11",
}


def _dma_double_kernel(x_ref, out_ref, x_buffer, x_sem):
    def copy(i, slot):
        rows = pl.ds(pl.multiple_of(i * 8, 8), 8)
        return pltpu.make_async_copy(x_ref.at[rows], x_buffer.at[slot], x_sem.at[slot])

    copy(0, 0).start()

    def body(i, carry):
        slot = jax.lax.rem(i, 2)

        @pl.when(i < 7)
        def _():
            copy(i + 1, 1 - slot).start()

        copy(i, slot).wait()
        # out[tile, :] = x[tile, :] * 2
        out_ref[pl.ds(pl.multiple_of(i * 8, 8), 8), :] = x_buffer[slot] * 2.0
        return carry

    jax.lax.fori_loop(0, 8, body, None)


@functools.partial(jax.jit, static_argnames=("interpret",))
def dma_double(*inputs, interpret=False):
    """x: float32[64, 128]. Returns float32[64, 128]."""
    (x,) = inputs
    if x.shape != (64, 128) or x.dtype != jnp.float32:
        raise ValueError(f"dma_double: x is {x.dtype}{x.shape}, not float32[64, 128]")
    return pl.pallas_call(
        _dma_double_kernel,
        out_shape=jax.ShapeDtypeStruct((64, 128), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pltpu.VMEM),
        scratch_shapes=[
            pltpu.VMEM((2, 8, 128), jnp.float32),
            pltpu.SemaphoreType.DMA((2,)),
        ],
        interpret=_simulator(interpret),
        name="dma_double",
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
