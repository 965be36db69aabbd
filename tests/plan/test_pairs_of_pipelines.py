"""Pairs of steps of an emit_pipeline: each step of a pair has windows of its own."""

import json
import re
from pathlib import Path

import kit
import pytest
import simulated
from pallasc import aot
from sized import renamed

PIPELINE = {"pallas_loop_type": "emit_pipeline", "pallas_emit_pipeline_group_size": 1}
LONG = PIPELINE | {"block_sizes": [1, 512, 1024], "pallas_straight_loops": "off"}
SMALL = PIPELINE | {"block_sizes": [1, 128, 128], "pallas_loop_skew": "on"}
PAIRS = SMALL | {"pallas_step_pairs": "on"}
STORES = Path(__file__).with_name("chained_stores.json")


def attention(steps):
    """Of so many steps of 128 columns."""
    document = renamed(kit.document("attention"), {512: 128 * steps})
    document.pop("config", None)
    return document


def loop(document, config, chip="v7x"):
    (found,) = kit.plan(document, chip, **config)["loops"]
    return found


def specs(source):
    """Block indices along the rows, and the grid, of the pipeline."""
    text = re.sub(r"\s+", "", source.partition("pltpu.emit_pipeline(")[2].partition("pipeline(")[0])
    text = text.replace(",)", ")")
    return re.findall(r"lambdai:\(tile_b,(.*?),0\)\)", text), re.findall(r"grid=\((\d+)\)", text)


@pytest.mark.parametrize("chip", ["v6e", "v7x"])
def test_by_default(chip):
    """Where scores are reduced along sublanes; buffers for both steps."""
    paired = loop("attention_d128_8192", LONG, chip)
    assert paired["paired"]
    assert {w["buffers"] for w in paired["windows"]} == {4}
    single = loop("attention_d128_8192", LONG | {"pallas_step_pairs": "off"}, chip)
    assert not single["paired"]
    assert {w["buffers"] for w in single["windows"]} == {2}


@pytest.mark.parametrize(
    ("document", "config"),
    [
        ("attention_d128_8192", LONG | {"pallas_transposed_scores": "off"}),
        ("attention_d128_8192", LONG | {"pallas_load_buffer_count": [2, 2, 2]}),
        ("attention_d128_8192", LONG | {"pallas_loop_skew": "off"}),
        (attention(2), PAIRS),
    ],
)
def test_others_have_one_step(document, config):
    assert not loop(document, config)["paired"]


def test_what_is_written_goes_step_by_step():
    document = json.loads(STORES.read_text())
    config = PAIRS | {"block_sizes": [128, 128]}
    found = loop(document, config)
    assert (found["skewed"], found["paired"]) == (True, False)
    assert simulated.wrong(document, config, seed=1) == []


def test_windows():
    """Of six steps and of seven: the last pair stands behind the loop, or a single step."""
    even, odd = (specs(kit.compiled(attention(n), "v7x", **PAIRS).source) for n in (6, 7))
    two = [
        "jnp.maximum(i*2-1,0)",
        "jnp.minimum(i*2,5)",
        "jnp.maximum(i*2-2,0)",
        "jnp.maximum(i*2-1,0)",
    ]
    assert even == (two, ["4"])
    assert odd[1] == ["5"]
    assert "jnp.maximum(jnp.minimum(i*2-1,6),0)" in odd[0]


@pytest.mark.parametrize("steps", [3, 4, 5, 6])
@pytest.mark.parametrize("chip", ["v6e", "v7x"])
def test_numbers(steps, chip):
    document = attention(steps)
    assert loop(document, PAIRS, chip)["paired"]
    assert simulated.wrong(document, PAIRS, chip) == []


@pytest.mark.parametrize("name", ["attention_b1_h2_s421_d128", "attention_b1_h2_s421_d96"])
def test_a_ragged_step_behind(name):
    """Three full steps and a ragged one."""
    document = kit.document(name)
    document.pop("config", None)
    assert loop(document, PAIRS, "v6e")["paired"]
    assert simulated.wrong(document, PAIRS, "v6e") == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("runs (2)", "runs (3)", "once less than it has steps, or half as often"),
        ("at (4)", "at (3)", "sees its own steps and the next"),
    ],
)
def test_refused_texts(old, new, said):
    text = kit.emitted("kernel", attention(6), "--rewrites=split,skew,pairs", **PAIRS).out
    assert old in text
    assert said in kit.refused(1, "-", text=text.replace(old, new))


@pytest.mark.parametrize("chip", ["v6e", "v7x"])
def test_accepted(chip):
    """By the TPU compiler, in the VMEM that is predicted."""
    module = kit.compiled("attention_d128_8192", chip, **LONG)
    result = aot.compile_one(module, chip, timeout=300)
    assert result.kind == "ok", result.message
    assert result.vmem_bytes <= result.predicted_bytes
