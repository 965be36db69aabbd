"""Scans and reductions with a function of the user: what a loop over the lanes gives, in order."""

import kit
import numpy as np
import pallasc
import pytest
from builder import Doc, G, ref, sl, sym, t
from pallasc.simulate import interpret_params, simulate
from simulated import wrong

SHAPES = {"friendly": (32, 256), "odd": (50, 203)}


def recurrence(g, dtype):
    """h = a h + b, of pairs (a, b)."""
    a, b, c, d = (g.arg(t(dtype, 1)) for _ in range(4))
    product = g.call("aten.mul.Tensor", b, c, meta=t(dtype, 1))
    g.out(
        g.call("aten.mul.Tensor", a, c, meta=t(dtype, 1)),
        g.call("aten.add.Tensor", product, d, meta=t(dtype, 1)),
    )
    return g


def first(g, dtype):
    """The first of two, and the last: they do not commute."""
    a, _b, _c, d = (g.arg(t(dtype, 1)) for _ in range(4))
    g.out(a, d)
    return g


def binary(target):
    """A function of two by one op."""

    def function(g, dtype):
        a, b = g.arg(t(dtype, 1)), g.arg(t(dtype, 1))
        g.out(g.call(target, a, b, meta=t(dtype, 1)))
        return g

    return function


def document(function, count, dtype, shape, dim, reverse=None, keep=False, element=0):
    """out = a result of the scan of `count` tensors; of the reduction if `reverse` is None."""
    combine, g = function(G(0, "combine"), dtype), G(1, grid=[0])
    doc = Doc({"block_sizes": [16]}, name="combine", scalars=None).block(shape[0], None)
    index, tile = [sym("u0"), sl()], ["u0", shape[1]]
    for name in "ab"[:count]:
        doc.tensor(name, "input", dtype, shape)
        g.call("tile.load", g.host(name, name=name), index, meta=t(dtype, *tile), name=f"t{name}")
    values = [ref(f"t{name}") for name in "ab"[:count]]
    out, to, at = list(shape), list(tile), list(index)
    if reverse is None:
        args = [dim, keep]
        for part in (out, to, at):
            part[dim : dim + 1] = [sl() if part is at else 1] if keep else []
    else:
        args = [dim, reverse]
    meta = t(dtype, *to)
    target = "tile.reduce" if reverse is None else "tile.associative_scan"
    if count == 1:
        result = g.call(target, 0, values[0], *args, meta=meta, name="result")
    else:
        both = g.call(target, 0, values, *args, meta={"tuple": [meta] * 2}, name="both")
        result = g.call("getitem", both, element, meta=meta, name="result")
    doc.tensor("out", "output", dtype, out)
    g.call("tile.store", g.host("out", name="out"), at, result, name="store")
    return doc.add(combine, g.out())


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_pairs_are_scanned_as_the_reference_does(dtype, shape, reverse):
    assert wrong(document(recurrence, 2, dtype, SHAPES[shape], 1, reverse, element=1)) == []


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_tiles_are_scanned_along_their_own_dim(shape, reverse):
    """Lanes past the last row are zeros there, and take part."""
    assert wrong(document(recurrence, 2, "float32", SHAPES[shape], 0, reverse, element=1)) == []


@pytest.mark.parametrize(
    "dtype, target",
    [
        ("float32", "aten.maximum.default"),
        ("int8", "aten.maximum.default"),
        ("uint32", "aten.bitwise_xor.Tensor"),
        ("bool", "aten.bitwise_or.Tensor"),
        ("bool", "aten.logical_and.default"),
    ],
)
@pytest.mark.parametrize("reverse", [False, True, None])
def test_dtypes_keep_their_bits(dtype, target, reverse):
    assert wrong(document(binary(target), 1, dtype, (50, 203), 1, reverse)) == []


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("element", [0, 1])
def test_reductions_keep_the_order_of_operands(element, keep, shape):
    wanted = document(first, 2, "float32", SHAPES[shape], 1, None, keep, element)
    a, b = (np.random.default_rng(i).random(SHAPES[shape], np.float32) for i in range(2))
    (found,) = simulate(kit.compiled(wanted).load(), [a, b], interpret_params()).outputs
    expected = (a[:, :1] if element == 0 else b[:, -1:]) if keep else (a, b)[element][:, -element]
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_recurrence_is_the_loop_in_float64(reverse, shape):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0.5, 1, (2, *SHAPES[shape])).astype(np.float32)
    wanted = document(recurrence, 2, "float32", SHAPES[shape], 1, reverse, element=1)
    (found,) = simulate(kit.compiled(wanted).load(), [a, b], interpret_params()).outputs
    expected, h = np.zeros(a.shape), np.zeros(len(a))
    for i in reversed(range(a.shape[1])) if reverse else range(a.shape[1]):
        h = a[:, i] * h + b[:, i].astype(np.float64)
        expected[:, i] = h
    np.testing.assert_allclose(found, expected, rtol=2e-5)


def test_a_function_that_is_not_lane_by_lane_is_refused():
    def summed(g, dtype):
        a, b = g.arg(t(dtype, 1)), g.arg(t(dtype, 1))
        both = g.call("aten.add.Tensor", a, b, meta=t(dtype, 1))
        g.out(g.call("aten.sum.dim_IntList", both, [0], True, meta=t(dtype, 1)))
        return g

    with pytest.raises(
        pallasc.CompileError, match=r"(?s)associative_scan.*function of pointwise ops"
    ):
        kit.compiled(document(summed, 1, "float32", (32, 256), 1, False))
