"""The graph after the passes is a document again, and means what it meant."""

import json
import os
import subprocess

import numpy as np
import proof
import pytest
from pallasc import reference

PALLASC = os.environ.get("PALLASC", str(proof.ROOT / "pallasc"))


def pallasc(*arguments, text=None):
    """What the compiler prints; fails if it refuses."""
    run = subprocess.run(
        [PALLASC, *map(str, arguments)], input=text, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


CASES = [(graph, blocks) for graph in proof.SECOND_BLOCKS for blocks in proof.blocks_of(graph)]


@pytest.mark.parametrize("passes", [(), ("--passes=pre_broadcast",)], ids=["all", "pre_broadcast"])
@pytest.mark.parametrize(("graph", "blocks"), CASES, ids=str)
def test_the_reference_runs_what_the_passes_leave(graph, blocks, passes):
    """Bit for bit the same values, with row values carried wide; and pallasc loads it again."""
    path = proof.GRAPH_DIRECTORY / f"{graph}.json"
    switches = ["--set=pallas_pre_broadcast=true", f"--set=block_sizes={list(blocks)}"]
    after = pallasc(path, *switches, *passes, "--emit=json")
    document = json.loads(after)
    again = json.loads(pallasc("-", "--passes=pre_broadcast", text=after))
    assert again["graphs"] == document["graphs"]
    outputs = reference.run(document, proof.inputs(graph, "random", blocks))
    expected = proof.expected_reference(graph, "random", blocks)
    for output, wanted in zip(outputs, expected, strict=True):
        assert output.dtype == wanted.dtype
        np.testing.assert_array_equal(output, wanted)
