"""Rows made of the kernels of testdata/graphs."""

import formulas

from coverage.row import Row

ROWS = [
    Row(
        name="add",
        friendly="add",
        odd="add_odd",
        production="add_8192",
        formula=formulas.add,
        second={"block_sizes": [64, 512]},
        loops=(),
    ),
    Row(
        name="matmul",
        friendly="matmul_1024",
        odd="matmul_odd",
        production="matmul_4096",
        formula=formulas.matmul,
        second={
            "matmul_1024": {"block_sizes": [256, 1024, 256]},
            "matmul_odd": {"block_sizes": [64, 200, 128]},
        },
    ),
    Row(
        name="matmul + bias + GELU",
        friendly="matmul_bias_gelu",
        odd="matmul_bias_gelu_odd",
        production="matmul_bias_gelu_4096",
        formula=formulas.matmul_bias_gelu,
        second={"matmul_bias_gelu": {"block_sizes": [64, 384, 256]}},
    ),
    Row(
        name="causal attention",
        friendly="causal_attention",
        odd="causal_attention_b1_h2_s421_d64",
        production="causal_attention_b2_h8_s4096_d128",
        formula=formulas.causal_attention,
        second={"block_sizes": [2, 128, 128]},
        refused={"unroll": "the end of 'tile_n' is known only at run time"},
    ),
]
