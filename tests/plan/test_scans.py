"""Scans as Helion traces them: torch.cumsum, hl.cumsum and hl.associative_scan with a product.

The graphs are those of `pallasc export` (torch 2.13, helion 1.5.1): all are a tile.associative_scan
whose combine graph is one sum or product.
"""

import kit
import numpy as np
import pytest
from builder import Doc, G, ref, sl, sym, t
from pallasc.simulate import interpret_params, simulate
from simulated import wrong

SHAPES = {"friendly": (64, 256), "odd": (50, 203)}


def document(dtype, shape, op="add", reverse=False, order=(0, 1), kwargs=None):
    """out = the scan of x along its rows, in blocks of 16 rows."""
    combine, g, one = G(0, "combine"), G(1, grid=[0]), t(dtype, 1)
    args = [combine.arg(one, name=f"arg{i}") for i in range(2)]
    pair = [args[i] for i in order]
    both = combine.call(f"aten.{op}.Tensor", *pair, meta=one, name="both")
    combine.raw["nodes"][-1] |= {"kwargs": kwargs} if kwargs else {}
    combine.out(both)
    doc = Doc({"block_sizes": [16]}, name="scan_rows", scalars=None).block(shape[0], None)
    doc.tensor("x", "input", dtype, shape).tensor("out", "output", dtype, shape)
    index, tile = [sym("u0"), sl()], t(dtype, "u0", shape[1])
    g.call("tile.load", g.host("x", name="x"), index, meta=tile, name="t")
    scan = g.call("tile.associative_scan", 0, ref("t"), 1, reverse, meta=tile, name="scan")
    g.call("tile.store", g.host("out", name="out"), index, scan, name="store")
    return doc.add(combine, g.out())


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_sums_are_those_of_the_reference(dtype, shape, reverse):
    assert wrong(document(dtype, SHAPES[shape], reverse=reverse)) == []


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_products_are_those_of_the_reference(dtype, shape):
    assert wrong(document(dtype, SHAPES[shape], op="mul", order=(1, 0))) == []


@pytest.mark.parametrize("op, numpy_scan", [("add", np.cumsum), ("mul", np.cumprod)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_the_formula_in_float64(op, numpy_scan, reverse, shape):
    x = np.random.default_rng(0).uniform(0.9, 1.1, SHAPES[shape]).astype(np.float32)
    module = kit.compiled(document("float32", SHAPES[shape], op, reverse))
    (found,) = simulate(module.load(), [x], interpret_params()).outputs
    ahead = x.astype(np.float64)[:, ::-1] if reverse else x.astype(np.float64)
    expected = numpy_scan(ahead, axis=1)
    expected = expected[:, ::-1] if reverse else expected
    np.testing.assert_allclose(found, expected, rtol=2e-5)


@pytest.mark.parametrize("dtype, op", [("float32", "maximum"), ("bool", "mul")])
def test_what_is_no_sum_or_product_is_scanned_by_its_function(dtype, op):
    wanted = document(dtype, (50, 203), op)
    if op == "maximum":
        wanted["graphs"][0]["nodes"][2]["target"] = "aten.maximum.default"
    assert wrong(wanted) == []
