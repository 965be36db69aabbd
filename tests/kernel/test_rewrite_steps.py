"""The rewrites that move parts of steps: skew, pairs, ahead. What they make, what it computes."""

import executed
import kit
import numpy as np
import pytest

TEXT = """program p for v6e
input x float32[8, {size}]
output y float32[8, 128]

kernel k {{
  in x_ref vmem float32[8, {size}] of [8, {size}] at (0, 0) buffers 1
  out y_ref vmem float32[8, 128] of [8, 128] at (0, 0) buffers 1
  scratch p_ref vmem float32[8, 128]
  scratch q_ref vmem float32[8, 128]
  scratch m_ref vmem float32[8, 128]

  %1 = zeros : float32[8, 128] initial
  def early(w: vmem float32[8, 128]) {{
    a = load w[...] : float32[8, 128]
    b = exp a : float32[8, 128]
    return b
  }}
  def rest(b: float32[8, 128], w: vmem float32[8, 128], m: float32[8, 128]) {{
    c = load w[...] : float32[8, 128]
    d = mul m, b : float32[8, 128]
    e = add d, c : float32[8, 128]
    return e
  }}
  m_1 = loop rest(j) {how} step j carry (m = %1{place}) : float32[8, 128] {{
    dim j steps ({steps}) full {steps} tail 0 size 128
    skew {skew}
{pairs}    window w vmem float32[8, 128] of x_ref in at (0, j) buffers 0
    b = call early(w[...]) : float32[8, 128]
    m = call rest(b, w[...], m) : float32[8, 128]
    yield m
    hand b{hand}
  }}
  store y_ref[...], m_1
}}

host(x) {{
  y = launch kernel=0, x : float32[8, 128]
  return y
}}
"""
SCRATCH = {"hand": " in p_ref odd q_ref", "place": " in m_ref"}
PAIRS = "    pairs\n"


def text(how, steps, skew=1, pairs="", hand="", place=""):
    """A kernel that adds up, of x [8, steps * 128], what depends on each step before."""
    words = {"how": how, "steps": steps, "skew": skew, "pairs": pairs, "hand": hand}
    return TEXT.format(size=steps * 128, place=place, **words)


def loop(kernel):
    """The lines of the loop, but for what stays as it is."""
    inside = kernel.split(" loop ")[1].split("\n  }\n")[0].splitlines()[1:]
    dull = ("dim", "window")
    return [line.removeprefix("    ") for line in inside if not line.strip().startswith(dull)]


def test_skew():
    skewed = executed.rewrite(text("fori_loop", 4, hand=" in p_ref"), ["skew"])
    assert "carry (m = %1, b: float32[8, 128] = _ in p_ref) : float32[8, 128] {" in skewed
    assert [line.split(" : ")[0] for line in loop(skewed)] == [
        "runs (3)",
        "before {",
        "  b = call early(w[...] at (0))",
        "  yield b",
        "}",
        "behind {",
        "  m = call rest(b, w[...] at (3), m)",
        "  yield m",
        "}",
        "b_next = call early(w[...] at (j + 1))",
        "m = call rest(b, w[...] at (j), m)",
        "b = let b_next",
        "yield m, b",
    ]


def test_pairs():
    paired = executed.rewrite(text("fori_loop", 6, pairs=PAIRS, **SCRATCH), ["skew", "pairs"])
    found = [line.split(" : ")[0] for line in loop(paired)]
    assert found[0] == "runs (2)"
    assert found[found.index("behind {") :] == [
        "behind {",
        "  %2 = call early(w[...] at (5))",
        "  store q_ref[...], %2",
        "  m = call rest(b, w[...] at (4), m)",
        "  %3 = load q_ref[...]",
        "  m = call rest(%3, w[...] at (5), m)",
        "  yield m",
        "}",
        "j = int (i * 2)",
        "m = let m",
        "j_1 = int (j + 1)",
        "%4 = call early(w[...] at (j_1))",
        "store q_ref[...], %4",
        "m = call rest(b, w[...] at (j), m)",
        "b = call early(w[...] at (j_1 + 1))",
        "%5 = load q_ref[...]",
        "m = call rest(%5, w[...] at (j_1), m)",
        "%6 = let m",
        "yield %6, b",
    ]


def test_ahead():
    found = loop(executed.rewrite(text("unroll", 5, skew=2), ["ahead"]))
    assert [line.split(" : ")[0] for line in found] == [
        "runs (7)",
        "if (ahead < 5) {",
        "  b_1 = call early(w[...] at (ahead))",
        "  push waiting, b_1",
        "}",
        "j = int (ahead - 2)",
        "m = if (j >= 0) else (m)",
        "  b_1 = pop waiting",
        "  m = call rest(b_1, w[...] at (j), m)",
        "  yield m",
        "}",
        "yield m",
    ]


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "words",
    [
        {"how": "fori_loop"},
        {"how": "fori_loop", "pairs": PAIRS},
        {"how": "fori_loop", "pairs": PAIRS, **SCRATCH},
        {"how": "fori_loop", "hand": " in p_ref"},
        {"how": "emit_pipeline", **SCRATCH},
        {"how": "unroll"},
        {"how": "unroll", "skew": 3},
    ],
    ids=lambda words: "-".join(str(word).strip() for word in words.values()),
)
def test_each_computes_the_same(words, steps):
    built = text(steps=steps, **words)
    arrays = [np.random.default_rng(steps).standard_normal((8, steps * 128), "float32")]
    runs = executed.Runs(arrays)
    assert runs.rewrite_problems(built, executed.rewrite(built, executed.rewrites())) == []
    for some in (["skew"], ["skew", "pairs"], ["ahead"]):
        between = executed.rewrite(built, some)
        assert executed.rewrite(between, []) == between
        driven = executed.rewrite(between, ["drive", "tidy"])
        assert runs.differences(built, driven) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(w[...] at (j + 1))", "(w[...])", "no window of an own step"),
        ("(w[...] at (0))", "(w[...] at (1 - m_1))", "there is no 'm_1' here"),
        ("(w[...] at (0))", "(w[...] at ())", "no window of an own step"),
        (
            "(w[...] at (0))",
            "(p_ref[...] at (0))",
            "only a whole window of a loop",
        ),
        ("    runs (3)\n", "", "only a whole window of a loop"),
        ("      yield b\n", "", "yields nothing"),
        ("      yield b\n", "      yield\n", "1 value is due here, it yields 0"),
        (
            "m = %1, b: float32[8, 128] = _",
            "m = _, b: float32[8, 128] = %1",
            "'m' starts as nothing",
        ),
        ("b: float32[8, 128] = _", "b = _", "states its type"),
        ("dim j steps (4)", "dim j steps (x_ref[0, 0])", "may read an element"),
    ],
)
def test_what_is_wrong_is_said(old, new, message):
    skewed = executed.rewrite(text("fori_loop", 4, hand=" in p_ref"), ["skew"])
    assert old in skewed
    assert message in kit.refused(1, "-", text=skewed.replace(old, new))


def test_a_pipeline_has_all_in_scratch_and_its_own_steps():
    piped = executed.rewrite(text("emit_pipeline", 4, **SCRATCH), ["skew"])
    for old, new in ((" in m_ref", ""), ("at (3)", "at (2)"), ("at (j + 1)", "at (j + 2)")):
        with pytest.raises(Exception, match="emit_pipeline"):
            executed.rewrite(piped.replace(old, new), ["drive"])


def test_every_construct_prints():
    path = kit.KERNELS / "constructs.kernel"
    compile(kit.accepted(path).out, str(path), "exec")
