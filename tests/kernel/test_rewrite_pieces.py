"""The rewrite that computes what follows a matmul of pieces of its result, on kernel text."""

import executed
import ml_dtypes
import numpy as np
import pytest

TEXT = """program p for v7x
input x bfloat16[512, 256]
input w bfloat16[256, 1024]
input v bfloat16[256, 1024]
input b float32[1, 1024]
output y bfloat16[512, 1024]

kernel k {{
  grid i 2 parallel
  in x_ref vmem bfloat16[256, 256] of [512, 256] at (i, 0) buffers 2
  in w_ref vmem bfloat16[256, 1024] of [256, 1024] at (0, 0) buffers 2
  in v_ref vmem bfloat16[256, 1024] of [256, 1024] at (0, 0) buffers 2
  in b_ref vmem float32[1, 1024] of [1, 1024] at (0, 0) buffers 2
  out y_ref vmem bfloat16[256, 1024] of [512, 1024] at (i, 0) buffers 2
  pieces

{body}
}}

host(x, w, v, b) {{
  y = launch kernel=0, x, w, v, b : bfloat16[512, 1024]
  return y
}}
"""
MATMUL = """x = load x_ref[...] : bfloat16[256, 256]
w = load w_ref[...] : bfloat16[256, 1024]
d = dot x, w a=1 b=0 highest=0 : float32[256, 1024]
"""
BIASED = """b = load b_ref[...] : float32[1, 1024] row
s = add d, b : float32[256, 1024]
z = convert s : bfloat16[256, 1024]
"""
GATED = """v = load v_ref[...] : bfloat16[256, 1024]
e = dot x, v a=1 b=0 highest=0 : float32[256, 1024]
s = mul d, e : float32[256, 1024]
z = convert s : bfloat16[256, 1024]
"""
STORE = "store y_ref[...], z\n"


def lines(body):
    return [f"  {line}" for line in body.splitlines()]


def rewritten(body):
    """The kernel's statements after the rewrite, which leaves the values but for sums' order."""
    before = TEXT.format(body="\n".join(lines(body)))
    after = executed.rewrite(before, ["pieces"])
    draw = np.random.default_rng(0).standard_normal
    shapes = ((512, 256), (256, 1024), (256, 1024), (1, 1024))
    arrays = [draw(shape).astype(ml_dtypes.bfloat16) for shape in shapes]
    arrays[3] = arrays[3].astype("float32")
    assert executed.Runs(arrays).differences(before, after, *executed.TOLERANCES["pieces"]) == []
    assert executed.read_again(after) == after
    return after.split("\n\n")[2].removesuffix("\n}").splitlines()


def test_what_follows_stands_beside_the_next_product():
    """Four pieces of 128 rows and 512 columns, each through scratch at a place nobody can fold."""
    assert rewritten(MATMUL + BIASED + STORE) == lines(
        """point = program_id dim=0 : int
for column in 2 from 0 slice columns 512 {
  for row in 2 from 0 slice rows 128 {
    x = load x_ref[row * 128 +: 128, :] : bfloat16[128, 256]
    w = load w_ref[:, column * 512 +: 512] : bfloat16[256, 512]
    d = dot x, w a=1 b=0 highest=0 : float32[128, 512]
    store piece_ref[min(point, 0) by 8 +: 128, :], d
    d_1 = load piece_ref[min(point, 0) by 8 +: 128, :] : float32[128, 512]
    b = load b_ref[:, column * 512 +: 512] : float32[1, 512] row
    s = add d_1, b : float32[128, 512]
    z = convert s : bfloat16[128, 512]
    store y_ref[row * 128 +: 128, column * 512 +: 512], z
    yield
  }
  yield
}"""
    )


def test_two_matmuls_have_scratch_each():
    found = rewritten(MATMUL + GATED + STORE)
    assert [line.split("[")[0].strip() for line in found if " store " in f" {line.strip()} "] == [
        "store piece_ref",
        "store piece_ref_1",
        "store y_ref",
    ]


@pytest.mark.parametrize(
    "body",
    [
        # a sum of what follows; a block that is read and written; a factor that is computed here
        MATMUL + "m = sum d keep=1 axes=(1) : float32[256, 1] column\n"
        "s = sub d, m : float32[256, 1024]\nz = convert s : bfloat16[256, 1024]\n" + STORE,
        MATMUL + "o = load y_ref[...] : bfloat16[256, 1024]\n"
        "f = convert o : float32[256, 1024]\ns = add d, f : float32[256, 1024]\n"
        "z = convert s : bfloat16[256, 1024]\n" + STORE,
        MATMUL.replace("dot x", "dot h").replace("d =", "h = neg x : bfloat16[256, 256]\nd =")
        + BIASED
        + STORE,
    ],
)
def test_others_stay_whole(body):
    assert "    ".join(rewritten(body)).count("for ") == 0
