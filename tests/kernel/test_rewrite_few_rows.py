"""The rewrite of packed columns in few rows, on kernel text."""

import executed
import ml_dtypes
import numpy as np
import pytest

TEXT = """program p for v6e
input x {dtype}[{rows}, 1]
output y {wide}[{rows}, {lanes}]

kernel k {{
  in x_ref vmem {dtype}[{rows}, 1] of [{rows}, 1] at (0, 0) buffers 1
  out y_ref vmem {wide}[{rows}, {lanes}] of [{rows}, {lanes}] at (0, 0) buffers 1

  x = load x_ref[...] : {dtype}[{rows}, 1]
  %1 = convert x : {wide}[{rows}, 1]
  %2 = add %1, 1 : {wide}[{rows}, 1]
  %3 = full 2 : {wide}[{rows}, {lanes}]
  y = mul %2, %3 : {wide}[{rows}, {lanes}]
  store y_ref[...], y
}}

host(x) {{
  y = launch kernel=0, x : {wide}[{rows}, {lanes}]
  return y
}}
"""


def rewritten(dtype, rows, lanes):
    """Lines of the kernel after the rewrite, which leaves the values to the last bit."""
    wide = "int32" if "int" in dtype else "float32"
    before = TEXT.format(dtype=dtype, wide=wide, rows=rows, lanes=lanes)
    after = executed.rewrite(before, ["few_rows"])
    values = np.random.default_rng(0).integers(-4, 4, (rows, 1))
    arrays = [values.astype(getattr(ml_dtypes, dtype, dtype))]
    assert executed.Runs(arrays).differences(before, after) == []
    assert executed.read_again(after) == after
    return [line.strip() for line in after.splitlines()]


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int16", "int8"])
@pytest.mark.parametrize("rows", [1, 2, 4])
def test_spread_over_two_registers(dtype, rows):
    lines = rewritten(dtype, rows, 129)
    wide, zero = ("int32", "0") if "int" in dtype else ("float32", "0.0")
    assert f"%3 = iota axis=0 : int32[{rows}, 1]" in lines
    assert f"%4 = ge %3, 0 : bool[{rows}, 1]" in lines
    assert f"%5 = where %4, %2, {zero} : {wide}[{rows}, 1]" in lines
    assert f"x = convert %5 : {dtype}[{rows}, 1]" in lines


@pytest.mark.parametrize(
    ("dtype", "rows", "lanes"), [("bfloat16", 2, 128), ("bfloat16", 5, 256), ("float32", 2, 256)]
)
def test_others_stay(dtype, rows, lanes):
    assert not any("iota" in line for line in rewritten(dtype, rows, lanes))
