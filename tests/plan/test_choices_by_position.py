"""A choice between a tile and a number by position is a mask along the tile's own dim."""

import json

import kit
import numpy as np
import pallasc.execute
import pallasc.reference
import pytest
from builder import Doc, G, f32, sl, sym, t

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
OPS = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}


def chosen(op, swapped=False, number_first=False, dim=0, offset=0):
    """out = where((index + offset) OP n, x, 7), along a dim of x; n is an int at run time."""
    sizes = ["u0", 128]
    shape = [sizes[dim]]
    meta = {"dtype": "int32", "shape": shape}
    index = (
        {"name": "index", "target": "tile.index", "args": [{"sym": "u0"}], "meta": meta}
        if dim == 0
        else {"name": "index", "target": "prims.iota.default", "args": [128], "meta": meta}
        | {"kwargs": {"dtype": {"dtype": "int32"}}}
    )
    sides = [{"ref": "at"}, {"ref": "n"}][:: -1 if swapped else 1]
    values = [{"ref": "x"}, 7.0][:: -1 if number_first else 1]
    view = [None, {"slice": [None, None, None]}][:: -1 if dim == 0 else 1]
    bools = {"dtype": "bool", "shape": shape}
    placed = {"dtype": "bool", "shape": [sizes[0], 1] if dim == 0 else [1, 128]}
    tile = {"dtype": "float32", "shape": sizes}
    whole = {"slice": [None, None, None]}
    nodes = [
        {
            "name": "n",
            "target": "tile.scalar",
            "args": ["n"],
            "meta": {"dtype": "int32", "shape": []},
        },
        index,
        {
            "name": "at",
            "target": "aten.add.Tensor",
            "args": [{"ref": "index"}, offset],
            "meta": meta,
        },
        {"name": "test", "target": f"aten.{op}.Tensor", "args": sides, "meta": bools},
        {
            "name": "placed",
            "target": "tile.subscript",
            "args": [{"ref": "test"}, view],
            "meta": placed,
        },
        {"name": "x_host", "target": "tile.host_tensor", "args": ["x"]}
        | {"meta": {"dtype": "float32", "shape": [96, 128]}},
        {"name": "x", "target": "tile.load", "args": [{"ref": "x_host"}, [{"sym": "u0"}, whole]]}
        | {"meta": tile},
        {
            "name": "y",
            "target": "aten.where.self",
            "args": [{"ref": "placed"}, *values],
            "meta": tile,
        },
        {"name": "out_host", "target": "tile.host_tensor", "args": ["out"]}
        | {"meta": {"dtype": "float32", "shape": [96, 128]}},
        {"name": "s", "target": "tile.store"}
        | {"args": [{"ref": "out_host"}, [{"sym": "u0"}, whole], {"ref": "y"}]},
        {"name": "output", "op": "output", "args": [[]]},
    ]
    arrays = {"dtype": "float32", "shape": [96, 128]}
    return {
        "format": "fxtile",
        "version": 1,
        "name": "chosen",
        "tensors": [
            {"name": "x", "role": "input", **arrays},
            {"name": "out", "role": "output", **arrays},
        ],
        "scalars": [{"name": "n", "dtype": "int32"}],
        "block_sizes": [{"id": 0, "symbol": "u0", "extent": 96}],
        "graphs": [{"id": 0, "kind": "root", "grid": [0], "nodes": nodes}],
        "config": {"block_sizes": [32]},
    }


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("number_first", [False, True])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("op", OPS)
def test_values(op, swapped, number_first, dim):
    """Whatever n is, the numbers are those of the choice."""
    x = np.random.default_rng(0).standard_normal((96, 128), np.float32)
    text = kit.emitted("kernel", chosen(op, swapped, number_first, dim, 3)).out
    at = np.arange(x.shape[dim])[:, None] if dim == 0 else np.arange(x.shape[dim])[None]
    for n in (INT_MIN, -1, 0, 3, 4, 50, 98, 99, 130, 131, INT_MAX):
        sides = (at + 3, n)[:: -1 if swapped else 1]
        values = (x, np.float32(7))[:: -1 if number_first else 1]
        (found,) = pallasc.execute.run(text, x, np.int32(n))
        np.testing.assert_array_equal(found, np.where(OPS[op](*sides), *values), f"{n}")


def test_a_mask_stands_for_it():
    """The condition is not computed, in lanes or in sublanes."""
    text = kit.emitted("kernel", chosen("lt")).out
    assert "mask x, (max(%1, u0 * 32) - u0 * 32), 7.0 axis=0 : float32[32, 128]" in text
    assert "to_column" not in text
    assert "where" not in text
    assert "axis=1" in kit.emitted("kernel", chosen("lt", dim=1)).out


def test_an_end_that_no_int_holds():
    """index <= n is index < n + 1 only where n + 1 is an int: else the choice stays."""
    assert "where" in kit.emitted("kernel", chosen("le")).out


def test_what_may_wrap_around_stays():
    """A position that 32 bits do not hold is compared as it is."""
    assert "where" in kit.emitted("kernel", chosen("lt", offset=INT_MAX - 50)).out
    assert "where" in kit.emitted("kernel", chosen("lt", offset=-1)).out


def test_a_number_in_the_first_lanes():
    """It is spread over the tile, of which the mask leaves the others."""
    text = kit.emitted("kernel", chosen("ge")).out
    assert "full 7.0 : float32[32, 128]" in text
    assert "to_column" not in text
    assert "where" not in text


def test_all_lanes_are_chosen():
    """A position is never below 0: the tile stands there as it is."""
    document = chosen("ge")
    nodes = document["graphs"][0]["nodes"]
    (test,) = (node for node in nodes if node["name"] == "test")
    test |= {"target": "aten.ge.Scalar", "args": [{"ref": "index"}, 0]}
    text = kit.emitted("kernel", document).out
    assert "mask" not in text
    assert "iota" not in text


def summed(op, n, loop):
    """out[m] = the sum over k of x[m, k] where index OP n, k in a loop with a ragged last step."""
    doc = Doc(config={"block_sizes": [32, 32], "pallas_loop_type": loop})
    doc.tensor("x", "input", "float32", [64, 100]).tensor("out", "output", "float32", [64])
    doc.block(64).block(100)
    body = G(1, "for_loop", block_ids=[1], carried=[[0, 0]])
    acc = body.arg(f32("u0"))
    x = body.load("x", [sym("u0"), sym("u1")], f32("u0", "u1"))
    index = body.call("tile.index", sym("u1"), meta=t("int32", "u1"))
    test = body.call(f"aten.{op}.Scalar", index, n, meta=t("bool", "u1"))
    test = body.call("tile.subscript", test, [None, sl()], meta=t("bool", 1, "u1"))
    y = body.call("aten.where.self", test, x, 0.0, meta=f32("u0", "u1"))
    total = body.call("aten.sum.dim_IntList", y, [1], meta=f32("u0"))
    body.out(body.call("aten.add.Tensor", acc, total, meta=f32("u0")))
    g = G(0, grid=[0])
    zero = g.call("tile.full", [sym("u0")], 0, {"dtype": "float32"}, meta=f32("u0"))
    sums = g.call("tile.for_loop", 1, [0], [100], [zero], meta={"tuple": [f32("u0")]})
    g.store("out", [sym("u0")], g.call("getitem", sums, 0, meta=f32("u0")))
    return doc.add(body, g.out())


@pytest.mark.parametrize("loop", ["fori_loop", "unroll"])
@pytest.mark.parametrize("op", OPS)
def test_in_each_step_of_a_ragged_loop(op, loop):
    """A choice is made in all steps, though the mask of the ragged one stands in that alone."""
    x = np.random.default_rng(0).integers(-9, 9, (64, 100)).astype(np.float32)
    for n in (-5, 0, 3, 31, 32, 40, 97, 99, 100, 120):
        document = summed(op, n, loop)
        (found,) = pallasc.execute.run(kit.emitted("kernel", json.dumps(document)).out, x)
        (wanted,) = pallasc.reference.run(document, [x])
        np.testing.assert_array_equal(found, wanted, f"{n}")
