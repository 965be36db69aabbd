"""Loads and stores through slice views of what a kernel writes: values, odd sizes, dtypes."""

import json

import kit
import numpy as np
import pallasc.execute
import pallasc.reference
import pytest
import simulated
from builder import Doc, G, f32, sl, sym, t


def through(shape, cut, index, blocks, dtype="float32", more=0, adds=False, init=1, atomic=None):
    """half = out[cut]; half[index] = x, or += x; or old = atomic(half, [index], x).

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
    if atomic is None:
        g.store("half", entries, value)
        return doc.add(g.out())
    how, is_read = atomic
    old = g.call(f"tile.atomic_{how}", g.host("half"), entries, value, meta=t(dtype, *meta))
    if is_read:
        doc.tensor("old", "output", dtype, x_shape)
        g.store("old", of_x, old)
    return doc.add(g.out())


def given(document, seed=0, twice=False):
    """Small numbers; of positions some lie outside, and some are there twice."""
    rng = np.random.default_rng(seed)
    found = []
    for entry in document["tensors"]:
        if entry["role"] == "input":
            dtype = pallasc.reference.values.dtype_of(entry["dtype"])
            found.append(rng.integers(-8, 9, entry["shape"]).astype(dtype))
    for at, entry in enumerate(e for e in document["tensors"] if e["role"] == "input"):
        if entry["name"] == "ids":
            found[at] = rng.permutation(np.arange(-2, 30, dtype=np.int32))[:6]
            found[at][3:] = found[at][:3] if twice else found[at][3:]
    return found


def wanted(document, cut, index, inputs, adds):
    """What numpy makes of it, one row of positions after the other."""
    return old_values(document, cut, index, inputs, "add" if adds else "xchg")[0]


CASES = [
    ([16, 256], [(0, 16, 1), (3, 70, 1)], ["u0", ":"], [8]),
    ([16, 256], [(0, 16, 1), (3, 195, 1)], ["u0", "u1"], [8, 64]),
    ([16, 256], [(0, 16, 1), (3, 200, 1)], ["u0", "u1"], [8, 128]),
    ([16, 256], [(0, 16, 1), (100, 256, 1)], ["u0", "u1"], [8, 64]),  # the last tile ends behind it
    ([40, 256], [(5, 40, 1), (0, 256, 1)], ["u0", "u1"], [8, 128]),
    ([16, 250], [(0, 16, 1), (3, 250, 1)], ["u0", "u1"], [8, 128]),
    ([5, 6, 300], [(2, 5, 1), (1, 6, 1), (1, 300, 1)], ["u0", "u1", ":"], [2, 2]),
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
@pytest.mark.parametrize("case", [CASES[0], CASES[10], CASES[7]], ids=["held", "ragged", "stepped"])
def test_dtypes(dtype, case):
    document = through(*case, dtype=dtype)
    assert simulated.wrong(document, given=given(document)) == []


@pytest.mark.parametrize("case", [CASES[1], CASES[9], CASES[11]], ids=["lanes", "rows", "stepped"])
def test_a_tile_that_goes_on_writes_nothing_past_the_slice(case):
    """The tensor goes on where the slice ends: a mask says so, and positions stay as they are."""
    document = through(*case, more=2)
    made = kit.targets(kit.after("decompose", document))
    assert "aten.lt.Scalar" in made and "aten.where.self" not in made
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


# ---- atomics


def old_values(document, cut, index, inputs, how):
    """(out, old) of a sequential run."""
    tensors = {e["name"]: e for e in document["tensors"]}
    out = np.full(tensors["out"]["shape"], tensors["out"]["init"], np.float64)
    half = out[tuple(slice(*c) for c in cut)]
    names = [e["name"] for e in document["tensors"] if e["role"] == "input"]
    x = np.asarray(inputs[names.index("x")], np.float64)
    old = np.zeros(x.shape)
    combine = {"add": np.add, "max": np.maximum, "xchg": lambda _, new: new}[how]
    dim = next((d for d, e in enumerate(index) if e == "ids"), None)
    if dim is None:
        at = tuple(e if isinstance(e, int) else slice(None) for e in index)
        lanes = tuple(slice(n) for n in half[at].shape)
        old[lanes] = half[at]
        half[at] = combine(half[at], x[lanes])
        return out, old
    for i, place in enumerate(inputs[names.index("ids")]):
        if 0 <= place < half.shape[dim]:
            row = np.moveaxis(half, dim, 0)
            np.moveaxis(old, dim, 0)[i] = row[place]
            row[place] = combine(row[place], np.moveaxis(x, dim, 0)[i])
    return out, old


@pytest.mark.parametrize("how", ["add", "max", "xchg"])
@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_atomics(case, is_read, how):
    """Also of tiles whose range goes on where the slice ends, and of rows that are named twice."""
    for more in (0, 2):
        document = through(*case, atomic=(how, is_read), more=more)
        inputs = given(document, twice=True)
        right = old_values(document, *case[1:3], inputs, how)[: 1 + is_read]
        text = kit.emitted("kernel", json.dumps(document)).out
        for made in (
            pallasc.reference.run(document, inputs),
            pallasc.execute.run(text, *inputs),
        ):
            for found, wanted in zip(made, right, strict=True):
                np.testing.assert_array_equal(np.asarray(found, np.float64), wanted)


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("case", [CASES[1], CASES[7], CASES[10]], ids=["lanes", "rows", "ids"])
def test_atomics_simulated(case, is_read):
    for dtype in ("float32", "bfloat16"):
        document = through(*case, atomic=("add", is_read), dtype=dtype)
        assert simulated.wrong(document, given=given(document, twice=True)) == []


@pytest.mark.parametrize("step", [1, 2])
def test_two_index_tensors(step):
    """Their dims go together, in the slice as in the tensor; a position outside is one of none."""
    doc = Doc(config={"block_sizes": [8]}).tensor("x", "input", "float32", [16, 3]).block(16)
    doc.tensor("r", "input", "int32", [16, 3]).tensor("c", "input", "int32", [16, 3])
    doc.tensor("out", "output", "float32", [40, 300], init=0)
    cut = [[4, 20, step], [7, 257, 1]]
    shape = [len(range(*c)) for c in cut]
    doc.tensor("half", "view", "float32", shape, of="out", slice=cut)
    g = G(0, grid=[0])
    tile = [sym("u0"), sl()]
    r, c = (g.load(name, tile, t("int32", "u0", 3)) for name in "rc")
    g.store("half", [r, c], g.load("x", tile, f32("u0", 3)))
    document = doc.add(g.out())
    rng = np.random.default_rng(0)
    x = rng.integers(1, 90, (16, 3)).astype(np.float32)
    inputs = [x, *(rng.integers(-3, n + 3, (16, 3)).astype(np.int32) for n in shape)]
    right = np.zeros((40, 300), np.float32)
    half = right[4:20:step, 7:257]
    for i, at in enumerate(zip(*(v.reshape(-1) for v in inputs[1:]), strict=True)):
        if all(0 <= p < n for p, n in zip(at, shape, strict=True)):
            half[at] = x.reshape(-1)[i]
    np.testing.assert_array_equal(pallasc.reference.run(document, inputs)[0], right)
    assert simulated.wrong(document, given=inputs) == []


# ---- expanded tensors


def expanded(how, index, is_read=False):
    """e = out[16, 1] expanded to 128 lanes, e[u0, index] = x, or an atomic of it."""
    doc = Doc(config={"block_sizes": [8]}).tensor("x", "input", "float32", [16, 128]).block(16)
    doc.tensor("out", "inout", "float32", [16, 1])
    doc.tensor("e", "view", "float32", [16, 128], of="out", expand=True)
    g = G(0, grid=[0])
    value = g.load("x", [sym("u0"), index], f32("u0", *([] if index == 3 else [128])))
    at = [sym("u0"), index]
    if how == "store":
        g.store("e", at, value)
        g.store("e", [sym("u0"), 7], g.load("e", [sym("u0"), 0], f32("u0")))
        return doc.add(g.out())
    old = g.call(f"tile.atomic_{how}", g.host("e"), at, value, meta=f32("u0", 128))
    if is_read:
        doc.tensor("old", "output", "float32", [16, 128])
        g.store("old", at, old)
    return doc.add(g.out())


@pytest.mark.parametrize(
    ("how", "index", "is_read"),
    [
        ("store", 3, False),
        ("store", sl(), False),
        ("add", sl(), False),
        ("add", sl(), True),
        ("xchg", sl(), True),
    ],
)
def test_expanded(how, index, is_read):
    """All lanes are one place, written in their order."""
    document = expanded(how, index, is_read)
    rng = np.random.default_rng(0)
    x, out = (rng.integers(-8, 9, s).astype(np.float32) for s in ([16, 128], [16, 1]))
    all_of = np.concatenate([out, x], axis=1)
    left = np.cumsum(all_of, axis=1) if how == "add" else all_of
    last = x[:, 3:4] if index == 3 else left[:, -1:]
    text = kit.emitted("kernel", json.dumps(document)).out
    for made in (
        pallasc.reference.run(document, [x, out]),
        pallasc.execute.run(text, x, out),
    ):
        for found, wanted in zip(made, [last, left[:, :-1]][: 1 + is_read], strict=True):
            np.testing.assert_array_equal(found, wanted)
    assert simulated.wrong(document, given=[x, out]) == []


def test_a_place_that_sizes_give_is_refused():
    """A block's size less 8: where that lies in the slice is not asked."""
    doc, g = Doc(config={"block_sizes": [8]}), G(0, grid=[0])
    doc.tensor("out", "output", "float32", [16, 256], init=1).tensor("x", "input", "float32", [256])
    doc.tensor("half", "view", "float32", [8, 256], of="out", slice=[[2, 10, 1], [0, 256, 1]])
    doc.block(8)
    g.store("half", [sym("u0 - 8"), sl()], g.load("x", [sl()], t("float32", 256)))
    (said,) = kit.refusal(doc.add(g.out()))
    assert said["message"] == "a store through the slice or expand view half is not lowered yet"


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


def test_a_derived_column_indexed_by_tiles_of_both_dims():
    doc = Doc(config={"block_sizes": [8, 128]}).tensor("x", "input", "float32", [13, 250])
    summed = ["aten.sum.dim_IntList", [1], True]
    doc.tensor("b", "derived", "float32", [13, 1], of="x", ops=[summed])
    doc.tensor("out", "output", "float32", [13, 250]).block(13).block(250)
    g = G(0, grid=[0, 1])
    tile = [sym("u0"), sym("u1")]
    g.store("out", tile, g.load("b", tile, f32("u0", "u1")))
    document = doc.add(g.out())
    (x,) = inputs = given(document)
    (said,) = pallasc.reference.run(document, inputs)
    np.testing.assert_array_equal(said, np.repeat(x.sum(1, keepdims=True), 250, 1))
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
