"""The reference against float64 formulas: lanes, masks, tile queries, rounding, errors."""

import json
import re

import ml_dtypes
import numpy as np
import pytest
from builder import Doc, G, close, dt, example, f32, normal, pointwise_doc, ref, sl, sym, t
from pallasc.reference import GraphError, run

BF16 = ml_dtypes.bfloat16
U0, U1 = sym("u0"), sym("u1")
ORDERS = ["forward", "reverse"]


# --- the example of the format ---


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("blocks", [[128, 1024], [1000, 5000], [7, 333], [2048, 8192]])
def test_example(blocks, order):
    x = normal(1000, 5000)
    (out,) = run(example(), [x, 2.5], config={"block_sizes": blocks}, order=order)
    close(out, 2.5 * x.astype(np.float64).sum(1))


def test_example_scalars_by_name_and_list():
    x = normal(1000, 5000)
    first = run(example(), [x], scalars={"scale": -1.5})[0]
    assert np.array_equal(first, run(example(), [x], scalars=[-1.5])[0])


def test_example_from_path(tmp_path):
    path = tmp_path / "g.json"
    path.write_text(json.dumps(example()))
    x = normal(1000, 5000)
    assert np.array_equal(run(path, [x, 1.0])[0], run(example(), [x, 1.0])[0])


# --- lanes and masks ---


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape, blocks", [((5,), (4,)), ((3, 7), (2, 4)), ((3, 5, 9), (2, 4, 8))])
def test_ragged_pointwise(shape, blocks, order):
    meta = f32(*(f"u{i}" for i in range(len(shape))))
    doc = pointwise_doc(shape, blocks, lambda g, x: g.call("aten.exp.default", x, meta=meta))
    x = normal(*shape)
    (out,) = run(doc, [x], order=order)
    close(out, np.exp(x.astype(np.float64)))


def row_reduce_doc(rows, cols, block, mask, exp=True):
    """out[m] = sum over one tile of exp(x), with or without mask_to before the sum."""
    doc = Doc(config={"block_sizes": [2, block]})
    doc.tensor("x", "input", "float32", [rows, cols]).tensor("out", "output", "float32", [rows])
    doc.block(rows).block(cols)
    body = G(1, "for_loop", block_ids=[1], carried=[[0, 0]])
    acc = body.arg(f32("u0"))
    x = body.load("x", [U0, U1], f32("u0", "u1"))
    x = body.call("aten.exp.default", x, meta=f32("u0", "u1")) if exp else x
    x = body.call("tile.mask_to", x, 0, meta=f32("u0", "u1")) if mask else x
    s = body.call("aten.sum.dim_IntList", x, [1], meta=f32("u0"))
    body.out(body.call("aten.add.Tensor", acc, s, meta=f32("u0")))
    root = G(0, grid=[0])
    zero = root.call("tile.full", [U0], 0.0, dt("float32"), meta=f32("u0"))
    loop = root.call("tile.for_loop", 1, [0], [cols], [zero], meta={"tuple": [f32("u0")]})
    root.store("out", [U0], root.call("getitem", loop, 0, meta=f32("u0")))
    return doc.add(body, root.out())


def test_mask_to_hides_invalid_lanes():
    x = normal(3, 5)
    (out,) = run(row_reduce_doc(3, 5, 4, mask=True), [x])
    close(out, np.exp(x.astype(np.float64)).sum(1))


def test_a_forgotten_mask_gives_the_wrong_answer_of_the_format():
    x = normal(3, 5)
    (out,) = run(row_reduce_doc(3, 5, 4, mask=False), [x])
    close(out, np.exp(x.astype(np.float64)).sum(1) + 3.0)  # exp(0) in three invalid lanes


def test_sum_of_loads_needs_no_mask():
    x = normal(3, 5)
    (out,) = run(row_reduce_doc(3, 5, 4, mask=False, exp=False), [x])
    close(out, x.astype(np.float64).sum(1))


def test_extra_mask_on_load_and_store():
    doc = Doc(config={"block_sizes": [4]})
    doc.tensor("x", "input", "float32", [6]).tensor("out", "output", "float32", [6], init=-1)
    doc.block(6)
    g = G(0, grid=[0])
    index = g.call("tile.index", U0, meta=t("int32", "u0"))
    low = g.call("aten.lt.Scalar", index, 3, meta=t("bool", "u0"))
    even = g.call("aten.remainder.Scalar", index, 2, meta=t("int32", "u0"))
    even = g.call("aten.eq.Scalar", even, 0, meta=t("bool", "u0"))
    x = g.load("x", [U0], f32("u0"), extra_mask=low)
    g.store("out", [U0], x, extra_mask=even)
    (out,) = run(doc.add(g.out()), [np.arange(10, 16, dtype=np.float32)])
    assert out.tolist() == [10, -1, 12, -1, 0, -1]


def test_a_dim_that_is_a_number_is_not_masked():
    doc = Doc(config={"block_sizes": [4]})
    doc.tensor("x", "input", "float32", [3, 2]).tensor("out", "output", "float32", [2])
    doc.block(3)
    g = G(0, grid=[])
    x = g.load("x", [sl(), sl()], f32(3, 2))
    ones = g.call("aten.add.Tensor", x, 1, meta=f32(3, 2))
    ones = g.call("tile.mask_to", ones, 0, meta=f32(3, 2))
    g.store("out", [sl()], g.call("aten.sum.dim_IntList", ones, [0], meta=f32(2)))
    x = normal(3, 2)
    close(run(doc.add(g.out()), [x])[0], (x.astype(np.float64) + 1).sum(0))


def test_range_begin_and_end_inside_the_tensor():
    doc = Doc(config={"block_sizes": [4]})
    doc.tensor("x", "input", "float32", [20]).tensor("out", "output", "float32", [20], init=7)
    doc.block(13, begin=3)
    g = G(0, grid=[0])
    g.store("out", [U0], g.load("x", [U0], f32("u0")))
    x = normal(20)
    x[:3] = x[13:] = np.nan
    expected = np.full(20, 7, np.float32)
    expected[3:13] = x[3:13]
    assert np.array_equal(run(doc.add(g.out()), [x])[0], expected)


# --- tile queries ---


def test_tile_queries():
    doc = Doc(config={"block_sizes": [4]})
    doc.tensor("out", "output", "int32", [4, 5], init=0)
    doc.block(13, begin=2)
    g = G(0, grid=[0])
    number = g.call("tile.id", U0, meta=sym(None))
    for column, query in enumerate(["begin", "end", "id", "count", "block_size"]):
        value = g.call(f"tile.{query}", U0, meta=sym("u0" if query == "block_size" else None))
        value = g.call("aten.scalar_tensor.default", value, meta=t("int32"), dtype=dt("int32"))
        g.store("out", [number, column], value)
    (out,) = run(doc.add(g.out()), [])
    assert out.tolist() == [[2, 6, 0, 3, 4], [6, 10, 1, 3, 4], [10, 13, 2, 3, 4], [0] * 5]


def test_tile_index_beyond_the_end():
    doc = Doc(config={"block_sizes": [4]})
    doc.tensor("out", "output", "int32", [2, 4]).block(6)
    g = G(0, grid=[0])
    index = g.call("tile.index", U0, meta=t("int32", "u0"))
    flat = g.call("aten.view.default", index, [1, 4], meta=t("int32", 1, 4))
    row = g.call("tile.id", U0, meta=sym(None))
    stop = g.call("add", row, 1, meta=sym(None))
    g.store("out", [sl(row, stop), sl()], flat)
    assert run(doc.add(g.out()), [])[0].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_grid_of_size_one_keeps_its_dim_and_begin_drops_it():
    doc = Doc(config={"block_sizes": [4]})
    doc.tensor("x", "input", "float32", [3, 6]).tensor("out", "output", "float32", [3, 6])
    doc.block(3, size=1).block(6)
    g = G(0, grid=[0, 1])
    begin = g.call("tile.begin", U0, meta=sym(None))
    kept = g.load("x", [U0, U1], f32("u0", "u1"))
    dropped = g.load("x", [begin, U1], f32("u1"))
    both = g.call("aten.add.Tensor", kept, dropped, meta=f32(1, "u1"))
    g.store("out", [begin, U1], both)
    x = normal(3, 6)
    assert np.array_equal(run(doc.add(g.out()), [x])[0], x + x)


# --- configuration ---


def test_tunable_sizes_and_expressions():
    doc = Doc(tunables={"split": {"default": 2, "choices": [1, 2, 4]}}, config={"block_sizes": []})
    doc.tensor("x", "input", "float32", [10]).tensor("out", "output", "float32", ["split"], init=0)
    doc.block(10, size="next_pow2(cdiv(10, split))")
    g = G(0, grid=[0])
    x = g.load("x", [U0], f32("u0"))
    s = g.call("aten.sum.default", x, meta=f32())
    g.store("out", [g.call("tile.id", U0, meta=sym(None))], s)
    doc, x = doc.add(g.out()), normal(10)
    wide = x.astype(np.float64)
    close(run(doc, [x])[0], np.array([wide[:8].sum(), wide[8:].sum()]))
    close(
        run(doc, [x], config={"split": 4})[0],
        np.array([wide[:4].sum(), wide[4:8].sum(), wide[8:].sum(), 0]),
    )


def test_block_sizes_skip_fixed_and_reduction_ids():
    doc = Doc(config={"block_sizes": [2, 3]})
    doc.tensor("out", "output", "int32", [4], init=0)
    doc.block(4).block(5, size=1).block(6, reduction=True).block(7)
    g = G(0, grid=[])
    for i in range(4):
        size = g.call("tile.symnode", f"u{i}", meta=sym(f"u{i}"))
        g.store("out", [i], size)
    assert run(doc.add(g.out()), [])[0].tolist() == [2, 1, 6, 3]


# --- errors ---


def broken(change):
    doc = pointwise_doc((4,), (4,), lambda g, x: g.call("aten.neg.default", x, meta=f32("u0")))
    node = next(n for n in doc["graphs"][0]["nodes"] if n["target"] == "aten.neg.default")
    change(doc, node)
    return doc


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda d, n: n.update(target="aten.nonsense.default"), "unknown target"),
        (lambda d, n: n.update(meta=f32(3)), "has the shape [4], meta says [3]"),
        (lambda d, n: n.update(args=[ref("nowhere")]), "refers to 'nowhere'"),
        (lambda d, n: n.update(meta=t("float64", "u0")), "float64 is not supported"),
        (lambda d, n: n.update(meta=f32("u7")), "unknown symbol 'u7'"),
    ],
)
def test_errors_name_the_place(change, message):
    with pytest.raises(GraphError, match=re.escape(message)) as caught:
        run(broken(change), [normal(4)])
    assert caught.value.graph == 0 and caught.value.node in str(caught.value)


def test_errors_of_inputs_and_configuration():
    doc = broken(lambda d, n: None)
    for inputs, config in [
        ([], None),
        ([normal(5)], None),
        ([normal(4).astype(np.float64)], None),
        ([normal(4), 1.0], None),
        ([normal(4)], {"block_sizes": [4, 4]}),
        ([normal(4)], {"block_sizes": [0]}),
    ]:
        with pytest.raises(GraphError):
            run(doc, inputs, config=config)


def test_storing_to_an_input_is_refused():
    doc = Doc().tensor("x", "input", "float32", [4])
    g = G(0, grid=[])
    g.store("x", [0], 1.0)
    with pytest.raises(GraphError, match="read-only"):
        run(doc.add(g.out()), [normal(4)])


# --- rounding ---


def test_bfloat16_rounds_at_every_node():
    meta = t("bfloat16", "u0")

    def body(g, x):
        y = g.call("aten.add.Tensor", x, 1.0, meta=meta)
        return g.call("aten.sub.Tensor", y, 1.0, meta=meta)

    doc = pointwise_doc((3,), (4,), body, dtype="bfloat16")
    x = np.array([0.001, 0.01, 0.3], BF16)
    (out,) = run(doc, [x])
    expected = ((x.astype(np.float32) + 1).astype(BF16).astype(np.float32) - 1).astype(BF16)
    assert np.array_equal(out, expected) and float(out[0]) == 0.0


def test_bfloat16_matmul_accumulates_in_float32():
    doc = (
        Doc().tensor("a", "input", "bfloat16", [4, 512]).tensor("b", "input", "bfloat16", [512, 8])
    )
    doc.tensor("out", "output", "bfloat16", [4, 8]).tensor("wide", "output", "float32", [4, 8])
    g = G(0, grid=[])
    a = g.load("a", [sl(), sl()], t("bfloat16", 4, 512))
    b = g.load("b", [sl(), sl()], t("bfloat16", 512, 8))
    g.store("out", [sl(), sl()], g.call("aten.mm.default", a, b, meta=t("bfloat16", 4, 8)))
    g.store("wide", [sl(), sl()], g.call("tile.dot", a, b, meta=f32(4, 8)))
    a, b = normal(4, 512, dtype=BF16), normal(512, 8, seed=1, dtype=BF16)
    out, wide = run(doc.add(g.out()), [a, b])
    expected = a.astype(np.float64) @ b.astype(np.float64)
    close(wide, expected, 1e-7)
    assert np.array_equal(out, expected.astype(np.float32).astype(BF16))
