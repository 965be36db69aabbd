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
        "pallas_loop_type": "unroll",
        "pallas_pre_broadcast": False,
    },
    "vmem_bytes": 459586,
    "vmem": {"windows": 263168, "inner": 0, "scratch": 0, "intermediates": 196418},
    "flops": 33554432,
    "hbm_bytes": 263168,
    "estimate": {
        "cycles": 2866,
        "seconds": 1.633e-06,
        "mxu": 256,
        "vector": 44,
        "xlu": 116,
        "eup": 0,
        "load": 43,
        "store": 1,
        "hbm": 282,
        "waits": 0,
        "start": 1411,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.10.2,<0.11",
}


def _nested_sums_kernel(x_ref, y_ref, out_ref):
    # for tile_k in hl.tile(k):
    def step(j, x_win, total):
        # for tile_n in hl.tile(n):
        def step_1(y_win, total_1):
            # a = x[tile_m, tile_k]
            load_1 = x_win[...]
            # part = hl.dot(a, y[tile_k, tile_n], out_dtype=torch.float32)
            load = y_win[...]
            part = jax.lax.dot_general(
                load,
                load_1,
                (((0,), (1,)), ((), ())),
                preferred_element_type=jnp.float32,
            )
            # total = total + torch.sum(part, -1)
            total_1_1 = total_1 + jnp.sum(part, axis=0, keepdims=True)
            return total_1_1

        total_2 = total
        for j_1 in range(2):
            total_2 = step_1(
                y_ref.at[pl.ds(j * 128, 128), pl.ds(j_1 * 128, 128)], total_2
            )
        return total_2

    total_3 = jnp.zeros((1, 128), jnp.float32)
    for j in range(2):
        total_3 = step(j, x_ref.at[:, pl.ds(j * 128, 128)], total_3)
    # out[tile_m] = total
    out_ref[...] = total_3


@functools.partial(jax.jit, static_argnames=("interpret",))
def _nested_sums_jit(x, y, interpret):
    call = pl.pallas_call(
        _nested_sums_kernel,
        name="nested_sums",
        grid=(2,),
        in_specs=[
            pl.BlockSpec((128, 256), lambda tile_m: (tile_m, 0)),
            pl.BlockSpec((256, 256), lambda tile_m: (0, 0)),
        ],
        out_specs=[
            pl.BlockSpec((1, 128), lambda tile_m: (0, tile_m)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((1, 256), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel",),
            vmem_limit_bytes=5242880,
        ),
        cost_estimate=pl.CostEstimate(
            flops=33734656, transcendentals=0, bytes_accessed=263168
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
    if not (0, 10, 2) <= jax.__version_info__ < (0, 11):
        warnings.warn("nested_sums: tested with jax >=0.10.2,<0.11", stacklevel=2)
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
    try:
        from jax._src.pallas.mosaic import tpu_info

        chip = pltpu.get_tpu_info_for_chip(pltpu.ChipVersion.TPU_V6E, 1)
        tpu_info.registry.setdefault(tpu_info.get_device_kind(), lambda: chip)
    except (ImportError, AttributeError):
        return pltpu.InterpretParams()
    if interpret is True:
        return pltpu.InterpretParams(buffer_bounds="padded")
    return interpret
