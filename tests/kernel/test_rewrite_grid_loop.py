"""The rewrite of a grid whose points have blocks of their own: a loop with its own copies."""

import executed
import numpy as np
import pytest

TEXT = """program p for v6e
input x float32[{rows}, 512]
input y float32[{rows}, 512]
input w float32[8, 512]
output z float32[{rows}, 512]
output v float32[{rows}, 512]

kernel k {{
  grid m {m} {walk}
  grid n {n} {walk}
  in x_ref vmem float32[{size}, {width}] of [{rows}, 512] at ({at}) buffers {in_buffers}
  in y_ref vmem float32[{size}, {width}] of [{rows}, 512] at ({at}) buffers {other}
  in w_ref vmem float32[8, 512] of [8, 512] at (0, 0) buffers 1
  out z_ref vmem float32[{size}, {width}] of [{rows}, 512] at ({at}) buffers {out_buffers}
  out v_ref vmem float32[{size}, {width}] of [{rows}, 512] at ({at}) buffers 2

  m = program_id dim=0 : int
  x = load x_ref[...] : float32[{size}, {width}]
  y = load y_ref[...] : float32[{size}, {width}]
  w = load w_ref[0 +: 1, 0 +: {width}] : float32[1, {width}] row
  a = add x, y : float32[{size}, {width}]
  b = mul a, w : float32[{size}, {width}]
  c = scalar m : float32
  d = add b, c : float32[{size}, {width}]
  store z_ref[...], b
  store v_ref[...], d
}}

host(x, y, w) {{
  z, v = launch kernel=0, x, y, w : float32[{rows}, 512], float32[{rows}, 512]
  return z, v
}}
"""
WORDS = {"rows": 64, "m": 8, "n": 2, "size": 8, "width": 256, "at": "m, n", "walk": "arbitrary"}
BUFFERS = {"in_buffers": 3, "other": 3, "out_buffers": 3}


def text(**words):
    return executed.read_again(TEXT.format(**(WORDS | BUFFERS | words)))


def same(before, after, rows=64):
    draw = np.random.default_rng(0)
    shapes = [(rows, 512), (rows, 512), (8, 512)]
    arrays = [draw.standard_normal(shape).astype(np.float32) for shape in shapes]
    return executed.Runs(arrays).differences(before, after)


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"other": 2, "out_buffers": 2},
        {"other": 1, "out_buffers": 1},
        {"m": 2, "n": 1, "rows": 16, "at": "m, 0"},
        {"m": 1, "n": 2, "rows": 8, "at": "0, n"},
        {"m": 4, "n": 1, "rows": 32, "width": 512, "at": "m, 0"},
    ],
    ids=str,
)
def test_it_computes_the_same(words):
    """Two dims; as many slots, or fewer, or one; fewer points than slots; dims of one step."""
    before = text(**words)
    after = executed.rewrite(before, ["grid_loop"])
    assert "grid" not in after.split("host(")[0].split("kernel k {")[1]
    assert after.count("fori") > 0
    assert executed.read_again(after) == after
    assert same(before, after, words.get("rows", 64)) == []


def test_slots_and_copies():
    after = executed.rewrite(text(), ["grid_loop"])
    for name in ("x", "y", "z"):
        assert f"scratch {name}_ref vmem float32[3, 8, 256]" in after
    assert "scratch v_ref vmem float32[2, 8, 256]" in after
    assert "scratch w_ref vmem float32[8, 512]" in after
    body = after[after.index("def body(") :]
    order = [
        "when (point >= 1) ended {\n      %9 = call z_copy((point - 1), (before))",
        'when (point < 14) "ahead" {\n      %11 = call x_copy((point + 2), (before))',
        "call x_copy((point), (now))",
        "when (point >= 3) reuse {\n      %15 = call z_copy((point - 3), (now))",
        "x = load x_ref[now]",
    ]
    found = [body.index(words) for words in order]
    assert found == sorted(found), body


@pytest.mark.parametrize(
    "words",
    [
        {"in_buffers": 2, "other": 2},
        {"walk": "parallel"},
        {"rows": 60},
        {"m": 2, "at": "m, n * 0"},
    ],
    ids=str,
)
def test_others_stay(words):
    """Nothing comes earlier; cores may share it; a block ends outside; points share blocks."""
    before = text(**words)
    assert executed.rewrite(before, ["grid_loop"]) == before
