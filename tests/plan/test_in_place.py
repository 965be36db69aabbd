"""pallas_in_place: an array that is updated takes over its buffer."""

import kit
import numpy as np
import pytest
from pallasc.simulate import interpret_params, simulate

ALIASES = {
    "adamw": "input_output_aliases={0: 0, 1: 1, 2: 2}",
    "put_row": "input_output_aliases={2: 0}",
    "roots_gradient_step_odd": "input_output_aliases={1: 0}",
}


@pytest.mark.parametrize("graph", ALIASES)
def test_where_it_is_asked_for(graph):
    by_itself, in_place = (
        kit.compiled(graph, "v6e", pallas_in_place=way).source for way in ("auto", "on")
    )
    assert "input_output_aliases" not in by_itself
    assert ALIASES[graph] in in_place


def test_the_values_are_those_of_a_new_array():
    """Nothing races, and what is updated is not read after it."""
    draw = np.random.default_rng(2)
    module = kit.compiled("adamw", "v6e", pallas_in_place="on")
    arrays = [draw.random(item["shape"], np.float32) for item in module.info["inputs"]]
    kept = [array.copy() for array in arrays]
    run = simulate(module.load().adamw, arrays, interpret_params())
    wanted = simulate(kit.compiled("adamw", "v6e").load().adamw, arrays, interpret_params())
    assert (run.races, run.complaints) == ([], [])
    for actual, expected in zip(run.outputs, wanted.outputs, strict=True):
        np.testing.assert_array_equal(actual, expected)
    for array, copy in zip(arrays, kept, strict=True):
        np.testing.assert_array_equal(array, copy)
