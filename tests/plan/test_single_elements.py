"""Single elements that each grid point stores: first lanes and others, numbers and values."""

import json
import re

import kit
import numpy as np
import pallasc.aot
import pallasc.execute
import pallasc.reference
import pytest
import simulated
from builder import Doc, G, sl, sym, t

POINTS = 8


def single(shape, index, dtype="float32", number=None):
    """out[index] = the greatest of row i of x, or a number; "i": the grid's point."""
    doc = Doc(config={"block_sizes": []}).tensor("x", "input", dtype, [POINTS, 256])
    doc.tensor("out", "output", dtype, shape, init=0).block(POINTS, size=1)
    g = G(0, grid=[0])
    at = g.call("tile.begin", sym("u0"), meta=sym(None))
    row = g.load("x", [at, sl()], t(dtype, 256))
    top = g.call("aten.amax.default", row, [], meta=t(dtype))
    g.store("out", [at if e == "i" else e for e in index], top if number is None else number)
    return doc.add(g.out())


def given(dtype):
    of = pallasc.reference.values.dtype_of(dtype)
    return [np.random.default_rng(0).integers(-90, 90, [POINTS, 256]).astype(of)]


PLACES = [
    ([8, 4], ["i", 0]),
    ([8, 4], ["i", 3]),
    ([8, 300], ["i", 128]),
    ([8, 1], ["i", 0]),
    ([8], ["i"]),
    ([3, 8], [1, "i"]),
    ([2, 8, 4], [0, "i", 0]),
    ([2, 3, 8], [1, 2, "i"]),
]


@pytest.mark.parametrize("number", [None, 1])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "int8"])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: "-".join(map(str, place)))
def test_values(place, dtype, number):
    document, inputs = single(*place, dtype, number), given(dtype)
    expected = np.zeros(place[0])
    for i in range(POINTS):
        at = tuple(i if e == "i" else e for e in place[1])
        expected[at] = np.asarray(inputs[0][i], np.float64).max() if number is None else number
    (said,) = pallasc.reference.run(document, inputs)
    np.testing.assert_array_equal(np.asarray(said, np.float64), expected)
    (ran,) = pallasc.execute.run(kit.emitted("kernel", json.dumps(document)).out, *inputs)
    np.testing.assert_array_equal(np.asarray(ran, np.float64), expected)
    if dtype == "float32":
        assert simulated.wrong(document, given=inputs) == []


@pytest.mark.parametrize("place", PLACES, ids=lambda place: "-".join(map(str, place)))
def test_no_scalar_is_stored_to_vmem(place):
    """Pallas refuses it: Cannot store scalars to VMEM."""
    for number in (None, 1):
        source = kit.emitted("python", json.dumps(single(*place, number=number))).out
        stored = re.findall(r"out_ref\[(.*)\] = ", source)
        assert stored
        assert all(re.search(r":|pl\.ds|\.\.\.", index) for index in stored)


def lanes(shape, index, how, dtype="float32"):
    """out[index] = x[i, j], or what an atomic leaves; "to" and "at": loaded positions."""
    doc = Doc(config={"block_sizes": []}, name="lanes").tensor("x", "input", dtype, [POINTS, 5])
    doc.tensor("at", "input", "int32", [POINTS, 5]).tensor("to", "input", "int32", [POINTS])
    doc.tensor("out", "output", dtype, shape, init=0).block(POINTS, size=1).block(5, size=1)
    g = G(0, grid=[0, 1])
    i, j = (g.call("tile.begin", sym(f"u{d}"), meta=sym(None)) for d in (0, 1))
    found = {"i": i, "j": j, "at": g.load("at", [i, j], t("int32"))}
    found["to"] = g.load("to", [i], t("int32"))
    value, index = g.load("x", [i, j], t(dtype)), [found.get(e, e) for e in index]
    if how == "store":
        g.store("out", index, value)
    else:
        g.call(f"tile.{how}", g.host("out"), index, value, meta=t(dtype))
    return doc.add(g.out())


LANES = [
    ([8, 20], ["i", "at"]),
    ([8, 20], [3, "j"]),
    ([8, 130], ["to", "at"]),
    ([8, 130], ["to", "j"]),
    ([8, 130], [3, "at"]),
    ([1, 130], ["to", "at"]),
    ([3, 8, 130], [1, "to", "at"]),
    ([300], ["at"]),
]


@pytest.mark.parametrize("how", ["store", "atomic_add", "atomic_max"])
@pytest.mark.parametrize("place", LANES, ids=lambda place: "-".join(map(str, place)))
def test_a_lane_at_a_computed_place(place, how):
    """What lies outside of the tensor is not written; no 1-D vector is turned, Mosaic cannot."""
    document, draw = lanes(*place, how), np.random.default_rng(0)
    inputs = [
        draw.integers(-9, 9, [POINTS, 5]).astype(np.float32),
        draw.integers(-2, place[0][-1] + 2, [POINTS, 5]).astype(np.int32),
        draw.integers(-1, 9, [POINTS]).astype(np.int32),
    ]
    assert simulated.wrong(document, given=inputs) == []
    result = pallasc.aot.compile_one(kit.compiled(document, "v6e"), "v6e")
    assert (result.kind, result.message) == ("ok", "")


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "float8_e4m3fn"])
@pytest.mark.parametrize(
    "place", [LANES[1], *LANES[3:6]], ids=lambda place: "-".join(map(str, place))
)
def test_the_greatest_of_narrow_values(place, dtype):
    """Mosaic makes a maximum of narrow ones of that of wide ones, and lowers no such."""
    document, draw = lanes(*place, "atomic_max", dtype), np.random.default_rng(0)
    of, least = pallasc.reference.values.dtype_of(dtype), 0 if dtype == "uint8" else -9
    inputs = [
        draw.integers(least, 9, [POINTS, 5]).astype(of),
        draw.integers(-2, place[0][-1] + 2, [POINTS, 5]).astype(np.int32),
        draw.integers(-1, 9, [POINTS]).astype(np.int32),
    ]
    assert simulated.wrong(document, given=inputs) == []
    result = pallasc.aot.compile_one(kit.compiled(document, "v6e"), "v6e")
    assert (result.kind, result.message) == ("ok", "")
