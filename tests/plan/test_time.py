"""The estimate of a kernel's time, by parts: `seconds` and `time` of the plan."""

import json

import kit
import pytest

NAMES = sorted(p.stem for p in kit.GRAPHS.glob("*.json"))
CLOCK, HBM, PEAK = 1.755e9, 1.64e12, 9.2e14  # of v6e
LATENCY = 700 / CLOCK
ELEMENTS = 8 * 128 * CLOCK  # read in a second
PARTS = ["mxu", "vector", "windows", "steps", "gathers", "one_hot", "blocks", "start"]


def added_up(time):
    longer, rest = max(time["mxu"], time["vector"]), [time[part] for part in PARTS[2:]]
    return longer + sum(rest)


def near(value):
    return pytest.approx(value, rel=1e-12)


def test_time_of_a_grid():
    """16 blocks of two inputs and an output, of which each waits for the copies of the next."""
    p = kit.plan("add")
    blocks = 3 * 128 * 256 * 4 / HBM
    assert list(p["time"]) == PARTS
    assert p["time"]["start"] == near(blocks + 2 * LATENCY)
    assert p["time"]["blocks"] == near(15 * (blocks + LATENCY))
    assert {p["time"][part] for part in PARTS[:6]} == {0}
    assert p["seconds"] == near(16 * blocks + 17 * LATENCY)


def test_time_of_a_loop():
    """Four steps in each of 16 points, each of which copies a tile of K and one of V."""
    keys = {"pallas_loop_type": "fori_loop", "pallas_fori_dma": "on", "pallas_loop_skew": "off"}
    p = kit.plan("attention", **keys)
    step, copies = 2 * 128 * 128 / ELEMENTS, 2 * 128 * 128 * 2 / HBM
    assert (p["time"]["mxu"], p["time"]["vector"]) == (near(p["flops"] / PEAK), near(64 * step))
    assert step < copies
    assert p["time"]["windows"] == near(16 * (copies + 3 * (copies - step) + LATENCY))
    assert (p["loops"][0]["type"], p["loops"][0]["dma"]) == ("fori_loop", True)
    assert p["time"]["steps"] == near(64 * (100 + 2 * 32) / CLOCK)  # 32 cycles see to a copy
    assert p["time"]["gathers"] == p["time"]["one_hot"] == 0
    assert p["seconds"] == near(added_up(p["time"]))


def test_time_of_gathers():
    """They are counted in cycles: at half the clock they take twice as long."""
    slow = json.dumps({"base": "v6e", "name": "slow", "clock_hz": CLOCK / 2})
    gathers = kit.plan("embedding")["time"]["gathers"]
    assert gathers > 0
    assert kit.plan("embedding", slow)["time"]["gathers"] == near(2 * gathers)


@pytest.mark.parametrize("name", NAMES)
def test_parts_add_up(name):
    """The longer of the MXU's and the vector unit's time, and all others, are the estimate."""
    p = kit.plan(name)
    assert p["seconds"] == near(added_up(p["time"])) and p["seconds"] > 0


def test_seconds_of_several_kernels():
    """Each has its parts; what they take together is their sum."""
    p = kit.plan("roots_shared_block")
    assert len(p["kernels"]) == 2 and "time" not in p
    for kernel in p["kernels"]:
        assert kernel["seconds"] == near(added_up(kernel["time"]))
    assert p["seconds"] == near(sum(kernel["seconds"] for kernel in p["kernels"]))
