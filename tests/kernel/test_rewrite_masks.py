"""The rewrite that masks the valid lanes of a ragged last step: all other steps have no mask."""

import re

import executed
import kit
import pytest
from pallasc import compare

RAGGED = {"block_sizes": [1, 256, 96]}  # of 512 positions of K and V the last step has 32


@pytest.mark.parametrize("loop", ["fori_loop", "emit_pipeline"])
def test_the_last_step_alone_is_masked(loop):
    config = {**RAGGED, "pallas_loop_type": loop, "pallas_transposed_scores": "off"}
    document = kit.document("attention")
    document.pop("config", None)
    before, after = (
        kit.emitted("kernel", document, rewrites, **config).out
        for rewrites in ("--rewrites=", "--rewrites=masks")
    )
    masked = re.findall(r"(%\d+) = mask (\w+), (.*?) axis", after)
    assert [(of, by) for _, of, by in masked] == [
        ("scores", "32, -inf"),
        ("exp2", "32, 0"),
        ("v", "32, 0"),
        ("exp2_bf16", "32, 0"),
    ]
    assert all(f" = choose ragged, {name}, {of} : " in after for name, of, _ in masked)
    runs = executed.Runs(compare.make_inputs(document, seed=1))
    assert runs.differences(before, after) == []
