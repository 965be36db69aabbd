"""Loop bounds and positions of the run time: clamped to their tensors, stores there masked."""

import copy
import importlib.util
import json

import executed
import kit
import pytest
from builder import Doc, G, f32, sl, sym, t
from kit import document
from pallasc.errors import CompileError
from simulated import wrong

FORI = {"pallas_loop_type": "fori_loop"}


BOUNDS = ((0, 256), (3, 77), (100, 40), (-5, 30), (200, 900), (64, 64), (256, 256), (300, 400))


@pytest.mark.parametrize("start, stop", BOUNDS)
def test_bounds(start, stop):
    """Below 0, past the end, descending, none at all."""
    scalars = {"start": start, "stop": stop}
    assert not wrong(document("sum_to"), FORI, scalars=scalars)


@pytest.mark.parametrize("at, to", [(0, 36), (36, 0), (-1, 5), (37, 5), (5, -1), (5, 37), (-9, 99)])
def test_positions(at, to):
    """A load outside gives the nearest element, a store there is left out."""
    assert not wrong(document("put_row_odd"), scalars={"at": at, "to": to})


def test_what_is_known_stays():
    """Numbers are clamped where they stand, and with assume_in_bounds nothing is."""
    source = kit.compiled("put_row").source
    assert "jnp.clip(" in source and "jnp.where(" in source
    assumed = document("put_row") | {"assume_in_bounds": True}
    assert "jnp.clip(" not in kit.compiled(assumed).source
    past = copy.deepcopy(document("sum_to"))
    for node in past["graphs"][1]["nodes"]:
        if node["name"] == "loop":
            node["args"][1:3] = [[-64], [999]]
    loops = kit.compiled(past, **FORI).plan["loops"]
    assert (loops[0]["dims"][0]["begin"], loops[0]["dims"][0]["end"]) == (0, 256)


def test_a_position_of_several_accesses_is_clamped_once():
    """One clamp for two loads, one for the store."""
    found = document("put_row_odd")
    nodes = found["graphs"][0]["nodes"]
    first = next(i for i, node in enumerate(nodes) if node.get("target") == "tile.load")
    nodes.insert(first + 1, {**nodes[first], "name": "again"})
    after = json.loads(kit.emitted("json", found, "--passes=bounds").out)
    clamps = [n["args"] for n in kit.nodes(after) if n.get("target") == "aten.clamp.default"]
    assert len(clamps) == 2 and clamps[0] != clamps[1]


@pytest.mark.parametrize("at", [64, 256])
def test_a_loop_that_never_runs(at):
    """Nothing is left of it: what it carries is what it starts with."""
    empty = document("sum_to")
    for node in empty["graphs"][1]["nodes"]:
        if node["name"] == "loop":
            node["args"][1:3] = [[at], [at]]
    text = executed.kernel_text(empty, FORI, emit="--rewrites=")
    assert " = loop " not in text and executed.read_again(text) == text
    assert not wrong(empty, FORI)


def test_refused():
    """Steps that begin anywhere have no windows to pipeline, and cannot be unrolled."""
    for loop, why in (("unroll", "run time"), ("emit_pipeline", "multiples of the block")):
        with pytest.raises(CompileError, match=why):
            kit.compiled("sum_to", pallas_loop_type=loop)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "int8", "bool"])
@pytest.mark.parametrize("graph", ["masked_copy", "masked_copy_odd"])
def test_masks(graph, dtype):
    """A masked load gives 0, a masked store leaves what was there."""
    text = json.dumps(document(graph))
    text = text.replace('"float32"', f'"{dtype}"').replace('"bfloat16"', f'"{dtype}"')
    found = json.loads(text)
    if dtype == "bool":
        for node in found["graphs"][0]["nodes"]:
            if node["name"] == "lt":
                node["args"][1] = 2
    assert not wrong(found)


def builder():
    """The module that writes documents by hand."""
    path = kit.ROOT / "testdata" / "coverage" / "structure.build.py"
    spec = importlib.util.spec_from_file_location("structure_build", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("value", ["column", "row"])
@pytest.mark.parametrize("mask", ["column", "row"])
def test_mask_beside_value(value, mask):
    """A 1-D store of a reduced or a loaded value, under a mask of the one or the other."""
    d = builder().Document("rows", block_sizes=[128])
    d.add("x", "input", [300, 200], "bfloat16")
    d.add("z", "input", [300], "bfloat16")
    d.add("out", "inout", [300], "bfloat16")
    u0 = d.block("tile_m", 300)
    root = d.graph("root", grid=[0])
    x = root.load("x", [u0, ":"], [u0, 200])
    top = root.op("aten.amax.default", x, [-1], shape=[u0], dtype="bfloat16")
    found = {"column": top, "row": root.load("z", [u0], [u0])}
    least = {"column": 2, "row": 0}[mask]
    where = root.op("aten.gt.Scalar", found[mask], least, shape=[u0], dtype="bool")
    root.store("out", [u0], found[value], mask=where)
    root.output()
    assert not wrong(d.done())


@pytest.mark.parametrize("dim", [0, 1])
def test_mask_broadcasts(dim):
    """A mask of the rows or of the columns alone."""
    d = builder().Document("rows", block_sizes=[64])
    d.add("x", "input", [300, 200])
    d.add("z", "input", [300, 200][dim : dim + 1])
    d.add("out", "inout", [300, 200])
    u0 = d.block("tile_m", 300)
    root = d.graph("root", grid=[0])
    x = root.load("x", [u0, ":"], [u0, 200])
    z = root.load("z", [u0], [u0]) if dim == 0 else root.load("z", [":"], [200])
    mask = root.op("aten.gt.Scalar", z, 0, shape=[[u0], [200]][dim], dtype="bool")
    if dim == 0:
        mask = root.op("aten.unsqueeze.default", mask, 1, shape=[u0, 1], dtype="bool")
    root.store("out", [u0, ":"], x, mask=mask)
    root.output()
    assert not wrong(d.done())


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("sizes", [[8, 128], [32, 256], [16, 384]])
def test_tiles_that_pass_the_end(sizes, masked):
    """Columns of x, then those of y, by tiles of both: lanes past the end give the last element."""
    doc = Doc(config={"block_sizes": sizes}).tensor("x", "input", "float32", [40, 200])
    doc.tensor("y", "input", "float32", [40, 300]).tensor("out", "output", "float32", [40, 500])
    g = G(0, grid=[0, 1])
    index = g.call("tile.index", sym("u1"), meta=t("int32", "u1"))
    first = g.call("aten.lt.Scalar", index, 200, meta=t("bool", "u1"))
    first = g.call("aten.unsqueeze.default", first, 0, meta=t("bool", 1, "u1"))
    behind = g.call("aten.sub.Tensor", index, 200, meta=t("int32", "u1"))
    tile = f32("u0", "u1")
    args = [first] if masked else []
    x = g.call("tile.load", g.host("x"), [sym("u0"), sym("u1")], *args, meta=tile)
    y = g.load("y", [sym("u0"), behind], tile)
    both = g.call("aten.where.self", first, x, y, meta=tile)
    g.store("out", [sym("u0"), sym("u1")], g.call("aten.add.Tensor", both, x, meta=tile))
    assert not wrong(doc.block(40).block(500).add(g.out()))


def test_a_position_that_is_held_around_its_loop_stays():
    """What the passes made of a document is what they make of that: no second clamp or mask."""
    doc = Doc(config={"block_sizes": [64]}).scalar("at", "int32").block(256)
    doc.tensor("x", "input", "float32", [256, 128])
    doc.tensor("out", "output", "float32", [2, 256, 128], init=0)
    body, g = G(1, "for_loop", block_ids=[0]), G(0, grid=[])
    place = body.arg(t("int32"))
    x = body.load("x", [sym("u0"), sl()], f32("u0", 128))
    body.store("out", [place, sym("u0"), sl()], x)
    at = g.call("tile.scalar", "at", meta=t("int32"))
    held = g.call("aten.clamp.default", at, 0, 1, meta=t("int32"))
    g.call("tile.for_loop", 1, [0], [256], [held], meta={"tuple": []})
    made = json.dumps(kit.after("bounds", doc.add(body.out(), g.out())))
    assert made.count("aten.clamp.default") == 1 and "aten.logical_and" not in made
