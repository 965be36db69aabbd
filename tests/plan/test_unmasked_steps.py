"""pallas_unmasked_steps: steps of which masks leave every element are computed without them."""

import dataclasses
import json

import executed
import kit
import numpy as np
import proof
import pytest
from coverage import row as coverage

RAGGED = proof.Case("ragged_paged", blocks=(2, 4, 2, 16, 160))
ON = ("pallas_unmasked_steps", json.dumps("on"))
SAID = "steps that masks leave whole are"


def said(graph, **config):
    return [
        line for line in kit.emitted("report", graph, **config).err.splitlines() if SAID in line
    ]


def text(case):
    return executed.kernel_text(proof.document(case.graph), case.config)


def test_auto_is_for_large_masks_in_steps_that_hand_on_nothing():
    few, many = said("ragged_paged_2048_128")
    assert few.endswith("not computed without them: it hands on values in registers")
    assert many.endswith("computed without them: they are told where the step is called")
    assert not said("ragged_paged") and not said("attention")
    (triangle,) = said("lower_matmul_4096")
    assert triangle.endswith("they reduce nothing")
    off = said("ragged_paged_2048_128", pallas_unmasked_steps="off")
    assert all(line.endswith("pallas_unmasked_steps is off") for line in off)


def test_the_step_is_called_with_and_without_its_masks():
    on, off = text(dataclasses.replace(RAGGED, extra=(ON,))), text(RAGGED)
    assert on.count("call step_3(") == 2 and off.count("call step_3(") == 1
    assert "when (whole == 1) unmasked {" in on and "when (whole == 0)" in on
    assert "choose masked, " in on and "masked" not in off


@pytest.mark.parametrize("graph", ["ragged_paged", "ragged_paged_window"])
@pytest.mark.parametrize("distribution", [None, *coverage.DISTRIBUTIONS])
def test_values_are_those_with_all_masks(graph, distribution):
    """Whichever steps of prompts of any length see all of their keys."""
    case = dataclasses.replace(RAGGED, graph=graph, extra=(ON,))
    document = proof.document(graph)
    given = coverage.by_graph()[graph].inputs(document, np.random.default_rng(3), distribution)
    found = executed.Runs(given)
    masked = dataclasses.replace(case, extra=((ON[0], json.dumps("off")),))
    assert text(case) != text(masked)
    assert found.differences(text(masked), text(case)) == []
