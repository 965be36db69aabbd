"""dot_precision: a product of float32 in one, three or six passes of bfloat16."""

import json

import kit
import numpy as np
import pytest
import tiles
from pallasc import aot, compare, reference
from pallasc.simulate import simulate

ROWS, DEPTH, COLUMNS = 64, 300, 136


def product(**config):
    """Rows of `x @ y`."""
    k = tiles.Kernel("product", [ROWS], {"block_sizes": [32], **config})
    k.tensor("x", "input", "float32", [ROWS, DEPTH])
    k.tensor("y", "input", "float32", [DEPTH, COLUMNS])
    k.tensor("z", "output", "float32", [ROWS, COLUMNS])
    x, y = k.load("x", "u0", ":"), k.load("y", ":", ":")
    k.store("z", k.op("aten.mm.default", x, y, shape=["u0", COLUMNS], dtype="float32"), "u0", ":")
    return k.json()


def values(seed=0):
    rng = np.random.default_rng(seed)
    return [
        rng.standard_normal(shape).astype(np.float32) for shape in [(ROWS, DEPTH), (DEPTH, COLUMNS)]
    ]


def ran(document, arrays):
    """The output of the kernel, simulated."""
    return np.asarray(simulate(kit.compiled(document).load(), arrays, 1).outputs[0])


def dots(document, **config):
    """The kernel's dots: (factors, whether in six passes)."""
    lines = kit.emitted("kernel", document, **config).out.splitlines()
    found = [
        line.split(" = dot ")[1].split(" : ")[0].split() for line in lines if " = dot " in line
    ]
    return [(f"{left}{right}", rest[-1]) for left, right, *rest in found]


def test_three_products_of_halves():
    found = dots(product(dot_precision="high"))
    assert [how for _, how in found] == ["highest=0"] * 3
    assert [factors for factors, _ in found] == [
        "v3_low,v4_high",
        "v3_high,v4_low",
        "v3_high,v4_high",
    ]
    assert [how for _, how in dots(product())] == ["highest=1"]
    assert [how for _, how in dots(product(dot_precision="default"))] == ["highest=0"]


def test_only_of_float32():
    """Another factor has one pass, whatever the key says."""
    document = kit.document("matmul_1024")
    assert len(dots(document, dot_precision="high")) == len(dots(document))


def test_the_error():
    """Against float64: 16 bits of each factor are kept, beside 8 in one pass."""
    x, y = values()
    exact = x.astype(np.float64) @ y
    size = np.abs(x).astype(np.float64) @ np.abs(y)
    error = np.abs(ran(product(dot_precision="high"), [x, y]) - exact) / size
    assert 1e-8 < error.max() < 2.0**-16


def test_within_the_tolerance_of_the_reference():
    document = json.loads(product(dot_precision="high"))
    x, y = values(1)
    (expected,) = reference.run(document, [x, y])
    tolerance = compare.tolerance_for(document, 0)
    assert compare.compare(ran(json.dumps(document), [x, y]), expected, tolerance).ok


def test_nan_and_infinities():
    """Their rows and columns are NaN: infinity has no second half."""
    x, y = values(2)
    x[3, 7], x[5, 0], y[11, 40] = np.inf, np.nan, -np.inf
    expected = np.zeros((ROWS, COLUMNS), bool)
    expected[[3, 5]] = expected[:, 40] = True
    found = ran(product(dot_precision="high"), [x, y])
    np.testing.assert_array_equal(np.isnan(found), expected)


@pytest.mark.parametrize(("precision", "passes"), [("highest", 6), ("high", 3), ("default", 1)])
def test_passes_of_the_report(precision, passes):
    """The bound of the MXU is so many times that of one pass."""
    text = kit.emitted("report", product(dot_precision=precision)).out
    assert (f"takes one MXU pass instead of {passes}" in text) == (passes > 1)


@pytest.mark.parametrize("chip", ["v5e", "v6e", "v7x"])
def test_the_compiler_takes_it(chip):
    module = kit.compiled(product(dot_precision="high"), chip)
    (result,) = aot.compile_many([(module, chip)], timeout=120)
    assert result.ok, result.message
    assert result.vmem_bytes <= result.predicted_bytes
