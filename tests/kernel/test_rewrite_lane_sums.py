"""The rewrite that keeps carried sums of rows in 128 lanes, on kernel text."""

import executed
import numpy as np
import pytest

TEXT = """program p for v6e
input x float32[16, 768]
input label int32[16, 1]
output y float32[16, 128]

kernel k {{
  in x_ref vmem float32[16, 768] of [16, 768] at (0, 0) buffers 1
  in label_ref vmem int32[16, 1] of [16, 1] at (0, 0) buffers 1
  out y_ref vmem float32[16, 128] of [16, 128] at (0, 0) buffers 1
  %1 = zeros : float32[16, {wide}] initial
  s_2 = loop step(j) fori_loop step j carry (s = %1) : float32[16, {wide}] {{
    dim j steps (3) full 3 tail 0 size 256
    lane_sums
    window w vmem float32[16, 256] of x_ref in at (0, j) buffers 0
    label = load label_ref[...] : int32[16, 1]
    x = load w[...] : float32[16, 256]
{body}
    yield s_1
  }}
  %9 = broadcast s_2 : float32[16, 128]
  store y_ref[...], %9
}}

host(x, label) {{
  y = launch kernel=0, x, label : float32[16, 128]
  return y
}}
"""
SUM = """
%2 = sum x keep=1 axes=(1) : float32[16, 1]
s_1 = add s, %2 : float32[16, {wide}]
"""
SCALED = """
%2 = max x keep=1 axes=(1) : float32[16, 1]
%3 = exp %2 : float32[16, 1]
%4 = mul s, %3 : float32[16, {wide}]
%5 = sum x keep=1 axes=(1) : float32[16, 1]
s_1 = add %4, %5 : float32[16, {wide}]
"""
UNEQUAL = """
%2 = index x items=[:, 0:128] : float32[16, 128]
%3 = mul s, %2 : float32[16, {wide}]
%4 = sum x keep=1 axes=(1) : float32[16, 1]
s_1 = add %3, %4 : float32[16, {wide}]
"""
CHOSEN = """
%2 = iota axis=1 : int32[1, 256]
at = add (j * {stride}), %2 : int32[1, 256] row
hit = eq at, label : bool[16, 256]
%3 = where hit, x, 0.0 : float32[16, 256]
%4 = mask %3, (600 - j * 256), 0 axis=1 : float32[16, 256]
%5 = sum %4 keep=1 axes=(1) : float32[16, 1]
s_1 = add s, %5 : float32[16, 1]
"""


def text_of(body, wide=1, stride=256):
    """Kernel text with this body of a step."""
    lines = body.format(wide=wide, stride=stride).strip().splitlines()
    return TEXT.format(wide=wide, body="\n".join(f"    {line}" for line in lines))


def rewritten(before):
    """The text after the rewrite, which computes the same but for the order of sums."""
    after = executed.rewrite(before, ["lane_sums", "tidy"])
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal((16, 768)).astype("float32"),
        rng.integers(-3, 800, (16, 1)).astype("int32"),
    ]
    assert executed.Runs(arrays).differences(before, after, 1e-5, 1e-4) == []
    assert executed.read_again(after) == after
    return after


def test_a_sum_is_kept_in_128_lanes():
    after = rewritten(text_of(SUM))
    assert "s_1 = fold_sum s, x : float32[16, 128]" in after
    assert "keep=1 axes=(1) : float32[16, 1]" in after.split("yield")[1]
    assert "sum x" not in after


@pytest.mark.parametrize("wide", [1, 128])
def test_a_scaled_sum_is_where_lanes_are_scaled_alike(wide):
    after = rewritten(text_of(SCALED, wide))
    assert "s_1 = fold_sum %" in after


def test_lanes_that_are_scaled_each_by_itself_stay():
    assert "fold" not in rewritten(text_of(UNEQUAL, 128))


def test_what_is_chosen_by_its_column_is_chosen_in_its_lane():
    after = rewritten(text_of(CHOSEN))
    assert "= fold_where s, hit, %" in after
    assert "where hit" not in after
    assert "mask x, (600 - j * 256), 0 axis=1" in after


def test_columns_that_two_steps_count_are_added():
    after = rewritten(text_of(CHOSEN, stride=128))
    assert "fold_sum s, " in after
    assert "fold_where" not in after
