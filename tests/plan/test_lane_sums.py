"""pallas_lane_sums: which loops keep the sums that they carry in 128 lanes, and what --explain says."""

import kit
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
    assert "_fold_lanes(jnp.add, " in source


def test_off_sums_in_each_step():
    off = (*WHOLE, "--set", "pallas_lane_sums=off")
    assert explained(TWO_PASS, *off) == ["made in each step: pallas_lane_sums is off"]
    assert "_fold_lanes" not in kit.accepted("--target=v6e", TWO_PASS, *off).out


@pytest.mark.parametrize("switch, begins", [("auto", "made in each step: "), ("on", "carried in ")])
def test_matmuls_hide_the_wait(switch, begins):
    words = [
        f"--set={key}" for key in ("pallas_transposed_scores=off", f"pallas_lane_sums={switch}")
    ]
    said = explained("testdata/graphs/attention.json", *words)
    assert said and all(line.startswith(begins) for line in said)
