"""pallas_windows_across: the last step of a grid point copies the next one's first windows."""

import json
import re

import kit
import numpy as np
import pytest
import simulated
from coverage import row as coverage

COPIED = {
    "pallas_loop_type": "fori_loop",
    "pallas_fori_dma": "on",
    "pallas_loop_skew": "off",
    "pallas_windows_across": "on",
}


def across(graph, chip="v6e", **config):
    """Whether each loop of the Plan does, and the semantics of its grid's dims."""
    plan = kit.plan(graph, chip, **config)
    return [loop["across"] for loop in plan["loops"]], [dim["semantics"] for dim in plan["grid"]]


def test_pages_are_copied_across_points_in_order():
    assert across("paged_decode") == ([True], ["arbitrary"] * 2)
    assert across("paged_decode", pallas_windows_across="off") == ([False], ["parallel"] * 2)
    said = kit.emitted("report", "paged_decode").err
    assert "the next point's first windows are copied in the last step: pages are" in said


def test_cores_that_share_the_grid_have_no_next_point():
    assert across("paged_decode", "v5p") == ([False], ["parallel"] * 2)


def test_other_windows_only_where_it_is_asked_for():
    assert across("attention", **COPIED)[0] == [True]
    assert across("attention", **{**COPIED, "pallas_windows_across": "auto"})[0] == [False]


@pytest.mark.parametrize(
    ("graph", "config"),
    [
        ("attention", {**COPIED, "pallas_loop_skew": "on"}),  # its first step is computed before
        ("attention", {**COPIED, "pallas_load_buffer_count": [2, 1, 2]}),
        ("attention", {**COPIED, "pallas_loop_type": "emit_pipeline"}),
        ("matmul_1024", {**COPIED, "block_sizes": [1024, 1024, 512]}),  # a grid of one point
        ("jagged_sum", COPIED),  # each row begins where data say
    ],
)
def test_what_speaks_against_it(graph, config):
    assert not any(across(graph, **config)[0])


def test_the_first_point_alone_waits_for_its_first_windows():
    source = kit.compiled("paged_decode", "v6e").source
    assert source.count("k_pages_copy_next(piece).start()") == 2
    assert source.count("k_pages_copy(0, piece).start()") == 1
    assert re.search(r"next_point = block_0 \* 2 \+ block_1 \+ 1", source)
    assert "steps_ref[0] = jnp.int32(steps_after)" in source


def test_the_estimate_knows():
    """Of few steps at a point, most of what was waited for."""
    config = {"pallas_wide_blocks": "off"}
    on, off = (
        kit.plan("paged_decode_64_32_128", "v7x", pallas_windows_across=value, **config)
        for value in ("on", "off")
    )
    assert on["estimate"]["waits"] < off["estimate"]["waits"] / 2
    assert on["estimate"]["compared_seconds"] < off["estimate"]["compared_seconds"]


@pytest.mark.parametrize("graph", ["paged_decode", "paged_decode_odd", "latent_decode"])
@pytest.mark.parametrize("distribution", [None, *coverage.DISTRIBUTIONS])
def test_pages_are_read_as_they_are_without(graph, distribution):
    """Of sequences of any length, some of none: what was copied for these nobody reads."""
    document = kit.document(graph)
    given = coverage.by_graph()[graph].inputs(document, np.random.default_rng(3), distribution)
    config = {"pallas_wide_blocks": "off"}
    assert across(document, **config)[0] == [True]
    assert simulated.wrong(document, config, given=given) == []


@pytest.mark.parametrize("buffers", [2, 3])
@pytest.mark.parametrize("blocks", [[1, 128, 128], [2, 512, 256], [1, 512, 512]])
def test_windows_of_attention(buffers, blocks):
    """Points of several steps and of one, with steps two ahead too."""
    config = {**COPIED, "block_sizes": blocks, "pallas_load_buffer_count": [2, buffers, buffers]}
    assert across("attention", **config)[0] == [True]
    assert simulated.wrong(kit.document("attention"), config) == []


def test_the_text_says_it():
    text = kit.emitted("kernel", "paged_decode", "--rewrites=").out
    assert re.search(r"^ +across$", text, re.M)
    assert json.loads(kit.emitted("plan", "paged_decode").out)["loops"][0]["across"]
