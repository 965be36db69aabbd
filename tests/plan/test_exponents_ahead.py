"""A matmul that runs ahead of exponents that depend on a carried value: linear + cross-entropy."""

import json
import re
from pathlib import Path

import kit
import pytest
import simulated

GRAPH = json.loads(Path(__file__).with_name("linear_cross_entropy.json").read_text())


def large():
    """8192 rows of 4096, 128256 columns."""
    sizes = {"256": "8192", "384": "4096", "1280": "128256"}
    return json.loads(re.sub(r"\b\d+\b", lambda n: sizes.get(n[0], n[0]), json.dumps(GRAPH)))


@pytest.mark.parametrize("chip", ["v6e", "v7x"])
def test_columns_fill_the_matrix_unit_and_leave_nothing_over(chip):
    """167 blocks of 768; of 384 a third of each pass of an MXU of 256 columns would be empty."""
    found = kit.plan(large(), chip)
    (loop,) = found["loops"]
    assert found["config"]["block_sizes"] == [1024, 768]
    assert loop["skewed"]
    assert [h["node"] for h in loop["handed"]] == ["logits"]


@pytest.mark.parametrize(
    ("config", "skewed"),
    [
        ({}, False),  # few short steps: one more takes longer
        ({"pallas_loop_skew": "on"}, True),
        ({"pallas_loop_skew": "off"}, False),
    ],
)
def test_short_steps_stay(config, skewed):
    config = {"block_sizes": [128, 256], "pallas_loop_type": "emit_pipeline"} | config
    (loop,) = kit.plan(GRAPH, "v7x", **config)["loops"]
    assert loop["skewed"] == skewed


def test_chips_with_a_small_matrix_unit_stay():
    (loop,) = kit.plan(large(), "v5e", block_sizes=[512, 512])["loops"]
    assert not loop["skewed"]


@pytest.mark.parametrize("loop_type", ["emit_pipeline", "fori_loop"])
@pytest.mark.parametrize("blocks", [[128, 256], [64, 512]])
def test_values(loop_type, blocks):
    """With a ragged last step, and without."""
    config = {"block_sizes": blocks, "pallas_loop_type": loop_type, "pallas_loop_skew": "on"}
    assert simulated.wrong(GRAPH, config, "v7x") == []
