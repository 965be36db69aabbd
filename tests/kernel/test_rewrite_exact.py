"""The rewrite that leaves out roundings of what is exact already, on kernel text."""

import executed
import ml_dtypes
import numpy as np
import pytest

HEAD = """program p for v6e
input x bfloat16[8, 256]
input z float32[8, 256]
output y float32[8, 256]

kernel k {
  in x_ref vmem bfloat16[8, 256] of [8, 256] at (0, 0) buffers 1
  in z_ref vmem float32[8, 256] of [8, 256] at (0, 0) buffers 1
  out y_ref vmem float32[8, 256] of [8, 256] at (0, 0) buffers 1
  scratch rows_ref vmem float32[8, 256]
"""
HOST = """}

host(x, z) {
  y = launch kernel=0, x, z : float32[8, 256]
  return y
}
"""


def exact(body):
    """The statements after the rewrite, which computes what was computed, bit by bit."""
    before = HEAD + "".join(f"  {line}\n" for line in body.strip().splitlines()) + HOST
    after = executed.rewrite(executed.rewrite(before, ["exact"]), ["tidy"])  # text between them
    values = np.random.default_rng(0).standard_normal((2, 8, 256), "float32")
    values[:, 0, :4] = np.nan, np.inf, -0.0, 1e-40
    arrays = [values[0].astype(ml_dtypes.bfloat16), values[1]]
    assert executed.Runs(arrays).differences(before, after, 0, 0) == []
    assert executed.read_again(after) == after
    inside = after.split("rows_ref vmem float32[8, 256]\n")[1].split("\n}\n")[0]
    return [line.removeprefix("  ") for line in inside.splitlines() if line.strip()]


ROWS = """
wide = convert {from} : float32[8, 256]
store rows_ref[...], wide
%1 = load x_ref[...] : bfloat16[8, 256]
%2 = convert %1 : float32[8, 256]
row = load rows_ref[3 +: 1, :] : float32[1, 256]
%3 = convert row : bfloat16[1, 256]
%4 = convert %3 : float32[1, 256]
new = within %2, %4, 5 axis=0 count=1 : float32[8, 256]
%5 = convert new : bfloat16[8, 256]
%6 = convert %5 : float32[8, 256]
store y_ref[...], %6
"""


def rows(source):
    """A row of what stands in scratch is put among those of x."""
    return f"narrow = {source}\n" + ROWS.strip().replace("{from}", "narrow")


def test_a_row_of_scratch_stays_as_it_is():
    """Both the row and what it is put into were bfloat16."""
    assert exact(rows("load x_ref[...] : bfloat16[8, 256]")) == [
        "narrow = load x_ref[...] : bfloat16[8, 256]",
        "wide = convert narrow : float32[8, 256]",
        "store rows_ref[...], wide",
        "%1 = load x_ref[...] : bfloat16[8, 256]",
        "%2 = convert %1 : float32[8, 256]",
        "row = load rows_ref[3 +: 1, :] : float32[1, 256]",
        "new = within %2, row, 5 axis=0 count=1 : float32[8, 256]",
        "store y_ref[...], new",
    ]


def test_what_has_no_variable_takes_one():
    """Where it is read, something else may have been stored."""
    lines = exact("""
%1 = load x_ref[...] : bfloat16[8, 256]
%2 = convert %1 : float32[8, 256]
%3 = neg %2 : float32[8, 256]
%4 = maximum %2, 0.0 : float32[8, 256]
%5 = convert %4 : bfloat16[8, 256]
again = convert %5 : float32[8, 256]
store y_ref[...], %3
store y_ref[...], again
""")
    assert "again = maximum %2, 0.0 : float32[8, 256]" in lines
    assert lines[-1] == "store y_ref[...], again"


def test_what_is_rounded_keeps_its_variable():
    """The value before it would like the same, and something else reads it."""
    lines = exact("""
%1 = load x_ref[...] : bfloat16[8, 256]
%2 = convert %1 : float32[8, 256]
%3 = maximum %2, 0.0 : float32[8, 256]
half = convert %3 : bfloat16[8, 256]
wide = convert half : float32[8, 256]
%4 = add half, half : bfloat16[8, 256]
%5 = convert %4 : float32[8, 256]
%6 = add wide, %5 : float32[8, 256]
store y_ref[...], %6
""")
    assert lines[2:4] == [
        "wide = maximum %2, 0.0 : float32[8, 256]",
        "half = convert wide : bfloat16[8, 256]",
    ]


def rounded(made):
    """`made` of what was bfloat16 is rounded to it, and stored."""
    return f"""
%1 = load x_ref[...] : bfloat16[8, 256]
%2 = convert %1 : float32[8, 256]
%3 = {made} : float32[8, 256]
%4 = convert %3 : bfloat16[8, 256]
%5 = convert %4 : float32[8, 256]
store y_ref[...], %5
"""


WIDE = "load z_ref[...] : float32[8, 256]"
OTHER = {
    "scratch that holds float32 too": rows("load x_ref[...] : bfloat16[8, 256]").replace(
        "%1 = load", f"other = {WIDE}\nstore rows_ref[...], other\n%1 = load"
    ),
    "scratch of wide values": f"narrow = {WIDE}\n" + ROWS.strip().replace("{from}", "narrow"),
    "sums": rounded("add %2, %2"),
    "numbers that it may not hold": rounded("maximum %2, 1.00390625"),
    "whole numbers that it may not hold": rounded("maximum %2, 257"),
    "another narrow float": """
%1 = load x_ref[...] : bfloat16[8, 256]
%2 = convert %1 : float32[8, 256]
%3 = convert %2 : float8_e5m2[8, 256]
%4 = convert %3 : float32[8, 256]
store y_ref[...], %4
""",
}


@pytest.mark.parametrize("why", OTHER)
def test_what_is_rounded(why):
    left = [line for line in exact(OTHER[why]) if "convert" in line and "float32" not in line]
    assert left, why
