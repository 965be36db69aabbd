"""The rewrite that computes in bfloat16 what is rounded to it, on kernel text: bit for bit."""

import executed
import ml_dtypes
import numpy as np
import pytest

TEXT = """program p for v6e
input x bfloat16[256, 128]
input y bfloat16[{rows}, 128]
output z bfloat16[256, 128]

kernel k {{
  in x_ref vmem bfloat16[256, 128] of [256, 128] at (0, 0) buffers 1
  in y_ref vmem bfloat16[{rows}, 128] of [{rows}, 128] at (0, 0) buffers 1
  out z_ref vmem bfloat16[256, 128] of [256, 128] at (0, 0) buffers 1
  narrow

  x = load x_ref[...] : bfloat16[256, 128]
  a = convert x : float32[256, 128]
  y = load y_ref[...] : bfloat16[{rows}, 128]{layout}
  b = convert y : float32[{rows}, 128]{layout}
  c = {op} a, {second} : float32[256, 128]
  {more}
  z = convert c : bfloat16[256, 128]
  store z_ref[...], z
}}

host(x, y) {{
  z = launch kernel=0, x, y : bfloat16[256, 128]
  return z
}}
"""


def numbers(shape, seed):
    """bfloat16 of all exponents, and what has none."""
    draw = np.random.default_rng(seed)
    bits = draw.integers(0, 1 << 16, shape).astype(np.uint16)
    found = bits.view(ml_dtypes.bfloat16)
    tiny = np.abs(found.astype(np.float32)) < 2.0**-60
    return np.where(tiny | ~np.isfinite(found.astype(np.float32)), 1, found)


def rewritten(op, rows=256, second="b", more=""):
    layout = " row" if rows == 1 else ""
    before = TEXT.format(op=op, rows=rows, second=second, more=more, layout=layout)
    after = executed.rewrite(before.replace("  \n", ""), ["narrow"])
    arrays = [numbers((256, 128), 0), numbers((rows, 128), 1)]
    with np.errstate(all="ignore"):
        assert executed.Runs(arrays).differences(before.replace("  \n", ""), after) == []
    assert executed.read_again(after) == after
    return after


@pytest.mark.parametrize("rows", [1, 256])
@pytest.mark.parametrize("op", ["mul", "add", "sub"])
def test_it_is_computed_in_bfloat16(op, rows):
    after = rewritten(op, rows)
    assert f"z = {op} x, y : bfloat16[256, 128]" in after
    assert "convert" not in after


@pytest.mark.parametrize(
    ("op", "second", "more"),
    [("div", "b", ""), ("mul", "0.5", ""), ("add", "b", "store w_ref[...], c")],
)
def test_others_stay_in_float32(op, second, more):
    """A quotient, a number of float32, what is read as it is."""
    if more:  # read twice
        second, more = "b", "c = mul c, c : float32[256, 128]"
    assert f"{op} a, {second} : float32[256, 128]" in rewritten(op, second=second, more=more)
