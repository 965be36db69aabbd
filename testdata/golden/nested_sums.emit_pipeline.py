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
        "pallas_loop_type": "emit_pipeline",
        "pallas_pre_broadcast": False,
    },
    "vmem_bytes": 538518,
    "vmem": {
        "windows": 1024,
        "inner": 131072,
        "scratch": 131072,
        "intermediates": 275350,
    },
    "flops": 33554432,
    "hbm_bytes": 394240,
    "estimate": {
        "cycles": 9383,
        "seconds": 5.346e-06,
        "mxu": 256,
        "vector": 56,
        "xlu": 291,
        "eup": 0,
        "load": 107,
        "store": 97,
        "hbm": 422,
        "waits": 4583,
        "start": 601,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.10.2,<0.11",
}


def _to_row(x):
    """A column [..., m, 1] as a row [..., 1, m]."""
    lanes = jnp.broadcast_to(x, (*x.shape[:-1], 128))
    return jnp.swapaxes(lanes, -1, -2)[..., :1, :]


def _nested_sums_kernel(x_hbm, y_hbm, out_ref, total_ref, total_ref_1):
    tile_m = pl.program_id(0)

    # for tile_k in hl.tile(k):
    def step(j, x_win, total):
        # for tile_n in hl.tile(n):
        def step_1(y_win, total_1):
            # a = x[tile_m, tile_k]
            load_1 = x_win[...]
            # part = hl.dot(a, y[tile_k, tile_n], out_dtype=torch.float32)
            load = y_win[...]
            part = jax.lax.dot_general(
                load_1,
                load,
                (((1,), (0,)), ((), ())),
                preferred_element_type=jnp.float32,
            )
            # total = total + torch.sum(part, -1)
            total_1_1 = total_1 + jnp.sum(part, axis=1, keepdims=True)
            return total_1_1

        total_ref_1[...] = total

        def body(y_win):
            total_ref_1[...] = step_1(y_win, total_ref_1[...])

        pipeline = pltpu.emit_pipeline(
            body,
            grid=(2,),
            in_specs=[
                pl.BlockSpec((128, 128), lambda j_1: (j, j_1)),
            ],
        )
        pipeline(y_hbm)
        total_2 = total_ref_1[...]
        return total_2

    # total = hl.zeros([tile_m], dtype=torch.float32)
    total_ref[...] = jnp.zeros((128, 1), jnp.float32)

    def body_1(x_win):
        total_ref[...] = step(pl.program_id(0), x_win, total_ref[...])

    pipeline_1 = pltpu.emit_pipeline(
        body_1,
        grid=(2,),
        in_specs=[
            pl.BlockSpec((128, 128), lambda j: (tile_m, j)),
        ],
    )
    pipeline_1(x_hbm)
    total_3 = total_ref[...]
    # out[tile_m] = total
    out_ref[...] = _to_row(total_3)


@functools.partial(jax.jit, static_argnames=("interpret",))
def _nested_sums_jit(x, y, interpret):
    call = pl.pallas_call(
        _nested_sums_kernel,
        name="nested_sums",
        grid=(2,),
        in_specs=[
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec(memory_space=pl.ANY),
        ],
        out_specs=[
            pl.BlockSpec((1, 128), lambda tile_m: (0, tile_m)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((1, 256), jnp.float32),
        ],
        scratch_shapes=[
            pltpu.VMEM((128, 1), jnp.float32),
            pltpu.VMEM((128, 1), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel",),
            vmem_limit_bytes=6291456,
        ),
        cost_estimate=pl.CostEstimate(
            flops=33783808, transcendentals=0, bytes_accessed=394240
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
