"""float16: 16 bits in memory, which no TPU loads as floats, computed in float32."""

import functools

import formulas

from coverage.row import family, parameters
from coverage.rows.attention import attention
from coverage.rows.norms import layer_norm, layer_norm_bwd
from coverage.rows.reductions import softmax

HALVES = functools.partial(
    family,
    note=(
        "bits of float16 as ints, in the kernel; its cycles count what XLA reinterprets of each "
        "block, not what it copies before"
    ),
)


def wide(document, rng):
    """float16 of all sizes, some denormal, and random numbers for the rest."""
    return [
        (rng.standard_normal(p.shape) * 2.0 ** rng.integers(-18, 3, p.shape)).astype(p.dtype)
        for p in parameters(document)
    ]


ROWS = [
    HALVES("softmax of float16", "f16_softmax", "4096_32768", softmax, [512, 128], inputs=wide),
    HALVES(
        "gelu(x @ y + bias) of float16",
        "f16_matmul",
        "4096",
        formulas.matmul_bias_gelu,
        [64, 128, 256],
    ),
    HALVES("attention of float16", "f16_attention", "b8_h32_s8192_d128", attention, [1, 128, 256]),
    HALVES("layer-norm of float16", "f16_layer_norm", "4096_8192", layer_norm, [128]),
    HALVES(
        "layer-norm backward of float16, atomics",
        "f16_layer_norm_bwd",
        "4096_8192",
        layer_norm_bwd,
        [32],
    ),
]
