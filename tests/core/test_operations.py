"""Statements as operations on vector registers, beside what Mosaic makes of them."""

import json
import sys
from pathlib import Path

import kit
import pytest
from pallasc.profile import mosaic

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import op_counts

# Of how many rows of the coverage a class is equal; bench/op_counts.json has Mosaic's counts.
EQUAL = {
    "load": 219,
    "store": 226,
    "matmul": 89,
    "float": 187,
    "function": 102,
    "int": 109,
    "compare": 102,
    "select": 109,
    "convert": 36,
    "pack": 160,
    "reduce": 92,
    "rotate": 41,
    "transpose": 85,
    "permute": 90,
    "mask": 79,
}
EQUAL_ROWS = 201
# Some of those of which every class is: one of each kind of layout, fold and relayout.
WHOLE = (
    "add",
    "broadcast operands",
    "attention, head dim 64",
    "attention backward, dq",
    "attention of float16",
    "broadcast_add",
    "experts, fused, worklist",
    "flip",
    "GEGLU, erf",
    "group norm",
    "grouped matmul, int8",
    "jagged sum",
    "latent attention, decode",
    "layer-norm over two dims",
    "matmul, K = 300",
    "matmul, float8, two scales",
    "matmul, M = 7",
    "matmul, no loop over K",
    "matmul, x.T @ y.T",
    "random numbers, integers",
    "rotary embedding, halves cut in the kernel",
    "rows stored in turns",
    "segmented scan",
    "softmax, torch's op",
    "sort",
    "strided slices",
    "split-K, atomic adds",
)


@pytest.fixture(scope="module")
def rows():
    return {name: (mine, theirs) for name, mine, theirs in op_counts.register_rows()}


def test_all_rows_are_counted(rows):
    assert len(rows) == len(op_counts.cases()) >= 226


@pytest.mark.parametrize("name", WHOLE)
def test_equal_to_the_operation(rows, name):
    mine, theirs = rows[name]
    assert mine == theirs
    assert sum(mine.values()) > 100


def test_no_fewer_rows_are_equal(rows):
    equal = {
        kind: sum(mine[kind] == theirs[kind] > 0 for mine, theirs in rows.values())
        for kind in mosaic.CLASSES
    }
    assert {kind: count for kind, count in equal.items() if count < EQUAL[kind]} == {}
    assert len(op_counts.equal_rows()) >= EQUAL_ROWS


def operations(*words, **also):
    """{op: {class: count}} of a graph's first kernel; of statements of one op their sum."""
    found = {}
    for item in json.loads(kit.accepted("--emit=operations", *words, **also).out)["kernels"][0][
        "statements"
    ]:
        of = found.setdefault(item["op"], {})
        for kind, count in item["operations"].items():
            of[kind] = of.get(kind, 0) + count
    return found


def test_registers_of_a_sum():
    """[512, 1024] of float32 are 64 x 8 registers, over all grid points."""
    found = operations(kit.path("add"))
    assert found == {"load": {"load": 1024}, "add": {"float": 512}, "store": {"store": 512}}


KERNEL = """program p for v6e
input x bfloat16[64, 512]
output y float32[64, 1]
kernel p {
  grid i 2 arbitrary
  in x_ref vmem bfloat16[32, 512] of [64, 512] at (i, 0) buffers 2
  out y_ref vmem float32[32, 1] of [64, 1] at (i, 0) buffers 2
  a = load x_ref[...] : bfloat16[32, 512]
  b = convert a : float32[32, 512]
  c = exp b : float32[32, 512]
  d = sum c keep=1 axes=(1) : float32[32, 1]
  store y_ref[...], d
}
host(x) {
  y = launch kernel=0, x : float32[64, 1]
  return y
}
"""


def test_narrow_rows_and_a_reduction():
    """A register of bfloat16 in VMEM is 8 rows of 256 lanes, two of float32.

    Each row group is added up from 0 on, then along lanes; one lane of a register is stored.
    """
    assert operations("-", text=KERNEL) == {
        "load": {"load": 2 * 4 * 2},
        "convert": {"pack": 2 * 4 * 4},
        "exp": {"function": 2 * 4 * 4},
        "sum": {"float": 2 * 4 * 4, "reduce": 2 * 4},
        "store": {"store": 2 * 4, "mask": 2 * 4},
    }


def test_what_is_equal_is_computed_once():
    twice = KERNEL.replace(
        "  d = sum c",
        "  c2 = exp b : float32[32, 512]\n  c3 = add c, c2 : float32[32, 512]\n  d = sum c3",
    )
    found = operations("-", text=twice)
    assert found["exp"] == {"function": 32}
    assert found["add"] == {"float": 32}
