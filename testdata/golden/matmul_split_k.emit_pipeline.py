"""matmul_split_k: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "matmul_split_k",
    "target": "v6e",
    "inputs": [
        {"name": "x", "dtype": "bfloat16", "shape": [64, 1024]},
        {"name": "y", "dtype": "bfloat16", "shape": [1024, 64]},
    ],
    "outputs": [
        {"name": "out", "dtype": "bfloat16", "shape": [64, 64]},
    ],
    "config": {
        "block_sizes": [32, 64, 128],
        "pallas_loop_type": "emit_pipeline",
        "pallas_pre_broadcast": False,
        "split_k": 4,
    },
    "vmem_bytes": 180802,
    "vmem": {
        "windows": 16384,
        "inner": 49152,
        "scratch": 32768,
        "intermediates": 82498,
    },
    "flops": 8388608,
    "hbm_bytes": 401408,
    "estimate": {
        "cycles": 13466,
        "seconds": 7.673e-06,
        "mxu": 128,
        "vector": 24,
        "xlu": 0,
        "eup": 0,
        "load": 64,
        "store": 48,
        "hbm": 438,
        "waits": 7605,
        "start": 609,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.10.2,<0.11",
}


def _matmul_split_k_kernel(x_hbm, y_hbm, out_ref, out_acc_ref, acc_ref):
    tile_m = pl.program_id(0)
    outer_k = pl.program_id(2)

    @pl.when(outer_k == 0)
    def first_visit():
        out_acc_ref[...] = jnp.zeros((32, 64), jnp.float32)

    # for inner_k in hl.tile(outer_k.begin, outer_k.end):
    def step(x_win, y_win, acc):
        # acc = torch.addmm(acc, x[tile_m, inner_k], y[inner_k, tile_n])
        load = x_win[...]
        load_1 = y_win[...]
        acc_1_dot = jax.lax.dot_general(
            load, load_1, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
        )
        acc_1 = acc + acc_1_dot
        return acc_1

    # acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
    acc_ref[...] = jnp.zeros((32, 64), jnp.float32)

    def body(x_win, y_win):
        acc_ref[...] = step(x_win, y_win, acc_ref[...])

    pipeline = pltpu.emit_pipeline(
        body,
        grid=(2,),
        in_specs=[
            pl.BlockSpec((32, 128), lambda j: (tile_m, outer_k * 2 + j)),
            pl.BlockSpec((64, 128), lambda j: (0, outer_k * 2 + j)),
        ],
    )
    pipeline(x_hbm, y_hbm)
    acc_2 = acc_ref[...]
    # hl.atomic_add(out, [tile_m, tile_n], acc)
    out_acc_ref[...] = out_acc_ref[...] + acc_2

    @pl.when(outer_k == 3)
    def last_visit():
        out_ref[...] = out_acc_ref[...].astype(jnp.bfloat16)


@functools.partial(jax.jit, static_argnames=("interpret",))
def _matmul_split_k_jit(x, y, interpret):
    call = pl.pallas_call(
        _matmul_split_k_kernel,
        name="matmul_split_k",
        grid=(2, 1, 4),
        in_specs=[
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec(memory_space=pl.ANY),
        ],
        out_specs=[
            pl.BlockSpec((32, 64), lambda tile_m, tile_n, outer_k: (tile_m, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((64, 64), jnp.bfloat16),
        ],
        scratch_shapes=[
            pltpu.VMEM((32, 64), jnp.float32),
            pltpu.VMEM((32, 64), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary"),
            vmem_limit_bytes=5242880,
        ),
        cost_estimate=pl.CostEstimate(
            flops=8486912, transcendentals=0, bytes_accessed=401408
        ),
        interpret=interpret,
    )
    (out,) = call(x, jnp.transpose(y, (1, 0)))
    return out


def matmul_split_k(x, y, interpret=False):
    """Returns bfloat16[64, 64].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("x", x, "bfloat16[64, 1024]")
    _check("y", y, "bfloat16[1024, 64]")
    if not (0, 10, 2) <= jax.__version_info__ < (0, 11):
        warnings.warn("matmul_split_k: tested with jax >=0.10.2,<0.11", stacklevel=2)
    return _matmul_split_k_jit(x, y, _simulator(interpret))


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
