"""The reference against numpy: atomics, roots, views, index lists."""

import ml_dtypes
import numpy as np
import pytest
from builder import Doc, G, dt, f32, normal, sl, sym, t
from pallasc.reference import run
from pallasc.reference.values import DTYPES

BF16 = ml_dtypes.bfloat16
U0, U1 = sym("u0"), sym("u1")
ORDERS = ["forward", "reverse"]


# --- memory ---


@pytest.mark.parametrize("order", ORDERS)
def test_atomics_over_the_grid(order):
    doc = Doc(config={"block_sizes": [4]})
    doc.tensor("x", "input", "int32", [10]).block(10)
    kinds = {"add": np.sum, "max": np.max, "min": np.min, "or": np.bitwise_or.reduce}
    kinds |= {"and": np.bitwise_and.reduce, "xor": np.bitwise_xor.reduce}
    g = G(0, grid=[0])
    x = g.load("x", [U0], t("int32", "u0"))
    place = g.call("aten.mul.Tensor", x, 0, meta=t("int32", "u0"))
    for kind in kinds:
        doc.tensor(kind, "output", "int32", [1], init=5)
        g.call(f"tile.atomic_{kind}", g.host(kind), [place], x, meta=t("int32", "u0"))
    x = np.random.default_rng(0).integers(-50, 50, 10).astype(np.int32)
    outs = run(doc.add(g.out()), [x], order=order)
    for out, function in zip(outs, kinds.values(), strict=True):
        assert out.tolist() == [function(np.append(x, 5))]


def test_atomic_add_rounds_after_the_wider_dtype():
    doc = Doc(config={"block_sizes": [4]})
    doc.tensor("x", "input", "float32", [4]).tensor("out", "output", "bfloat16", [4], init=256)
    doc.tensor("old", "output", "bfloat16", [4]).block(4)
    g = G(0, grid=[0])
    x = g.load("x", [U0], f32("u0"))
    old = g.call("tile.atomic_add", g.host("out"), [U0], x, meta=t("bfloat16", "u0"))
    g.store("old", [U0], old)
    x = np.array([0.5, 1.0, 1.25, 3.0], np.float32)
    out, old = run(doc.add(g.out()), [x])
    assert out.astype(float).tolist() == [256, 256, 258, 260]  # 257 ties to even
    assert old.astype(float).tolist() == [256] * 4


def test_atomic_xchg_and_cas():
    doc = Doc(config={"block_sizes": [4]})
    doc.tensor("a", "inout", "int32", [4]).tensor("b", "inout", "int32", [4])
    doc.tensor("old", "output", "int32", [4]).block(4)
    g = G(0, grid=[0])
    index = g.call("tile.index", U0, meta=t("int32", "u0"))
    g.store("old", [U0], g.call("tile.atomic_xchg", g.host("a"), [U0], 9, meta=t("int32", "u0")))
    g.call("tile.atomic_cas", g.host("b"), [U0], index, -1, meta=t("int32", "u0"))
    a, b = np.arange(4, dtype=np.int32), np.array([0, 5, 2, 5], np.int32)
    new_a, new_b, old = run(doc.add(g.out()), [a, b])
    assert new_a.tolist() == [9] * 4 and old.tolist() == [0, 1, 2, 3]
    assert new_b.tolist() == [-1, 5, -1, 5]
    assert a.tolist() == [0, 1, 2, 3]


def test_roots_run_in_order_and_scratch_is_not_returned():
    doc = Doc(config={"block_sizes": [4, 3]}, returns=[{"tensor": "out"}])
    doc.tensor("x", "input", "float32", [10]).tensor("tmp", "output", "float32", [10])
    doc.tensor("out", "output", "float32", [10]).block(10).block(10)
    first, second = G(0, grid=[0]), G(1, grid=[1])
    x = first.load("x", [U0], f32("u0"))
    first.store("tmp", [U0], first.call("aten.mul.Tensor", x, 2, meta=f32("u0")))
    y = second.load("tmp", [U1], f32("u1"))
    second.store("out", [U1], second.call("aten.add.Tensor", y, 1, meta=f32("u1")))
    x = normal(10)
    outs = run(doc.add(first.out(), second.out()), [x])
    assert len(outs) == 1 and np.array_equal(outs[0], x * 2 + 1)


def test_inout_is_returned_and_the_caller_keeps_his():
    doc = Doc(config={"block_sizes": [4]})
    doc.tensor("x", "inout", "float32", [6]).block(6)
    g = G(0, grid=[0])
    x = g.load("x", [U0], f32("u0"))
    g.store("x", [U0], g.call("aten.add.Tensor", x, 1, meta=f32("u0")))
    x = normal(6)
    kept = x.copy()
    (out,) = run(doc.add(g.out()), [x])
    assert np.array_equal(out, kept + 1) and np.array_equal(x, kept)


def test_views_alias_and_chain():
    doc = Doc(config={"block_sizes": [4, 2]})
    doc.tensor("x", "inout", "float32", [4, 6])
    doc.tensor("flat", "view", "float32", [24], of="x")
    doc.tensor("xt", "view", "float32", [6, 4], of="x", permute=[1, 0])
    doc.tensor("part", "view", "float32", [2, 4], of="xt", slice=[[1, 5, 2], [None, None, None]])
    doc.tensor("cube", "view", "float32", [2, 2, 6], of="x")
    doc.tensor("wide", "view", "float32", [3, 4, 6], of="x", expand=True)
    doc.tensor("out", "output", "float32", [4, 6]).block(24).block(2)
    one, two = G(0, grid=[]), G(1, grid=[])
    one.store(
        "part", [sl(), sl()], one.call("tile.full", [2, 4], -1, dt("float32"), meta=f32(2, 4))
    )
    one.store("cube", [1, 1, 0], 100.0)
    one.store("flat", [7], 50.0)
    two.store("out", [sl(), sl()], two.load("wide", [2, sl(), sl()], f32(4, 6)))
    x = normal(4, 6)
    expected = x.copy()
    expected[:, 1:5:2] = -1
    expected[3, 0], expected[1, 1] = 100, 50
    outs = run(doc.add(one.out(), two.out()), [x])
    assert all(np.array_equal(out, expected) for out in outs)


def test_a_stored_value_of_fewer_dims_stands_at_the_last_ones():
    """The tile u0 of the value is the tensor's last dim, whatever stands before it."""
    doc = Doc(config={"block_sizes": [4]}).tensor("out", "output", "float32", [1, 4, 5]).block(5)
    g = G(0, grid=[0])
    value = g.call("tile.full", [4, U0], 1, dt("float32"), meta=f32(4, "u0"))
    g.store("out", [sl(), sl(), U0], value)
    (out,) = run(doc.add(g.out()), [])
    assert out.tolist() == [[[1] * 5] * 4]


@pytest.mark.parametrize("dtype", ["float8_e5m2", "bfloat16", "bool", "int4"])
def test_expanded_views_of_narrow_dtypes(dtype):
    doc = Doc().tensor("x", "input", dtype, [1, 4])
    doc.tensor("wide", "view", dtype, [3, 4], of="x", expand=True)
    doc.tensor("out", "output", "float32", [3, 4])
    g = G(0, grid=[])
    g.store("out", [sl(), sl()], g.load("wide", [sl(), sl()], t(dtype, 3, 4)))
    x = np.array([[0, 1, 1, 0]]).astype(DTYPES[dtype])
    (out,) = run(doc.add(g.out()), [x])
    assert out.tolist() == [[0, 1, 1, 0]] * 3


def test_derived_tensor_and_ops_of_returns():
    returns = [{"tensor": "out", "ops": [["aten.sum.dim_IntList", [0]]], "shape": [2, 2]}]
    doc = Doc(config={"block_sizes": [2]}, returns=returns)
    doc.tensor("x", "input", "float32", [3, 4])
    ops = [["aten.permute.default", [1, 0]], ["prims.convert_element_type.default", dt("bfloat16")]]
    doc.tensor("xt", "derived", "bfloat16", [4, 3], of="x", ops=ops)
    doc.tensor("out", "output", "float32", ["cdiv(3, u0)", 4]).block(3)
    g = G(0, grid=[0])
    x = g.load("xt", [sl(), U0], t("bfloat16", 4, "u0"))
    s = g.call("aten.sum.dim_IntList", x, [1], meta=t("bfloat16", 4))
    g.store("out", [g.call("tile.id", U0, meta=sym(None)), sl()], s)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert run(doc.add(g.out()), [x])[0].tolist() == [[12, 15], [18, 21]]


def test_forgotten_store_shows_as_nan():
    doc = Doc().tensor("out", "output", "float32", [2])
    g = G(0, grid=[])
    g.store("out", [0], 1.0)
    assert np.isnan(run(doc.add(g.out()), [])[0][1])


# --- index lists ---


def test_gather_outer_product_of_tile_indices():
    doc = Doc(config={"block_sizes": [2, 4]})
    doc.tensor("x", "input", "float32", [7, 9]).tensor("p", "input", "int32", [3])
    doc.tensor("out", "output", "float32", [3, 6]).block(3).block(6)
    g = G(0, grid=[0, 1])
    rows = g.load("p", [U0], t("int32", "u0"))
    columns = g.call("tile.index", U1, meta=t("int32", "u1"))
    columns = g.call("aten.add.Tensor", columns, 2, meta=t("int32", "u1"))
    g.store("out", [U0, U1], g.load("x", [rows, columns], f32("u0", "u1")))
    x, p = normal(7, 9), np.array([6, 0, 3], np.int32)
    assert np.array_equal(run(doc.add(g.out()), [x, p])[0], x[p][:, 2:8])


def test_gather_of_two_dims_broadcasts_adjacent_tensors():
    doc = Doc(config={"block_sizes": [2]})
    doc.tensor("x", "input", "float32", [2, 5, 6, 3]).tensor("i", "input", "int32", [4, 1])
    doc.tensor("j", "input", "int32", [2]).tensor("out", "output", "float32", [2, 4, 2, 3])
    doc.block(2)
    g = G(0, grid=[0])
    i, j = g.load("i", [sl(), sl()], t("int32", 4, 1)), g.load("j", [sl()], t("int32", 2))
    x = g.load("x", [U0, i, j, sl()], f32("u0", 4, 2, 3))
    g.store("out", [U0, sl(), sl(), sl()], x)
    x = normal(2, 5, 6, 3)
    i, j = np.array([[4], [0], [2], [2]], np.int32), np.array([5, 1], np.int32)
    assert np.array_equal(run(doc.add(g.out()), [x, i, j])[0], x[:, i, j])


def test_scatter_skips_outside_and_invalid_lanes():
    doc = Doc(config={"block_sizes": [4]})
    doc.tensor("p", "input", "int32", [5]).tensor("out", "output", "int32", [6], init=-1)
    doc.block(5)
    g = G(0, grid=[0])
    p = g.load("p", [U0], t("int32", "u0"))
    g.store("out", [p], g.call("tile.index", U0, meta=t("int32", "u0")))
    (out,) = run(doc.add(g.out()), [np.array([5, -1, 6, 1, 2], np.int32)])
    assert out.tolist() == [-1, 3, 4, -1, -1, 0]


def test_load_outside_gives_the_clamped_element():
    doc = Doc(config={"block_sizes": [4]})
    doc.tensor("x", "input", "float32", [5]).tensor("p", "input", "int32", [4])
    doc.tensor("out", "output", "float32", [4]).tensor("one", "output", "float32", []).block(4)
    g = G(0, grid=[0])
    p = g.load("p", [U0], t("int32", "u0"))
    g.store("out", [U0], g.load("x", [p], f32("u0")))
    g.store("one", [], g.load("x", [17], f32()))
    x = normal(5)
    out, one = run(doc.add(g.out()), [x, np.array([-3, 5, 4, 1000], np.int32)])
    assert np.array_equal(out, x[[0, 4, 4, 4]]) and one == x[4]


def test_dynamic_slice_new_axis_and_position():
    doc = Doc(config={"block_sizes": [2]})
    doc.tensor("x", "input", "float32", [3, 8]).tensor("out", "output", "float32", [4, 1, 2])
    doc.block(8)
    g = G(0, grid=[0])
    begin = g.call("tile.begin", U0, meta=sym(None))
    end = g.call("add", begin, g.call("tile.block_size", U0, meta=U0), meta=sym(None))
    x = g.load("x", [1, None, sl(begin, end)], f32(1, "u0"))
    x = g.call("tile.subscript", x, [sl(), None, sl()], meta=f32(1, 1, "u0"))
    row = g.call("tile.id", U0, meta=sym(None))
    g.store("out", [row, sl(), sl()], x)
    x = normal(3, 8)
    assert np.array_equal(run(doc.add(g.out()), [x])[0], x[1].reshape(4, 1, 2))


def test_reference_to_block_size_is_the_whole_tile():
    doc = Doc(config={"block_sizes": [4]})
    doc.tensor("x", "input", "float32", [6]).tensor("out", "output", "float32", [6]).block(6)
    g = G(0, grid=[0])
    size = g.call("tile.block_size", U0, meta=U0)
    g.store("out", [size], g.load("x", [size], f32("u0")))
    x = normal(6)
    assert np.array_equal(run(doc.add(g.out()), [x])[0], x)


def test_store_broadcasts_and_converts():
    doc = Doc(config={"block_sizes": [2]})
    doc.tensor("x", "input", "float32", [3]).tensor("out", "output", "int32", [5, 3]).block(5)
    g = G(0, grid=[0])
    g.store("out", [U0, sl()], g.load("x", [sl()], f32(3)))
    (out,) = run(doc.add(g.out()), [np.array([1.9, -1.9, np.nan], np.float32)])
    assert out.tolist() == [[1, -1, 0]] * 5
