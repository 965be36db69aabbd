"""What a kernel may have many of: terms of a position, windows of a loop, new axes of a view."""

import re

import pallasc
import pytest
from simulated import wrong

F32 = "float32"


def node(name, target, args, dtype=None, shape=None, **meta):
    made = {"name": name, "target": target, "args": args}
    meta = {"dtype": dtype, "shape": shape} if dtype else meta
    return {**made, "meta": meta} if meta else made


def loop_kernel(tensors, body, before=(), begin=0, scalars=(), config=None):
    """out[u0, 128] = zeros, to which `body` adds in each step of a loop over u1 from `begin` on."""
    tile, host = ["u0", 128], [8, 128]
    inner = [
        {"name": "acc", "op": "placeholder", "meta": {"dtype": F32, "shape": tile}},
        *body,
        {"name": "output", "op": "output", "args": [[{"ref": "sum"}]]},
    ]
    root = [
        *before,
        node("zero", "tile.full", [[{"sym": "u0"}, 128], 0.0, {"dtype": F32}], F32, tile),
        node(
            "loop",
            "tile.for_loop",
            [0, [begin], [512], [{"ref": "zero"}]],
            tuple=[{"dtype": F32, "shape": tile}],
        ),
        node("total", "getitem", [{"ref": "loop"}, 0], F32, tile),
        node("out", "tile.host_tensor", ["out"], F32, host),
        node(
            "store",
            "tile.store",
            [{"ref": "out"}, [{"sym": "u0"}, {"slice": [None] * 3}], {"ref": "total"}],
        ),
        {"name": "output", "op": "output", "args": [[]]},
    ]
    return {
        "format": "fxtile",
        "version": 1,
        "name": "k",
        "tensors": [
            *({"name": t, "role": "input", "dtype": F32, "shape": [512, 128]} for t in tensors),
            {"name": "out", "role": "output", "dtype": F32, "shape": host},
        ],
        "scalars": [{"name": s, "dtype": "int32"} for s in scalars],
        "block_sizes": [
            {"id": 0, "symbol": "u0", "extent": 8},
            {"id": 1, "symbol": "u1", "extent": 512},
        ],
        "graphs": [
            {"id": 0, "kind": "for_loop", "block_ids": [1], "carried": [[0, 0]], "nodes": inner},
            {"id": 1, "kind": "root", "grid": [0], "nodes": root},
        ],
        "config": {"block_sizes": [8, 64], **(config or {})},
    }


def added(tensors):
    """Nodes that add the rows of each tensor, summed over the tile."""
    nodes, last = [], "acc"
    for i, t in enumerate(tensors):
        tile, total = ["u1", 128], "sum" if i + 1 == len(tensors) else f"s{i}"
        index = [{"sym": "u1"}, {"slice": [None] * 3}]
        nodes += [
            node(t, "tile.host_tensor", [t], F32, [512, 128]),
            node(f"{t}_tile", "tile.load", [{"ref": t}, index], F32, tile),
            node(f"{t}_row", "aten.sum.dim_IntList", [{"ref": f"{t}_tile"}, [0]], F32, [128]),
            node(total, "aten.add.Tensor", [{"ref": last}, {"ref": f"{t}_row"}], F32, ["u0", 128]),
        ]
        last = total
    return nodes


@pytest.mark.parametrize("count", [6, 7, 12])
def test_a_loop_that_begins_at_a_sum_of_scalars(count):
    """Each of the terms is in the position of every step, and so is the step."""
    scalars = [f"s{i}" for i in range(count)]
    before = [node(s, "tile.scalar", [s], "int32", []) for s in scalars]
    last = "s0"
    for i in range(1, count):
        before.append(node(f"to{i}", "add", [{"ref": last}, {"ref": f"s{i}"}], "int32", []))
        last = f"to{i}"
    document = loop_kernel(["x"], added(["x"]), before, {"ref": last}, scalars)
    assert wrong(document, scalars={s: 2**i % 37 for i, s in enumerate(scalars)}) == []


@pytest.mark.parametrize("loop_type", ["fori_loop", "emit_pipeline"])
def test_a_loop_of_many_windows(loop_type):
    """Each is read by the name of its own parameter."""
    tensors = [f"x{i}" for i in range(70)]
    document = loop_kernel(tensors, added(tensors), config={"pallas_loop_type": loop_type})
    module = pallasc.compile(document, target="v6e")
    assert len(module.plan["loops"][0]["windows"]) == 70
    read = re.findall(r"(x\d+)_tile = (x\d+)_win\[\.\.\.\]", module.source)
    assert set(read) == {(t, t) for t in tensors}


def test_scalars_are_computed_with():
    """Sums and products of ints are positions; those of floats are values."""
    scalars = [node(s, "tile.scalar", [s], F32, []) for s in ("a", "b")]
    product = node("c", "mul", [{"ref": "a"}, 0.5], F32, [])
    before = [*scalars, product, node("d", "add", [{"ref": "c"}, {"ref": "b"}], F32, [])]
    document = loop_kernel(["x"], added(["x"]), before, scalars=["a", "b"])
    for scalar in document["scalars"]:
        scalar["dtype"] = F32
    nodes = document["graphs"][1]["nodes"]
    place = next(i for i, n in enumerate(nodes) if n["name"] == "store")
    scaled = node("z", "aten.mul.Tensor", [{"ref": "total"}, {"ref": "d"}], F32, ["u0", 128])
    nodes.insert(place, scaled)
    nodes[place + 1]["args"][2] = {"ref": "z"}
    assert wrong(document) == []
