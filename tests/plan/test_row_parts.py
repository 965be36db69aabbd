"""Tiles of which a mask keeps a run of rows: no more of them are computed than hold the run."""

import json
import re

import kit
import numpy as np
import pallasc.execute
import pallasc.reference
import pytest
from coverage import row as coverage
from pallasc import compare

LEAST, MOST = np.iinfo(np.int32).min, np.iinfo(np.int32).max
# Ends of the nine groups in 8 blocks, as shares of all rows.
OFFSETS = {
    "uniform": np.linspace(0, 1, 10),
    "zipf": np.cumsum([0, *(1 / np.arange(1, 10))]) / (1 / np.arange(1, 10)).sum(),
    "with empties": np.array([0, 0, 0.3, 0.3, 0.31, 0.7, 0.7, 0.7, 1, 1]),
    "one": np.array([0, 0, 0, 1, 1, 1, 1, 1, 1, 1]),
}


def blocks_of(graph, rows, dtype=None):
    """A worklist's graph of blocks of so many rows, as text."""
    text = re.sub(r"\b32\b", str(rows), json.dumps(kit.document(graph)))
    return text.replace("bfloat16", dtype) if dtype else text


def kernel_text(graph, *options):
    return kit.emitted("kernel", graph, *options).out


def worklist(graph, offsets, blocks=None, groups=None):
    """(document, inputs): all blocks and groups that meet, or a list that is given."""
    document = json.loads(graph)
    names = [p.name for p in coverage.parameters(document)]
    named = dict(zip(names, compare.make_inputs(document, seed=3), strict=True))
    count, rows, _ = named["x"].shape
    ends = np.asarray(offsets)
    ends = ends if ends.dtype == np.int32 else np.rint(ends * count * rows).astype(np.int32)
    met = [
        (b, g)
        for b in range(count)
        for g in range(len(ends) - 1)
        if max(ends[g], b * rows) < min(ends[g + 1], b * rows + rows)
    ]
    met = met if blocks is None else list(zip(blocks, groups, strict=True))
    met = met[:16] + met[-1:] * (16 - len(met))
    named["blocks"], named["groups"] = np.array(met, np.int32).T
    named["offsets"] = ends
    return document, list(named.values())


def check(graph, document, arrays):
    """The same bits as without the rewrite; what the reference says."""
    every = kit.accepted("--print-rewrites").out.split("\n")
    names = [line.split()[0] for line in every if line]
    without = ",".join(name for name in names if name != "parts")
    whole, found = (
        pallasc.execute.run(text, *arrays)[0].astype(np.float32)
        for text in (kernel_text(graph, f"--rewrites={without}"), kernel_text(graph))
    )
    np.testing.assert_array_equal(whole, found)
    want = pallasc.reference.run(document, arrays)[0].astype(np.float32)
    stored = ~np.isnan(found)
    np.testing.assert_allclose(
        found[stored], want[stored], 2e-2, 2e-2 * np.nanmax(np.abs(want), initial=0)
    )
    return stored


@pytest.mark.parametrize(
    ("rows", "sizes"),
    [
        (256, [128]),
        (384, [128, 256]),
        (512, [128, 256, 384]),
        (640, [256, 512]),  # no more than four numbers of rows
        (1024, [256, 512, 768]),
        (128, []),
        (200, []),
    ],
)
@pytest.mark.parametrize("graph", ["experts_worklist", "grouped_worklist"])
def test_numbers_of_rows(graph, rows, sizes):
    text = kernel_text(blocks_of(graph, rows))
    found = [int(size) for size in re.findall(r"\) rows_(\d+) {", text)]
    assert found == sizes
    assert text.count(") whole {") == bool(sizes)
    for size in sizes:
        assert re.search(rf"start\w* = int \(min\(first_row\w*, {rows - size}\)\) : int", text)
        assert re.search(rf"load x_ref\[(\w+, )+start\w* by 32 \+: {size}, :\] : bfloat16", text)


@pytest.mark.parametrize("offsets", list(OFFSETS))
@pytest.mark.parametrize("rows", [256, 640])
@pytest.mark.parametrize("graph", ["experts_worklist", "grouped_worklist"])
def test_values(graph, rows, offsets):
    text = blocks_of(graph, rows)
    stored = check(text, *worklist(text, OFFSETS[offsets]))
    assert stored.all()


@pytest.mark.parametrize("graph", ["experts_worklist", "grouped_worklist"])
def test_parts_of_a_kernel_that_is_read_stay_as_they_are(graph):
    """All of a tile is computed where all of its parts hold the run, in no parts again."""
    text = kernel_text(blocks_of(graph, 512))
    assert text.count(") whole {") == 1
    assert kit.run("-", "--emit=kernel", text=text).out == text
    assert kit.run("-", text=text).out.count("def whole") == 1


def test_float32():
    text = blocks_of("experts_worklist", 256, "float32")
    assert ") rows_128 {" in kernel_text(text)
    assert check(text, *worklist(text, OFFSETS["zipf"])).all()


@pytest.mark.parametrize(
    "offsets",
    [
        [LEAST, 5, 250, 300, 257, 2000, 2000, 1700, MOST, MOST],  # unsorted, far outside
        [MOST, LEAST, MOST, 0, 255, 256, 257, 258, 511, LEAST],
        [0, 31, 32, 33, 127, 128, 129, 160, 161, 256],  # around whole tiles of rows
        [100, 101, 229, 230, 485, 500, 600, 900, 1000, 2048],
    ],
)
@pytest.mark.parametrize(
    "blocks", [[0, 1, 2, 7, 0, 3, 4, 0, 1], [-1, 99, LEAST, MOST, 0, 1, 2, 3, 7]]
)
def test_any_offsets_and_blocks(offsets, blocks):
    """Groups that are not where the list says, blocks that there are not."""
    text = blocks_of("grouped_worklist", 256)
    offsets = np.array(offsets, np.int32)
    check(text, *worklist(text, offsets, blocks, [0, 1, 2, 3, 4, 5, 6, 7, 8]))


# ---- kernels by hand -----------------------------------------------------------------------------

HAND = """program p for v6e
input low int32[2]
input x float32[256, 128]
input w float32[128, 128]
output y float32[256, 128]

kernel k {{
  grid i 1 arbitrary
  in low smem int32[2]
  in x_ref vmem float32[256, 128] of [256, 128] at (0, 0) buffers 2
  in w_ref vmem float32[128, 128] of [128, 128] at (0, 0) buffers 2
  out y_ref vmem float32[256, 128] of [256, 128] at (0, 0) buffers 2

  a = load low[0] : int32
  b = load low[1] : int32
  x = load x_ref[...] : float32[256, 128]
  w = load w_ref[...] : float32[128, 128]
  y = dot x, w a=1 b=0 highest=1 : float32[256, 128]
  numbers = iota axis=1 : int32[1, 256] row
  row = add b, numbers : int32[1, 256] row
  {mask}
  own = to_column mask : bool[256, 1]
  %1 = convert own : int32[256, 1]
  %2 = broadcast %1 : int32[256, 128]
  %3 = convert %2 : bool[256, 128]
  old = load y_ref[...] : float32[256, 128]
  new = where %3, {new}, old : float32[256, 128]
  store y_ref[...], new
}}

host(low, x, w) {{
  y = launch kernel=0, low, x, w : float32[256, 128]
  return y
}}
"""
LOW = "mask = ge row, a : bool[1, 256] row"


@pytest.mark.parametrize(
    ("mask", "keeps"),
    [
        (LOW, lambda row, a: row >= a),
        ("mask = lt row, a : bool[1, 256] row", lambda row, a: row < a),
        ("mask = le a, row : bool[1, 256] row", lambda row, a: row >= a),
        ("mask = gt a, row : bool[1, 256] row", lambda row, a: row < a),
        ("mask = lt row, 400 : bool[1, 256] row", lambda row, a: row < 400),
    ],
)
@pytest.mark.parametrize("a", [LEAST, 0, 130, 260, 300, 555, MOST - 130, MOST])
@pytest.mark.parametrize("b", [LEAST, -128, 300, MOST - 256, MOST - 255, MOST - 40])
def test_masks_by_hand(mask, keeps, a, b, tmp_path):
    """Bounds on either side; numbers of rows that pass the largest int start again at the least."""
    path = tmp_path / "hand.kernel"
    path.write_text(HAND.format(mask=mask, new="y"))
    text = kit.accepted(path, "--rewrites=parts", "--emit=kernel").out
    assert text.count(") rows_128 {") == text.count(") whole {") == 1
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((n, 128)).astype(np.float32) for n in (256, 128))
    (found,) = pallasc.execute.run(text, np.array([a, b], np.int32), x, w)
    with np.errstate(over="ignore"):
        row = np.int32(b) + np.arange(256, dtype=np.int32)
    kept = keeps(row, a)
    np.testing.assert_allclose(found[kept], (x @ w)[kept], 1e-4, 1e-4)
    assert np.isnan(found[~kept]).all()


@pytest.mark.parametrize(
    ("mask", "new", "changes"),
    [
        ("mask = eq row, a : bool[1, 256] row", "y", {}),  # no bound
        (LOW, "x", {}),  # no matmul
        (LOW, "z", {"  old": "  z = sum y keep=1 axes=(0) : float32[1, 128]\n  old"}),
        (LOW, "z", {"  old": "  z = dot x, y a=1 b=1 highest=1 : float32[256, 256]\n  old"}),
        (LOW, "y", {"  old": "  store y_ref[...], y\n  old"}),  # what stands there is another
        (LOW, "y", {"y_ref[...], new": "y_ref[...], y"}),  # all rows are stored
    ],
)
def test_what_is_computed_whole(mask, new, changes, tmp_path):
    text = HAND.format(mask=mask, new=new)
    for old, other in changes.items():
        text = text.replace(old, other, 1)
    if "float32[256, 256]" in text:
        text = text.replace(
            "%2 = broadcast %1 : int32[256, 128]", "%2 = broadcast %1 : int32[256, 256]"
        )
    path = tmp_path / "hand.kernel"
    path.write_text(text)
    found = kit.run(path, "--rewrites=parts", "--emit=kernel")
    assert "whole {" not in found.out


def test_a_rewrite_that_finds_nothing_changes_nothing():
    before = kernel_text(kit.text("attention"), "--rewrites=")
    assert kernel_text(kit.text("attention"), "--rewrites=parts") == before
