"""The rewrite that cuts rows into strips of columns, on kernel text: what it makes, what not."""

import dataclasses

import executed
import ml_dtypes
import numpy as np
import proof
import pytest
from coverage import row as coverage

HEAD = """program p for v6e
input x {dtype}[8, 512]
output y float32[8, 512]

kernel k {{
  in x_ref vmem {dtype}[8, 512] of [8, 512] at (0, 0) buffers 1
  out y_ref vmem float32[8, 512] of [8, 512] at (0, 0) buffers 1
  scratch e_ref vmem float32[8, 512]
  strips 512 128
"""
HOST = """}

host(x) {
  y = launch kernel=0, x : float32[8, 512]
  return y
}
"""


def text(body, dtype="float32"):
    """A kernel of x and y, [8, 512], with scratch e_ref of the same shape."""
    lines = [f"  {line}\n" for line in body.strip().splitlines()]
    return HEAD.format(dtype=dtype) + "".join(lines) + HOST


def body(kernel):
    """The lines of its statements."""
    inside = kernel.split("e_ref vmem float32[8, 512]\n")[1].split("\n}\n")[0]
    return [line.removeprefix("  ") for line in inside.splitlines() if line.strip()]


def cut(before, rtol=1e-5):
    """The statements after the rewrite, which computes what was computed."""
    after = executed.rewrite(before, ["strips"])
    values = np.random.default_rng(0).standard_normal((8, 512), "float32")
    arrays = [values if "input x float32" in before else values.astype(ml_dtypes.bfloat16)]
    assert executed.Runs(arrays).differences(before, after, rtol, 1e-5) == []
    assert executed.read_again(after) == after
    return body(after)


BESIDE = """
x = load x_ref[...] : float32[8, 512]
r = load x_ref[0 +: 1, 0 +: 8] : float32[1, 8]
c = to_column r : float32[8, 1]
%1 = mul x, c : float32[8, 512]
t = sum %1 keep=1 axes=(1) : float32[8, 1]
%2 = div %1, t : float32[8, 512]
store y_ref[...], %2
"""


def test_a_column_is_spread_once_for_all_strips():
    before = text(BESIDE).replace("strips 512 128", "strips 512 256 spread 1")
    statements = cut(before)
    assert statements[:4] == [
        "r = load x_ref[0 +: 1, 0 +: 8] : float32[1, 8]",
        "%1 = broadcast r : float32[128, 8]",
        "c = swapaxes %1 a=0 b=1 : float32[8, 128]",
        "t = zeros : float32[8, 128]",
    ]
    assert sum("tile c times=(1, 2) : float32[8, 256]" in line for line in statements) == 2
    assert not any("tile c" in line for line in cut(before.replace(" spread 1", "")))


SOFTMAX = """
x = load x_ref[...] : float32[8, 512]
m = max x keep=1 axes=(1) : float32[8, 1]
%1 = sub x, m : float32[8, 512]
e = exp %1 : float32[8, 512] stash e_ref
t = sum e keep=1 axes=(1) : float32[8, 1]
%2 = div e, t : float32[8, 512]
store y_ref[...], %2
"""


def test_softmax():
    """Three phases; x is loaded again, the exponentials are kept."""
    assert cut(text(SOFTMAX)) == [
        "m = full -inf : float32[8, 128]",
        "m = for strip in 4 from 0 carry (m = m) slice at 128 : float32[8, 128] {",
        "  x = load x_ref[:, strip * 128 +: 128] : float32[8, 128]",
        "  m = fold_max m, x : float32[8, 128]",
        "  yield m",
        "}",
        "m = max m keep=1 axes=(1) : float32[8, 1]",
        "t = zeros : float32[8, 128]",
        "t = for strip_1 in 4 from 0 carry (t = t) slice at_1 128 : float32[8, 128] {",
        "  x_1 = load x_ref[:, strip_1 * 128 +: 128] : float32[8, 128]",
        "  %1 = sub x_1, m : float32[8, 128]",
        "  e = exp %1 : float32[8, 128]",
        "  store e_ref[:, strip_1 * 128 +: 128], e",
        "  t = fold_sum t, e : float32[8, 128]",
        "  yield t",
        "}",
        "t = sum t keep=1 axes=(1) : float32[8, 1]",
        "for strip_2 in 4 from 0 slice at_2 128 {",
        "  e_1 = load e_ref[:, strip_2 * 128 +: 128] : float32[8, 128]",
        "  %2 = div e_1, t : float32[8, 128]",
        "  store y_ref[:, strip_2 * 128 +: 128], %2",
        "  yield",
        "}",
    ]


def test_what_is_not_kept_is_computed_again():
    lines = cut(text(SOFTMAX.replace(" stash e_ref", "")))
    assert sum("= exp " in line for line in lines) == 2
    assert not any("e_ref" in line for line in lines)


def test_a_mean_is_a_sum_that_is_divided():
    """And a reduction without a variable gets one."""
    mean = """
    x = load x_ref[...] : float32[8, 512]
    %1 = mean x keep=1 axes=(1) : float32[8, 1]
    %2 = sub x, %1 : float32[8, 512]
    store y_ref[...], %2
    """
    lines = cut(text(mean))
    assert "total = zeros : float32[8, 128]" in lines
    assert "%1 = sum total keep=1 axes=(1) : float32[8, 1]" in lines
    assert "%2 = div %1, 512 : float32[8, 1]" in lines


PICKED = """
x = load x_ref[...] : float32[8, 512]
column = iota axis=1 : int32[1, 512]
label = full 130 : int32[8, 1]
%1 = eq column, label : bool[8, 512]
%2 = where %1, x, 0.0 : float32[8, 512]
t = sum %2 keep=1 axes=(1) : float32[8, 1]
%3 = mul x, t : float32[8, 512]
store y_ref[...], %3
"""


def test_what_one_column_gives_is_chosen():
    """Nothing is added up of a strip in which a row's number is that of one column at most."""
    lines = cut(text(PICKED))
    at = lines.index("  %3 = zeros : float32[8, 128]")
    assert lines[at + 1 : at + 3] == [
        "  %4 = fold_where %3, %2, x : float32[8, 128]",
        "  t = add t, %4 : float32[8, 128]",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("eq column", "ge column"),  # of many columns
        ("x, 0.0", "x, 1.0"),
        ("t = sum", "t = max"),
        ("mul x, t", "mul %2, t"),  # it is read besides
        ("full 130 : int32[8, 1]", "full 130 : int32[8, 512]"),
    ],
)
def test_what_others_give_is_added_up(old, new):
    assert "fold_where" not in "".join(cut(text(PICKED.replace(old, new))))


def test_a_range_of_columns_starts_at_the_strip():
    index = """
    i = iota axis=1 : int32[1, 512]
    f = convert i : float32[1, 512]
    x = load x_ref[...] : float32[8, 512]
    %1 = add x, f : float32[8, 512]
    m = max %1 keep=1 axes=(1) : float32[8, 1]
    %2 = sub %1, m : float32[8, 512]
    store y_ref[...], %2
    """
    lines = cut(text(index))
    assert lines.count("  %1 = iota axis=1 : int32[1, 128]") == 1
    assert "  i = add (strip * 128), %1 : int32[1, 128]" in lines


def test_what_is_stored_twice_is_stored_in_order():
    twice = """
    x = load x_ref[...] : float32[8, 512]
    m = max x keep=1 axes=(1) : float32[8, 1]
    %1 = sub x, m : float32[8, 512]
    store y_ref[...], %1
    %2 = mul x, m : float32[8, 512]
    store y_ref[...], %2
    """
    assert len([line for line in cut(text(twice)) if "store y_ref" in line]) == 2


NARROW = """
x = load x_ref[...] : bfloat16[8, 512]
f = convert x : float32[8, 512]
m = max f keep=1 axes=(1) : float32[8, 1]{word}
%1 = sub f, m : float32[8, 512]
store y_ref[...], %1
"""


@pytest.mark.parametrize(("word", "dtype"), [(" narrow", "bfloat16"), ("", "float32")])
def test_a_maximum_of_what_was_converted(word, dtype):
    lines = cut(text(NARROW.format(word=word), "bfloat16"), 0.0)
    assert f"m = full -inf : {dtype}[8, 128]" in lines
    assert ("%1 = convert m : float32[8, 128]" in lines) == (dtype == "bfloat16")


def test_a_result_that_lies_in_a_row():
    """What was turned to be reduced is turned when it is added up."""
    row = """
    x = load x_ref[...] : float32[8, 512]
    %1 = swapaxes x a=-1 b=-2 : float32[512, 8]
    s = sum %1 keep=1 axes=(0) : float32[1, 8] row
    c = to_column s : float32[8, 1]
    %2 = mul x, c : float32[8, 512]
    store y_ref[...], %2
    """
    lines = cut(text(row))
    assert "%1 = swapaxes s a=-1 b=-2 : float32[128, 8]" in lines
    assert "s = sum %1 keep=1 axes=(0) : float32[1, 8] row" in lines


WHOLE = {
    "columns that are moved": SOFTMAX.replace("exp %1", "cumsum %1 axis=1"),
    "a mask of columns": SOFTMAX.replace("exp %1", "mask %1, 300, 0 axis=1"),
    "part of a row": SOFTMAX.replace("y_ref[...]", "y_ref[:, 0 +: 512]"),
    "a region": "when (1) first {\n}\n" + SOFTMAX,
    "a load behind a store": """
    x = load x_ref[...] : float32[8, 512]
    m = max x keep=1 axes=(1) : float32[8, 1]
    %1 = sub x, m : float32[8, 512]
    store y_ref[...], %1
    y = load y_ref[...] : float32[8, 512]
    t = sum y keep=1 axes=(1) : float32[8, 1]
    %2 = mul y, t : float32[8, 512]
    store y_ref[...], %2
    z = load x_ref[...] : float32[8, 512]
    u = sum z keep=1 axes=(1) : float32[8, 1]
    %3 = mul z, u : float32[8, 512]
    store y_ref[...], %3
    """,
    "a number that is read where another lies by then": """
    %1 = load y_ref[:, 0 +: 1] : float32[8, 1]
    x = load x_ref[...] : float32[8, 512]
    store y_ref[...], x
    m = max x keep=1 axes=(1) : float32[8, 1]
    n = add m, %1 : float32[8, 1]
    %2 = sub x, n : float32[8, 512]
    store y_ref[...], %2
    """,
    "a stash that is read": SOFTMAX.replace("x = load x_ref", "x = load e_ref"),
}


@pytest.mark.parametrize("why", WHOLE)
def test_what_stays_whole(why):
    """As it was, with nothing left to do."""
    before = text(WHOLE[why])
    after = executed.rewrite(before, ["strips"])
    assert "strips 512" not in after
    first, *rest = body(executed.read_again(before).replace(" stash e_ref", ""))
    assert first == "strips 512 128"
    assert body(after) == rest


def cut_cases():
    """Cases of the coverage with rows that are long enough, in strips."""
    for case in coverage.accepted():
        if "softmax" in case.graph or "norm" in case.graph:
            names = dict(case.extra)
            more = (*case.extra, ("pallas_column_strips", '"on"'))
            yield case if "pallas_column_strips" in names else dataclasses.replace(case, extra=more)


def test_coverage():
    """Executed before and after each rewrite."""
    count = 0
    for case in dict.fromkeys(cut_cases()):
        built = executed.kernel_text(proof.document(case.graph), case.config, emit="--rewrites=")
        if "\n  strips " in built:
            count += 1
            assert executed.case_problems(case) == [], case.id
    assert count > 10
