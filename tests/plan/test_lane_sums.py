"""pallas_lane_sums: which loops keep the sums that they carry in 128 lanes."""

import json

import executed
import kit
import ml_dtypes
import numpy as np
import pytest

CHOOSES = "testdata/coverage/graphs/cross_entropy_online.json"
TWO_PASS = "testdata/graphs/softmax_two_pass.json"
ATTENTION = "testdata/graphs/attention.json"
MATMULS = ("pallas_transposed_scores=off", "block_sizes=[1,128,256]")
KEPT = ["carried in 128 lanes: they are summed along lanes once, behind it"]


def compiled(graph, *settings):
    """What --explain says of sums along lanes, and the module."""
    words = [f"--set={setting}" for setting in settings]
    ran = kit.accepted("--target=v6e", "--explain", graph, *words)
    said = [line.split("sums along lanes are ") for line in ran.err.splitlines()]
    return [parts[1] for parts in said if len(parts) > 1], ran.out


def test_what_a_column_chooses_is_selected_and_all_sums_are_kept():
    said, module = compiled(CHOOSES, "block_sizes=[64,256]")
    assert said == KEPT
    assert "_fold_where(picked, hit, " in module
    assert "_fold_lanes(" in module


def test_off_sums_in_each_step():
    said, module = compiled(CHOOSES, "block_sizes=[64,256]", "pallas_lane_sums=off")
    assert said == ["made in each step: pallas_lane_sums is off"]
    assert "_fold_" not in module


def test_other_sums_are_kept_where_it_is_on():
    assert compiled(TWO_PASS, "pallas_whole_rows=off")[0] == [
        "made in each step: none is of what a column's number chooses"
    ]
    said, module = compiled(TWO_PASS, "pallas_whole_rows=off", "pallas_lane_sums=on")
    assert said == KEPT
    assert "row_sum_1 = _fold_lanes(" in module


def test_beside_matmuls_too():
    assert compiled(ATTENTION, *MATMULS)[0] != KEPT
    assert compiled(ATTENTION, *MATMULS, "pallas_lane_sums=on")[0] == KEPT


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
