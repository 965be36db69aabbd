"""The rewrite that turns rows spread over all lanes, on kernel text: what it makes, what not."""

import executed
import numpy as np
import pytest

TEXT = """program p for v6e
input x float32[128, 128]
input w float32[128, {wide}]
input r {dtype}[1, 128]
output y float32[128, {wide}]

kernel k {{
  in x_ref vmem float32[128, 128] of [128, 128] at (0, 0) buffers 1
  in w_ref vmem float32[128, {wide}] of [128, {wide}] at (0, 0) buffers 1
  in r_ref vmem {dtype}[1, 128] of [1, 128] at (0, 0) buffers 1
  out y_ref vmem float32[128, {wide}] of [128, {wide}] at (0, 0) buffers 1

  def step() {{
    x = load x_ref[...] : float32[128, 128]
    w = load w_ref[...] : float32[128, {wide}]
    r = load r_ref[...] : {dtype}[1, 128]
{body}
    store y_ref[...], y
  }}
  call step()
}}

host(x, w, r) {{
  y = launch kernel=0, x, w, r : float32[128, {wide}]
  return y
}}
"""
MEETS = """
s = dot x, w a=1 b=0 highest=1 : float32[128, {wide}]
c = to_column r : float32[128, 1]
y = sub s, c : float32[128, {wide}]
"""


def rewritten(body, wide=256, dtype="float32"):
    """The lines of the step after the rewrite, which leaves the values to the last bit."""
    lines = "\n".join(f"    {line}" for line in body.format(wide=wide).strip().splitlines())
    before = TEXT.format(body=lines, wide=wide, dtype=dtype)
    after = executed.rewrite(before, ["columns"])
    draw = np.random.default_rng(0).standard_normal
    arrays = [draw(shape).astype("float32") for shape in ((128, 128), (128, wide), (1, 128))]
    assert executed.Runs(arrays).differences(before, after) == []
    assert executed.read_again(after) == after
    inside = after.split("def step() {\n")[1].split("\n  }")[0]
    return [line.strip() for line in inside.splitlines()][3:-1]


def test_beside_a_wider_tile_it_stands_several_times():
    assert rewritten(MEETS) == [
        "s = dot x, w a=1 b=0 highest=1 : float32[128, 256]",
        "%1 = broadcast r : float32[128, 128]",
        "c = swapaxes %1 a=0 b=1 : float32[128, 128]",
        "%2 = tile c times=(1, 2) : float32[128, 256]",
        "y = sub s, %2 : float32[128, 256]",
    ]


def test_beside_128_columns_it_stands_as_it_is():
    assert rewritten(MEETS, wide=128)[1:] == [
        "%1 = broadcast r : float32[128, 128]",
        "c = swapaxes %1 a=0 b=1 : float32[128, 128]",
        "y = sub s, c : float32[128, 128]",
    ]


@pytest.mark.parametrize(
    "body",
    [
        # What is beside it is no product; it is stored or moved as a column, too.
        "c = to_column r : float32[128, 1]\ny = sub w, c : float32[128, {wide}]",
        MEETS.replace("y =", "z =") + "d = neg c : float32[128, 1]\n"
        "y = sub z, d : float32[128, {wide}]",
    ],
)
def test_other_columns_stay(body):
    assert "c = to_column r : float32[128, 1]" in rewritten(body)


def test_registers_that_are_not_full_stay():
    assert "c = to_column r : float32[128, 1]" in rewritten(MEETS, wide=96)
