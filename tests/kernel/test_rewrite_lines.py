"""The rewrite of rows that the wrapper makes of 1-D arrays, and the other way round."""

import executed
import ml_dtypes
import numpy as np
import pytest

TEXT = """program p for v6e
input x float32[64, {n}]
input w {dtype}[{n}]
output z float32[64, {n}]
output v {dtype}[{n}]

kernel k {{{grid}
  in x_ref vmem float32[64, {n}] of [64, {n}] at (0, 0) buffers 1
  in w_ref vmem {dtype}[1, {n}] of [1, {n}] at (0, 0) buffers 1
  out z_ref vmem float32[64, {n}] of [64, {n}] at (0, 0) buffers 1
  out v_ref vmem {dtype}[1, {n}] of [1, {n}] at (0, 0) buffers 1

  x = load x_ref[...] : float32[64, {n}]
  w = load {w} row
  wide = convert w : float32[1, {n}] row
  y = mul x, wide : float32[64, {n}]
  store z_ref[...], y
  s = sum x keep=1 axes=(0) : float32[1, {n}] row
  v = convert s : {dtype}[1, {n}] row
  store v_ref[...], v
}}

host(x, w) {{
  {host}
  return z, line
}}
"""
HOST = """row = reshape w : {dtype}[1, {n}]
  z, v = launch kernel=0, x, row : float32[64, {n}], {dtype}[1, {n}]
  line = reshape v : {dtype}[{n}]"""


def text(n=2048, dtype="bfloat16", grid="", w="w_ref[...] : {dtype}[1, {n}]", host=HOST):
    words = {"n": n, "dtype": dtype}
    return executed.read_again(
        TEXT.format(grid=grid, w=w.format(**words), host=host.format(**words), **words)
    )


def arrays(n):
    draw = np.random.default_rng(0)
    wide = draw.standard_normal(n).astype(ml_dtypes.bfloat16)
    return [draw.standard_normal((64, n)).astype(np.float32), wide]


@pytest.mark.parametrize("n", [1024, 10240])
def test_they_are_lines_in_the_kernel(n):
    before = text(n)
    after = executed.rewrite(before, ["lines"])
    assert f"in w_ref vmem bfloat16[{n}] of [{n}] at (0)" in after
    assert f"out v_ref vmem bfloat16[{n}] of [{n}] at (0)" in after
    assert after.split("host(")[1].count("reshape") == 0
    assert after.count("reshape") == 2
    assert executed.Runs(arrays(n)).differences(before, after) == []
    assert executed.read_again(after) == after


@pytest.mark.parametrize(
    "changed",
    [
        {"n": 512},
        {"dtype": "float32"},
        {"grid": "\n  grid m 1 arbitrary"},
    ],
)
def test_others_stay(changed):
    """Part of a tile, 32 bits, which lie alike, windows of a grid."""
    before = text(**changed)
    assert before.startswith("program")
    assert executed.rewrite(before, ["lines"]) == before


def test_what_the_wrapper_reads_as_a_row_stays_one():
    """What makes a row of something else, too; a result that is read twice."""
    more = HOST + "\n  twice = add v, v : {dtype}[1, {n}]"
    before = text(host=more).replace("return z, line", "return z, line, twice")
    after = executed.rewrite(
        before.replace("\n\nkernel", "\noutput u bfloat16[1, 2048]\n\nkernel"), ["lines"]
    )
    assert "in w_ref vmem bfloat16[2048]" in after
    assert "out v_ref vmem bfloat16[1, 2048]" in after


COPIED = """program p for v6e
input x float32[64, 2048]
input w bfloat16[2048]
output z float32[64, 2048]

kernel k {
  grid m 8 arbitrary
  in x_ref vmem float32[8, 2048] of [64, 2048] at (m, 0) buffers 3
  in w_ref vmem bfloat16[1, 2048] of [1, 2048] at (0, 0) buffers 1
  out z_ref vmem float32[8, 2048] of [64, 2048] at (m, 0) buffers 3

  x = load x_ref[...] : float32[8, 2048]
  w = load w_ref[...] : bfloat16[1, 2048] row
  wide = convert w : float32[1, 2048] row
  y = mul x, wide : float32[8, 2048]
  store z_ref[...], y
}

host(x, w) {
  row = reshape w : bfloat16[1, 2048]
  z = launch kernel=0, x, row : float32[64, 2048]
  return z
}
"""


def test_an_input_that_the_kernel_copies():
    """It comes to a line in scratch, and its row is made where it has come."""
    before = executed.rewrite(executed.read_again(COPIED), ["grid_loop"])
    assert "in w_hbm hbm bfloat16[1, 2048]" in before
    after = executed.rewrite(executed.read_again(COPIED), ["grid_loop", "lines"])
    assert "in w_hbm hbm bfloat16[2048]" in after
    assert "scratch w_line_ref vmem bfloat16[2048]" in after
    order = ("copy w_hbm[...], w_line_ref[...]", "wait w_comes", "load w_line_ref[...]")
    order += ("reshape", "store w_ref[...]", "def body(")
    assert [after.index(words) for words in order] == sorted(after.index(words) for words in order)
    assert executed.Runs(arrays(2048)).differences(COPIED, after) == []
    assert executed.read_again(after) == after


def test_what_is_copied_twice_stays_a_row():
    before = executed.rewrite(executed.read_again(COPIED), ["grid_loop"])
    more = """wait w_comes
  again = copy w_hbm[...], w_ref[...], w_sem[0] : copy
  start again
  wait again"""
    twice = executed.read_again(before.replace("wait w_comes", more))
    assert executed.rewrite(twice, ["lines"]) == twice
