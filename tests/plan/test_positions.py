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


def kernels():
    """All of these documents, and a name for each."""
    for (dim, size), dtype in itertools.product(PARTS, DTYPES):
        part = Sliding(dtype, 137, 300, dim, size)
        yield f"load {dtype} {dim} {size}", part.load()[0]
        part = Sliding(dtype, 137, 300, dim, size)
        yield f"store {dtype} {dim} {size}", part.store()[0]


def test_the_compiler_takes_them():
    """Each on one chip in turn; all on all of them were compiled when this was written."""
    named = list(kernels())
    chips = [("v5e", "v6e", "v7x")[i % 3] for i in range(len(named))]
    jobs = [(kit.compiled(d, chip), chip) for (_, d), chip in zip(named, chips, strict=True)]
    for (name, _), result in zip(named, compile_many(jobs, timeout=120), strict=True):
        assert (name, result.kind, result.message) == (name, "ok", "")
        assert result.vmem_bytes <= result.predicted_bytes
