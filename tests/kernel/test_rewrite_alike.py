"""The rewrite of what loops start with, on kernel text."""

import executed
import ml_dtypes
import numpy as np
import pytest

TEXT = """program p for v6e
input x {dtype}[8, {lanes}]
output y float32[8, 128]

kernel k {{
  in x_ref vmem {dtype}[8, {lanes}] of [8, {lanes}] at (0, 0) buffers 1
  out y_ref vmem float32[8, 128] of [8, 128] at (0, 0) buffers 1
  %1 = {first} : {dtype}[8, 128] initial
  %2 = full 2.5 : float32[8, 128] initial
  _, y = loop step(j) {how} step j carry (a = %1, b = %2) : {dtype}[8, 128], float32[8, 128] {{
    dim j steps (3) full 3 tail 0 size 1
    x = load x_ref[...] : {dtype}[8, {lanes}]
    a_1 = maximum a, x : {dtype}[8, 128]
    b_1 = convert {of} : float32[8, 128]
    yield a_1, b_1
  }}
  store y_ref[...], y
}}

host(x) {{
  y = launch kernel=0, x : float32[8, 128]
  return y
}}
"""


def rewritten(dtype="int32", lanes=128, first="full 5", how="fori_loop", of="a"):
    """Lines of the kernel after the rewrite, which leaves the values to the last bit."""
    before = TEXT.format(dtype=dtype, lanes=lanes, first=first, how=how, of=of)
    after = executed.rewrite(before, ["alike"])
    values = np.random.default_rng(0).integers(-9, 9, (8, lanes))
    arrays = [values.astype(getattr(ml_dtypes, dtype, dtype))]
    assert executed.Runs(arrays).differences(before, after) == []
    assert executed.read_again(after) == after
    return [line.strip() for line in after.splitlines()]


@pytest.mark.parametrize("lanes", [1, 128])
def test_value_of_another(lanes):
    """`b` is that of the step before's `a`, which no step gives alike in all rows."""
    lines = rewritten(lanes=lanes)
    assert "%3 = iota axis=1 : int32[8, 128] initial" in lines
    assert "%7 = where %6, %1, 0 : int32[8, 128] initial" in lines
    assert "%12 = where %11, %2, 0.0 : float32[8, 128] initial" in lines
    assert any("carry (a = %7, b = %12)" in line for line in lines)


@pytest.mark.parametrize("first", ["zeros", "full 0"])
def test_no_choice_between_zeros(first):
    assert "%7 = where %6, %1, 1 : int32[8, 128] initial" in rewritten(first=first)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "int8"])
def test_packed_elements_are_chosen_in_32_bits(dtype):
    lines = rewritten(dtype=dtype)
    wide, zero = ("int32", "0") if dtype == "int8" else ("float32", "0.0")
    assert f"%7 = convert %1 : {wide}[8, 128] initial" in lines
    assert f"%8 = where %6, %7, {zero} : {wide}[8, 128] initial" in lines
    assert f"%9 = convert %8 : {dtype}[8, 128] initial" in lines


@pytest.mark.parametrize(
    "changed",
    [{"of": "x", "lanes": 128}, {"of": "a_1"}, {"how": "unroll"}],
    ids=["of what is loaded", "of the same step", "straight code"],
)
def test_others_stay(changed):
    assert not any("iota" in line for line in rewritten(**changed))


ONE = """program p for v5e
input x {dtype}[1, {lanes}]
output y {dtype}[1, 128]

kernel k {{
  in x_ref vmem {dtype}[1, {lanes}] of [1, {lanes}] at (0, 0) buffers 1
  out y_ref vmem {dtype}[1, 128] of [1, 128] at (0, 0) buffers 1
  %1 = full {first} : {dtype}[1, 128] initial
  y = loop step(j) fori_loop step j carry (a = %1) : {dtype}[1, 128] {{
    dim j steps (2) full 2 tail 0 size 1
    x = load x_ref[...] : {dtype}[1, {lanes}]
    a_1 = mul a, x : {dtype}[1, 128]
    yield a_1
  }}
  store y_ref[...], y
}}

host(x) {{
  y = launch kernel=0, x : {dtype}[1, 128]
  return y
}}
"""


@pytest.mark.parametrize(
    ("dtype", "lanes", "first", "chosen"),
    [
        ("bfloat16", 1, "2.0", True),
        ("bfloat16", 1, "-inf", True),
        ("bfloat16", 128, "2.0", False),  # a whole row
        ("float32", 1, "2.0", False),
    ],
)
def test_a_packed_constant_that_one_element_meets(dtype, lanes, first, chosen):
    before = ONE.format(dtype=dtype, lanes=lanes, first=first)
    after = executed.rewrite(before, ["alike"])
    arrays = [np.full((1, lanes), 3).astype(getattr(ml_dtypes, dtype, dtype))]
    assert executed.Runs(arrays).differences(before, after) == []
    assert ("iota" in after) == chosen
