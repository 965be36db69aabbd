"""Tolerances, the kinds of outputs, and the inputs made for comparisons."""

import json
import math
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from builder import Doc, G, dt, example, f32, packed_doc, pointwise_doc, sl, sym, t
from formulas import expected
from pallasc.compare import Tolerance, compare, make_inputs, tolerance_for
from pallasc.reference import GraphError, run

BF16 = ml_dtypes.bfloat16
FP8 = ml_dtypes.float8_e4m3fn
U0 = sym("u0")
GRAPHS = Path(__file__).parents[2] / "testdata" / "graphs"
# A second of the reference at most; the others have small graphs of the same kernel.
ELEMENTS = 2**21
SMALL = [
    path
    for path in sorted(GRAPHS.glob("*.json"))
    if all(
        math.prod(tensor["shape"]) <= ELEMENTS
        for tensor in json.loads(path.read_text())["tensors"]
        if tensor["role"] == "input"
    )
]


def f(*values, dtype=np.float32):
    return np.array(values, np.float64).astype(dtype)


# --- compare -----------------------------------------------------------------------------------


def test_float32_is_relative_to_the_element_and_the_row():
    b = f(1.0, 1.0, 0.0)
    rms = np.sqrt(2 / 3)
    assert compare(b + f(3.6e-5, 0, 0), b).ok == (2e-5 * (1 + rms) > 3.6e-5)
    assert not compare(b + f(3.8e-5, 0, 0), b).ok
    assert compare(b + f(0, 0, 1.6e-5), b).ok and not compare(b + f(0, 0, 1.7e-5), b).ok
    assert compare(b + f(1.7e-4, 0, 0), b, "chain").ok


def test_rows_are_apart():
    b = np.array([[1000.0, 1000.0], [1e-3, 1e-3]], np.float32)
    a = b.copy()
    a[1, 0] += 1e-6
    result = compare(a, b)
    assert not result.ok and result.index == (1, 0) and "OFF" in str(result)


@pytest.mark.parametrize("kind, ulps", [("pointwise", 2), ("reduction", 8), ("matmul", 8)])
@pytest.mark.parametrize("dtype, step", [(BF16, 2.0**-7), (np.float16, 2.0**-10)])
def test_half_precision_in_ulps(kind, ulps, dtype, step):
    b = f(1.0, 1.0, dtype=dtype)
    assert compare(f(1 + ulps * step, 1, dtype=dtype), b, kind).ok
    assert not compare(f(1 + (ulps + 1) * step, 1, dtype=dtype), b, kind).ok


def test_small_elements_get_the_rows_scale_after_a_matmul_only():
    b, a = f(1.0, 1.0, 0.0, dtype=BF16), f(1.0, 1.0, 0.01, dtype=BF16)
    assert compare(a, b, "matmul").ok and not compare(a, b).ok


def test_fp8_is_one_ulp():
    b = f(1.0, 2.0, dtype=FP8)
    assert compare(f(1.125, 2.0, dtype=FP8), b, "matmul").ok
    assert not compare(f(1.25, 2.0, dtype=FP8), b, "matmul").ok


def test_ints_and_bools_are_exact():
    b = np.array([5, 1000], np.int32)
    assert compare(b, b).ok and not compare(b + np.int32(1), b).ok
    assert not compare(np.array([True]), np.array([False])).ok


def test_nan_and_inf_are_equal_to_themselves_only():
    b = f(np.nan, np.inf, -np.inf, 1.0)
    assert compare(b, b).ok
    for i, value in enumerate([1.0, 1.0, np.inf, np.nan]):
        a = b.copy()
        a[i] = value
        result = compare(a, b)
        assert not result.ok and result.index == (i,)


def test_float64_formulas_and_scalars():
    assert compare(f(1.0), np.array([1.0 + 1e-7])).ok
    assert compare(np.float32(2.0), np.float64(2.0)).ok
    assert compare(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)).ok


def test_uncomparable():
    for a, b in [(f(1), f(1, 2)), (f(1), f(1, dtype=BF16)), (np.zeros(1), np.zeros(1))]:
        with pytest.raises(GraphError):
            compare(a, b)


# --- tolerance_for -----------------------------------------------------------------------------


def unary(target, dtype, *args):
    meta = t(dtype, "u0", "u1")
    return pointwise_doc(
        (5, 7), (4, 4), lambda g, x: g.call(target, x, *args, meta=meta), dtype=dtype
    )


def test_kinds_of_simple_graphs():
    assert tolerance_for(unary("aten.exp.default", "float32"), 0) == Tolerance(
        "pointwise", "float32"
    )
    assert tolerance_for(unary("aten.neg.default", "int32"), 0) == Tolerance("pointwise", "int32")
    assert tolerance_for(unary("aten.cumsum.default", "bfloat16", 1), 0).kind == "reduction"
    assert tolerance_for(example(), 0) == Tolerance("reduction", "float32")


def two_matmuls_doc():
    """first = a @ a, second = (a @ a) @ a, third = exp(a) rounded to bfloat16 on the way."""
    doc = Doc()
    for name, role in zip("abcd", ["input"] + ["output"] * 3, strict=True):
        doc.tensor(name, role, "float32", [4, 4])
    g, h = G(0, grid=[]), G(1, grid=[])
    whole, meta = [sl(), sl()], f32(4, 4)
    a = g.load("a", whole, meta)
    g.store("b", whole, g.call("aten.mm.default", a, a, meta=meta))
    e = g.call("aten.exp.default", a, meta=meta)
    e = g.call("prims.convert_element_type.default", e, dt("bfloat16"), meta=t("bfloat16", 4, 4))
    g.store("d", whole, e)
    a, b = h.load("a", whole, meta), h.load("b", whole, meta)
    h.store("c", whole, h.call("aten.mm.default", b, a, meta=meta))
    return doc.add(g.out(), h.out())


def test_chains_pass_through_memory_and_rounding_is_seen():
    doc = two_matmuls_doc()
    assert tolerance_for(doc, 0) == Tolerance("matmul", "float32")
    assert tolerance_for(doc, 1) == Tolerance("chain", "float32")
    assert tolerance_for(doc, 2) == Tolerance("pointwise", "bfloat16")


def test_ops_of_returns_count():
    doc = unary("aten.exp.default", "float32")
    doc["returns"] = [{"tensor": "out", "ops": [["aten.sum.dim_IntList", [0]]]}]
    assert tolerance_for(doc, 0).kind == "reduction"


# --- make_inputs -------------------------------------------------------------------------------


def test_inputs_are_deterministic_and_typed():
    doc = example()
    first, second, third = make_inputs(doc, 3), make_inputs(doc, 3), make_inputs(doc, 4)
    assert first[0].dtype == np.float32 and first[0].shape == (1000, 5000)
    assert isinstance(first[1], float)
    assert np.array_equal(first[0], second[0]) and first[1] == second[1]
    assert not np.array_equal(first[0], third[0])


@pytest.mark.parametrize("adversarial, axis", [("last_row", 0), ("last_col", 1)])
def test_the_last_row_or_column_dominates(adversarial, axis):
    (x,) = make_inputs(unary("aten.exp.default", "bfloat16"), 0, adversarial)
    x = x.astype(np.float64)
    assert x.dtype == np.float64 and np.all(x.argmax(axis) == x.shape[axis] - 1)


def test_offsets_ascend_within_the_packed_tensor():
    for seed in range(20):
        x, offsets = make_inputs(packed_doc(), seed)
        assert offsets.dtype == np.int32 and np.all(np.diff(offsets) >= 0)
        assert offsets[0] == 0 and offsets[-1] == len(x) == 12


def test_indices_are_inside_what_they_index():
    doc = Doc(config={"block_sizes": [4]})
    doc.tensor("x", "input", "float32", [5]).tensor("p", "input", "int32", [40])
    doc.tensor("out", "output", "float32", [40]).block(40)
    g = G(0, grid=[0])
    g.store("out", [U0], g.load("x", [g.load("p", [U0], t("int32", "u0"))], f32("u0")))
    _, p = make_inputs(doc.add(g.out()), 0)
    assert p.min() >= 0 and p.max() <= 4 and len(np.unique(p)) == 5


def test_past_edge_poisons_what_no_valid_lane_reads():
    doc = Doc(config={"block_sizes": [4]})
    doc.tensor("x", "input", "float32", [3, 20]).tensor("out", "output", "float32", [14], init=0)
    doc.tensor("row", "view", "float32", [1, 20], of="x", slice=[[1, 2, 1], [None, None, None]])
    doc.block(13, begin=3)
    g = G(0, grid=[0])
    g.store("out", [U0], g.load("row", [0, U0], f32("u0")))
    doc = doc.add(g.out())
    (x,) = make_inputs(doc, 0, "past_edge")
    assert np.isnan(x[[0, 2]]).all() and np.isnan(x[1, :3]).all() and np.isnan(x[1, 13:]).all()
    assert not np.isnan(x[1, 3:13]).any()
    assert not np.isnan(run(doc, [x])[0]).any()


def test_unknown_adversary():
    with pytest.raises(GraphError, match="adversarial"):
        make_inputs(example(), 0, "sideways")


# --- the exported graphs -----------------------------------------------------------------------


@pytest.mark.parametrize("adversarial", [None, "last_row", "last_col"])
@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_exported_graphs_against_formulas(path, adversarial):
    document = json.loads(path.read_text())
    inputs = make_inputs(document, 1, adversarial)
    outputs, formulas = run(document, inputs), expected(document, inputs)
    assert len(outputs) == len(formulas)
    for number, (output, formula) in enumerate(zip(outputs, formulas, strict=True)):
        result = compare(output, formula, tolerance_for(document, number))
        assert result.ok, str(result)


OTHER_BLOCKS = {
    "softmax_two_pass_odd": [100, 24],
    "bmm_odd": [2, 50, 70, 33],
    "causal_attention_b1_h2_s421_d64": [2, 100, 70],
}


@pytest.mark.parametrize("name, blocks", OTHER_BLOCKS.items())
def test_block_sizes_do_not_matter(name, blocks):
    document = json.loads((GRAPHS / f"{name}.json").read_text())
    inputs = make_inputs(document, 2)
    for order in ("forward", "reverse"):
        outputs = run(document, inputs, config={"block_sizes": blocks}, order=order)
        for number, formula in enumerate(expected(document, inputs)):
            assert compare(outputs[number], formula, tolerance_for(document, number)).ok
