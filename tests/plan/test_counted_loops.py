"""Loops of computed bounds whose steps are counted over the grid: skewed, masked at their end."""

import re

import kit
import pytest
import simulated


def loop(graph, blocks, chip="v7x", **config):
    """The loop of the Plan."""
    config = {"block_sizes": blocks, "pallas_loop_type": "fori_loop"} | config
    (found,) = kit.plan(graph, chip, **config)["loops"]
    return found


@pytest.mark.parametrize(
    ("graph", "blocks", "paired", "handed"),
    [
        ("causal_attention", [1, 128, 128], False, ["amax", "scores"]),
        ("causal_attention", [1, 256, 128], True, ["amax", "scores"]),
        # Of a window the first steps need masks, too.
        ("sliding_attention", [128, 1, 128], False, ["amax", "scores_1"]),
    ],
)
def test_what_runs_ahead(graph, blocks, paired, handed):
    found = loop(graph, blocks)
    assert found["skewed"]
    assert found["paired"] == paired
    assert [h["node"] for h in found["handed"]] == handed


def test_one_step_that_would_hand_on_what_it_loads():
    """dk and dv: q and dout would be copied from step to step, and each step masks."""
    found = loop("causal_attention_dkdv", [1, 128, 128])
    assert not found["skewed"]
    assert loop("causal_attention_dkdv", [1, 128, 128], pallas_loop_skew="on")["skewed"]


@pytest.mark.parametrize(("blocks", "masked"), [([1, 128, 128], 1), ([1, 256, 128], 2)])
def test_masks_are_made_behind_the_loop_alone(blocks, masked):
    """One step stands there, or two."""
    config = {"block_sizes": blocks, "pallas_loop_type": "fori_loop"}
    text = kit.compiled("causal_attention", "v7x", **config).source
    assert text.count("masked=True") == masked
    assert len(re.findall(r"if masked\s+else", text)) == 2


@pytest.mark.parametrize(
    ("graph", "blocks"),
    [
        ("causal_attention", [1, 256, 128]),
        ("causal_attention", [1, 128, 128]),
        ("causal_attention", [2, 256, 128]),
        ("alibi_attention", [2, 128, 128]),
        ("sliding_attention", [128, 2, 128]),
        ("causal_attention_dq", [1, 128, 128]),
    ],
)
@pytest.mark.parametrize("chip", ["v6e", "v7x"])
def test_numbers(graph, blocks, chip):
    config = {"block_sizes": blocks, "pallas_loop_type": "fori_loop"}
    assert loop(graph, blocks, chip)["skewed"]
    assert simulated.wrong(kit.document(graph), config, chip) == []


@pytest.mark.parametrize("blocks", [[1, 128, 128], [1, 256, 128]])
@pytest.mark.parametrize("rewrites", ["", "split", "split,skew", "split,skew,pairs"])
def test_as_text(blocks, rewrites):
    """What stands behind a loop whose steps are an int of the kernel is verified and read again."""
    config = {"block_sizes": blocks, "pallas_loop_type": "fori_loop"}
    text = kit.emitted("kernel", "causal_attention", f"--rewrites={rewrites}", **config).out
    again, whole = kit.accepted("-", text=text), kit.emitted("python", "causal_attention", **config)
    # Read between two rewrites, variables are numbered in the order of the text.
    assert sorted(again.out.replace("next_1", "next")) == sorted(
        whole.out.replace("next_1", "next")
    )


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        ("causal_attention_b2_h8_s4096_d128", "in blocks: those that the mask leaves nothing of"),
        ("alibi_attention_8192", "whole: their mask is made of what runs ahead of them"),
    ],
)
@pytest.mark.parametrize("chip", ["v6e", "v7x"])
def test_whether_masked_steps_are_cut(graph, said, chip):
    """What --explain and the plan say is what is done."""
    lines = kit.accepted(kit.path(graph), "--explain", "--emit=none", f"--target={chip}").err
    assert f"plan: step: masked last steps {said}" in lines
    cut = (
        kit.compiled(graph, chip).source
        != kit.compiled(graph, chip, pallas_mask_blocks="off").source
    )
    (found,) = kit.plan(graph, chip)["loops"]
    assert found["blocks"] == cut == said.startswith("in blocks")
