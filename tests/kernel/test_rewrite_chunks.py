"""The rewrite that makes a matmul's factor in chunks of what it sums, on kernel text."""

import executed
import ml_dtypes
import numpy as np
import pytest

TEXT = """program p for v6e
input x bfloat16[64, 512]
input g float32[1, 512]
input w bfloat16[512, 256]
input v bfloat16[512, 256]
output y float32[64, 256]

kernel k {{
  grid i 2 parallel
  grid j 2 arbitrary
  in x_ref vmem bfloat16[32, 512] of [64, 512] at (i, 0) buffers 2
  in g_ref vmem float32[1, 512] of [1, 512] at (0, 0) buffers 2
  in w_ref vmem bfloat16[512, 128] of [512, 256] at (0, j) buffers 2
  in v_ref vmem bfloat16[512, 128] of [512, 256] at (0, j) buffers 2
  out y_ref vmem float32[32, 128] of [64, 256] at (i, j) buffers 2
  scratch rows_ref vmem bfloat16[32, 512]
  scratch s_ref vmem float32[32, 1]
  chunks

  when (first(1)) first_step {{
{first}
  }}
  when (later(1)) other_steps {{
    rows_1 = load rows_ref[...] : bfloat16[32, 512]
    s_1 = load s_ref[...] : float32[32, 1] column
    w_1 = load w_ref[...] : bfloat16[512, 128]
    d_1 = dot rows_1, w_1 a=1 b=0 highest=0 : float32[32, 128]
{other}
    z_1 = mul t_1, s_1 : float32[32, 128]
    store y_ref[...], z_1
  }}
}}

host(x, g, w, v) {{
  y = launch kernel=0, x, g, w, v : float32[64, 256]
  return y
}}
"""
ROWS = """x = load x_ref[...] : bfloat16[32, 512]
f = convert x : float32[32, 512]
q = mul f, f : float32[32, 512]
s = sum q keep=1 axes=(1) : float32[32, 1] column
store s_ref[...], s
g = load g_ref[...] : float32[1, 512] row
"""
SCALED = "h = mul f, g : float32[32, 512]\n"
NORMED = "n = mul f, s : float32[32, 512]\nh = mul n, g : float32[32, 512]\n"
REST = """rows = convert h : bfloat16[32, 512]
store rows_ref[...], rows
w = load w_ref[...] : bfloat16[512, 128]
d = dot rows, w a=1 b=0 highest=0 : float32[32, 128]
"""
PLAIN = "t = let d : float32[32, 128]\n"
GATED = """v = load v_ref[...] : bfloat16[512, 128]
e = dot rows, v a=1 b=0 highest=0 : float32[32, 128]
t = mul d, e : float32[32, 128]
"""
END = "z = mul t, s : float32[32, 128]\nstore y_ref[...], z\n"


def other(rest):
    """The same in the other steps."""
    lines = rest.replace(" rows,", " rows_1,")
    for name in "tdevw":
        lines = lines.replace(f" {name},", f" {name}_1,").replace(f" {name} :", f" {name}_1 :")
        lines = "\n".join(
            line.replace(f"{name} =", f"{name}_1 =", 1) if line.startswith(f"{name} =") else line
            for line in lines.split("\n")
        )
    return lines.replace(" e :", " e_1 :").replace("rows_1, v ", "rows_1, v_1 ")


def rewritten(made, rest):
    """The first step after the rewrite, which leaves the values but for sums' order."""
    first, others = (
        "\n".join(f"    {line}" for line in body.strip().splitlines())
        for body in (ROWS + made + REST + rest + END, other(rest))
    )
    before = TEXT.format(first=first, other=others)
    after = executed.rewrite(before, ["chunks"])
    draw = np.random.default_rng(0).standard_normal
    shapes = ((64, 512), (1, 512), (512, 256), (512, 256))
    arrays = [draw(shape).astype(ml_dtypes.bfloat16) for shape in shapes]
    arrays[1] = arrays[1].astype("float32")
    assert executed.Runs(arrays).differences(before, after, *executed.TOLERANCES["chunks"]) == []
    assert executed.read_again(after) == after
    inside = after.split("first_step {\n")[1].split("\n  }\n")[0]
    return [line.removeprefix("    ") for line in inside.splitlines()]


def test_the_next_chunk_is_made_beside_a_product():
    assert rewritten(SCALED, PLAIN) == [
        "sums = zeros : float32[32, 128]",
        "d = zeros : float32[32, 128]",
        "sums, d = for chunk in 2 from 0 carry (sums = sums, d = d) slice chunk_at 256"
        " : float32[32, 128], float32[32, 128] {",
        "  x = load x_ref[:, chunk * 256 +: 256] : bfloat16[32, 256]",
        "  f = convert x : float32[32, 256]",
        "  q = mul f, f : float32[32, 256]",
        "  %1 = index q items=[:, 0:128] : float32[32, 128]",
        "  sums = add sums, %1 : float32[32, 128]",
        "  %2 = index q items=[:, 128:256] : float32[32, 128]",
        "  sums = add sums, %2 : float32[32, 128]",
        "  g = load g_ref[:, chunk * 256 +: 256] : float32[1, 256] row",
        "  h = mul f, g : float32[32, 256]",
        "  rows = convert h : bfloat16[32, 256]",
        "  store rows_ref[:, chunk * 256 +: 256], rows",
        "  w = load w_ref[chunk * 256 +: 256, :] : bfloat16[256, 128]",
        "  dot = dot rows, w a=1 b=0 highest=0 : float32[32, 128]",
        "  d = add d, dot : float32[32, 128]",
        "  yield sums, d",
        "}",
        "s = sum sums keep=1 axes=(1) : float32[32, 1] column",
        "store s_ref[...], s",
        "t = let d : float32[32, 128]",
        "z = mul t, s : float32[32, 128]",
        "store y_ref[...], z",
    ]


def test_two_matmuls_share_the_chunks():
    found = rewritten(SCALED, GATED)
    assert sum(" = dot rows, " in line for line in found) == 2
    assert found[-3] == "t = mul d, e : float32[32, 128]"


@pytest.mark.parametrize("rest", [PLAIN, GATED])
def test_a_factor_that_waits_for_a_sum_stays_whole(rest):
    assert not any(" for " in line for line in rewritten(NORMED, rest))
