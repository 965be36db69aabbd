"""How often loops are taken to run of which only data say it: pallas_expected_steps, guesses."""

import kit
import pallasc
import pytest


def module(name, **keys):
    text = (kit.COVERAGE / f"{name}.json").read_text()
    return pallasc.compile(text, target="v6e", config=keys)


def cycles(name, steps=None):
    keys = {"pallas_expected_steps": steps} if steps else {}
    return module(name, **keys).plan["estimate"]["cycles"]


@pytest.mark.parametrize("name", ["newton_roots_8192_4096", "collatz_65536"])
def test_a_while_takes_as_many_steps_as_are_expected(name):
    """Once where nobody says it; where compute hides all copies, each step takes the same."""
    ten, twenty, thirty = (cycles(name, steps) for steps in (10, 20, 30))
    assert cycles(name) == cycles(name, 1)
    assert cycles(name) < ten
    assert thirty - twenty == pytest.approx(twenty - ten, rel=1e-3)
    assert 20 * (thirty - twenty) == pytest.approx(10 * (thirty - ten), rel=1e-3)


def test_loops_whose_steps_are_known_take_those():
    assert cycles("ragged_softmax", 40) == cycles("ragged_softmax")


def test_it_changes_nothing_but_the_estimates():
    plain, told = module("collatz"), module("collatz", pallas_expected_steps=100)
    lines = [text.source.splitlines() for text in (plain, told)]
    differ = [new for old, new in zip(*lines, strict=False) if old != new]
    assert len(lines[1]) - len(lines[0]) <= 1
    start = next(n for n, line in enumerate(lines[0]) if line.startswith("def _collatz_kernel"))
    shift = len(lines[1]) - len(lines[0])
    kernel = [
        line for line in lines[0][start:] if "CostEstimate" not in line and "flops" not in line
    ]
    other = [
        line
        for line in lines[1][start + shift :]
        if "CostEstimate" not in line and "flops" not in line
    ]
    assert kernel == other
    assert differ


def test_a_range_between_two_numbers_is_a_third_of_all():
    """Two numbers rise evenly: a third and two thirds of 8192 rows; half a block is not full."""
    estimate = module("sum_to_8192_4096").plan["estimate"]
    steps, registers = 8192 / 3 / 256 + 0.5, 256 * 128 / (8 * 128)
    assert estimate["operations"]["load"] == pytest.approx(32 * steps * registers, rel=1e-3)
