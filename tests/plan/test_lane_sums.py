"""pallas_lane_sums: which loops keep the sums that they carry in 128 lanes."""

import json

import executed
import kit
import ml_dtypes
import numpy as np
import pytest

TWO_PASS = "testdata/graphs/softmax_two_pass.json"
WHOLE = ("--set", "pallas_whole_rows=off")


def explained(graph, *words):
    """What --explain says of sums along lanes."""
    ran = kit.accepted("--target=v6e", "--explain", "--emit=none", graph, *words)
    return [
        line.split("sums along lanes are ")[1]
        for line in ran.err.splitlines()
        if "sums along lanes are " in line
    ]


def test_a_loop_that_waits_for_sums_keeps_them():
    said = explained(TWO_PASS, *WHOLE)
    assert said == ["carried in 128 lanes: they are summed along lanes once, behind it"]
    source = kit.accepted("--target=v6e", TWO_PASS, *WHOLE).out
    assert "row_sum_1 = _fold_lanes(" in source


def test_off_sums_in_each_step():
    off = (*WHOLE, "--set", "pallas_lane_sums=off")
    assert explained(TWO_PASS, *off) == ["made in each step: pallas_lane_sums is off"]
    assert "_fold_lanes" not in kit.accepted("--target=v6e", TWO_PASS, *off).out


@pytest.mark.parametrize("switch, begins", [("auto", "made in each step: "), ("on", "carried in ")])
def test_matmuls_hide_the_wait(switch, begins):
    keys = ("pallas_transposed_scores=off", "block_sizes=[1,128,256]", f"pallas_lane_sums={switch}")
    said = explained("testdata/graphs/attention.json", *(f"--set={key}" for key in keys))
    assert said and all(line.startswith(begins) for line in said)


@pytest.mark.parametrize("loop", ["unroll", "fori_loop", "emit_pipeline"])
@pytest.mark.parametrize("skew", ["off", "on"])
def test_beside_matmuls_values_are_the_same(loop, skew):
    document = (kit.ROOT / "testdata/graphs/attention.json").read_text()
    config = {"block_sizes": [1, 128, 256], "pallas_transposed_scores": "off"}
    config |= {"pallas_loop_type": loop, "pallas_loop_skew": skew}
    texts = [
        executed.kernel_text(document, config | {"pallas_lane_sums": switch})
        for switch in ("off", "on")
    ]
    assert "fold_sum" in texts[1] and "fold_sum" not in texts[0]
    inputs = [x for x in json.loads(document)["tensors"] if x.get("role") == "input"]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(x["shape"]).astype(ml_dtypes.bfloat16) for x in inputs]
    assert executed.Runs(arrays).differences(*texts, 2.0**-7, 1e-3) == []
