"""Loads and stores through slice views of what a kernel writes: values, odd sizes, dtypes."""

import json

import kit
import numpy as np
import pallasc.execute
import pallasc.reference
import pytest
import simulated
from builder import Doc, G, f32, sl, sym, t


def through(shape, cut, index, blocks, dtype="float32", more=0, adds=False, init=1):
    """half = out[cut]; half[index] = x, or += x.

    index: "u0" a tile of the dim, "i" a grid of single positions, ":" all of it, "ids" a table of
    positions, an int; more: how much further than the slice a tile's range goes.
    """
    doc = Doc(config={"block_sizes": list(blocks)})
    sizes = [len(range(*c)) for c in cut]
    doc.tensor("out", "output", dtype, shape, init=init)
    doc.tensor("half", "view", dtype, sizes, of="out", slice=[list(c) for c in cut])
    g = G(0, grid=[])
    entries, of_x, x_shape, meta = [], [], [], []
    for entry, size, ends, whole in zip(index, sizes, cut, shape, strict=True):
        number = len(doc.raw["block_sizes"])
        if entry in ("u0", "u1"):
            longer = size if ends == (0, whole, 1) else size + more
            doc.block(longer)
            g.raw["grid"].append(number)
            entries.append(sym(entry))
            of_x.append(sym(entry))
            x_shape.append(longer)
            meta.append(entry)
        elif entry == "i":
            doc.block(size, size=1)
            g.raw["grid"].append(number)
            at = g.call("tile.begin", sym(f"u{number}"), meta=sym(None))
            entries.append(at)
            of_x.append(at)
            x_shape.append(size)
        elif entry == "ids":
            doc.tensor("ids", "input", "int32", [6])
            entries.append(g.load("ids", [sl()], t("int32", 6)))
            of_x.append(sl())
            x_shape.append(6)
            meta.append(6)
        elif entry == ":":
            entries.append(sl())
            of_x.append(sl())
            x_shape.append(size)
            meta.append(size)
        else:
            entries.append(entry)
    if not g.raw["grid"]:
        doc.block(1, size=1)
        g.raw["grid"].append(0)
    doc.tensor("x", "input", dtype, x_shape)
    value = g.load("x", of_x, t(dtype, *meta))
    if adds:
        value = g.call(
            "aten.add.Tensor", g.load("half", entries, t(dtype, *meta)), value, meta=t(dtype, *meta)
        )
    g.store("half", entries, value)
    return doc.add(g.out())


def given(document, seed=0):
    """Small numbers; of positions some lie outside."""
    rng = np.random.default_rng(seed)
    found = []
    for entry in document["tensors"]:
        if entry["role"] == "input":
            dtype = pallasc.reference.values.dtype_of(entry["dtype"])
            found.append(rng.integers(-8, 9, entry["shape"]).astype(dtype))
    for at, entry in enumerate(e for e in document["tensors"] if e["role"] == "input"):
        if entry["name"] == "ids":
            found[at] = rng.permutation(np.arange(-2, 30, dtype=np.int32))[:6]
    return found


def wanted(document, cut, index, inputs, adds):
    """What numpy makes of it, one row of positions after the other."""
    tensors = {e["name"]: e for e in document["tensors"]}
    out = np.full(tensors["out"]["shape"], tensors["out"]["init"], np.float64)
    half = out[tuple(slice(*c) for c in cut)]
    names = [e["name"] for e in document["tensors"] if e["role"] == "input"]
    x = np.asarray(inputs[names.index("x")], np.float64)
    dim = next((d for d, e in enumerate(index) if e == "ids"), None)
    if dim is None:
        at = tuple(e if isinstance(e, int) else slice(None) for e in index)
        x = x[tuple(slice(n) for n in half[at].shape)]
        half[at] = half[at] + x if adds else x
        return out
    for i, place in enumerate(inputs[names.index("ids")]):
        if 0 <= place < half.shape[dim]:
            np.moveaxis(half, dim, 0)[place] = np.moveaxis(x, dim, 0)[i]
    return out


CASES = [
    ([16, 256], [(0, 16, 1), (3, 70, 1)], ["u0", ":"], [8]),
    ([16, 256], [(0, 16, 1), (3, 195, 1)], ["u0", "u1"], [8, 64]),
    ([16, 256], [(0, 16, 1), (3, 200, 1)], ["u0", "u1"], [8, 128]),
    ([16, 256], [(0, 16, 1), (0, 256, 2)], ["u0", "u1"], [8, 128]),
    ([16, 256], [(2, 12, 3), (1, 256, 4)], [":", ":"], []),
    ([40, 256], [(5, 37, 1), (0, 256, 1)], ["u0", "u1"], [8, 128]),
    ([40, 250], [(5, 36, 1), (0, 250, 1)], ["u0", "u1"], [8, 128]),
    ([40, 250], [(1, 40, 3), (128, 250, 1)], ["u0", ":"], [8]),
    ([40, 256], [(4, 29, 1), (0, 256, 1)], ["i", ":"], []),
    ([40, 256], [(4, 29, 2), (7, 100, 1)], ["i", ":"], []),
    ([40, 256], [(4, 29, 1), (3, 5, 1)], ["ids", ":"], []),
    ([20, 256], [(0, 20, 1), (100, 125, 1)], ["u0", 24], [4]),
    ([6, 20, 256], [(1, 5, 1), (0, 20, 1), (3, 131, 1)], ["i", "u1", ":"], [4]),
]


# What `ids` names may be there twice.
ADDED = [(case, True) for case in CASES if "ids" not in case[2]]


@pytest.mark.parametrize(
    ("case", "adds"),
    [(case, False) for case in CASES] + ADDED,
    ids=lambda item: "-".join(map(str, item)) if isinstance(item, tuple) else str(item),
)
def test_values(case, adds):
    document = through(*case, adds=adds)
    inputs = given(document)
    (said,) = pallasc.reference.run(document, inputs)
    found = wanted(document, *case[1:3], inputs, adds)
    np.testing.assert_array_equal(np.asarray(said, np.float64), found)
    text = kit.emitted("kernel", json.dumps(document)).out
    (ran,) = pallasc.execute.run(text, *inputs)
    np.testing.assert_array_equal(np.asarray(ran, np.float64), found)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_simulated(case):
    document = through(*case)
    assert simulated.wrong(document, given=given(document)) == []


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "int32"])
@pytest.mark.parametrize("case", [CASES[0], CASES[6], CASES[3]], ids=["held", "ragged", "stepped"])
def test_dtypes(dtype, case):
    document = through(*case, dtype=dtype)
    assert simulated.wrong(document, given=given(document)) == []


@pytest.mark.parametrize("case", [CASES[1], CASES[5], CASES[7]], ids=["lanes", "rows", "stepped"])
def test_a_tile_that_goes_on_writes_nothing_past_the_slice(case):
    """The tensor goes on where the slice ends."""
    document = through(*case, more=2)
    inputs = given(document)
    (said,) = pallasc.reference.run(document, inputs)
    np.testing.assert_array_equal(said, wanted(document, *case[1:3], inputs, False))
    assert simulated.wrong(document, given=inputs) == []


@pytest.mark.parametrize("lanes", [(3, 5, 1), (128, 256, 1)])
def test_parts_of_rows_at_computed_places_are_whole_tiles_of_rows(lanes):
    """Mosaic writes all of a row's lanes at such a place, or whole tiles of rows."""
    document = through([16, 512], [(0, 16, 1), lanes], ["ids", ":"], [])
    _, _, remarks = kit.emitted("plan", json.dumps(document))
    assert ": 8 are read and turned to their place" in remarks
    assert simulated.wrong(document, given=given(document)) == []


def test_a_slice_of_a_slice():
    doc = Doc(config={"block_sizes": [8]}).tensor("x", "input", "float32", [16, 30])
    doc.tensor("out", "output", "float32", [16, 256], init=0)
    doc.tensor("half", "view", "float32", [16, 100], of="out", slice=[[0, 16, 1], [10, 110, 1]])
    doc.tensor("part", "view", "float32", [16, 30], of="half", slice=[[0, 16, 1], [5, 95, 3]])
    doc.block(16)
    g = G(0, grid=[0])
    g.store("part", [sym("u0"), sl()], g.load("x", [sym("u0"), sl()], f32("u0", 30)))
    document = doc.add(g.out())
    (x,) = inputs = given(document)
    (said,) = pallasc.reference.run(document, inputs)
    expected = np.zeros([16, 256], np.float32)
    expected[:, 15:105:3] = x
    np.testing.assert_array_equal(said, expected)
    assert simulated.wrong(document, given=inputs) == []


# One element for all lanes of a tile


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("shape", [[16, 256], [13, 250]])
def test_a_column_indexed_by_tiles_of_both_dims(shape, dtype):
    doc = Doc(config={"block_sizes": [8, 128]}).tensor("x", "input", dtype, shape)
    doc.tensor("b", "input", dtype, [shape[0], 1]).tensor("out", "output", dtype, shape)
    doc.tensor("top", "output", dtype, [shape[0]])
    doc.block(shape[0]).block(shape[1])
    g = G(0, grid=[0, 1])
    tile, meta = [sym("u0"), sym("u1")], t(dtype, "u0", "u1")
    bias = g.load("b", tile, meta)
    g.store("out", tile, g.call("aten.add.Tensor", g.load("x", tile, meta), bias, meta=meta))
    document = doc.add(g.out())
    document["returns"] = [{"tensor": "out"}]
    x, b = inputs = given(document)
    (said,) = pallasc.reference.run(document, inputs)
    np.testing.assert_array_equal(np.asarray(said), x + b)
    assert simulated.wrong(document, given=inputs) == []


def test_a_loop_over_a_column_has_one_step_of_one_lane():
    """Its end is clamped to the tensor."""
    doc = Doc(config={"block_sizes": [8, 128]}).tensor("b", "input", "float32", [16, 1])
    doc.tensor("out", "output", "float32", [16], init=0).block(16).block(200)
    body = G(1, "for_loop", block_ids=[1], carried=[[0, 0]])
    acc = body.arg(f32("u0"))
    part = body.load("b", [sym("u0"), sym("u1")], f32("u0", "u1"))
    total = body.call("aten.sum.dim_IntList", part, [-1], meta=f32("u0"))
    body.out(body.call("aten.add.Tensor", acc, total, meta=f32("u0")))
    g = G(0, grid=[0])
    zero = g.call("tile.full", [sym("u0")], 0.0, {"dtype": "float32"}, meta=f32("u0"))
    loop = g.call("tile.for_loop", 1, [0], [200], [zero], meta={"tuple": [f32("u0")]})
    g.store("out", [sym("u0")], g.call("getitem", loop, 0, meta=f32("u0")))
    document = doc.add(body, g.out())
    (b,) = inputs = given(document)
    (said,) = pallasc.reference.run(document, inputs)
    np.testing.assert_array_equal(said, b[:, 0])
    assert simulated.wrong(document, given=inputs) == []
