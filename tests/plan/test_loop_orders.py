"""loop_orders of loops: another order where no step can tell, else a refusal."""

import kit
import pytest
from builder import Doc, G, dt, f32, sym
from pallasc.errors import CompileError
from simulated import wrong

U0, U1, U2 = sym("u0"), sym("u1"), sym("u2")


def summed(target="aten.add.Tensor", swap=False):
    """out[b] = the sum over blocks of rows and columns of x[b], a loop of two dims, both ragged."""
    doc = Doc(config={"block_sizes": [8, 64, 128], "pallas_loop_type": "fori_loop"})
    doc.tensor("x", "input", "float32", [16, 100, 300]).tensor("out", "output", "float32", [16])
    doc.block(16).block(100).block(300)
    loop = G(1, "for_loop", block_ids=[1, 2], carried=[[0, 0]])
    acc = loop.arg(f32("u0"))
    x = loop.load("x", [U0, U1, U2], f32("u0", "u1", "u2"))
    part = loop.call("aten.sum.dim_IntList", x, [1, 2], meta=f32("u0"))
    loop.out(loop.call(target, *((part, acc) if swap else (acc, part)), meta=f32("u0")))
    g = G(0, grid=[0])
    zero = g.call("tile.full", [U0], 0.0, dt("float32"), meta=f32("u0"))
    sums = g.call("tile.for_loop", 1, [0, 0], [100, 300], [zero], meta={"tuple": [f32("u0")]})
    g.store("out", [U0], g.call("getitem", sums, 0, meta=f32("u0")))
    return doc.add(loop, g.out())


@pytest.mark.parametrize("swap", [False, True])
def test_sums_are_taken_in_the_order_that_is_given(swap):
    document = summed(swap=swap)
    given = {"loop_orders": [[1, 0]]}
    loops = [kit.plan(document, **config)["loops"][0] for config in ({}, given)]
    assert [[dim["block"] for dim in loop["dims"]] for loop in loops] == [
        ["u1", "u2"],
        ["u2", "u1"],
    ]
    assert wrong(document, given) == []


def test_stores_of_every_step_are_in_any_order():
    assert wrong(kit.document("loop_of_two_dims"), {"loop_orders": [[1, 0]]}) == []


def test_an_order_that_can_be_told_stays():
    with pytest.raises(CompileError, match="what it carries is no sum of its steps"):
        kit.compiled(summed("aten.div.Tensor"), loop_orders=[[1, 0]])
    kit.compiled(summed("aten.div.Tensor"), loop_orders=[[0, 1]])


def test_what_is_taken_away_is_a_sum_and_what_it_is_taken_from_is_none():
    assert wrong(summed("aten.sub.Tensor"), {"loop_orders": [[1, 0]]}) == []
    with pytest.raises(CompileError, match="what it carries is no sum of its steps"):
        kit.compiled(summed("aten.sub.Tensor", swap=True), loop_orders=[[1, 0]])


def test_flattened_is_as_it_is_anyway():
    document = summed()
    plain, flat = (kit.compiled(document, flatten_loops=[f]).source for f in (False, True))
    assert [line for line in plain.splitlines() if "flatten" not in line] == [
        line for line in flat.splitlines() if "flatten" not in line
    ]
