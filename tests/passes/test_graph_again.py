"""The graph after the passes is a document again, and means what it meant."""

import json

import kit
import numpy as np
import proof
import pytest
from pallasc import reference

# An atomic that is rounded once in the kernel is rounded at each point here: test_summed_parts.py.
PARTS = {"pallas_summed_parts": "off"}
CASES = [(graph, blocks) for graph in proof.SECOND_BLOCKS for blocks in proof.blocks_of(graph)]


@pytest.mark.parametrize("passes", [(), ("--passes=pre_broadcast",)], ids=["all", "pre_broadcast"])
@pytest.mark.parametrize(("graph", "blocks"), CASES, ids=str)
def test_the_reference_runs_what_the_passes_leave(graph, blocks, passes):
    """Bit for bit the same values, with row values carried wide; and pallasc loads it again."""
    switches = {"pallas_pre_broadcast": True, "block_sizes": blocks, **PARTS}
    after = kit.emitted("json", graph, *passes, **switches).out
    document = json.loads(after)
    assert kit.after("pre_broadcast", after)["graphs"] == document["graphs"]
    outputs = reference.run(document, proof.inputs(graph, "random", blocks))
    expected = proof.expected_reference(graph, "random", blocks)
    for output, wanted in zip(outputs, expected, strict=True):
        assert output.dtype == wanted.dtype
        np.testing.assert_array_equal(output, wanted)
