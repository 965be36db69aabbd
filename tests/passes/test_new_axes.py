"""New axes in loads: what b[None, u1] and its like give, beside a tile x[u0, u1]."""

import json

import kit
import pytest
import simulated
from tiles import Kernel

# The tensor's dims, the index of its load, the shape of what that gives, a dim to squeeze.
LOADS = {
    "row": (["n"], [None, "u1"], [1, "u1"], None),
    "column": (["m"], ["u0", None], ["u0", 1], None),
    "row-of-a-position": ([3, "n"], [None, 2, "u1"], [1, "u1"], None),
    "column-of-a-position": ([3, "m"], [1, "u0", None], ["u0", 1], None),
    "two-in-front": (["n"], [None, None, "u1"], [1, 1, "u1"], 0),
    "in-the-middle": (["m", "n"], ["u0", None, "u1"], ["u0", 1, "u1"], 1),
    "behind": (["m", "n"], ["u0", "u1", None], ["u0", "u1", 1], 2),
}
# Rows, columns, and the blocks of them.
SIZES = {"friendly": (16, 256, [8, 128]), "odd": (21, 200, [21, 128])}


def document(load, dtype="float32", sizes="friendly"):
    """y = x + b[..]."""
    dims, index, shape, squeezed = LOADS[load]
    *extents, blocks = SIZES[sizes]
    extent = dict(zip("mn", extents, strict=True))
    k = Kernel("axes", extents, {"block_sizes": blocks})
    k.tensor("b", "input", dtype, [extent.get(d, d) for d in dims])
    for name, role in (("x", "input"), ("y", "output")):
        k.tensor(name, role, dtype, extents)
    entries = [e if e is None else k.index([e])[0] for e in index]
    value = k.node("tile.load", [{"ref": "b_host"}, entries], {"dtype": dtype, "shape": shape})
    if squeezed is not None:
        left = shape[:squeezed] + shape[squeezed + 1 :]
        value = k.op("aten.squeeze.dim", value, squeezed, shape=left)
    k.store("y", k.op("aten.add.Tensor", k.load("x", "u0", "u1"), value), "u0", "u1")
    return json.loads(k.json())


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("load", LOADS)
def test_values(load, sizes):
    assert simulated.wrong(document(load, sizes=sizes)) == []


@pytest.mark.parametrize("dtype", ["bfloat16", "int32", "int8"])
@pytest.mark.parametrize("load", ["row", "column", "behind"])
def test_dtypes(load, dtype):
    assert simulated.wrong(document(load, dtype)) == []


def test_it_is_the_kernel_that_a_new_axis_after_the_load_gives():
    """Equal but for the names of what is loaded."""
    made = document("column")
    after = document("column")
    nodes = after["graphs"][0]["nodes"]
    (at,) = [i for i, node in enumerate(nodes) if node["args"][0:1] == [{"ref": "b_host"}]]
    bare = {**nodes[at], "args": [{"ref": "b_host"}, [{"sym": "u0"}]]}
    bare |= {"name": "bare", "meta": {"dtype": "float32", "shape": ["u0"]}}
    axes = [{"slice": [None, None, None]}, None]
    nodes[at : at + 1] = [
        bare,
        {**nodes[at], "target": "tile.subscript", "args": [{"ref": "bare"}, axes]},
    ]
    one, other = (kit.plan(graph) for graph in (made, after))
    assert one["operands"] == other["operands"]
    assert one["vmem"] == other["vmem"]
