"""Loops of computed bounds whose steps are counted over the grid: skewed, masked at their ends."""

import json
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
        # Of a window that is shorter than a step all of them need masks.
        ("sliding_attention", [128, 1, 128], False, ["amax", "scores_1"]),
    ],
)
def test_what_runs_ahead(graph, blocks, paired, handed):
    found = loop(graph, blocks)
    assert found["skewed"]
    assert found["paired"] == paired
    assert [h["node"] for h in found["handed"]] == handed


def test_one_step_that_would_hand_on_what_it_loads():
    """dk and dv: q and dout are copied from step to step where the first one alone masks."""
    assert loop("causal_attention_dkdv", [1, 128, 128])["skewed"]
    two = "causal_attention_dkdv_8192", [1, 1024, 512]
    assert not loop(*two)["skewed"]
    assert loop(*two, pallas_loop_skew="on")["skewed"]


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
        ("causal_attention_dkdv", [1, 128, 128]),
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


# ---- masks of the first step ----------------------------------------------------------------

WINDOWS = {"block_sizes": [128, 2, 128], "pallas_loop_type": "fori_loop"}


def windowed(rows, maximum="_mask_to_2"):
    """Attention over the last so many rows; of what the maximum of a step is taken."""
    document = kit.document("sliding_attention")
    for graph in document["graphs"]:
        nodes = {n["name"]: n for n in graph["nodes"]}
        if "lt" in nodes:
            nodes["lt"]["args"][1] = rows
            nodes["amax"]["args"][0] = {"ref": maximum}
        else:
            nodes["add"]["args"][0] = 1 - rows
    return document


def flagged(document, **config):
    """How often the flag of masks is set, and how often a function asks for it."""
    text = kit.compiled(json.dumps(document), "v7x", **(WINDOWS | config)).source
    return text.count("masked=True"), len(re.findall(r"if masked\s+else", text))


def test_a_window_is_masked_in_the_first_step_and_the_last():
    """The first one ahead of the loop, the last one behind it: both of scores and maximum."""
    (found,) = kit.compiled(json.dumps(windowed(256)), "v7x", **WINDOWS).plan["loops"]
    assert [h["node"] for h in found["handed"]] == ["amax", "scores"]
    assert flagged(windowed(256)) == (2, 3)


@pytest.mark.parametrize("rows", [130, 255, 257, 258, 384])
def test_of_most_windows_two_steps_are_masked_first(rows):
    """Then all steps are: a tile of 128 rows sees rows + 127, from where a step starts."""
    expected = (2, 3) if rows % 128 < 2 else (0, 0)
    assert flagged(windowed(rows)) == expected


def test_what_else_is_read_of_what_is_chosen():
    """The maximum is that of all scores: what is handed on must not be masked."""
    assert flagged(windowed(256, "scores")) == (0, 0)


@pytest.mark.parametrize("chip", ["v6e", "v7x"])
@pytest.mark.parametrize("rows", [128, 255, 256, 257, 384])
@pytest.mark.parametrize("blocks", [[128, 2, 128], [256, 1, 256]])
def test_numbers_of_a_window(rows, blocks, chip):
    config = WINDOWS | {"block_sizes": blocks}
    assert simulated.wrong(windowed(rows), config, chip) == []
    assert simulated.wrong(windowed(rows, "scores"), config, chip) == []
