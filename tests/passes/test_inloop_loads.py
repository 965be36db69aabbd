"""Where a loop-invariant load stands in the source makes no difference to the kernel."""

import re

import kit
import proof
import pytest

# (Q loaded before the loop, Q loaded in it): an even size, and a ragged one of head dim 64
PAIRS = (
    ("attention", "attention_q_inloop"),
    ("attention_b1_h3_s421_d64@2", "attention_q_inloop_b1_h2_s421_d64"),
)


def text(graph, loop, chip, **config):
    """The module without comments, of the graph as if it were called `kernel`."""
    document = {**proof.document(graph), "name": "kernel"}
    source = kit.compiled(document, chip, **proof.LOOPS[loop], **config).source
    return re.sub(r"\n *#.*", "", source)


@pytest.mark.parametrize("chip", ["v4", "v7x"])
@pytest.mark.parametrize("loop", proof.LOOPS)
@pytest.mark.parametrize("pair", PAIRS)
def test_one_module(pair, loop, chip):
    """Under auto and on; off leaves Q where it stands."""
    outside, inside = pair
    for choice in ("auto", "on"):
        settings = {"pallas_inloop_loads": choice, "block_sizes": [1, 128, 128]}
        assert text(outside, loop, chip, **settings) == text(inside, loop, chip, **settings)
    settings["pallas_inloop_loads"] = "off"
    assert text(outside, loop, chip, **settings) != text(inside, loop, chip, **settings)


@pytest.mark.parametrize("loop", proof.LOOPS)
def test_arithmetic_sinks_when_asked(loop):
    """q * scale is computed once before the loop; `on` computes it in each step."""
    modules = {
        choice: text("attention_scaled_q", loop, "v6e", pallas_inloop_loads=choice)
        for choice in ("auto", "on", "off")
    }
    step = {choice: module.index("def step") for choice, module in modules.items()}
    scale = {choice: module.index("q_in_ref[...]") for choice, module in modules.items()}
    assert scale["auto"] < step["auto"]
    assert scale["on"] > step["on"]
    assert scale["off"] < step["off"]
