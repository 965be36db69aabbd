"""The rewrite that keeps sums of rows, which grid points add up, in a register of rows."""

import executed
import numpy as np
import pytest

TEXT = """program p for v6e
input x float32[1024, 256]
output z {dtype}[1, 256]

kernel k {{
  grid n 4 arbitrary
  in x_ref vmem float32[{rows}, 256] of [1024, 256] at (n, 0) buffers 2
  out z_ref vmem {dtype}[1, 256] of [1, 256] at (0, 0) buffers 2
  scratch acc_ref vmem float32[1, 256]
  held z_ref fill 0.0 sums acc_ref over (0)

  n = program_id dim=0 : int
  x = load x_ref[...] : float32[{rows}, 256]
  {of}
  {add}
}}

host(x) {{
  z = launch kernel=0, x : {dtype}[1, 256]
  return z
}}
"""
SUM = "s = sum x keep=1 axes=(0) : float32[1, 256] row"
ADD = """old = load acc_ref[...] : float32[1, 256] row
  new = add old, s : float32[1, 256] row
  store acc_ref[...], new"""


def rewritten(rows=256, of=SUM, add=ADD, dtype="float32"):
    """(before, after), which give the same."""
    before = executed.read_again(TEXT.format(rows=rows, of=of, add=add, dtype=dtype))
    after = executed.rewrite(before, ["row_sums"])
    arrays = [np.random.default_rng(0).standard_normal((1024, 256)).astype(np.float32)]
    for other in (after, executed.rewrite(after, ["held"])):
        assert executed.Runs(arrays).differences(before, other, *executed.SUMS) == []
    assert executed.read_again(after) == after
    return before, after


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rows", [8, 256])
def test_registers_are_added(rows, dtype):
    _, after = rewritten(rows, dtype=dtype)
    assert "scratch acc_ref vmem float32[8, 256]" in after
    assert f"reshape x : float32[{rows // 8}, 8, 256]" in after
    last = executed.rewrite(after, ["held"]).split("last_visit")[1]
    assert "sum " in last


@pytest.mark.parametrize(
    ("rows", "of", "add"),
    [
        (4, SUM, ADD),
        (256, SUM, ADD + "\n  more = exp s : float32[1, 256] row\n  store z_ref[...], more"),
        (256, SUM, ADD.replace("add old", "sub old")),
        (256, "s = max x keep=1 axes=(0) : float32[1, 256] row", ADD),
    ],
)
def test_others_stay(rows, of, add):
    """Part of a register, a sum that is read twice, what is not added to as it is, no sum."""
    before = executed.read_again(TEXT.format(rows=rows, of=of, add=add, dtype="float32"))
    assert before.startswith("program")
    assert executed.rewrite(before, ["row_sums"]) == before
