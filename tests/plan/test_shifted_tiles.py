"""Indices of a tile with an int added: a range of the dim, where it lies in the tensor."""

import kit
import numpy as np
import pytest
from builder import Doc, G, sl, sym, t
from pallasc.aot import compile_many
from simulated import wrong

ALL = sl()


def tiles(dim, rows, by, block, extent, stores, dtype="float32"):
    """out[u0] = x[index + by] or out[index + by] = x[u0], in one of the two dims.

    The grid walks `rows` of them; the other array has `extent`.
    """
    doc, g = Doc(name="shifted", config={"block_sizes": [block]}), G(0, grid=[0])
    doc.block(rows, "tile")
    across = 24 if dim else 256
    sizes = {"x": rows if stores else extent, "out": extent if stores else rows}
    shapes = {k: [across, n] if dim else [n, across] for k, n in sizes.items()}
    doc.tensor("x", "input", dtype, shapes["x"])
    doc.tensor("out", "output", dtype, shapes["out"], init=0)
    index = g.call("tile.index", sym("u0"), meta=t("int32", "u0"))
    at = g.call("aten.add.Tensor", index, by, meta=t("int32", "u0"))
    where = {
        True: [ALL, at] if dim else [at, ALL],
        False: [ALL, sym("u0")] if dim else [sym("u0"), ALL],
    }
    shape = [across, "u0"] if dim else ["u0", across]
    x = g.load("x", where[not stores], t(dtype, *shape))
    g.store("out", where[stores], x)
    given = np.random.default_rng(0).integers(-9, 9, shapes["x"])
    return doc.add(g.out()), [given.astype(dtype)]


def text(document):
    """The kernel in the kernel's text."""
    return kit.emitted("kernel", document).out


@pytest.mark.parametrize("stores", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize(
    ("rows", "by", "block", "extent"), [(64, 8, 16, 96), (60, 3, 16, 70), (256, 128, 128, 512)]
)
def test_they_are_as_the_reference_says(dim, rows, by, block, extent, stores):
    document, given = tiles(dim, rows, by, block, extent, stores)
    assert wrong(document, given=given) == []


@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_other_dtypes(dtype):
    document, given = tiles(0, 64, 40, 32, 130, False, dtype)
    assert wrong(document, given=given) == []


def test_no_position_is_read():
    """A slice stands there; the indices are not computed."""
    document, _ = tiles(0, 64, 8, 16, 96, False)
    assert "iota" not in text(document)
    assert "smem" not in text(document)


@pytest.mark.parametrize(("by", "extent"), [(-1, 96), (40, 96)])
def test_indices_outside_are_the_nearest_ones(by, extent):
    """What may lie before or behind the tensor is a block and its halo (test_halos.py)."""
    document, given = tiles(0, 64, by, 16, extent, False)
    assert wrong(document, given=given) == []
    assert "concatenate" in text(document)


def test_the_compiler_takes_them():
    jobs = []
    for dim, stores, chip in (
        (0, False, "v5e"),
        (0, True, "v6e"),
        (1, False, "v7x"),
        (1, True, "v6e"),
    ):
        jobs.append((kit.compiled(tiles(dim, 1024, 128, 128, 2048, stores)[0], chip), chip))
    for result in compile_many(jobs, timeout=120):
        assert (result.kind, result.message) == ("ok", "")
        assert result.vmem_bytes <= result.predicted_bytes
