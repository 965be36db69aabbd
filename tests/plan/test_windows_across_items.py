"""pallas_windows_across of a loop in a loop: the last step of an item copies the next one's first
windows, an item being one run of the inner loop."""

import copy
import re

import kit
import numpy as np
import pallasc
import pytest
import simulated
from coverage import row as coverage
from pallasc.simulate import interpret_params, simulate

GRAPHS = ["ragged_paged", "ragged_paged_window", "ragged_paged_scaled"]
ODD = [f"{graph}_odd" for graph in GRAPHS]
ON, OFF = {"pallas_windows_across": "on"}, {"pallas_windows_across": "off"}


def across(graph, chip="v6e", **config):
    """Whether each loop of the Plan does: by turns one of tiles of queries, and one of pages."""
    return [loop["across"] for loop in kit.plan(graph, chip, **config)["loops"]]


def steered(graph, lengths, starts):
    """Inputs of sequences of given lengths, whose new tokens stand where `starts` says."""
    document = kit.document(graph)
    given = coverage.by_graph()[graph].inputs(document, np.random.default_rng(5), None)
    names = [p.name for p in coverage.parameters(document)]
    given = list(given)
    given[names.index("lengths")] = np.array(lengths, np.int32)
    given[names.index("starts")] = np.array(starts, np.int32)
    return document, given


def simulated_outputs(document, config, given):
    """The first output, after a run without a complaint."""
    module = pallasc.compile(document, config, "v6e").load()
    ran = simulate(module, copy.deepcopy(given), interpret_params())
    assert not ran.races
    assert not ran.complaints
    return np.asarray(ran.outputs[0]).astype(np.float32)


@pytest.mark.parametrize("graph", GRAPHS + ODD)
def test_pages_of_tiles_of_queries(graph):
    inner = [loop for loop in across(graph) if loop]
    assert len(inner) == 2
    assert not any(across(graph, **OFF))
    assert not any(across(graph, "v5p"))
    said = kit.emitted("report", graph).err
    assert said.count("the next item's first windows are copied in the last step: pages are") == 2


def test_one_buffer_is_none_to_copy_into():
    assert not any(across("ragged_paged", pallas_load_buffer_count=[2, 1, 2, 2, 2, 2]))


def test_what_is_said_in_the_module():
    source = kit.compiled("ragged_paged", "v6e").source
    assert re.search(r"^    def start_next\(which, item, items\):$", source, re.M)
    assert re.search(r"start_next\(0, j, pl.cdiv\(decoded_clamped - start_clamped, 16\)\)", source)
    assert "& (started == 0)" in source
    off = kit.compiled("ragged_paged", "v6e", **OFF).source
    assert "start_next" not in off
    assert "steps_ref" not in off


@pytest.mark.parametrize(
    ("graph", "distribution"),
    [(graph, None) for graph in GRAPHS + ODD]
    + [("ragged_paged_window", distribution) for distribution in coverage.DISTRIBUTIONS],
)
def test_pages_are_read_as_they_are_without(graph, distribution):
    """Of prompts and single tokens, of sequences without new tokens."""
    document = kit.document(graph)
    given = coverage.by_graph()[graph].inputs(document, np.random.default_rng(3), distribution)
    assert simulated.wrong(document, {}, given=given) == []


@pytest.mark.parametrize(
    ("lengths", "starts"),
    [
        ([16, 1, 32, 33, 128], [0, 1, 2, 3, 4, 5]),  # single tokens, one page, odd counts of steps
        ([40, 17, 128, 16, 1], [0, 40, 40, 40, 40, 40]),  # nothing behind a prompt
        ([5, 6, 7, 8, 9], [0, 0, 0, 0, 0, 9]),  # nothing before one
        ([7, 128, 64, 96, 31], [0, 7, 7, 24, 25, 40]),  # prompts of several tiles
        ([1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]),  # no item at all
    ],
)
def test_lengths(lengths, starts):
    document, given = steered("ragged_paged", lengths, starts)
    assert simulated.wrong(document, {}, given=given) == []


@pytest.mark.parametrize("lengths", [[0, 16, 0, 128, 0], [128, 0, 0, 33, 64], [0, 0, 0, 0, 0]])
def test_items_without_steps(lengths):
    """Of a token that is no part of its sequence: no page is read, and 0 / 0 stands there."""
    document, given = steered("ragged_paged", lengths, [0, 1, 2, 3, 24, 40])
    on, off = (simulated_outputs(document, config, given) for config in (ON, OFF))
    assert np.isnan(on).any()
    assert np.array_equal(on, off, equal_nan=True)


@pytest.mark.parametrize(
    ("buffers", "blocks"), [(3, [1, 1, 1, 16, 32]), (3, [2, 4, 2, 8, 16]), (2, [2, 4, 4, 16, 160])]
)
def test_tiles_and_buffers(buffers, blocks):
    document = kit.document("ragged_paged")
    given = coverage.by_graph()["ragged_paged"].inputs(document, np.random.default_rng(7), None)
    config = {"block_sizes": blocks, "pallas_load_buffer_count": [2, buffers, buffers, 2, 2, 2]}
    assert sum(across(document, **config)) == 2
    assert simulated.wrong(document, config, given=given) == []


COPIED = {
    "pallas_loop_type": "fori_loop",
    "pallas_fori_dma": "on",
    "pallas_loop_skew": "off",
}


@pytest.mark.parametrize(
    "graph", ["nested_sums", "nested_scale", "experts_fused", "fused_linear_cross_entropy"]
)
def test_other_loops(graph):
    """The steps around may read their number for this alone."""
    config = COPIED
    assert not any(across(graph, **COPIED, **OFF))
    assert sum(across(graph, **config)) == 1
    assert "start_next(0, " in kit.compiled(graph, "v6e", **config).source
    assert simulated.wrong(kit.document(graph), config) == []


@pytest.mark.parametrize("graph", GRAPHS)
def test_tiles_of_two_sizes_read_one_resident_block(graph):
    operands = [o for o in kit.plan(graph, "v6e")["operands"] if o["tensor"] == "q"]
    assert [operand["block"][1] for operand in operands] == [160 + 32]
