"""The op table as the generator needs it: which targets a kernel may hold, and of which dtypes."""

import functools
import re
import sys
from pathlib import Path

import numpy as np
from pallasc.reference.values import DTYPES, FLOAT32, NAMES, is_float, kind_rank, result_type

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "whole" / "ops"))

import cases as ops  # noqa: E402

FLOATS = ("float32", "bfloat16", "float8_e4m3fn", "float8_e5m2")
INTS = ops.INTS
DTYPE_NAMES = (*FLOATS, *INTS, "bool")


@functools.cache
def refused_dtypes():
    """{target: dtypes of which docs/ops.md says that it is not lowered}; a target that is missing
    is not lowered at all."""
    found = {}
    for line in (ROOT / "docs" / "ops.md").read_text().splitlines():
        match = re.match(r"\| `([^`]+)` \|.*\| ([^|]*) \|$", line)
        if match and match[2] != "no":
            found[match[1]] = tuple(match[2].removeprefix("not of ").split(", "))
    return found


def takes(target, dtype):
    """Whether a kernel may hold `target` of `dtype`."""
    refused = refused_dtypes()
    return target in refused and dtype not in refused[target]


@functools.cache
def pointwise_rows():
    """The lowered pointwise rows of the op table, in its order."""
    special = ("tile.mask_to", "aten.tril.default", "aten.triu.default")
    rows = ops.op_rows().values()
    return [
        r
        for r in rows
        if r.kind == "POINTWISE" and r.target in refused_dtypes() and r.target not in special
    ]


def ruled(rule, operands):
    """The dtype name that a row's dtype rule gives.

    Args:
      rule: the rule's name in include/ops.def.
      operands: (dtype name, rank) of tensors, and Python numbers.
    """
    arrays = [
        np.zeros((1,) * min(x[1], 1), DTYPES[x[0]]) if isinstance(x, tuple) else x for x in operands
    ]
    if rule == "BOOL":
        return "bool"
    if rule == "ANY":  # torch's any and all
        return "uint8" if operands[0][0] == "uint8" else "bool"
    if rule == "INT32":
        return "int32"
    if rule == "SAME":
        return operands[0][0]
    dtype = result_type(arrays[1:] if rule == "PROMOTE_REST" else arrays)
    if rule == "PROMOTE_FLOAT" and not is_float(dtype):
        dtype = FLOAT32
    if rule == "SUM" and kind_rank(dtype) != 2:
        return "int32"
    return NAMES[dtype]
