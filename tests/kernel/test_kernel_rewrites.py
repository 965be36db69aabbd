"""Kernel text, executed, computes what its document says; a rewrite of it computes the same."""

import collections

import executed
import modules
import numpy as np
import proof
import pytest
from coverage import results
from coverage import row as coverage
from pallasc import execute

DRAWN = 40


def sample(cases, count):
    """Some of the cases, others with each commit."""
    return results.rotating(list(cases), count)


@pytest.mark.parametrize("case", sample(coverage.accepted(), 40), ids=lambda case: case.id)
def test_coverage(case):
    assert executed.case_problems(case) == []


@pytest.mark.parametrize("case", sample(proof.accepted(), 20), ids=lambda case: case.id)
def test_matrix(case):
    assert executed.case_problems(case) == []


def test_a_counted_loop_masks_in_its_last_step():
    (case,) = (c for c in coverage.accepted() if c.id == "causal_attention-emit_pipeline")
    assert executed.case_problems(case) == []


def test_drawn():
    found = {n: executed.drawn_problems(case) for n, case in enumerate(modules.drawn(DRAWN, 7))}
    assert not any(found.values()), found


# ---- rewrites ------------------------------------------------------------------------------------

SAME = """program p for v6e
input x float32[8, 512]
output y float32[8, 128]

kernel k {
  in x_ref vmem float32[8, 512] of [8, 512] at (0, 0) buffers 1
  out y_ref vmem float32[8, 128] of [8, 128] at (0, 0) buffers 1

  zeros = zeros : float32[8, 128]
  total = for i in 4 from 0 carry (total = zeros) : float32[8, 128] {
    x = load x_ref[:, i * 128 +: 128] : float32[8, 128]
    total = add total, x : float32[8, 128]
    yield total
  }
  store y_ref[...], total
}

host(x) {
  y = launch kernel=0, x : float32[8, 128]
  return y
}
"""


def runs():
    """Of an input of SAME."""
    return executed.Runs([np.random.default_rng(0).standard_normal((8, 512), "float32")])


def test_a_rewrite_is_compared():
    found = runs()
    assert found.differences(SAME, SAME.replace("add total, x", "add x, total")) == []
    backwards = SAME.replace("i * 128 +:", "(3 - i) * 128 +:")
    (line,) = found.differences(SAME, backwards)
    assert line.startswith("array 0 differs in ")
    assert found.differences(SAME, backwards, rtol=1e-5, atol=1e-5) == []


def test_what_was_run_is_not_run_again(monkeypatch):
    """Each text once, whatever its configuration; so is each rewrite of what was built."""
    counts, found = collections.Counter(), runs()

    def counted(name, function):
        def call(*args):
            counts[name] += 1
            return function(*args)

        return call

    monkeypatch.setattr(execute, "run", counted("run", execute.run))
    monkeypatch.setattr(executed, "rewrite", counted("rewrite", executed.rewrite))
    other = SAME.replace("\n\nkernel", '\nconfig "loop": 1\n\nkernel')
    dead = SAME.replace("  store", "  _ = add total, 1.0 : float32[8, 128]\n  store")
    for built in (dead, dead.replace("\n\nkernel", '\nconfig "loop": 1\n\nkernel')):
        assert found.rewrite_problems(built, SAME) == []
    assert counts == {"run": 2, "rewrite": len(executed.rewrites())}
    assert found.outputs(SAME) is found.outputs(other)
    (line,) = found.rewrite_problems(dead, SAME.replace("add total, x", "add x, total"))
    assert line == "the rewrites, one by one, give another text"


@pytest.mark.parametrize(
    "old, new, same",
    [
        ("total", "total_1", True),
        ("total", "sum", False),
        ("zeros", "x_1", False),
        ("y_ref[...], total", "y_ref[...], x", False),
        ("i * 128", "i * 256", False),
        ("total = add", "total_2 = add", False),
    ],
)
def test_texts_that_differ_in_numbers_of_names(old, new, same):
    """All names of a value, and of no other."""
    assert executed.same_but_numbers(SAME, SAME.replace(old, new)) == same


def test_each_kernel_has_names_of_its_own():
    """The second kernel calls `total_1` what the first calls `total`, in one of two texts."""
    kernel = SAME[SAME.index("\nkernel ") : SAME.index("\nhost(")]
    other = kernel.replace("kernel k", "kernel l")
    texts = [SAME.replace("\nhost(", f"{other}\nhost(")]
    texts.append(SAME.replace("\nhost(", f"{other.replace('total', 'total_1')}\nhost("))
    assert texts[0] != texts[1]
    assert executed.same_but_numbers(*texts)


LAST = """program p for v6e
input x float32[8, 100]
output y float32[8, 100]

kernel k {
  in x_ref vmem float32[8, 100] of [8, 100] at (0, 0) buffers 1
  out y_ref vmem float32[8, 100] of [8, 100] at (0, 0) buffers 1

  %1 = zeros : float32[8, 100]
  total_1 = loop step(j) fori_loop step j carry (total = %1) : float32[8, 100] {
    dim j steps (1) full 0 tail 100 size 128
    mask _ peel
    x = load x_ref[...] : float32[8, 100]
    %2 = add total, x : float32[8, 100]
    yield %2
  }
  store y_ref[...], total_1
}

host(x) {
  y = launch kernel=0, x : float32[8, 100]
  return y
}
"""


def test_names_of_what_is_gone_are_free():
    """total_1 was the loop's result; once that is gone, what it starts as is called so."""
    text = executed.rewrite(LAST, ["peel", "split", "drive"])
    assert "  total_1 = let %1 : float32[8, 100]\n  total_1 = call step(total_1)" in text
