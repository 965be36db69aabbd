"""Slices and positions at run-time starts of any alignment: read, stored, and added up."""

import itertools

import kit
import ml_dtypes
import numpy as np
import pytest
from builder import Doc, G, sl, sym, t
from pallasc.aot import compile_many
from simulated import wrong

ALL = sl()
DTYPES = {
    "float32": np.float32,
    "bfloat16": ml_dtypes.bfloat16,
    "int32": np.int32,
    "int8": np.int8,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "bool": np.bool_,
}
STARTS = [0, 1, 7, 8, 127, 128, 129, 300]  # clamped to what fits


class Sliding:
    """A grid over starts[i], and slices of `size` from there in one dim of [rows, columns]."""

    def __init__(self, dtype, rows, columns, dim, size):
        """size 0: one position, which is dropped."""
        self.dtype, self.shape, self.dim, self.size = dtype, [rows, columns], dim, size
        self.doc, self.g = Doc(name="sliding"), G(0, grid=[0])
        self.doc.block(len(STARTS), "i", size=1)
        self.doc.tensor("starts", "input", "int32", [len(STARTS)])
        self.at = self.g.call("tile.begin", sym("u0"), meta=sym(None))
        start = self.g.load("starts", [self.at], t("int32"))
        length = max(size, 1)
        start = self.g.call(
            "aten.clamp.default", start, 0, self.shape[dim] - length, meta=t("int32")
        )
        stop = self.g.call("aten.add.Tensor", start, length, meta=t("int32"))
        self.entry = {"slice": [start, stop, None]} if size else start
        self.part = [n for d, n in enumerate(self.shape) if d != dim or size]
        if size:
            self.part[dim] = size
        self.index = [self.entry if d == dim else ALL for d in range(2)]

    def values(self, *shape):
        values = np.random.default_rng(1).integers(-4, 5, shape)
        return values.astype(DTYPES[self.dtype])

    def load(self):
        """out[i] = x[..., start : start + size]."""
        self.doc.tensor("x", "input", self.dtype, self.shape)
        self.doc.tensor("out", "output", self.dtype, [len(STARTS), *self.part])
        x = self.g.load("x", self.index, t(self.dtype, *self.part))
        self.g.store("out", [self.at, *[ALL] * len(self.part)], x)
        return self.doc.add(self.g.out()), [np.array(STARTS, np.int32), self.values(*self.shape)]

    def store(self, atomic=None):
        """out[..., start : start + size] = y[i], or adds it."""
        shape = [len(STARTS), *self.part]
        self.doc.tensor("y", "input", self.dtype, shape)
        self.doc.tensor("out", "output", self.dtype, self.shape, init=1)
        y = self.g.load("y", [self.at, *[ALL] * len(self.part)], t(self.dtype, *self.part))
        out = self.g.host("out", t(self.dtype, *self.shape))
        meta = t(self.dtype, *self.part) if atomic else None
        self.g.call(atomic or "tile.store", out, self.index, y, meta=meta)
        starts = STARTS if atomic else sorted(STARTS)
        return self.doc.add(self.g.out()), [np.array(starts, np.int32), self.values(*shape)]


PARTS = [(0, 11), (1, 70), (0, 0), (1, 0), (1, 200)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("dim", "size"), PARTS)
def test_loads(dtype, dim, size):
    document, given = Sliding(dtype, 137, 300, dim, size).load()
    assert wrong(document, given=given) == []


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("dim", "size"), PARTS)
def test_stores(dtype, dim, size):
    document, given = Sliding(dtype, 137, 300, dim, size).store()
    assert wrong(document, given=given) == []


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize(("dim", "size"), PARTS)
def test_atomics(dtype, dim, size):
    document, given = Sliding(dtype, 137, 300, dim, size).store("tile.atomic_add")
    assert wrong(document, given=given) == []


# ---- grids between blocks ------------------------------------------------------------------------


def shifted(dtype, shape, begins, ends, sizes, init=1):
    """out[t] = x[t] + x[t] over tiles of a grid that begins and ends anywhere."""
    doc = Doc(name="shifted", config={"block_sizes": sizes})
    tiles = []
    for i, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        doc.block(end, f"tile_{i}", begin=begin)
        tiles.append(f"u{i}")
    doc.tensor("x", "input", dtype, shape)
    fields = {} if init is None else {"init": init}
    doc.tensor("out", "output", dtype, shape, **fields)
    g = G(0, grid=[*range(len(shape))])
    index = [sym(tile) for tile in tiles]
    x = g.load("x", index, t(dtype, *tiles))
    g.store("out", index, g.call("aten.add.Tensor", x, x, meta=t(dtype, *tiles)))
    return doc.add(g.out())


SHIFTED = [
    ((100, 300), (3, 5), (97, 290), (16, 128)),
    ((100, 300), (8, 128), (100, 300), (32, 64)),
    ((300,), (3,), (300,), (7,)),
    ((400,), (100,), (301,), (48,)),
    ((3, 40, 200), (1, 2, 3), (3, 40, 199), (1, 8, 32)),
]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("case", SHIFTED)
def test_grids_that_begin_between_blocks(dtype, case):
    assert wrong(shifted(dtype, *case)) == []


SMALL = [
    ((200,), (7,)),
    ((500,), (48,)),
    ((24, 40), (4, 9)),
    ((20, 1000), (8, 100)),
    ((20, 1000), (5, 300)),
    ((50, 200), (16, 16)),
    ((50, 200), (16, 32)),
    ((50, 200), (16, 64)),
]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("case", SMALL)
def test_small_blocks(dtype, case):
    shape, sizes = case
    document = shifted(dtype, shape, [0] * len(shape), shape, sizes, None)
    assert wrong(document) == []


# ---- single elements -----------------------------------------------------------------------------


def elements(dtype, shape, columns, order=None):
    """out[i, j, ...] = the largest of x[i, j, ..., :]."""
    doc = Doc(name="elements")
    doc.tensor("x", "input", dtype, [*shape, columns]).tensor("out", "output", dtype, shape)
    g = G(0, grid=[*range(len(shape))])
    at = []
    for i, extent in enumerate(shape):
        doc.block(extent, f"i{i}", size=1)
        at.append(g.call("tile.begin", sym(f"u{i}"), meta=sym(None)))
    x = g.load("x", [*at, ALL], t(dtype, columns))
    top = g.call("aten.amax.default", x, [0], meta=t(dtype))
    g.store("out", [at[i] for i in order or range(len(shape))], top)
    return doc.add(g.out())


ELEMENTS = [((140,), 16), ((5, 7), 130), ((2, 3, 4), 20)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("case", ELEMENTS)
def test_one_element_of_each_grid_point(dtype, case):
    assert wrong(elements(dtype, *case)) == []


def test_elements_against_the_order_of_the_grid():
    assert wrong(elements("float32", (9, 9), 130, (1, 0))) == []


def test_elements_of_a_long_vector_share_blocks():
    (out,) = [
        o
        for o in kit.plan(elements("float32", (200000,), 128))["operands"]
        if o["role"] == "output"
    ]
    assert (out["block"], out["index_map"]) == ([1, 128], ["0", "i0 // 128"])


# ---- one row under a tile ------------------------------------------------------------------------


def biased(dtype, rows, columns, sizes):
    """out[m, n] = x[m, n] + bias[m, n] of a bias of one row: an index outside gives the nearest."""
    doc = Doc(name="biased", config={"block_sizes": sizes})
    doc.block(rows, "tile_m").block(columns, "tile_n")
    doc.tensor("x", "input", dtype, [rows, columns]).tensor("bias", "input", dtype, [1, columns])
    doc.tensor("out", "output", dtype, [rows, columns])
    g, meta = G(0, grid=[0, 1]), t(dtype, "u0", "u1")
    index = [sym("u0"), sym("u1")]
    x, bias = g.load("x", index, meta), g.load("bias", index, meta)
    g.store("out", index, g.call("aten.add.Tensor", x, bias, meta=meta))
    return doc.add(g.out())


BIASED = [(64, 256, (16, 128)), (50, 300, (16, 128)), (7, 130, (8, 256))]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("case", BIASED)
def test_one_row_under_a_tile(dtype, case):
    assert wrong(biased(dtype, *case)) == []


# ---- the TPU compiler ----------------------------------------------------------------------------


def kernels():
    """All of these documents, and a name for each."""
    for (dim, size), dtype in itertools.product(PARTS, DTYPES):
        part = Sliding(dtype, 137, 300, dim, size)
        yield f"load {dtype} {dim} {size}", part.load()[0]
        part = Sliding(dtype, 137, 300, dim, size)
        yield f"store {dtype} {dim} {size}", part.store()[0]
    for dtype, case in itertools.product(["float32", "bfloat16", "int8"], SHIFTED):
        yield f"shifted {dtype} {case}", shifted(dtype, *case)
    for dtype, (shape, sizes) in itertools.product(["float32", "bfloat16", "int8"], SMALL):
        document = shifted(dtype, shape, [0] * len(shape), shape, sizes, None)
        yield f"small {dtype} {shape} {sizes}", document
    for dtype, case in itertools.product(["float32", "bfloat16", "int32"], ELEMENTS):
        yield f"elements {dtype} {case}", elements(dtype, *case)
    for dtype, case in itertools.product(["float32", "bfloat16", "int32"], BIASED):
        yield f"biased {dtype} {case}", biased(dtype, *case)
    yield "elements of a long vector", elements("float32", (200000,), 128)


def test_the_compiler_takes_them():
    """Each on one chip in turn; all on all of them were compiled when this was written."""
    named = list(kernels())
    chips = [("v5e", "v6e", "v7x")[i % 3] for i in range(len(named))]
    jobs = [(kit.compiled(d, chip), chip) for (_, d), chip in zip(named, chips, strict=True)]
    for (name, _), result in zip(named, compile_many(jobs, timeout=120), strict=True):
        assert (name, result.kind, result.message) == (name, "ok", "")
        assert result.vmem_bytes <= result.predicted_bytes
