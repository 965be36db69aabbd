"""Factors of float8_e4m3fn on chips whose matrix unit knows no NaN of them: it counts as 480."""

import json
import re

import jax
import jax.numpy as jnp
import kit
import ml_dtypes
import numpy as np
import pallasc.execute
import pytest
from coverage import row as coverage
from pallasc import compare, simulate

E4M3 = ml_dtypes.float8_e4m3fn
BITS = np.arange(256, dtype=np.uint8)
NUMBERS = np.where(BITS & 0x7F == 0x7F, 0, BITS).astype(np.uint8)  # of NaN 0
CHIPS = ("v5e", "v5p", "v6e")
OF_480 = jax.lax.dot_general


def dot_of_480(x, y, *arguments, **options):
    """What the matrix unit makes of factors as they are given."""

    def taken(factor):
        if factor.dtype != jnp.float8_e4m3fn:
            return factor
        wide = factor.astype(jnp.bfloat16)
        return jnp.where(jnp.isnan(wide), jnp.bfloat16(480), wide)

    return OF_480(taken(x), taken(y), *arguments, **options)


def result(monkeypatch, graph, target, arrays):
    """The first output of a graph's kernel, simulated with that matrix unit, in float32."""
    monkeypatch.setattr(jax.lax, "dot_general", dot_of_480)
    module = kit.compiled(graph, target)
    ran = simulate.simulate(module.load(), arrays, simulate.interpret_params())
    return np.asarray(ran.outputs[0]).astype(np.float32)


def factors(graph, target="v6e"):
    """[(side, "nan" or "wide")] of what --explain says of them."""
    said = kit.emitted("kernel", graph, target=target).err
    found = re.findall(r"the (left|right) factor of float8_e4m3fn (goes|is converted)", said)
    return [(side, "nan" if how == "goes" else "wide") for side, how in found]


@pytest.mark.parametrize("target", CHIPS)
def test_each_bit_pattern(monkeypatch, target):
    """Times the identity each number is itself; a NaN is that of its column, of either sign."""
    right = np.repeat(NUMBERS[:, None], 256, 1)
    right[BITS[0x7F], 5], right[BITS[0xFF], 200] = 0x7F, 0xFF
    left = np.eye(256).astype(E4M3)
    found = result(monkeypatch, "fp8_matmul", target, [left, right.view(E4M3)])
    assert np.flatnonzero(np.isnan(found).all(0)).tolist() == [5, 200]
    rest = np.delete(found, [5, 200], 1)
    np.testing.assert_array_equal(
        rest, np.delete(right.view(E4M3).astype(np.float32), [5, 200], 1) / 8
    )


@pytest.mark.parametrize("target", CHIPS)
def test_nan_on_the_left_is_that_of_its_row(monkeypatch, target):
    left = np.repeat(NUMBERS[None], 256, 0)
    left[3, 17], left[255, 250] = 0x7F, 0xFF
    right = np.eye(256).astype(E4M3)
    found = result(monkeypatch, "fp8_matmul", target, [left.view(E4M3), right])
    assert np.flatnonzero(np.isnan(found).all(1)).tolist() == [3, 255]
    rest = np.delete(found, [3, 255], 0)
    np.testing.assert_array_equal(
        rest, np.delete(left.view(E4M3).astype(np.float32), [3, 255], 0) / 8
    )


@pytest.mark.parametrize("graph", ["fp8_matmul_odd", "fp8_row_matmul_odd"])
def test_a_ragged_loop(monkeypatch, graph):
    document = kit.document(graph)
    arrays = compare.make_inputs(document, seed=1)
    arrays[0].view(np.uint8)[199, 420] = 0x7F  # in the last step's tile, and in the last rows
    arrays[1].view(np.uint8)[7, 299] = 0xFF
    found = result(monkeypatch, graph, "v6e", arrays)
    want = pallasc.reference.run(document, arrays)[0].astype(np.float32)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
    assert np.isnan(found).sum() == 200 + 300 - 1
    kept = ~np.isnan(want)
    np.testing.assert_allclose(found[kept], want[kept], 2e-2, 2e-2 * np.abs(want[kept]).max())


@pytest.mark.parametrize("target", CHIPS)
def test_weights_of_a_worklist(monkeypatch, target):
    """They go as they are beside rows of bfloat16: what is NaN is what the reference says."""
    document = kit.document("grouped_worklist_float8")
    names = [p.name for p in coverage.parameters(document)]
    named = dict(zip(names, compare.make_inputs(document, seed=3), strict=True))
    named["offsets"] = np.linspace(0, 256, 10).astype(np.int32)
    ends, step = named["offsets"], range(9)
    met = [
        (b, g)
        for b in range(8)
        for g in step
        if max(ends[g], b * 32) < min(ends[g + 1], b * 32 + 32)
    ]
    named["blocks"], named["groups"] = np.array(met[:16], np.int32).T
    named["w"].view(np.uint8)[2, 100, 7] = 0x7F
    named["w"].view(np.uint8)[5, 255, 511] = 0xFF
    found = result(monkeypatch, "grouped_worklist_float8", target, list(named.values()))
    want = pallasc.reference.run(document, list(named.values()))[0].astype(np.float32)
    rows = found.reshape(256, 512)
    for group, column in ((2, 7), (5, 511)):
        assert np.isnan(rows[ends[group] : ends[group + 1], column]).all()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
    assert factors("grouped_worklist_float8", target) == [("right", "nan")]


def test_others_are_converted():
    """Those in which NaN cannot be looked for so: transposed, of three dims, parts of words."""
    assert factors("fp8_attention") == [("left", "wide"), ("right", "wide")]
    text = kit.emitted("kernel", "fp8_attention").out
    assert not re.search(r"dot q, k |nan=", text)
    assert factors("grouped_worklist_float8_odd") == []  # a bfloat16 of the graph, as it was


def test_where_the_matrix_unit_knows_nan():
    assert factors("fp8_matmul", "v7x") == factors("grouped_worklist_float8", "v7x") == []
    assert "nan=" not in kit.emitted("kernel", "fp8_matmul", target="v7x").out
    assert factors("fp8_e5m2_matmul") == []  # its own format


def test_few_weights_of_many_rows_are_converted(tmp_path):
    """There looking for NaN takes less, but adding them to the product more."""
    text = json.dumps(kit.document("grouped_worklist_float8"))
    assert factors(text) == [("right", "nan")]
    many = re.sub(r"\b256\b", "128", re.sub(r"\b32\b", "2048", text))
    assert factors(many) == []


def test_as_text():
    """It is read again, and executed: a product has the NaN of its factors."""
    text = kit.emitted("kernel", "fp8_matmul").out
    assert "nan=(0, 1)" in text
    assert kit.run("--emit=kernel", "-", text=text).out == text
    left, right = np.ones((256, 256)).astype(E4M3), np.ones((256, 256)).astype(E4M3)
    right.view(np.uint8)[0, 9] = 0x7F
    found = pallasc.execute.run(text, left, right)[0].astype(np.float32)
    assert np.flatnonzero(np.isnan(found).all(0)).tolist() == [9]
    assert np.delete(found, 9, 1).tolist() == [[32.0] * 255] * 256
    wrong = kit.run("--emit=kernel", "-", text=text.replace("nan=(0, 1)", "nan=(2)"))
    assert wrong.status and "nan are of factors 0 and 1 of float8_e4m3fn" in wrong.err
