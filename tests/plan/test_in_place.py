"""pallas_in_place: an array that is updated takes over its buffer."""

import kit
import numpy as np
import pytest
from pallasc.inputs import numpy_dtype
from pallasc.module import kernel_text
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


@pytest.mark.parametrize("graph", ("adamw", "adamw_odd", "add_in_place_odd"))
def test_the_values_are_those_of_a_new_array(graph):
    """Nothing races, and what is updated is not read after it; whether blocks are whole or not."""
    draw = np.random.default_rng(2)
    module = kit.compiled(graph, "v6e", pallas_in_place="on")
    arrays = [
        draw.random(item["shape"], np.float32).astype(numpy_dtype(item["dtype"]))
        for item in module.info["inputs"]
    ]
    kept = [array.copy() for array in arrays]
    name = module.info["name"]
    run = simulate(getattr(module.load(), name), arrays, interpret_params())
    plain = kit.compiled(graph, "v6e")
    wanted = simulate(getattr(plain.load(), name), arrays, interpret_params())
    assert (run.races, run.complaints) == ([], [])
    for actual, expected in zip(run.outputs, wanted.outputs, strict=True):
        np.testing.assert_array_equal(actual, expected)
    for array, copy in zip(arrays, kept, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_only_arrays_that_are_not_of_whole_blocks_are_padded():
    """In simulation, by functions that are no part of what a TPU runs."""
    whole, ragged = (
        kit.compiled(graph, "v6e", pallas_in_place="on").source for graph in ("adamw", "adamw_odd")
    )
    assert "_whole_blocks" not in whole and "_whole_blocks(arrays, shapes, options)" in ragged
    assert "_whole_blocks" not in kit.compiled("adamw_odd", "v6e").source
    assert "_whole_blocks" not in kernel_text(ragged) and "_cut(" not in kernel_text(ragged)
