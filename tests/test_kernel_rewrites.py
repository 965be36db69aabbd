"""Kernel text, executed, computes what its document says; a rewrite of it computes the same."""

import executed
import modules
import numpy as np
import proof
import pytest
from coverage import results
from coverage import row as coverage

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


def test_a_rewrite_is_compared():
    arrays = [np.random.default_rng(0).standard_normal((8, 512), "float32")]
    assert executed.rewritten(SAME, SAME.replace("add total, x", "add x, total"), arrays) == []
    backwards = SAME.replace("i * 128 +:", "(3 - i) * 128 +:")
    (line,) = executed.rewritten(SAME, backwards, arrays)
    assert line.startswith("array 0 differs in ")
    assert executed.rewritten(SAME, backwards, arrays, rtol=1e-5, atol=1e-5) == []
