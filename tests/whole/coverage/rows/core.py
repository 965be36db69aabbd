"""Rows made of the kernels of testdata/graphs."""

import formulas

from coverage.floors import attends
from coverage.row import Row, family

ROWS = [
    family("add", "add", "8192", formulas.add, [64, 512], loops=()),
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
    family(
        "matmul + bias + GELU",
        "matmul_bias_gelu",
        "4096",
        formulas.matmul_bias_gelu,
        {"matmul_bias_gelu": {"block_sizes": [64, 384, 256]}},
    ),
    Row(
        name="causal attention",
        friendly="causal_attention",
        odd="causal_attention_b1_h2_s421_d64",
        production="causal_attention_b2_h8_s4096_d128",
        formula=formulas.causal_attention,
        second={"block_sizes": [2, 128, 128]},
        refused={"unroll": "the end of 'tile_n' is known only at run time"},
        needs=attends(2),
    ),
]
