"""The reference against float64 formulas: loops, branches, whiles, scans."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from builder import (
    Doc,
    G,
    close,
    dt,
    f32,
    normal,
    packed_doc,
    sl,
    sym,
    t,
)
from pallasc.reference import GraphError, run

BF16 = ml_dtypes.bfloat16
U0, U1 = sym("u0"), sym("u1")
ORDERS = ["forward", "reverse"]


# --- loops ---


def two_output_doc(begin, end):
    """(min, last tile's sum) over x[m, begin:end], the second output not carried."""
    doc = Doc(config={"block_sizes": [4, 4]})
    doc.tensor("x", "input", "float32", [6, 10]).tensor("low", "output", "float32", [6])
    doc.tensor("last", "output", "float32", [6]).block(6).block(10)
    body = G(1, "for_loop", block_ids=[1], carried=[[0, 0]])
    low = body.arg(f32("u0"))
    x = body.load("x", [U0, U1], f32("u0", "u1"))
    s = body.call("aten.sum.dim_IntList", x, [-1], meta=f32("u0"))
    x = body.call("tile.mask_to", x, {"float": "inf"}, meta=f32("u0", "u1"))
    m = body.call("aten.amin.default", x, [-1], meta=f32("u0"))
    body.out(body.call("aten.minimum.default", low, m, meta=f32("u0")), s)
    g = G(0, grid=[0])
    start = g.call("tile.full", [U0], {"float": "inf"}, dt("float32"), meta=f32("u0"))
    meta = {"tuple": [f32("u0"), f32("u0")]}
    loop = g.call("tile.for_loop", 1, [begin], [end], [start], meta=meta)
    low = g.call("getitem", loop, 0, meta=f32("u0"))
    g.store("low", [U0], g.call("tile.phi", start, low, meta=f32("u0")))
    g.store("last", [U0], g.call("getitem", loop, 1, meta=f32("u0")))
    return doc.add(body, g.out())


def test_two_outputs_one_carried():
    x = normal(6, 10)
    low, last = run(two_output_doc(0, 10), [x])
    assert np.array_equal(low, x.min(1))
    close(last, x.astype(np.float64)[:, 8:].sum(1))


def test_bounds_of_the_call_win():
    x = normal(6, 10)
    low, last = run(two_output_doc(3, 9), [x])
    assert np.array_equal(low, x[:, 3:9].min(1))
    close(last, x.astype(np.float64)[:, 7:9].sum(1))


@pytest.mark.parametrize("begin, end", [(0, 0), (7, 7), (8, 2)])
def test_zero_trips_give_the_initial_argument(begin, end):
    low, last = run(two_output_doc(begin, end), [normal(6, 10)])
    assert np.all(np.isposinf(low)) and np.all(np.isnan(last))


def test_loop_bounds_clamp_to_the_tensor():
    x = normal(6, 10)
    low, _ = run(two_output_doc(-5, 100), [x])
    assert np.array_equal(low, x.min(1))


def test_loop_over_two_ids_with_carry():
    doc = Doc(config={"block_sizes": [2, 4]})
    doc.tensor("x", "input", "float32", [3, 7]).tensor("out", "output", "float32", [])
    doc.block(3).block(7)
    body = G(1, "for_loop", block_ids=[0, 1], carried=[[0, 0]])
    acc = body.arg(f32())
    x = body.load("x", [U0, U1], f32("u0", "u1"))
    s = body.call("aten.sum.default", x, meta=f32())
    body.out(body.call("aten.add.Tensor", acc, s, meta=f32()))
    g = G(0, grid=[])
    zero = g.call("tile.full", [], 0.0, dt("float32"), meta=f32())
    loop = g.call("tile.for_loop", 1, [0, 0], [3, 7], [zero], meta={"tuple": [f32()]})
    g.store("out", [], g.call("getitem", loop, 0, meta=f32()))
    x = normal(3, 7)
    close(run(doc.add(body, g.out()), [x])[0], x.astype(np.float64).sum())


def test_causal_bounds_from_tile_end():
    doc = Doc(config={"block_sizes": [4, 4]})
    doc.tensor("x", "input", "float32", [10]).tensor("out", "output", "float32", [10])
    doc.block(10).block(None)
    body = G(1, "for_loop", block_ids=[1], carried=[[0, 0]])
    acc = body.arg(f32("u0"))
    x = body.load("x", [U1], f32("u1"))
    s = body.call("aten.sum.default", x, meta=f32())
    body.out(body.call("aten.add.Tensor", acc, s, meta=f32("u0")))
    g = G(0, grid=[0])
    zero = g.call("tile.full", [U0], 0, dt("float32"), meta=f32("u0"))
    end = g.call("tile.end", U0, meta=sym(None))
    loop = g.call("tile.for_loop", 1, [0], [end], [zero], meta={"tuple": [f32("u0")]})
    g.store("out", [U0], g.call("getitem", loop, 0, meta=f32("u0")))
    x = normal(10)
    wide = x.astype(np.float64)
    expected = [wide[: min(m // 4 * 4 + 4, 10)].sum() for m in range(10)]
    close(run(doc.add(body, g.out()), [x])[0], np.array(expected))


@pytest.mark.parametrize("offsets", [[0, 5, 5, 12], [2, 3, 11, 12], [0, 12, 4, 9], [-3, 6, 12, 99]])
def test_packed_offsets_at_run_time(offsets):
    x = normal(12)
    (out,) = run(packed_doc(), [x, np.array(offsets, np.int32)])
    wide = x.astype(np.float64)
    pairs = itertools.pairwise(offsets)
    close(out, np.array([wide[max(a, 0) : max(b, 0)].sum() for a, b in pairs]))


def test_jagged_lengths_bound_each_row():
    doc = Doc(config={"block_sizes": [4, 4]})
    doc.tensor("x", "input", "float32", [6, 9]).tensor("n", "input", "int32", [6])
    doc.tensor("out", "output", "float32", [6]).tensor("copy", "output", "float32", [6, 9], init=0)
    doc.block(6).block(None)
    body = G(1, "for_loop", block_ids=[1], carried=[[0, 0]], lengths=1)
    acc = body.arg(f32("u0"))
    body.arg(t("int32", "u0"))
    x = body.load("x", [U0, U1], f32("u0", "u1"))
    y = body.call("aten.exp.default", x, meta=f32("u0", "u1"))
    body.store("copy", [U0, U1], y)
    y = body.call("tile.mask_to", y, 0, meta=f32("u0", "u1"))
    s = body.call("aten.sum.dim_IntList", y, [1], meta=f32("u0"))
    body.out(body.call("aten.add.Tensor", acc, s, meta=f32("u0")))
    g = G(0, grid=[0])
    n = g.load("n", [U0], t("int32", "u0"))
    zero = g.call("tile.full", [U0], 0, dt("float32"), meta=f32("u0"))
    top = g.call("aten.amax.default", n, meta=t("int32"))
    loop = g.call("tile.for_loop", 1, [0], [top], [zero, n], meta={"tuple": [f32("u0")]})
    g.store("out", [U0], g.call("getitem", loop, 0, meta=f32("u0")))
    x, n = normal(6, 9), np.array([0, 9, 3, 5, 1, 8], np.int32)
    out, copy = run(doc.add(body, g.out()), [x, n])
    keep = np.arange(9) < n[:, None]
    expected = np.where(keep, np.exp(x.astype(np.float64)), 0)
    close(copy, expected)
    close(out, expected.sum(1))


@pytest.mark.parametrize("roll", [None, 4])
def test_reduction_dim_whole_and_rolled(roll):
    doc = Doc(config={"block_sizes": [2], "reduction_loops": [roll]})
    doc.tensor("x", "input", "float32", [3, 10]).tensor("out", "output", "float32", [3])
    doc.block(3).block(10, reduction=True)
    body = G(1, "reduction_loop", block_ids=[1], carried=[[0, 0]])
    acc = body.arg(f32("u0"))
    x = body.load("x", [U0, sl()], f32("u0", "u1"))
    x = body.call("aten.exp.default", x, meta=f32("u0", "u1"))
    x = body.call("tile.mask_to", x, 0, meta=f32("u0", "u1"))
    s = body.call("aten.sum.dim_IntList", x, [1], meta=f32("u0"))
    body.out(body.call("aten.add.Tensor", acc, s, meta=f32("u0")))
    g = G(0, grid=[0])
    whole = g.load("x", [U0, sl()], f32("u0", "u1"))
    top = g.call("aten.amax.default", whole, [1], meta=f32("u0"))
    loop = g.call("tile.for_loop", 1, [0], [10], [top], meta={"tuple": [f32("u0")]})
    g.store("out", [U0], g.call("getitem", loop, 0, meta=f32("u0")))
    x = normal(3, 10)
    wide = x.astype(np.float64)
    close(run(doc.add(body, g.out()), [x])[0], wide.max(1) + np.exp(wide).sum(1))


# --- branches, while, scans ---


def test_if_else_takes_one_branch():
    doc = Doc(config={"block_sizes": [4]})
    doc.tensor("x", "input", "float32", [10]).tensor("out", "output", "float32", [10])
    doc.block(10)
    yes, no = G(1, "if"), G(2, "else")
    yes.out(yes.call("aten.neg.default", yes.arg(f32("u0")), meta=f32("u0")))
    no.out(no.call("aten.mul.Tensor", no.arg(f32("u0")), 2.0, meta=f32("u0")))
    g = G(0, grid=[0])
    x = g.load("x", [U0], f32("u0"))
    number = g.call("tile.id", U0, meta=sym(None))
    odd = g.call(
        "eq", g.call("mod", number, 2, meta=sym(None)), 1, meta={"sym": None, "dtype": "bool"}
    )
    both = g.call("tile.if", odd, 1, 2, [x], [x], meta={"tuple": [f32("u0")]})
    g.store("out", [U0], g.call("getitem", both, 0, meta=f32("u0")))
    x = normal(10)
    expected = np.concatenate([x[:4] * 2, -x[4:8], x[8:] * 2])
    assert np.array_equal(run(doc.add(yes, no, g.out()), [x])[0], expected)


def test_if_without_else_on_a_tensor_predicate():
    doc = Doc(config={"block_sizes": [4]})
    doc.tensor("x", "input", "float32", [8]).tensor("out", "output", "float32", [8], init=0)
    doc.block(8)
    yes = G(1, "if")
    yes.store("out", [U0], yes.arg(f32("u0")))
    yes.out()
    g = G(0, grid=[0])
    x = g.load("x", [U0], f32("u0"))
    positive = g.call("aten.gt.Scalar", x, 0, meta=t("bool", "u0"))
    pred = g.call("aten.all.default", positive, meta=t("bool"))
    g.call("tile.if", pred, 1, None, [x], [], meta={"tuple": []})
    x = np.array([1, 2, 3, 4, 1, -1, 1, 1], np.float32)
    assert run(doc.add(yes, g.out()), [x])[0].tolist() == [1, 2, 3, 4, 0, 0, 0, 0]


@pytest.mark.parametrize("start, steps", [(1, 7), (200, 0)])
def test_while_carries(start, steps):
    doc = Doc().tensor("out", "output", "int32", [2]).scalar("n", "int32")
    cond, body = G(1, "cond"), G(2, "while", carried=[[0, 0], [1, 1]])
    n = cond.arg(sym(None))
    cond.arg(sym(None))
    cond.out(cond.call("lt", n, 100, meta={"sym": None, "dtype": "bool"}))
    n, count = body.arg(sym(None)), body.arg(sym(None))
    body.out(body.call("mul", n, 2, meta=sym(None)), body.call("add", count, 1, meta=sym(None)))
    g = G(0, grid=[])
    n = g.call("tile.scalar", "n", meta=t("int32"))
    meta = {"tuple": [sym(None), sym(None)]}
    loop = g.call("tile.while", 1, 2, [n, 0], meta=meta)
    for i in range(2):
        g.store("out", [i], g.call("getitem", loop, i, meta=sym(None)))
    (out,) = run(doc.add(cond, body, g.out()), [start])
    assert out.tolist() == [start * 2**steps, steps]


def scan_doc(reverse, dtype="float32"):
    """Linear recurrence (a, b) . (c, d) = (a * c, b * c + d) along dim 1."""
    doc = Doc(config={"block_sizes": [2]})
    for name in ("a", "b"):
        doc.tensor(name, "input", dtype, [3, 11])
    doc.tensor("out", "output", dtype, [3, 11]).block(3)
    f = G(1, "combine")
    a, b, c, d = (f.arg(t(dtype)) for _ in range(4))
    bc = f.call("aten.mul.Tensor", b, c, meta=t(dtype))
    f.out(
        f.call("aten.mul.Tensor", a, c, meta=t(dtype)),
        f.call("aten.add.Tensor", bc, d, meta=t(dtype)),
    )
    g = G(0, grid=[0])
    a, b = (g.load(name, [U0, sl()], t(dtype, "u0", 11)) for name in "ab")
    meta = {"tuple": [t(dtype, "u0", 11)] * 2}
    both = g.call("tile.associative_scan", 1, [a, b], 1, reverse, meta=meta)
    g.store("out", [U0, sl()], g.call("getitem", both, 1, meta=t(dtype, "u0", 11)))
    return doc.add(f, g.out())


@pytest.mark.parametrize("reverse", [False, True])
def test_combine_scan(reverse):
    a, b = normal(3, 11), normal(3, 11, seed=1)
    (out,) = run(scan_doc(reverse), [a, b])
    expected, h = np.zeros((3, 11)), np.zeros(3)
    for i in reversed(range(11)) if reverse else range(11):
        h = h * a[:, i].astype(np.float64) + b[:, i]
        expected[:, i] = h
    close(out, expected)


@pytest.mark.parametrize("dim, keep", [(0, False), (1, False), (1, True), (None, False)])
def test_combine_reduce(dim, keep):
    shape = {0: [5], 1: [3, 1] if keep else [3], None: []}[dim]
    doc = Doc().tensor("x", "input", "float32", [3, 5]).tensor("out", "output", "float32", shape)
    f = G(1, "combine")
    f.out(f.call("aten.maximum.default", f.arg(f32()), f.arg(f32()), meta=f32()))
    g = G(0, grid=[])
    x = g.load("x", [sl(), sl()], f32(3, 5))
    y = g.call("tile.reduce", 1, x, dim, keep, meta=f32(*shape))
    g.store("out", [sl()] * len(shape), y)
    x = normal(3, 5)
    assert np.array_equal(run(doc.add(f, g.out()), [x])[0], x.max(axis=dim, keepdims=keep))


# --- more of the contract ---


def test_pre_broadcast_document():
    """A row sum carried as [u0, 128] equal lanes, widened by tile.pre_broadcast_tile."""
    doc = Doc(config={"block_sizes": [4, 256]})
    doc.tensor("x", "input", "float32", [6, 512]).tensor("out", "output", "float32", [6, 512])
    doc.block(6).block(512)
    row, tile = f32("u0", 128), f32("u0", "u1")
    body = G(1, "for_loop", block_ids=[1], carried=[[0, 0]], annotations={"anything": 1})
    acc = body.arg(row)
    x = body.load("x", [U0, U1], tile)
    s = body.call("aten.sum.dim_IntList", x, [1], True, meta=f32("u0", 1))
    body.out(body.call("aten.add.Tensor", acc, s, meta=row))
    second = G(2, "for_loop", block_ids=[1])
    total = second.arg(row)
    x = second.load("x", [U0, U1], tile)
    wide = second.call("tile.pre_broadcast_tile", total, U1, meta=tile)
    second.store("out", [U0, U1], second.call("aten.div.Tensor", x, wide, meta=tile))
    second.out()
    g = G(0, grid=[0])
    zero = g.call("tile.full", [U0, 128], 0.0, dt("float32"), meta=row)
    loop = g.call("tile.for_loop", 1, [0], [512], [zero], meta={"tuple": [row]})
    g.call("tile.for_loop", 2, [0], [512], [g.call("getitem", loop, 0, meta=row)])
    x = np.abs(normal(6, 512)) + 1
    (out,) = run(doc.add(body, second, g.out()), [x])
    close(out, x / x.astype(np.float64).sum(1, keepdims=True))


def test_weak_scalars_do_not_promote():
    doc = Doc(config={"block_sizes": [4]}).scalar("a", "float32", 0.1).scalar("n", "int32", 3)
    doc.tensor("x", "input", "bfloat16", [4]).tensor("out", "output", "bfloat16", [4]).block(4)
    g = G(0, grid=[0])
    x = g.load("x", [U0], t("bfloat16", "u0"))
    a, n = (g.call("tile.scalar", k, meta=t(d)) for k, d in [("a", "float32"), ("n", "int32")])
    y = g.call("aten.mul.Tensor", x, a, meta=t("bfloat16", "u0"))
    g.store("out", [U0], g.call("aten.add.Tensor", y, n, meta=t("bfloat16", "u0")))
    x = normal(4, dtype=BF16)
    (out,) = run(doc.add(g.out()), [x])
    product = (x.astype(np.float32) * np.float32(0.1)).astype(BF16)
    assert np.array_equal(out, (product.astype(np.float32) + 3).astype(BF16))


def test_run_time_scalar_as_bound_and_index():
    doc = Doc(config={"block_sizes": [4]}).scalar("n", "int32")
    doc.tensor("x", "input", "float32", [10]).tensor("out", "output", "float32", [12], init=0)
    doc.block(None)
    body = G(1, "for_loop", block_ids=[0], carried=[[0, 0]])
    acc = body.arg(f32())
    s = body.call("aten.sum.default", body.load("x", [U0], f32("u0")), meta=f32())
    body.out(body.call("aten.add.Tensor", acc, s, meta=f32()))
    g = G(0, grid=[])
    n = g.call("tile.scalar", "n", meta=t("int32"))
    zero = g.call("tile.full", [], 0, dt("float32"), meta=f32())
    loop = g.call("tile.for_loop", 1, [0], [n], [zero], meta={"tuple": [f32()]})
    g.store("out", [n], g.call("getitem", loop, 0, meta=f32()))
    x = normal(10)
    for n in (0, 3, 10, 11):
        expected = np.zeros(12)
        expected[n] = x.astype(np.float64)[:n].sum()
        assert np.allclose(run(doc.add() if n else doc.add(body, g.out()), [x, n])[0], expected)


def test_nested_loops_and_branch_inside_a_loop():
    """Blocked triangular sum: the inner loop's end is the outer tile's end; odd tiles negate."""
    doc = Doc(config={"block_sizes": [4, 4]})
    doc.tensor("x", "input", "float32", [10, 10]).tensor("out", "output", "float32", [])
    doc.block(10).block(None)
    yes, no = G(3, "if"), G(4, "else")
    yes.out(yes.call("aten.neg.default", yes.arg(f32()), meta=f32()))
    no.out(no.arg(f32()))
    inner = G(2, "for_loop", block_ids=[1], carried=[[0, 0]])
    acc = inner.arg(f32())
    x = inner.load("x", [U0, U1], f32("u0", "u1"))
    s = inner.call("aten.sum.default", x, meta=f32())
    odd = inner.call("mod", inner.call("tile.id", U1, meta=sym(None)), 2, meta=sym(None))
    odd = inner.call("eq", odd, 1, meta={"sym": None, "dtype": "bool"})
    s = inner.call("tile.if", odd, 3, 4, [s], [s], meta={"tuple": [f32()]})
    s = inner.call("getitem", s, 0, meta=f32())
    inner.out(inner.call("aten.add.Tensor", acc, s, meta=f32()))
    outer = G(1, "for_loop", block_ids=[0], carried=[[0, 0]])
    acc = outer.arg(f32())
    end = outer.call("tile.end", U0, meta=sym(None))
    loop = outer.call("tile.for_loop", 2, [0], [end], [acc], meta={"tuple": [f32()]})
    outer.out(outer.call("getitem", loop, 0, meta=f32()))
    g = G(0, grid=[])
    zero = g.call("tile.full", [], 0, dt("float32"), meta=f32())
    loop = g.call("tile.for_loop", 1, [0], [10], [zero], meta={"tuple": [f32()]})
    g.store("out", [], g.call("getitem", loop, 0, meta=f32()))
    x = normal(10, 10)
    row, column = np.indices((10, 10)) // 4
    sign = np.where(row < column, 0, np.where(column % 2, -1.0, 1.0))
    close(run(doc.add(yes, no, inner, outer, g.out()), [x])[0], np.array((x * sign).sum()))


def test_cat_split_join_inside_a_kernel():
    doc = Doc(config={"block_sizes": [2]})
    doc.tensor("x", "input", "float32", [3, 4]).tensor("out", "output", "float32", [3, 8]).block(3)
    g = G(0, grid=[0])
    x = g.load("x", [U0, sl()], f32("u0", 4))
    pairs = g.call("aten.view.default", x, [U0, 2, 2], meta=f32("u0", 2, 2))
    halves = g.call("tile.split", pairs, meta={"tuple": [f32("u0", 2)] * 2})
    low, high = (g.call("getitem", halves, i, meta=f32("u0", 2)) for i in range(2))
    swapped = g.call("tile.join", high, low, meta=f32("u0", 2, 2))
    swapped = g.call("aten.view.default", swapped, [U0, 4], meta=f32("u0", 4))
    both = g.call("aten.cat.default", [swapped, x], 1, meta=f32("u0", 8))
    g.store("out", [U0, sl()], both)
    x = normal(3, 4)
    expected = np.concatenate([x[:, [1, 0, 3, 2]], x], 1)
    assert np.array_equal(run(doc.add(g.out()), [x])[0], expected)


def test_subscript_of_a_tile_value():
    doc = Doc(config={"block_sizes": [2]})
    doc.tensor("x", "input", "float32", [4, 6]).tensor("out", "output", "float32", [4, 2]).block(4)
    g = G(0, grid=[0])
    x = g.load("x", [U0, sl()], f32("u0", 6))
    cut = g.call("tile.subscript", x, [U0, sl(1, 6, 3)], meta=f32("u0", 2))
    three = g.call("tile.subscript", cut, [sl(), None, sl()], meta=f32("u0", 1, 2))
    g.store("out", [U0, sl()], g.call("aten.squeeze.dim", three, 1, meta=f32("u0", 2)))
    x = normal(4, 6)
    assert np.array_equal(run(doc.add(g.out()), [x])[0], x[:, 1:6:3])


def test_malformed_documents_are_refused_clearly():
    for raw in [
        {},
        {"format": "fxtile", "version": 2},
        {**Doc().raw, "tensors": [{"role": "input"}]},
    ]:
        with pytest.raises(GraphError):
            run(raw, [])
    loop = G(0, "for_loop", block_ids=[0])
    loop.call("tile.for_loop", 0, [0], [4], [])
    root = G(1, grid=[])
    root.call("tile.for_loop", 0, [0], [4], [])
    doc = Doc(config={"block_sizes": [4]}).block(4).add(loop.out(), root.out())
    with pytest.raises(GraphError, match="Recursion"):
        run(doc, [])
