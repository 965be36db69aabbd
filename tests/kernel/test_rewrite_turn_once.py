"""The rewrite that turns what several matmuls sum the rows of once, on kernel text: bit for bit."""

import re

import executed
import ml_dtypes
import numpy as np
import pytest

TEXT = """program p for v6e
input x {dtype}[1, 2048, 128]
input p float32[1, 512, 256]
output z float32[4, 128, 256]

kernel k {{
  grid n 2 parallel
  in x_ref vmem {dtype}[1, 2048, 128] of [1, 2048, 128] at (0, 0, 0) buffers 1
  in p_ref vmem float32[1, 512, 256] of [1, 512, 256] at (0, 0, 0) buffers 1
  out z_ref vmem float32[2, 128, 256] of [4, 128, 256] at (n, 0, 0) buffers 2
  turn_once

  n = program_id dim=0 : int
  def summed(p: float32[1, 512, 256], win: vmem {dtype}[1, 512, 128]) {{
    x = load win[...] : {dtype}[1, 512, 128]
    q = convert p : {dtype}[1, 512, 256]
    s = dot x, q a=1 b=1 highest=0 : float32[1, 128, 256]
    {more}
    return s
  }}
  def half(p: float32[1, 256, 256], win_1: vmem {dtype}[1, 256, 128]) {{
    y = load win_1[...] : {dtype}[1, 256, 128]
    q_1 = convert p : {dtype}[1, 256, 256]
    s_1 = dot y, q_1 a=1 b=1 highest=0 : float32[1, 128, 256]
    return s_1
  }}
{body}
}}

host(x, p) {{
  z = launch kernel=0, x, p : float32[4, 128, 256]
  return z
}}
"""
BODY = """
  whole = load p_ref[...] : float32[1, 512, 256]
  part = load p_ref[:, 0 +: 256, :] : float32[1, 256, 256]
  a = call summed(whole, x_ref[:, {a} +: 512, :]) : float32[1, 128, 256]
  b = call half(part, x_ref[:, {b} +: 256, :]) : float32[1, 128, 256]
  c = call summed(whole, x_ref[:, {c} +: 512, :]) : float32[1, 128, 256]
  d = add a, b : float32[1, 128, 256]
  store z_ref[0 +: 1, :, :], d
  store z_ref[1 +: 1, :, :], c
"""
BRANCHES = """
  when (n == 0) first {
    whole = load p_ref[...] : float32[1, 512, 256]
    a = call summed(whole, x_ref[:, 0 +: 512, :]) : float32[1, 128, 256]
    b = call summed(whole, x_ref[:, 128 +: 512, :]) : float32[1, 128, 256]
    store z_ref[0 +: 1, :, :], a
    store z_ref[1 +: 1, :, :], b
  }
  when (n == 1) second {
    whole_1 = load p_ref[...] : float32[1, 512, 256]
    a_1 = call summed(whole_1, x_ref[:, 512 +: 512, :]) : float32[1, 128, 256]
    b_1 = call summed(whole_1, x_ref[:, 256 +: 512, :]) : float32[1, 128, 256]
    store z_ref[0 +: 1, :, :], a_1
    store z_ref[1 +: 1, :, :], b_1
  }
"""


STARTS = {"a": "n * 256", "b": "n * 256 + 256", "c": "256 + n * 256"}


def before(body=BODY, dtype="bfloat16", more="", **starts):
    """The text of some calls.

    Args:
      body: of the kernel.
      dtype: of what is turned.
      more: a statement of one of its functions.
      starts: from which rows on calls of BODY read.
    """
    if body is BODY:
        body = body.format(**STARTS | starts)
    text = TEXT.format(body=body.strip("\n"), dtype=dtype, more=more)
    return text if more else text.replace("    \n", "")


def turned(text, dtype=ml_dtypes.bfloat16):
    """The text after the rewrite, which computes the same."""
    after, draw = executed.rewrite(text, ["turn_once"]), np.random.default_rng(0)
    arrays = [draw.standard_normal((1, 2048, 128)).astype(dtype)]
    arrays.append(draw.standard_normal((1, 512, 256)).astype("f"))
    assert executed.Runs(arrays).differences(text, after) == []
    assert executed.read_again(after) == after
    return after


def stored(text):
    """(first row, rows) of what is turned, in order."""
    found = re.findall(r"store turned_ref\[:, :, (\d+) \+: (\d+)\]", text)
    return [(int(start), int(size)) for start, size in found]


@pytest.mark.parametrize(("dtype", "of"), [("bfloat16", ml_dtypes.bfloat16), ("float32", "f")])
def test_each_row_is_turned_once(dtype, of):
    """Where it is first read; calls that read part of it, or more, read the same."""
    after = turned(before(dtype=dtype), of)
    assert stored(after) == [(0, 512), (512, 256)]
    assert f"scratch turned_ref vmem {dtype}[1, 128, 768]" in after
    assert "call half(part, turned_ref[:, :, 256 +: 256])" in after
    assert "call summed(whole, turned_ref[:, :, 256 +: 512])" in after
    assert after.count("a=2 b=1") == 2


def test_branches_share_the_scratch():
    """Each turns its own rows, from the first that it reads; in the order of its calls."""
    after = turned(before(BRANCHES))
    assert stored(after) == [(0, 512), (512, 128), (256, 512), (0, 256)]
    assert after.count("scratch turned_ref") == 1
    assert "scratch turned_ref vmem bfloat16[1, 128, 768]" in after


@pytest.mark.parametrize(
    "starts",
    [
        {"b": "n * 256 + 1280", "c": "n * 256 + 512"},  # each row is read once
        {"b": "n * 256 + 264"},  # registers do not start there
        {"c": "n * n * 256"},  # how far from the others is not known
    ],
)
def test_others_stay(starts):
    text = before(**starts)
    assert turned(text) == text.replace("  turn_once\n", "")


def test_what_is_read_as_it_is_stays():
    text = before(more="t = mul x, 2.0 : bfloat16[1, 512, 128]")
    assert "turned_ref" not in turned(text)
