"""Ops of single elements, in scalar registers: of all dtypes, as vectors compute them."""

import json

import kit
import numpy as np
import pallasc.aot
import pallasc.execute
import pallasc.reference
import pytest
from builder import Doc, G, dt, sym, t

POINTS = [4, 3]
FLOATS = ["float32", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float16"]
INTS = ["int32", "int16", "int8", "uint8"]
EXACT = ["add.Tensor", "mul.Tensor", "maximum.default", "minimum.default"]
BITS = ["bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor"]
ROUNDED = ["exp.default", "pow.Tensor_Tensor"]
STEPS = {"float8_e5m2": 2**-2, "float8_e4m3fn": 2**-3, "bfloat16": 2**-7}


def op(name):
    """A function that makes of (g, x, y), elements of dtype, the op of them."""

    def made(g, x, y, dtype):
        operands = [x] if name in ("abs.default", "exp.default") else [x, y]
        return g.call(f"aten.{name}", *operands, meta=t(dtype))

    return made


def less(g, x, y, dtype):
    """The less of both, which Mosaic makes a minimum of."""
    chosen = g.call("aten.lt.Tensor", x, y, meta=t("bool"))
    return g.call("aten.where.self", chosen, x, y, meta=t(dtype))


def converted(to):
    def made(g, x, y, dtype):
        return g.call("prims.convert_element_type.default", x, dt(to), meta=t(to))

    return made


def singles(dtype, results):
    """An output for each of results, (dtype, function): out[i, j] = function(x[i, j], y[i, j])."""
    doc = Doc(config={"block_sizes": []}, name="singles").tensor("x", "input", dtype, POINTS)
    doc.tensor("y", "input", dtype, POINTS)
    doc.block(POINTS[0], size=1).block(POINTS[1], size=1)
    g = G(0, grid=[0, 1])
    at = [g.call("tile.begin", sym(f"u{d}"), meta=sym(None)) for d in (0, 1)]
    x, y = (g.load(name, at, t(dtype)) for name in ("x", "y"))
    for i, (of, function) in enumerate(results):
        doc.tensor(f"out{i}", "output", of, POINTS)
        g.store(f"out{i}", at, function(g, x, y, dtype))
    return doc.add(g.out())


def check(document, inputs, tolerances):
    said = pallasc.reference.run(document, inputs)
    ran = pallasc.execute.run(kit.emitted("kernel", json.dumps(document)).out, *inputs)
    for a, b, tolerance in zip(said, ran, tolerances, strict=True):
        np.testing.assert_allclose(np.asarray(b, np.float64), np.asarray(a, np.float64), tolerance)
    result = pallasc.aot.compile_one(kit.compiled(document, "v6e"), "v6e")
    assert (result.kind, result.message) == ("ok", "")


def drawn(dtype, least=-6):
    of, draw = pallasc.reference.values.dtype_of(dtype), np.random.default_rng(0)
    return [draw.integers(least, 7, POINTS).astype(of) for _ in range(2)]


@pytest.mark.parametrize("dtype", FLOATS + INTS)
def test_ops(dtype):
    """No arithmetic of bfloat16 is there, and of narrow ints no minimum and no bits."""
    names = EXACT + (BITS if dtype in INTS else []) + ([] if dtype == "uint8" else ["abs.default"])
    results = [(dtype, op(name)) for name in names] + [(dtype, less)]
    inputs = drawn(dtype, 1 if dtype == "uint8" else -6)
    check(singles(dtype, results), inputs, [0] * len(results))


@pytest.mark.parametrize("dtype", FLOATS)
def test_rounded_ops(dtype):
    """No power is there."""
    results = [(dtype, op(name)) for name in ROUNDED]
    check(singles(dtype, results), drawn(dtype, 1), [STEPS.get(dtype, 1e-3)] * len(results))


@pytest.mark.parametrize("dtype", FLOATS + INTS)
def test_conversions(dtype):
    results = [(to, converted(to)) for to in [*FLOATS, *INTS, "bool"] if to != dtype]
    check(singles(dtype, results), drawn(dtype, 0), [0] * len(results))
