"""pallas_scale_in_q: what it gives, where it does nothing, and what `check` then allows."""

import json

import kit
import pytest
from pallasc import compare, execute, judge, reference

ODD = "attention_b1_h3_s421_d64"
LOOPS = ("unroll", "fori_loop", "emit_pipeline")
CASES = [(name, loop) for name in ("attention", ODD) for loop in LOOPS]
CASES += [("causal_attention", loop) for loop in LOOPS[1:]]  # its end is known at run time


def kernel(name, **config):
    """The kernel's text, without its configuration."""
    settings = [f"--set={key}={json.dumps(value)}" for key, value in config.items()]
    found = kit.accepted(*settings, "--emit=kernel", kit.path(name)).out
    return found, [line for line in found.splitlines() if not line.startswith("config ")]


@pytest.mark.parametrize(("name", "loop"), CASES)
def test_values(name, loop):
    document = kit.document(name)
    config = {**document["config"], "pallas_loop_type": loop, "pallas_scale_in_q": "on"}
    inputs = judge.make_arguments(document, 0, None, None, config)
    expected = reference.run(document, inputs, config=config)
    text, lines = kernel(name, pallas_loop_type=loop, pallas_scale_in_q="on")
    assert lines != kernel(name, pallas_loop_type=loop)[1]
    for index, actual in enumerate(execute.run(text, *inputs)):
        tolerance = judge.tolerance_for(document, index, config)
        verdict = compare.compare(actual, expected[index], tolerance)
        assert verdict.ok, verdict


@pytest.mark.parametrize("name", ["attention_b1_h2_s421_d96", "attention_scaled_q", "matmul_1024"])
def test_where_it_does_nothing(name):
    """Of float32, of a Q that is scaled already, and of a matmul without a scale."""
    assert kernel(name, pallas_scale_in_q="on")[1] == kernel(name, pallas_scale_in_q="off")[1]


def test_bound():
    """A float32 output of attention is right to bfloat16; others stay as they are."""
    document, on = kit.document("attention"), {"pallas_scale_in_q": "on"}
    assert str(judge.tolerance_for(document, 1, {})) == "0.0001 of |b| + rms (chain)"
    assert str(judge.tolerance_for(document, 1, on)) == "8 ulp of bfloat16 (chain)"
    assert str(judge.tolerance_for(document, 0, on)) == "8 ulp of bfloat16 (chain)"
    wide = kit.document("attention_b1_h2_s421_d96")
    assert str(judge.tolerance_for(wide, 1, on)) == "0.0001 of |b| + rms (chain)"


def test_other_values_are_refused():
    message = kit.refused(1, "--set=pallas_scale_in_q=2", kit.path("attention"))
    assert "pallas_scale_in_q" in str(message)
