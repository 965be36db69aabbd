"""Positions that count up by one and lie in their tensor: a slice; else one after the other."""

import json

import kit
import numpy as np
import pallasc.execute
import pallasc.reference
import pytest
from builder import Doc, G, normal, sl, sym
from builder import t as typed

WALKED = "one position after the other"


def line(g, more, minus=None):
    """Ints from `more` on, one for each lane of the tile u1."""
    meta = typed("int32", "u1")
    size = g.call("tile.symnode", "u1", meta=sym("u1"))
    index = g.call("tile.index", size, meta=meta)
    found = g.call("aten.add.Tensor", index, more, meta=meta)
    return g.call("aten.sub.Tensor", found, minus, meta=meta) if minus else found


def document(rows, chunk, block, dtype, add=0, minus=None, step=None, store=False, mask=False):
    """Chunk i of x [3, rows, 40], from i * step + add - minus on, to or from whole rows of y."""
    step = chunk if step is None else step
    whole, part = [3, chunk, 40], [3, rows, 40]
    doc = Doc(config={"block_sizes": [block]}).tensor("x", "input", dtype, whole if store else part)
    doc.tensor("out", "output", dtype, part if store else whole)
    doc.block(3, size=1).block(chunk)
    g = G(0, grid=[0, 1])
    i = g.call("tile.begin", sym("u0"), meta=sym(None))
    more = g.call("mul", i, step, meta=sym(None))
    more = g.call("add", more, add, meta=sym(None))
    here, meta = [i, line(g, more, minus), sl()], typed(dtype, "u1", 40)
    tile = [i, sym("u1"), sl()]
    shown = None
    if mask:
        low = g.call("aten.lt.Scalar", here[1], rows // 2, meta=typed("bool", "u1"))
        shown = g.call("tile.subscript", low, [sl(), None], meta=typed("bool", "u1", 1))
    value = g.load("x", tile if store else here, meta)
    g.store("out", here if store else tile, value, *([shown] if mask else []))
    return doc.add(g.out())


def ran(found, **config):
    """The text of the document's kernel, which gives what the reference says, bit by bit."""
    text = kit.emitted("kernel", json.dumps(found), **config).out
    dtype = pallasc.reference.values.dtype_of(found["tensors"][0]["dtype"])
    x = normal(*found["tensors"][0]["shape"]).astype(dtype)
    (got,) = pallasc.execute.run(text, x)
    (wanted,) = pallasc.reference.run(found, [x])
    got, wanted = (np.asarray(each, np.float64) for each in (got, wanted))
    written = ~np.isnan(wanted)  # of an output that is not filled
    np.testing.assert_array_equal(got[written], wanted[written])
    assert written.any()
    return text


def walks(found):
    """It goes through the positions."""
    return WALKED in kit.emitted("none", json.dumps(found)).err


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize(
    ("rows", "chunk", "block", "more"),
    [
        (96, 32, 32, {}),
        (96, 32, 16, {}),
        (102, 34, 17, {}),
        (100, 32, 32, {"add": 3}),
        (100, 32, 32, {"add": 9, "minus": 6, "step": 7}),
        (64, 24, 16, {"step": 16}),  # ragged, and its last tile lies in the tensor
    ],
)
def test_loads(rows, chunk, block, more, dtype):
    """A slice at any start, of tiles that divide their range or do not."""
    found = document(rows, chunk, block, dtype, **more)
    assert not walks(found)
    assert "smem" not in ran(found)


def test_aligned_loads_are_blocks():
    """The grid brings each chunk as a block; no index is computed."""
    text = ran(document(96, 32, 32, "float32"))
    assert "in x_ref vmem float32[1, 32, 40] of [3, 96, 40] at (b0, b0, 0)" in text
    assert "iota" not in text


@pytest.mark.parametrize(
    ("rows", "chunk", "block", "more", "walked"),
    [
        (95, 32, 32, {}, False),  # past the end
        (96, 32, 32, {"minus": 1}, False),  # before the start
        (100, 34, 32, {"step": 33}, True),  # ragged, and lanes of its last tile past the end
    ],
)
def test_loads_outside(rows, chunk, block, more, walked):
    """The nearest element is loaded: of a block and its halo, or position by position."""
    found = document(rows, chunk, block, "float32", **more)
    assert walks(found) == walked
    ran(found)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("rows", "chunk", "block", "add"), [(96, 32, 16, 0), (102, 34, 17, 0), (100, 32, 32, 3)]
)
def test_stores(rows, chunk, block, add, dtype):
    """All lanes are written: a slice."""
    found = document(rows, chunk, block, dtype, add=add, store=True)
    assert not walks(found)
    ran(found)


@pytest.mark.parametrize(
    ("rows", "chunk", "block", "mask", "walked"),
    [
        (102, 34, 32, False, False),
        (140, 34, 32, False, False),
        (96, 32, 32, True, True),
        (90, 32, 32, False, True),
    ],
)
def test_stores_of_some(rows, chunk, block, mask, walked):
    """Lanes of a ragged tile are left alone in a slice; under a mask or outside, by position."""
    found = document(rows, chunk, block, "float32", store=True, mask=mask)
    assert walks(found) == walked
    ran(found)
