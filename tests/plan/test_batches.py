"""pallas_wide_blocks: several heads at once, whose few rows a loop multiplies."""

import json

import kit
import numpy as np
import pytest
import simulated
from builder import Doc, G, dt, f32, sl, sym
from coverage import row as coverage

HEADS, KEYS, DIM = 32, 256, 128
ON = {"pallas_wide_blocks": "on"}


def grid(graph, chip="v7x", **config):
    """The Plan's grid, as steps of each dim."""
    return [dim["steps"] for dim in kit.plan(graph, chip, **config)["grid"]]


def heads(rows=4, head=None, scores=None, result=None):
    """Each head's q times its keys, a tile at a time, summed: out [heads, rows].

    Args:
      head: f(graph, position) -> the entry by which keys are found, instead of the position.
      scores: f(graph, s) -> what is summed instead of a tile's products, [rows, tile].
      result: f(graph, position, sums) -> what is stored instead, [rows].
    """
    doc = Doc(name="heads", config={"block_sizes": [128]})
    doc.tensor("q", "input", "float32", [HEADS, rows, DIM])
    doc.tensor("k", "input", "float32", [HEADS, KEYS, DIM])
    doc.tensor("scale", "input", "float32", [HEADS])
    doc.tensor("out", "output", "float32", [HEADS, rows])
    doc.block(HEADS, "head", size=1).block(KEYS, "keys")
    step = G(1, "for_loop", block_ids=[1], carried=[[1, 0]])
    q, acc = step.arg(f32(rows, DIM)), step.arg(f32(rows))
    at = step.call("tile.begin", sym("u0"), meta=sym(None))
    at = head(step, at) if head else at
    k = step.load("k", [at, sym("u1"), sl()], f32("u1", DIM))
    turned = step.call("aten.permute.default", k, [1, 0], meta=f32(DIM, "u1"))
    s = step.call("tile.dot", q, turned, None, dt("float32"), meta=f32(rows, "u1"))
    s = scores(step, s) if scores else s
    s = step.call("tile.mask_to", s, 0, meta=f32(rows, "u1"))
    total = step.call("aten.sum.dim_IntList", s, [1], meta=f32(rows))
    step.out(step.call("aten.add.Tensor", acc, total, meta=f32(rows)))
    root = G(0, grid=[0])
    at = root.call("tile.begin", sym("u0"), meta=sym(None))
    q = root.load("q", [at, sl(), sl()], f32(rows, DIM))
    zeros = root.call("tile.full", [rows], 0.0, dt("float32"), meta=f32(rows))
    loop = root.call("tile.for_loop", 1, [0], [KEYS], [q, zeros], meta={"tuple": [f32(rows)]})
    sums = root.call("getitem", loop, 0, meta=f32(rows))
    sums = result(root, at, sums) if result else sums
    root.store("out", [at, sl()], sums)
    return doc.add(root.out(), step)


def halved(graph, at):
    return graph.call("floordiv", at, 2, meta=sym(None))


def over_all(graph, s):
    """Less the mean of all: of all heads, if they were one tile."""
    mean = graph.call("aten.mean.default", s, meta=f32())
    return graph.call("aten.sub.Tensor", s, mean, meta=f32(4, "u1"))


def scaled(graph, at, sums):
    scale = graph.load("scale", [at], f32())
    return graph.call("aten.mul.Tensor", sums, scale, meta=f32(4))


@pytest.mark.parametrize("chip", ["v5e", "v6e", "v7x"])
def test_all_heads_of_a_page_are_taken_at_once(chip):
    assert grid("paged_decode_64_32_128", chip) == [64, 1]
    assert grid("paged_decode_64_32_128", chip, pallas_wide_blocks="off") == [64, 8]


def test_default_blocks_are_chosen_for_all_heads_at_once():
    document = kit.document("paged_decode_64_32_128")
    del document["config"]
    assert grid(document) == [64, 1]


@pytest.mark.parametrize(("chip", "points"), [("v6e", 16), ("v7x", 32)])
def test_tiles_of_heads_are_wider_than_given(chip, points):
    """Of eight heads; on v7x of four: K and V of eight do not fit twice."""
    assert grid("decode_attention_8192", chip) == [points]
    assert grid("decode_attention_8192", chip, pallas_wide_blocks="off") == [128]


def test_tiles_of_loops_are_wider_than_given():
    """On v5e straight code of two heads is estimated to be faster."""
    loops = {"pallas_straight_loops": "off"}
    assert grid("decode_attention_8192", "v5e", **loops) == [16]
    assert grid("decode_attention_8192", "v5e", **loops, pallas_wide_blocks="off") == [128]
    assert grid("decode_attention_8192", "v5e") == [64]


def test_the_configuration_stays():
    module = kit.compiled("paged_decode_64_32_128", "v7x")
    assert module.info["config"]["block_sizes"] == [32]
    said = kit.emitted("report", "paged_decode_64_32_128", target="v7x").err
    assert "batch: block_1: 8 positions of the grid at a time" in said
    assert "taken: several heads at once (block_1 8)" in said


def test_what_the_pass_made_says_how_many_and_compiles_to_the_same():
    made = json.loads(kit.emitted("json", heads(), **ON).out)
    assert [block.get("size") for block in made["block_sizes"]] == [8, 128]
    shapes = {n["name"]: n["meta"].get("shape") for n in kit.nodes(made) if "meta" in n}
    assert ["u0", 4, "u1"] in shapes.values()
    assert ["u0", "u1", DIM] in shapes.values()
    assert grid(made) == grid(heads(), **ON) == [4]


def test_few_points_stay_unless_all_are_asked_for():
    assert grid("paged_decode") == [4, 2]
    assert grid("paged_decode", **ON) == [4, 1]


@pytest.mark.parametrize(
    "document",
    [
        heads(rows=32),  # the matrix unit has rows enough
        heads(head=halved),  # keys of another head
        heads(scores=over_all),  # all heads' scores would be one sum
        heads(result=scaled),  # a number for each head
    ],
    ids=["rows", "halved", "over all", "scaled"],
)
def test_positions_that_say_more_than_where_data_lie_stay(document):
    assert grid(document, **ON) == [HEADS]
    assert simulated.wrong(document, ON) == []


def unread(graph, s):
    """What would speak against several heads, if something read it."""
    over_all(graph, s)
    return s


def test_dead_code_is_taken_away_before_heads_are_a_tile():
    document = heads(scores=unread)
    assert grid(document, **ON) == [4]
    assert simulated.wrong(document, ON) == []


@pytest.mark.parametrize("rows", [1, 4])
def test_heads_at_once_give_what_each_gives(rows):
    document = heads(rows)
    assert grid(document, **ON) == [4]
    assert simulated.wrong(document, ON) == []


@pytest.mark.parametrize("graph", ["paged_decode", "paged_decode_odd"])
@pytest.mark.parametrize("distribution", [None, *coverage.DISTRIBUTIONS])
def test_pages_of_all_heads_at_once(graph, distribution):
    """Of sequences of any length, of none, and of one token."""
    document = kit.document(graph)
    given = coverage.by_graph()[graph].inputs(document, np.random.default_rng(2), distribution)
    assert simulated.wrong(document, ON, "v7x", given=given) == []


@pytest.mark.parametrize("graph", ["decode_attention", "decode_attention_odd"])
@pytest.mark.parametrize("loop", ["unroll", "fori_loop", "emit_pipeline"])
def test_one_row_of_several_heads_at_once(graph, loop):
    config = {**ON, "pallas_loop_type": loop}
    assert grid(graph, **config) != grid(graph, pallas_wide_blocks="off", pallas_loop_type=loop)
    assert simulated.wrong(kit.document(graph), config, "v7x") == []
