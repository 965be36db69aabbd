"""The rewrite `unmasked`: steps that masks leave whole are computed without them."""

import executed
import numpy as np
import pytest

TEXT = """program p for v6e
input x float32[8, 512]
input n int32[1]
output y float32[8, 128]

kernel k {{
  in x_ref vmem float32[8, 512] of [8, 512] at (0, 0) buffers 1
  in n_ref smem int32[1] buffers 1
  out y_ref vmem float32[8, 128] of [8, 128] at (0, 0) buffers 1
  scratch m_ref vmem float32[8, 128]
{flag}
  n = load n_ref[0] : int32
  %1 = zeros : float32[8, 128]
  m_1 = loop step(j) fori_loop step j carry (m = %1 in m_ref) : float32[8, 128] {{
    dim j steps (4) full 4 tail 0 size 128
    window w vmem float32[8, 128] of x_ref in at (0, j) buffers 0
    x = load w[...] : float32[8, 128]
    %2 = iota axis=1 : int32[8, 128]
    at = add %2, (j * 128) : int32[8, 128]
    seen = {compare} : bool[8, 128]
    kept = where seen, x, 0.0 : float32[8, 128]
    left = mask kept, (n - j * 128), 1.0 axis=1 : float32[8, 128]
    m_2 = add m, left : float32[8, 128]
    yield m_2
  }}
  store y_ref[...], m_1
}}

host(x, n) {{
  y = launch kernel=0, x, n : float32[8, 128]
  return y
}}
"""


def rewritten(compare="lt at, n", flag="  unmasked"):
    """Kernel text before and after it, with its loop driven."""
    driven = executed.rewrite(TEXT.format(compare=compare, flag=flag), ["split", "drive"])
    return driven, executed.rewrite(driven, ["unmasked"])


def whole(text):
    """What says that a step is whole."""
    lines = [line for line in text.splitlines() if "whole = int" in line]
    return lines[0].strip() if lines else None


def test_ints_say_that_a_step_is_whole():
    _, found = rewritten()
    assert whole(found) == (
        "whole = int (choose((j * 128 <= 127 + j * 128) & (127 + j * 128 < n)"
        " & (n - j * 128 >= 128), 1, 0)) : int"
    )
    assert found.count("call step(") == 2 and found.count("= choose masked, ") == 2
    assert "\n  unmasked\n" not in found


def test_only_where_it_is_asked_for():
    driven, found = rewritten(flag="")
    assert found == driven


@pytest.mark.parametrize("compare", ["lt at, x", "ne at, n", "lt n, at"])
def test_other_conditions(compare):
    """One that is not known stays as it is; turned round it holds for the others."""
    if compare == "lt at, x":
        compare = "lt x, 0.5"
    _, found = rewritten(compare)
    assert found.count("= choose masked, ") == (2 if compare == "lt n, at" else 1)


@pytest.mark.parametrize("compare", ["lt at, n", "le at, n", "ge n, at", "gt at, n"])
@pytest.mark.parametrize("count", [-5, 0, 1, 127, 128, 129, 255, 256, 511, 512, 600, 2**31 - 1])
def test_values(compare, count):
    driven, found = rewritten(compare)
    x = np.random.default_rng(0).standard_normal((8, 512), "float32")
    x[0, ::7] = np.nan
    runs = executed.Runs([x, np.array([count], "int32")])
    assert whole(found) is not None
    assert runs.differences(driven, found) == []
