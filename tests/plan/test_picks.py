"""Values at computed positions: gathers over values, rows of tables, parts of tiles."""

import itertools
import json

import kit
import ml_dtypes
import numpy as np
import pytest
from builder import Doc, G, ref, sl, sym, t
from pallasc.aot import compile_many
from simulated import wrong

ALL = sl()
DTYPES = {
    "float32": np.float32,
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "int32": np.int32,
    "int8": np.int8,
    "uint8": np.uint8,
    "uint32": np.uint32,
    "bool": np.bool_,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
}
ODD = [np.nan, np.inf, -np.inf, -0.0]


def values(dtype, *shape):
    """Numbers; among floats NaN, infinities and negative zeros."""
    rng = np.random.default_rng(3)
    if dtype == "bool":
        return rng.integers(0, 2, shape) > 0
    if "int" in dtype:
        return rng.integers(0, 100, shape).astype(DTYPES[dtype])
    drawn = rng.standard_normal(shape).astype(np.float32)
    odd = rng.integers(0, 12, shape)
    for at, value in enumerate(ODD):
        drawn[odd == at] = value
    return drawn.astype(DTYPES[dtype])


def places(size, *shape):
    """Positions in a dim of that size, and around it."""
    drawn = np.random.default_rng(5).integers(-3, size + 3, shape)
    return drawn.astype(np.int32)


class Tiles:
    """A kernel over tiles u0 of `rows`, which stores one value: out[u0, ...]."""

    def __init__(self, rows, block):
        self.doc, self.given = Doc(name="picks", config={"block_sizes": [block]}), []
        self.g = G(0, grid=[0])
        self.doc.block(rows, "tile")
        self.rows = rows

    def load(self, name, given, index, *shape):
        dtype = str(given.dtype)
        self.doc.tensor(name, "input", dtype, list(given.shape))
        self.given.append(given)
        return self.g.load(name, index, t(dtype, *shape))

    def tile(self, name, given):
        """given[u0, ...]."""
        index = [sym("u0"), *[ALL] * (given.ndim - 1)]
        return self.load(name, given, index, "u0", *given.shape[1:])

    def computed(self, x, dtype, *shape):
        """-x, or not x."""
        target = "aten.logical_not.default" if dtype == "bool" else "aten.neg.default"
        return self.g.call(target, x, meta=t(dtype, *shape))

    def stored(self, value, dtype, *shape):
        """Floats of 32 bits as their bits, so that signs of zeros count."""
        if dtype == "float32":
            dtype = "int32"
            value = self.g.call(
                "aten.view.dtype", value, {"dtype": dtype}, meta=t(dtype, "u0", *shape)
            )
        self.doc.tensor("out", "output", dtype, [self.rows, *shape])
        self.g.store("out", [sym("u0"), *[ALL] * len(shape)], value)
        return self.doc.add(self.g.out()), self.given


# ---- gathers over values -------------------------------------------------------------------------


def gather_last(dtype, rows, size, count, block):
    """out[m, j] = x[m, index[m, j]]."""
    k = Tiles(rows, block)
    x, index = k.tile("x", values(dtype, rows, size)), k.tile("index", places(size, rows, count))
    value = k.g.call("aten.gather.default", x, -1, index, meta=t(dtype, "u0", count))
    return k.stored(value, dtype, count)


def gather_first(dtype, rows, size, count, block):
    """out[m, j] = x[index[m, j], j], of a table with more columns."""
    k = Tiles(rows, block)
    x = k.load("x", values(dtype, size, count + 5), [ALL, ALL], size, count + 5)
    index = k.tile("index", places(size, rows, count))
    value = k.g.call("aten.gather.default", x, 0, index, meta=t(dtype, "u0", count))
    return k.stored(value, dtype, count)


def gather_middle(dtype, rows, size, count, block):
    """out[m, i, j] = x[m, index[m, i, j], j]."""
    k = Tiles(rows, block)
    x, index = (
        k.tile("x", values(dtype, rows, size, 20)),
        k.tile("index", places(size, rows, count, 20)),
    )
    value = k.g.call("aten.gather.default", x, 1, index, meta=t(dtype, "u0", count, 20))
    return k.stored(value, dtype, count, 20)


def rows_of_values(dtype, rows, size, count, block):
    """out[m] = (-x)[index[m]]."""
    k = Tiles(rows, block)
    x = k.load("x", values(dtype, size, count), [ALL, ALL], size, count)
    x = k.computed(x, dtype, size, count)
    index = k.tile("index", places(size, rows))
    value = k.g.call("aten.index_select.default", x, 0, index, meta=t(dtype, "u0", count))
    return k.stored(value, dtype, count)


def columns_of_values(dtype, rows, size, count, block):
    """out[m, j] = (-x)[m, index[j]]."""
    k = Tiles(rows, block)
    x = k.computed(k.tile("x", values(dtype, rows, size)), dtype, "u0", size)
    index = k.load("index", places(size, count), [ALL], count)
    value = k.g.call("aten.index.Tensor", x, [None, index], meta=t(dtype, "u0", count))
    return k.stored(value, dtype, count)


# ---- rows of tables ------------------------------------------------------------------------------


def embedding(dtype, rows, size, count, block):
    """out[m] = table[index[m]]."""
    k = Tiles(rows, block)
    index = k.tile("index", places(size, rows))
    table = k.load("table", values(dtype, size, count), [ALL, ALL], size, count)
    value = k.g.call("aten.embedding.default", table, index, meta=t(dtype, "u0", count))
    return k.stored(value, dtype, count)


def index_tensor(dtype, rows, size, count, block):
    """out[m] = table[index[m]], as aten.index.Tensor."""
    k = Tiles(rows, block)
    index = k.tile("index", places(size, rows))
    table = k.load("table", values(dtype, size, count), [ALL, ALL], size, count)
    value = k.g.call("aten.index.Tensor", table, [index], meta=t(dtype, "u0", count))
    return k.stored(value, dtype, count)


# ---- parts ---------------------------------------------------------------------------------------


def strided(dtype, rows, size, count, block, step=2):
    """out[m] = x[m, 1 : 1 + count * step : step]."""
    k = Tiles(rows, block)
    size = 2 + count * step
    index = [sym("u0"), sl(1, 1 + count * step, step)]
    value = k.load("x", values(dtype, rows, size), index, "u0", count)
    return k.stored(value, dtype, count)


def strided_by_3(dtype, rows, size, count, block):
    return strided(dtype, rows, size, count, block, 3)


def part(dtype, rows, size, count, block):
    """out[m] = x[m, :][..., 3 : 3 + count]."""
    k = Tiles(rows, block)
    x = k.tile("x", values(dtype, rows, size + count))
    value = k.g.call("tile.subscript", x, [ALL, sl(3, 3 + count)], meta=t(dtype, "u0", count))
    return k.stored(value, dtype, count)


def at(dtype, rows, size, count, block):
    """out[m] = x[m, :, :][:, first[0], :]."""
    k = Tiles(rows, block)
    x = k.tile("x", values(dtype, rows, size, count))
    first = k.load("first", places(size, 1), [0])
    value = k.g.call("tile.subscript", x, [ALL, first, ALL], meta=t(dtype, "u0", count))
    return k.stored(value, dtype, count)


def lanes_of_part(dtype, rows, size, count, block):
    """out[m, j] = (-x)[m, :, :][:, 1, index[j]]."""
    k = Tiles(rows, block)
    x = k.tile("x", values(dtype, rows, 3, size))
    x = k.computed(x, dtype, "u0", 3, size)
    index = k.load("index", places(size, count), [ALL], count)
    value = k.g.call("tile.subscript", x, [ALL, 1, index], meta=t(dtype, "u0", count))
    return k.stored(value, dtype, count)


def rows_of_part(dtype, rows, size, count, block):
    """out[m] = (-x)[index[m], 2:]."""
    k = Tiles(rows, block)
    index = k.tile("index", places(size, rows))
    x = k.load("x", values(dtype, size, count + 2), [ALL, ALL], size, count + 2)
    x = k.computed(x, dtype, size, count + 2)
    meta = t(dtype, "u0", count)
    return k.stored(k.g.call("tile.subscript", x, [index, sl(2)], meta=meta), dtype, count)


def lanes_of_input(dtype, rows, size, count, block):
    """out[m, j] = x[m, index[j]], of an input."""
    k = Tiles(rows, block)
    index = k.load("index", places(size, count), [ALL], count)
    x = k.load("x", values(dtype, rows, size), [sym("u0"), index], "u0", count)
    return k.stored(x, dtype, count)


def lanes_of_vector(dtype, rows, size, count, block):
    """out[m, j] = x[index[m, j]]."""
    k = Tiles(rows, block)
    index = k.tile("index", places(size, rows, count))
    x = k.load("x", values(dtype, size), [index], "u0", count)
    return k.stored(x, dtype, count)


def lanes_where(dtype, rows, size, count, block):
    """out[m, j] = x[m, index[j]] where it is asked for, else 0."""
    k = Tiles(rows, block)
    index = k.load("index", places(size, count), [ALL], count)
    mask = k.tile("mask", values("bool", rows, count))
    k.doc.tensor("x", "input", dtype, [rows, size])
    k.given.append(values(dtype, rows, size))
    host = k.g.host("x")
    at = [sym("u0"), index]
    x = k.g.call("tile.load", host, at, mask, meta=t(dtype, "u0", count))
    return k.stored(x, dtype, count)


KERNELS = [
    lanes_of_input,
    lanes_of_vector,
    lanes_where,
    gather_last,
    gather_first,
    gather_middle,
    rows_of_values,
    columns_of_values,
    embedding,
    index_tensor,
    strided,
    strided_by_3,
    part,
    at,
    lanes_of_part,
    rows_of_part,
]
# Rows, the size of the dim that is picked from, how many are picked, rows in a block.
SIZES = [(32, 64, 128, 16), (21, 13, 10, 8), (40, 130, 150, 40)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_values(kernel, sizes, dtype):
    document, given = kernel(dtype, *sizes)
    assert wrong(document, given=given) == []


def test_lanes_outside_the_range_hold_what_the_position_says():
    """A load gives zeros there; the first row of a table is none."""
    k = Tiles(20, 16)
    index = k.tile("index", places(9, 20))
    table = k.load("table", values("int32", 9, 12), [ALL, ALL], 9, 12)
    value = k.g.call("aten.embedding.default", table, index, meta=t("int32", "u0", 12))
    total = k.g.call("aten.sum.dim_IntList", value, [0], meta=t("int32", 12))
    sums = k.g.call("aten.expand.default", total, [sym("u0"), 12], meta=t("int32", "u0", 12))
    document, given = k.stored(sums, "int32", 12)
    assert wrong(document, given=given) == []


@pytest.mark.parametrize("block", [16, 128])
def test_lanes_outside_the_range_are_zeros(block):
    """Of a load by a tile of positions, whose last block is not full."""
    doc, g = Doc(name="picks", config={"block_sizes": [block]}), G(0, grid=[0])
    doc.block(40, "tile")
    x, index = values("int32", 24, 300), places(300, 40)
    doc.tensor("x", "input", "int32", [24, 300]).tensor("index", "input", "int32", [40])
    doc.tensor("out", "output", "int32", [40, 24])
    at = g.load("index", [sym("u0")], t("int32", "u0"))
    lanes = g.load("x", [ALL, at], t("int32", 24, "u0"))
    total = g.call("aten.sum.dim_IntList", lanes, [1], meta=t("int32", 24))
    rows = g.call("aten.expand.default", total, [sym("u0"), 24], meta=t("int32", "u0", 24))
    g.store("out", [sym("u0"), ALL], rows)
    assert wrong(doc.add(g.out()), given=[x, index]) == []


def test_rows_of_more_lanes_than_registers_stand_for_are_taken_one_by_one():
    """The code would be long: each register of a row is asked for each of the places."""
    far = kit.document("columns_1024_2048")
    text = json.dumps(far).replace("2048", "65536")
    assert "_take_lanes" in kit.emitted("python", far).out
    assert "_take_lanes" not in kit.emitted("python", text).out


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int32", "int8"])
def test_tensors_without_dims(dtype):
    """They are loaded as single numbers; of ints, as positions too."""
    k = Tiles(40, 16)
    x = k.tile("x", values(dtype, 40, 256))
    number = k.load("number", values(dtype, 12).reshape(-1)[:1].reshape(()), [])
    value = k.g.call("aten.add.Tensor", x, number, meta=t(dtype, "u0", 256))
    if dtype == "int32":
        at = k.load("at", np.array(7, np.int32), [])
        row = k.load("rows", values(dtype, 9, 256), [at, ALL], 256)
        value = k.g.call("aten.add.Tensor", value, row, meta=t(dtype, "u0", 256))
    document, given = k.stored(value, dtype, 256)
    assert wrong(document, given=given) == []


def test_rows_of_an_input_are_loaded_where_they_lie():
    document, _ = embedding("float32", 32, 64, 128, 16)
    loads = [
        n for n in kit.nodes(kit.after("decompose", document)) if n.get("target") == "tile.load"
    ]
    assert ref(loads[0]["name"]) in [n["args"][1][0] for n in loads]


def test_the_compiler_takes_them():
    """A dtype, a size and a chip for each; four of each were compiled when this was written."""
    turns = itertools.cycle(
        zip(["float32", "float16", "int8"], SIZES, ("v5e", "v6e", "v7x"), strict=True)
    )
    named = [(kernel, *turn) for kernel, turn in zip(KERNELS, turns, strict=False)]
    jobs = [(kit.compiled(kernel(d, *s)[0], chip), chip) for kernel, d, s, chip in named]
    for name, result in zip(named, compile_many(jobs, timeout=300), strict=True):
        assert (name, result.kind, result.message) == (name, "ok", "")
        assert result.vmem_bytes <= result.predicted_bytes


def test_positions_of_several_gathers_are_copied_once():
    """Those of a, b and d, and those of c, to where single ones are read."""
    rows, block = 48, 16
    k = Tiles(rows, block)
    at = k.computed(k.tile("at", places(1000, rows)), "int32", "u0")
    other = k.computed(at, "int32", "u0")
    total = None
    for name, index in [("a", at), ("b", at), ("c", other), ("d", at)]:
        row = k.load(name, values("float32", 1000, 128), [index, ALL], "u0", 128)
        meta = t("float32", "u0", 128)
        total = k.g.call("aten.add.Tensor", total, row, meta=meta) if total else row
    document, given = k.stored(total, "float32", 128)
    text = kit.emitted("python", document).out
    assert text.count("make_async_copy") == 2
    assert text.count("pltpu.SMEM((1, 16), jnp.int32)") == 2
    assert wrong(document, given=given) == []
