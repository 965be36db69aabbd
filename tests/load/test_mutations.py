"""A fixed sample of mutated graphs: none crashes the compiler, or makes it print what is no Python.

`make mutations` draws many more, for a build that checks itself.
"""

import kit
import mutations
import pallasc
import pytest
from builder import Doc, G, f32, ref, sl, sym
from simulated import wrong

SAMPLE = 1000
TILE = f32("u0", 128)


def test_sample():
    counts, broken = mutations.run(range(SAMPLE))
    assert broken == {}
    assert counts[0] >= SAMPLE // 10 and counts[1] >= SAMPLE // 2


def test_the_same_number_gives_the_same_document():
    files = mutations.graph_files()
    targets = mutations.all_targets(files)
    for number in range(20):
        first, again = (mutations.draw(number, files, targets) for _ in range(2))
        assert first == again


# ---- what was found


def storing(value, before=(), dtype="float32"):
    """A kernel over a tensor changed in place: it is filled, loaded, and `value` is stored."""
    doc = Doc({"block_sizes": [64]}, name="k", scalars=None).block(256, "m")
    doc.tensor("x", "input", "float32", [256, 128])
    doc.tensor("out", "output", dtype, [256, 128], init=0)
    g, index = G(0, grid=[0]), [sym("u0"), sl()]
    g.call("tile.load", g.host("x", name="x"), index, meta=TILE, name="t")
    g.raw["nodes"] += before
    g.call("tile.store", g.host("out", name="out"), index, value, name="store")
    return doc.add(g.out())


SIZE = {"name": "v", "target": "tile.block_size", "args": [{"sym": "u0"}], "meta": {"sym": "u0"}}
BEGIN = {"name": "v", "target": "tile.begin", "args": [{"sym": "u0"}], "meta": {"sym": None}}


def made(target, *args, dtype="float32"):
    return {"name": "v", "target": target, "args": args, "meta": {"dtype": dtype, "shape": []}}


ROUNDED = made(
    "prims.convert_element_type.default", {"sym": "u0 + 1"}, {"dtype": "bfloat16"}, dtype="bfloat16"
)
MADE = {"ref": "v"}
NUMBERS = {
    "int": (7, []),
    "float": (0.5, []),
    "infinity": ({"float": "-inf"}, []),
    "bool": (True, []),
    "expression": ({"sym": "u0 * 2 + 1"}, []),
    "block size": (MADE, [SIZE]),
    "position": (MADE, [BEGIN]),
    "rounded": (MADE, [ROUNDED]),
    "renamed": (MADE, [made("tile.new_var", 1.5)]),
    "chosen": (MADE, [made("tile.phi", {"ref": "t"}, -2.5)]),
    "cloned": (MADE, [made("aten.clone.default", 3, dtype="int32")]),
}


DTYPES = ["float32", "bfloat16", "int32"]


@pytest.mark.parametrize("place, name", list(enumerate(NUMBERS)))
def test_a_number_is_stored_in_every_lane(place, name):
    value, before = NUMBERS[name]
    assert wrong(storing(value, before, DTYPES[place % 3])) == []


@pytest.mark.parametrize("chip", ["v4", "v5e", "v5p", "v6e", "v7x"])
def test_a_number_is_planned_for_every_chip(chip):
    for value, before in NUMBERS.values():
        for dtype in DTYPES:
            assert kit.compiled(storing(value, before, dtype), chip).source


def test_one_output_for_two_arguments_leaves_the_other_undefined():
    document = kit.document("softmax_two_pass")
    document["graphs"][0]["carried"] = [[0, 1], [1, 1]]
    with pytest.raises(pallasc.CompileError, match="a loop result that is not carried"):
        kit.compiled(document)


def test_an_error_after_a_pass_points_into_the_document():
    """`dce` drops a graph before the one that is refused."""
    document = storing({"ref": "t"})
    graph = document["graphs"][0]
    more = G(0)
    value = more.call("aten.lgamma.default", ref("t"), meta=TILE, name="s")
    graph["nodes"][3:3] = more.raw["nodes"]
    store = next(n for n in graph["nodes"] if n["name"] == "store")
    store["args"][2] = value
    idle = G(0)
    idle.call("tile.for_loop", 5, [0], [256], [], meta={"tuple": []}, name="idle")
    graph["nodes"][0:0] = idle.raw["nodes"]
    document["block_sizes"].append({"id": 1, "symbol": "u1", "extent": 256})
    document["config"]["block_sizes"] = [64, 64]
    document["graphs"].insert(0, G(5, "for_loop", block_ids=[1]).out().raw)
    with pytest.raises(pallasc.CompileError) as error:
        kit.compiled(document)
    place = next(i for i, n in enumerate(graph["nodes"]) if n["name"] == "s")
    assert [d["pointer"] for d in error.value.diagnostics] == [f"/graphs/1/nodes/{place}"]


@pytest.mark.parametrize("chip", ["v4", "v5e", "v5p", "v6e", "v7x"])
def test_a_rounded_number_beside_rolled_rows_is_planned(chip):
    """The VMEM model asked what the number was computed from."""
    document = kit.document("rolled_rms_norm_odd")
    (node,) = (n for n in document["graphs"][0]["nodes"] if n["name"] == "convert_element_type_2")
    node["args"][0], node["meta"]["shape"] = {"sym": "cdiv(100, u1)"}, []
    assert kit.compiled(document, chip).source
