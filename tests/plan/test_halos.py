"""Tiles that start between blocks, or reach past their tensor: a block of the grid and its halo."""

import json

import kit
import numpy as np
import pallasc.execute
import pallasc.reference
import pytest
from builder import Doc, G, sl, sym, t
from pallasc.aot import compile_many
from simulated import wrong

WALKED = "one position after the other"
NEAREST = "keep"  # what chooses the nearest element, in the kernel's text


def shifted(
    shape, blocks, by, dtype="float32", dim=0, extent=None, masks=(), total=False, first=False
):
    """out[tile] = the sum over `by` of x[tile], shifted by that in dim `dim`; x has `extent` there.

    masks: what an index must be at least for the load of each shift; `first` it gets all dims, and
    then is compared. total: sums over the dim.
    """
    rank, sizes = len(shape), [f"u{i}" for i in range(len(shape))]
    source = [*shape[:dim], extent or shape[dim], *shape[dim + 1 :]]
    kept = [1 if total and i == dim else n for i, n in enumerate(shape)]
    doc = Doc(name="shifted", config={"block_sizes": list(blocks), "pallas_wide_blocks": "off"})
    doc.tensor("x", "input", dtype, source).tensor("out", "output", dtype, kept)
    for i, n in enumerate(shape):
        doc.block(n, f"tile_{i}")
    g, sums, along = G(0, grid=[*range(rank)]), None, [sizes[dim]]
    for k, shift in enumerate(by):
        index = g.call("tile.index", sym(sizes[dim]), meta=t("int32", *along))
        at = g.call("aten.add.Tensor", index, shift, meta=t("int32", *along))
        shown = None
        if masks:
            whole, one = [None] * rank, [1] * rank
            whole[dim], one[dim] = sl(), sizes[dim]
            if first:
                shown = g.call("tile.subscript", index, whole, meta=t("int32", *one))
                shown = g.call("aten.ge.Scalar", shown, masks[k], meta=t("bool", *one))
            else:
                shown = g.call("aten.ge.Scalar", index, masks[k], meta=t("bool", *along))
                shown = g.call("tile.subscript", shown, whole, meta=t("bool", *one))
        where = [at if i == dim else sym(size) for i, size in enumerate(sizes)]
        x = g.load("x", where, t(dtype, *sizes), *([shown] if masks else []))
        sums = x if sums is None else g.call("aten.add.Tensor", sums, x, meta=t(dtype, *sizes))
    to = [sym(size) for size in sizes]
    if total:
        some = [1 if i == dim else size for i, size in enumerate(sizes)]
        sums = g.call("aten.sum.dim_IntList", sums, [dim], True, meta=t(dtype, *some))
        to[dim] = sl()
    g.store("out", to, sums)
    return doc.add(g.out())


def inputs(document):
    tensor = document["tensors"][0]
    x = np.random.default_rng(0).integers(-9, 9, tensor["shape"])
    return [x.astype(pallasc.reference.values.dtype_of(tensor["dtype"]))]


def ran(document, target="v6e"):
    """The text of the document's kernel, which gives what the reference says, bit by bit."""
    text = kit.emitted("kernel", json.dumps(document), f"--target={target}").out
    (got,) = pallasc.execute.run(text, *inputs(document))
    (wanted,) = pallasc.reference.run(document, inputs(document))
    np.testing.assert_array_equal(np.asarray(got, np.float64), np.asarray(wanted, np.float64))
    return text


def walks(document):
    return WALKED in kit.emitted("none", json.dumps(document)).err


SHIFTS = [-1, -3, -8, -17, -32, -33, -70, -500, 1, 5, 31, 32, 40, 90, 500]


@pytest.mark.parametrize("rows", [128, 96, 120, 100])
@pytest.mark.parametrize("by", SHIFTS)
def test_rows(by, rows):
    """Any distance, of tiles that divide their tensor or do not."""
    document = shifted([rows, 128], [32, 128], [by])
    assert not walks(document)
    assert "smem" not in ran(document)


@pytest.mark.parametrize("by", [-3, 5])
def test_rows_of_a_derived_tensor(by):
    """Nothing writes it either."""
    document = shifted([100, 128], [32, 128], [by])
    source = document["tensors"][0]
    given = dict(source, name="y")
    source |= {"role": "derived", "of": "y", "ops": [["aten.neg.default"]]}
    document["tensors"].insert(0, given)
    assert not walks(document)
    assert wrong(document) == []


@pytest.mark.parametrize("extent", [40, 64, 97, 130, 300])
@pytest.mark.parametrize("by", [0, -3, 3, 40, -40])
def test_ranges_of_another_length(by, extent):
    """Tiles of a range that ends before its tensor, or long after it."""
    ran(shifted([100, 128], [32, 128], [by], extent=extent))


@pytest.mark.parametrize("by", [-3, 3])
@pytest.mark.parametrize(("shape", "blocks", "dim"), [([300], [128], 0), ([48, 300], [16, 128], 1)])
def test_lanes_are_gathered(shape, blocks, dim, by):
    assert "concatenate" not in ran(shifted(shape, blocks, [by], dim=dim))


@pytest.mark.parametrize("by", [-1, 2, 7])
@pytest.mark.parametrize("shape", [[6, 16, 128], [7, 13, 72]])
def test_dims_before_the_tiled_ones(shape, by):
    document = shifted(shape, [2, *shape[1:]], [by])
    assert not walks(document)
    ran(document)


@pytest.mark.parametrize("by", [-2, 3, -100, 60])
def test_whole_dims(by):
    """One tile is all of the dim."""
    ran(shifted([50, 72], [50, 72], [by]))
    ran(shifted([50, 72], [64, 72], [by]))


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "int32", "uint8", "int16", "bool"])
def test_dtypes(dtype):
    document = shifted([100, 300], [64, 300], [-3] if dtype == "bool" else [-3, 5], dtype)
    assert not walks(document)
    ran(document)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("masks", [(0, 1, 2, 3), (0, 0, 2, 2), (5, 5, 5, 5)])
def test_masks(masks, first):
    """Where a mask hides what lies outside, nothing is chosen there."""
    by = [0, -1, -2, -3]
    document = shifted([100, 128], [32, 128], by, "bfloat16", masks=masks, first=first)
    hidden = all(mask >= k for k, mask in enumerate(masks))
    assert (NEAREST not in ran(document)) == hidden


def test_loads_share_their_blocks():
    """Four shifts of a tensor are one block and one halo."""
    text = ran(shifted([128, 128], [32, 128], [0, -1, -2, -3], masks=(0, 1, 2, 3)))
    assert text.count("  in x_ref") == 2
    assert "vmem float32[8, 128] of [128, 128] at (max(tile_0 * 4 - 1, 0), 0)" in text


@pytest.mark.parametrize("by", [-3, 3])
def test_lanes_past_the_range_are_zero(by):
    """A sum over the dim reads all lanes of its ragged tile."""
    ran(shifted([100, 128], [100, 128], [by], extent=140, total=True))
    ran(shifted([100, 128], [128, 128], [by], extent=140, total=True))


SIMULATED = {
    "rows": shifted([100, 200], [32, 200], [0, -1, -2, -3], "bfloat16", masks=(0, 1, 2, 3)),
    "nearest": shifted([100, 200], [32, 200], [-9, 40], "float32"),
    "ints": shifted([100, 300], [32, 128], [-1, 2], "int32"),
    "bytes": shifted([100, 256], [64, 128], [-3], "int8"),
    "blocks": shifted([7, 13, 72], [2, 13, 72], [-1]),
}


@pytest.mark.parametrize("case", SIMULATED)
def test_simulated(case):
    """Nothing outside a tensor is touched."""
    assert wrong(SIMULATED[case], given=inputs(SIMULATED[case])) == []


def test_the_compiler_takes_them():
    chips = ["v5e", "v6e", "v7x"]
    cases = [
        *SIMULATED.values(),
        shifted([1024, 512], [256, 256], [-3, 3], "bool"),
        shifted([1024, 512], [256, 256], [-3, 3], "float8_e4m3fn"),
        shifted([1024, 512], [256, 256], [-3, 300], "uint8"),
        shifted([1024, 512], [256, 256], [-300, 2], "bfloat16"),
        shifted([1, 512, 128], [1, 128, 128], [-1, 1, -128], "int16", 1),
    ]
    jobs = [(kit.compiled(case, chips[i % 3]), chips[i % 3]) for i, case in enumerate(cases)]
    for result in compile_many(jobs, timeout=120):
        assert (result.kind, result.message) == ("ok", "")
        assert result.vmem_bytes <= result.predicted_bytes
