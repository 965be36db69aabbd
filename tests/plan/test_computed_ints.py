"""Positions and bounds that are sums, quotients, rests, maxima and minima of program ids."""

import json

import kit
import numpy as np
import pytest
import simulated
import tiles
from builder import Doc, G, sl, sym, t
from pallasc import reference
from pallasc.errors import CompileError

SYM = {"sym": None}


def heads(shape, positions, out_shape, out_positions):
    """out[positions of b, :, :] = 2 * x[positions of b, :, :] over b in steps of 1.

    A position is (target, divisor): "floordiv" or "mod" of tile.begin of b; or None: b itself.
    """
    k = tiles.Kernel("heads", [8], {"block_sizes": [1]})
    k.tensor("x", "input", "float32", shape)
    k.tensor("out", "output", "float32", out_shape)
    begin = k.node("tile.begin", [{"sym": "u0"}], SYM)

    def at(position):
        return k.node(position[0], [begin, position[1]], SYM) if position else begin

    index = [*(at(p) for p in positions), {"slice": [None] * 3}, {"slice": [None] * 3}]
    tile = {"dtype": "float32", "shape": shape[-2:]}
    x = k.node("tile.load", [{"ref": "x_host"}, index], tile)
    index = [*(at(p) for p in out_positions), {"slice": [None] * 3}, {"slice": [None] * 3}]
    k.node("tile.store", [{"ref": "out_host"}, index, k.op("aten.mul.Tensor", x, 2.0)])
    return json.loads(k.json())


def grid_of(document):
    """(operands' index maps by ref, whether the grid's dim is parallel)."""
    plan = kit.plan(document, "v7x")
    (dim,) = plan["grid"]
    maps = {o["ref"]: o["index_map"] for o in plan["operands"]}
    return maps, dim["semantics"] == "parallel"


def wrong(document):
    """What is wrong with the simulated kernel, of inputs that are all different."""
    shape = document["tensors"][0]["shape"]
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return simulated.wrong(document, None, "v7x", given=[x])


def test_a_quotient_is_a_window():
    document = heads([2, 8, 128], [("floordiv", 4)], [8, 8, 128], [None])
    maps, parallel = grid_of(document)
    assert maps == {"x_ref": ["tile_0 // 4", "0", "0"], "out_ref": ["tile_0", "0", "0"]}
    assert parallel
    assert not wrong(document)


def test_batch_and_head_of_one_dim():
    """(b // 4, b % 4) tells all grid points apart: they may run in parallel."""
    both = [("floordiv", 4), ("mod", 4)]
    document = heads([8, 8, 128], [None], [2, 4, 8, 128], both)
    maps, parallel = grid_of(document)
    assert maps["out_ref"] == ["tile_0 // 4", "tile_0 % 4", "0", "0"]
    assert parallel
    assert not wrong(document)
    assert not wrong(heads([2, 4, 8, 128], both, [8, 8, 128], [None]))


def test_one_part_alone_is_written_again():
    """b // 4 of an output: four grid points write one block, in order."""
    document = heads([8, 8, 128], [None], [2, 8, 128], [("floordiv", 4)])
    _maps, parallel = grid_of(document)
    assert not parallel


def test_past_the_end_is_refused():
    document = heads([3, 8, 128], [("floordiv", 2)], [8, 8, 128], [None])
    with pytest.raises(CompileError, match="x may lie outside its dim of 3"):
        kit.compiled(document, "v7x")


def test_past_a_dim_of_one_is_that_one():
    """A load gives the nearest element, and there is one."""
    assert not wrong(heads([1, 8, 128], [("floordiv", 4)], [8, 8, 128], [None]))


def test_a_begin_below_0_is_refused():
    """The window's begin without its maximum with 0."""
    document = kit.document("sliding_attention")
    (largest,) = [n for n in kit.nodes(document, "root") if n.get("target") == "sym_max"]
    largest["target"] = "add"
    with pytest.raises(CompileError, match="k_view may lie outside its dim") as refused:
        kit.compiled(document, "v7x")
    assert "sym_max" in str(refused.value)


def test_ints_are_not_handed_to_the_next_step():
    """An unrolled loop that computes scores ahead: the head number stays."""
    config = {"pallas_loop_type": "unroll", "pallas_matmul_ahead": 1}
    (loop,) = kit.plan("gqa_attention", "v7x", **config)["loops"]
    assert [item["node"] for item in loop["handed"]] == ["dot"]


@pytest.mark.parametrize("query", ["id", "count"])
def test_ids_and_counts_of_tiles_that_begin_anywhere(query):
    """tile.id is begin // size, also where the range's begin is no multiple, or a loaded one."""
    doc = Doc(config={"block_sizes": [16]}).tensor("begins", "input", "int32", [5])
    doc.tensor("out", "output", "int32", [5, 64, 128], init=-1)
    doc.block(5, "i", size=1).block(64, "tile")
    body = G(1, "for_loop", block_ids=[1], carried=[])
    number = body.call(f"tile.{query}", sym("u1"), meta=sym(None))
    here = body.call("tile.begin", sym("u0"), meta=sym(None))
    body.store("out", [here, sym("u1"), sl()], number)
    g = G(0, grid=[0])
    here = g.call("tile.begin", sym("u0"), meta=sym(None))
    begin = g.load("begins", [here], t("int32"))
    g.call("tile.for_loop", 1, [begin], [64], [], meta={"tuple": []})
    document = doc.add(body.out(), g.out())
    begins = np.array([0, 3, 16, 41, 64], np.int32)
    assert not simulated.wrong(document, None, "v6e", given=[begins])


@pytest.mark.parametrize("query", ["id", "count"])
@pytest.mark.parametrize(("begin", "end", "size"), [(5, 64, 8), (256, 257, 257), (7, 100, 30)])
def test_ids_and_counts_of_a_grid_that_begins_anywhere(begin, end, size, query):
    doc = Doc(config={"block_sizes": [size]}).tensor("out", "output", "int32", [end, 128], init=-1)
    doc.block(end, "tile", begin=begin)
    g = G(0, grid=[0])
    number = g.call(f"tile.{query}", sym("u0"), meta=sym(None))
    g.store("out", [sym("u0"), sl()], number)
    document = doc.add(g.out())
    assert not simulated.wrong(document, None, "v6e", given=[])
    (out,) = reference.run(document, [], config={"block_sizes": [size]})
    ids = (begin + np.arange(end - begin) // size * size) // size
    wanted = {"id": ids, "count": -(-(end - begin) // size)}
    assert (out[:begin] == -1).all()
    assert (out[begin:, 0] == wanted[query]).all()
