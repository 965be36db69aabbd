"""Stores with steps and new axes, and to tensors without dims: values, odd sizes, dtypes."""

import json

import kit
import numpy as np
import pallasc.execute
import pallasc.reference
import pytest
import simulated
from builder import Doc, G, f32, sl, sym, t


def stored(shape, entries, block, dtype="float32", value=None, masked=False, init=0):
    """out[entries] = x, or a number; "u0" is a tile of a dim, [start, stop, step] a slice."""
    doc = Doc(config={"block_sizes": [block]})
    cut = [
        None if e is None else "u0" if e == "u0" else len(range(*slice(*e).indices(size)))
        for e, size in zip(entries, sizes(shape, entries), strict=True)
    ]
    tiled = next(d for d, e in zip(sizes(shape, entries), entries, strict=True) if e == "u0")
    x_shape = [1 if n is None else tiled if n == "u0" else n for n in cut]
    doc.tensor("x", "input", dtype, x_shape).block(tiled)
    meta = [1 if n is None else n for n in cut]
    g = G(0, grid=[0])
    x = g.load("x", [sym("u0") if n == "u0" else sl() for n in cut], t(dtype, *meta))
    mask = []
    if masked:
        doc.tensor("on", "input", "int32", x_shape)
        on = g.load("on", [sym("u0") if n == "u0" else sl() for n in cut], t("int32", *meta))
        mask = [g.call("aten.gt.Scalar", on, 0, meta=t("bool", *meta))]
    doc.tensor("out", "output", dtype, shape, init=init)
    index = [sym("u0") if e == "u0" else None if e is None else sl(*e) for e in entries]
    g.store("out", index, x if value is None else value, *mask)
    return doc.add(g.out())


def sizes(shape, entries):
    """The tensor's dim of each entry; None: it is a new axis."""
    left = iter(shape)
    return [None if e is None else next(left) for e in entries]


def wanted(document, entries, inputs, value=None):
    """What numpy makes of it, with the whole dim in the place of the tile."""
    out = next(e for e in document["tensors"] if e["name"] == "out")
    result = np.zeros(out["shape"])
    index = tuple(slice(None) if e == "u0" else e if e is None else slice(*e) for e in entries)
    x = np.asarray(inputs[0], np.float64) if value is None else value
    on = inputs[1] > 0 if len(inputs) > 1 else True
    result[index] = np.where(on, x, result[index])
    return result


def given(document, seed=0):
    rng = np.random.default_rng(seed)
    inputs = [e for e in document["tensors"] if e["role"] == "input"]
    found = []
    for entry in inputs:
        dtype = pallasc.reference.values.dtype_of(entry["dtype"])
        low, high = (0, 2) if entry["dtype"] == "bool" else (-8, 9)
        found.append(rng.integers(low, high, entry["shape"]).astype(dtype))
    return found


CASES = [
    ([16, 256], ["u0", [None, None, 2]], 8),
    ([16, 256], ["u0", [1, None, 2]], 8),
    ([13, 250], ["u0", [None, None, 3]], 8),
    ([16, 512], ["u0", [None, None, 16]], 8),
    ([16, 512], ["u0", [5, 400, 32]], 8),
    ([9, 500], ["u0", [3, None, 64]], 8),
    ([16, 256], ["u0", [200, 220, 2]], 8),
    ([16, 256], ["u0", [-9, -1, 4]], 8),
    ([40, 256], [[None, None, 4], "u0"], 128),
    ([41, 300], [[3, 39, 5], "u0"], 128),
    ([12, 10, 256], ["u0", [None, None, 2], [None, None]], 4),
    ([12, 8, 256], ["u0", [None, None], [1, None, 2]], 4),
    ([6, 9, 128], [[None, None, 2], "u0", [None, None]], 8),
    ([12, 8, 256], ["u0", [None, None, 3], [None, None, 2]], 4),
    ([8, 9, 256], [[None, None, 2], [1, None, 3], "u0"], 128),
    ([8, 5, 9, 128], [[None, None, 4], "u0", [None, None, 3], [None, None]], 4),
    ([8, 7, 9, 130], ["u0", [None, None, 3], [2, 6], [None, None, 2]], 4),
    ([8, 7, 3, 9, 130], ["u0", [None, None, 3], [1, 3], [0, 9, 4], [None, None, 2]], 4),
    ([16, 256], ["u0", None, [None, None]], 8),
    ([16, 250], [None, "u0", [None, None, 2]], 8),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_values(case):
    document = stored(*case)
    inputs = given(document)
    (said,) = pallasc.reference.run(document, inputs)
    np.testing.assert_array_equal(np.asarray(said, np.float64), wanted(document, case[1], inputs))
    text = kit.emitted("kernel", json.dumps(document)).out
    (found,) = pallasc.execute.run(text, *inputs)
    np.testing.assert_array_equal(np.asarray(found, np.float64), said)


@pytest.mark.parametrize("case", CASES[::2], ids=lambda case: "-".join(map(str, case)))
def test_simulated(case):
    assert simulated.wrong(stored(*case)) == []


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "int32", "bool"])
@pytest.mark.parametrize("case", [CASES[0], CASES[5]], ids=["lanes", "odd"])
def test_dtypes(dtype, case):
    document = stored(*case, dtype=dtype)
    inputs = given(document)
    (said,) = pallasc.reference.run(document, inputs)
    np.testing.assert_array_equal(np.asarray(said, np.float64), wanted(document, case[1], inputs))
    assert simulated.wrong(document) == []


@pytest.mark.parametrize("entries", [["u0", [1, None, 2]], [[None, None, 2], "u0"]])
def test_masks_and_numbers(entries):
    """Where extra_mask is false nothing is stored; a number goes to each place."""
    for value in (None, 7.0):
        document = stored(
            [16, 256], entries, 128 if entries[1] == "u0" else 8, masked=True, value=value
        )
        inputs = given(document)
        (said,) = pallasc.reference.run(document, inputs)
        np.testing.assert_array_equal(said, wanted(document, entries, inputs, value))
        assert simulated.wrong(document) == []


# Tensors without dims


def number(how, masked=False, dtype="float32"):
    """A single number of all rows of x, stored or added up; masked: by the grid's point."""
    doc = Doc(config={"block_sizes": []}).tensor("x", "input", dtype, [16, 256])
    doc.tensor("out", "output", dtype, [], init=3).block(16, size=1)
    g = G(0, grid=[0])
    at = g.call("tile.begin", sym("u0"), meta=sym(None))
    row = g.load("x", [at, sl()], t(dtype, 256))
    top = g.call("aten.amax.default", row, [], meta=t(dtype))
    if how == "store":
        mask = [g.call("aten.gt.Scalar", top, 7, meta=t("bool"))] if masked else []
        g.store("out", [], top, *mask)
    else:
        g.call(f"tile.atomic_{how}", g.host("out"), [], top, meta=t(dtype))
    return doc.add(g.out())


@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16"])
@pytest.mark.parametrize("how", ["add", "max"])
def test_a_number_that_all_grid_points_change(how, dtype):
    document = number(how, dtype=dtype)
    inputs = given(document)
    tops = inputs[0].astype(np.float64).max(1)
    (said,) = pallasc.reference.run(document, inputs)
    assert float(said) == (3 + tops.sum() if how == "add" else max(3, tops.max()))
    assert simulated.wrong(document) == []


@pytest.mark.parametrize("masked", [False, True])
def test_a_number_that_is_stored(masked):
    document = number("store", masked)
    assert simulated.wrong(document) == []


# Counts at places that the run time gives


@pytest.mark.parametrize(
    ("how", "dtype"),
    [("add", "int32"), ("or", "int32"), ("max", "int32"), ("add", "float32"), ("max", "float32")],
)
def test_an_atomic_at_a_loaded_place_outside_does_nothing(how, dtype):
    doc = Doc(config={"block_sizes": []}).tensor("ids", "input", "int32", [40])
    doc.tensor("out", "output", dtype, [16], init=0).block(40, size=1)
    g = G(0, grid=[0])
    at = g.call("tile.begin", sym("u0"), meta=sym(None))
    place = g.load("ids", [at], t("int32"))
    g.call(f"tile.atomic_{how}", g.host("out"), [place], 1, meta=t(dtype))
    document = doc.add(g.out())
    ids = np.random.default_rng(0).integers(-3, 20, [40], np.int32)
    counts = np.bincount(ids[(ids >= 0) & (ids < 16)], minlength=16)
    (said,) = pallasc.reference.run(document, [ids])
    np.testing.assert_array_equal(said, counts if how == "add" else np.minimum(counts, 1))
    assert simulated.wrong(document, given=[ids]) == []


# Results that nothing is stored to


def returning(returns, **views):
    """out = 2 * x, and views of both."""
    doc = Doc(config={"block_sizes": [8]}, returns=returns).tensor(
        "x", "input", "float32", [16, 256]
    )
    doc.tensor("out", "output", "float32", [16, 256])
    doc.tensor("blank", "output", "float32", [3, 5], init=2)
    for name, fields in views.items():
        doc.tensor(name, "view", "float32", **fields)
    doc.block(16)
    g = G(0, grid=[0])
    x = g.load("x", [sym("u0"), sl()], f32("u0", 256))
    g.store("out", [sym("u0"), sl()], g.call("aten.mul.Tensor", x, 2.0, meta=f32("u0", 256)))
    return doc.add(g.out())


VIEWS = {
    "slice": ({"shape": [16, 67], "slice": [[0, 16, 1], [3, 70, 1]]}, lambda a: a[:, 3:70]),
    "stepped": ({"shape": [8, 256], "slice": [[1, 16, 2], [0, 256, 1]]}, lambda a: a[1::2]),
    "reshape": ({"shape": [4096]}, lambda a: a.reshape(-1)),
    "permute": ({"shape": [256, 16], "permute": [1, 0]}, lambda a: a.T),
}


@pytest.mark.parametrize("of", ["x", "out"])
@pytest.mark.parametrize("name", VIEWS)
def test_views_are_returned(name, of):
    fields, view = VIEWS[name]
    document = returning([{"tensor": "v"}, {"tensor": "out"}], v={"of": of, **fields})
    (x,) = inputs = given(document)
    said = pallasc.reference.run(document, inputs)
    np.testing.assert_array_equal(said[0], view(x if of == "x" else 2 * x))
    assert simulated.wrong(document, given=inputs) == []


def test_inputs_and_fills_are_returned():
    steps = [["aten.sum.dim_IntList", [1]]]
    document = returning([{"tensor": "x"}, {"tensor": "blank"}, {"tensor": "x", "ops": steps}])
    (x,) = inputs = given(document)
    said = pallasc.reference.run(document, inputs)
    np.testing.assert_array_equal(said[0], x)
    np.testing.assert_array_equal(said[1], np.full([3, 5], 2.0))
    np.testing.assert_array_equal(said[2], x.sum(1))
    assert simulated.wrong(document, given=inputs) == []


# ---- tiles whose rows are stored with a step: the output goes block by block ---------------------


def strided(rows, step, starts, block, dtype="float32", columns=40, extent=None, atomic=False):
    """out[tile.index * step + start] = x[tile], for each start."""
    doc = Doc(config={"block_sizes": [block]})
    doc.tensor("x", "input", dtype, [rows, columns])
    extent = extent or rows * step
    doc.tensor("out", "output", dtype, [extent, columns], init=0)
    g = G(0, grid=[0])
    x = g.load("x", [sym("u0"), sl()], t(dtype, "u0", columns))
    at = g.call("tile.index", sym("u0"), meta=t("int32", "u0"))
    at = g.call("aten.mul.Tensor", at, step, meta=t("int32", "u0"))
    for start in starts:
        here = g.call("aten.add.Tensor", at, start, meta=t("int32", "u0"))
        if atomic:
            host = g.host("out")
            g.call("tile.atomic_add", host, [here, sl()], x, meta=t(dtype, "u0", columns))
        else:
            g.store("out", [here, sl()], x)
    return doc.block(rows).add(g.out())


def out_block(document):
    """Rows of the output's block in VMEM."""
    return kit.by_ref(kit.plan(document)["operands"])["out_ref"]["block"][0]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize(
    ("rows", "step", "starts", "block", "extent", "rows_held"),
    [
        (64, 2, (0, 1), 16, None, 32),
        (61, 2, (1,), 16, None, 32),  # a ragged last tile
        (61, 3, (0, 2), 16, 190, 48),
        (64, 4, (5,), 16, 300, None),  # reaches into the next block
        (64, 2, (0,), 16, 90, None),  # tiles begin behind the end
        (61, 2, (0,), 16, 110, 32),  # the last tile passes the end
        (64, 1, (0, -3), 16, None, None),
    ],
)
def test_block_by_block(rows, step, starts, block, extent, rows_held, dtype):
    """The output's, where each tile's positions lie in a block of its own; else all is held."""
    for atomic in (False, True)[: 1 + (dtype == "float32")]:
        document = strided(rows, step, starts, block, dtype, extent=extent, atomic=atomic)
        rows_out = extent or rows * step
        held = out_block(document)
        assert held == rows_held if rows_held else held >= rows_out
        (x,) = given(document)
        result = np.zeros((rows_out, x.shape[1]))
        for start in starts:
            for i, row in enumerate(np.asarray(x, np.float64)):
                at = i * step + start
                if 0 <= at < len(result):
                    result[at] = row + atomic * result[at]
        (found,) = pallasc.execute.run(kit.emitted("kernel", document).out, x)
        np.testing.assert_array_equal(np.asarray(found, np.float64), result)


def test_a_whole_output_need_not_fit():
    """64 MiB of bfloat16, which no chip of 64 MiB could hold: 4 MiB at a time."""
    document = strided(4096, 2, (0, 1), 64, "bfloat16", columns=4096)
    assert kit.plan(document, target="v7x")["vmem"]["total"] < 16 << 20
