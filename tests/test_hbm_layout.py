"""Arrays that XLA lays out with their last two dims swapped: the kernel takes them as they lie."""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PALLASC = os.environ.get("PALLASC", str(ROOT / "pallasc"))
SPLIT_K = (ROOT / "testdata" / "graphs" / "matmul_split_k_512.json").read_text()


def run(text, *settings, emit="plan"):
    """What pallasc prints for a document."""
    options = [option for setting in settings for option in ("--set", setting)]
    command = [PALLASC, f"--emit={emit}", "--target=v7x", "--explain", *options, "-"]
    found = subprocess.run(command, input=text, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found


def operand(text, tensor, *settings):
    plan = json.loads(run(text, *settings).stdout)
    return next(o for o in plan["operands"] if o["tensor"] == tensor)


def test_a_narrow_right_factor_is_taken_as_it_lies():
    """y [32768, 64] bfloat16 lies as [64, 32768]: half of its tiles would be padding."""
    y = operand(SPLIT_K, "y")
    swap = {"step": "transpose", "permutation": [1, 0], "boundary": True}
    assert (y["array_steps"], y["shape"], y["block"]) == ([swap], [64, 32768], [64, 4096])
    found = run(SPLIT_K, emit="python")
    assert "jnp.transpose(y, (1, 0))" in found.stdout
    assert "load, load_1, (((1,), (1,)), ((), ()))" in found.stdout
    assert "y: taken with its last two dims swapped, as XLA lays it out" in found.stderr


def test_what_has_whole_lanes_stays():
    assert operand(SPLIT_K, "x")["array_steps"] == []


def test_off_without_boundary_views():
    assert operand(SPLIT_K, "y", "pallas_boundary_views=off")["array_steps"] == []


def test_rows_that_pad_less_as_they_are_stay():
    """[32768, 128] is whole tiles either way."""
    text = SPLIT_K.replace("64]", "128]").replace('"extent": 64', '"extent": 128')
    assert operand(text, "y", "block_sizes=[128,128,1024]")["array_steps"] == []


def test_ragged_rows_stay():
    """1000 is no multiple of 128: swapped, the last dim would be padded."""
    text = (ROOT / "testdata" / "graphs" / "matmul_split_k_odd.json").read_text()
    assert operand(text, "y")["array_steps"] == []
