"""Pairs of steps that copy their windows: those of both are waited for at once."""

import json
import re
from pathlib import Path

import kit
import pytest
import simulated
from pallasc import aot

COPIED = {"pallas_loop_type": "fori_loop", "pallas_fori_dma": "on", "block_sizes": [1, 128, 128]}
PAIRS = COPIED | {"pallas_step_pairs": "on"}
LONG = {"pallas_loop_type": "fori_loop", "pallas_fori_dma": "on", "block_sizes": [1, 512, 1024]}
# Four full steps; three, and a ragged one.
GRAPHS = ("attention", "attention_b1_h2_s421_d128")
# Two matmuls of each step, which stores what they give: five steps.
STORES = Path(__file__).with_name("chained_stores.json")
# Buffers of each input: what it takes; more; too few for both steps; none to copy ahead into.
COUNTS = (None, [2, 4, 5], [2, 3, 3], [1, 2, 4], [1, 1, 1])


def counted(counts):
    return PAIRS | ({"pallas_load_buffer_count": counts} if counts else {})


def buffers(plan):
    return {w["ref"]: w["buffers"] for w in plan["loops"][0]["windows"]}


def body(module):
    """The iteration, without white space."""
    text = module.source.partition("def body(")[2].partition("return")[0]
    return re.sub(r"\s+", "", text)


@pytest.mark.parametrize("chip", ["v6e", "v7x"])
@pytest.mark.parametrize("name", ["attention_d128_8192", "attention_dq_8192"])
def test_by_default(name, chip):
    """Where the steps' copies take less time than their matmuls."""
    plan = kit.plan(name, chip, **LONG)
    assert plan["loops"][0]["paired"]
    assert set(buffers(plan).values()) == {4}
    one = kit.plan(name, chip, **LONG, pallas_step_pairs="off")
    assert set(buffers(one).values()) == {2}
    assert plan["vmem"]["inner"] == 2 * one["vmem"]["inner"]


def test_where_nobody_gives_sizes():
    """K and V of 131072 rows do not fit v7x: in pairs they need not."""
    document = kit.document("attention_d128_8192") | {"config": {}}
    text = json.dumps(document).replace("8192", "131072")
    said = kit.accepted("-", "--emit=plan", "--target=v7x", "--explain", text=text)
    (loop,) = json.loads(said.out)["loops"]
    assert (loop["type"], loop["dma"], loop["paired"]) == ("emit_pipeline", True, True)
    assert "block_sizes by default: tile_b 1, tile_m 2048, tile_n 1024" in said.err


@pytest.mark.parametrize(
    ("name", "chip", "count"),
    [
        ("decode_attention_8192", "v6e", 2),
        ("decode_attention_8192", "v7x", 3),
        ("bias_attention_4096", "v6e", 3),
        ("bias_attention_4096", "v7x", 2),
    ],
)
def test_not_where_hbm_is_waited_for(name, chip, count):
    """Three windows where the latencies show."""
    config = {"pallas_loop_type": "fori_loop", "pallas_fori_dma": "on"}
    (loop,) = kit.plan(name, chip, **config)["loops"]
    assert not loop["paired"]
    assert {w["buffers"] for w in loop["windows"]} == {count}


def test_not_in_fewer_buffers_than_that():
    """The configuration's own counts stay."""
    plan = kit.plan("attention_d128_8192", "v6e", **LONG, pallas_load_buffer_count=[2, 4, 3])
    assert not plan["loops"][0]["paired"]
    assert buffers(plan) == {"k_in_win": 4, "v_in_win": 3}
    plan = kit.plan("attention_d128_8192", "v6e", **LONG, pallas_load_buffer_count=[2, 4, 6])
    assert plan["loops"][0]["paired"]
    assert buffers(plan) == {"k_in_win": 4, "v_in_win": 6}


def test_both_steps_wait_at_once():
    """Nothing is waited for between what two steps compute, if there are buffers for both."""
    together = body(kit.compiled("attention", "v6e", **counted(None)))
    calls = [m.start() for m in re.finditer(r"step(_ahead)?\(", together)]
    assert len(calls) == 4
    assert together.count(".wait()") == 4
    assert together.rindex(".wait()") < calls[0]
    assert "k_in_copy(j_1+2).start()" in together
    assert "v_in_copy(j+2).start()" in together
    apart = body(kit.compiled("attention", "v6e", **counted([2, 3, 3])))
    assert apart.count(".wait()") == 4
    assert apart.rindex(".wait()") > apart.index("step_ahead(")
    assert "k_in_copy(j_1+2).start()" in apart


@pytest.mark.parametrize("counts", COUNTS, ids=str)
@pytest.mark.parametrize("name", GRAPHS)
def test_right(name, counts):
    wrong = simulated.wrong(kit.document(name), counted(counts), adversarial="last_row", seed=1)
    assert wrong == []


@pytest.mark.parametrize("counts", [None, [2, 2, 2]], ids=str)
def test_results_that_each_step_copies_away(counts):
    """Room for those of both steps is waited for at once, too, if inputs are."""
    config = counted(counts) | {"block_sizes": [128, 128], "pallas_loop_skew": "on"}
    found = body(kit.compiled(json.loads(STORES.read_text()), "v6e", **config))
    assert found.count("out_copy(j-2).wait()") == found.count("out_copy(j_1-2).wait()") == 1
    assert (found.rindex(".wait()") < found.index("=step_ahead(")) == (counts is None)
    assert simulated.wrong(json.loads(STORES.read_text()), config, seed=1) == []


@pytest.mark.parametrize("chip", ["v5e", "v7x"])
def test_the_tpu_compiler_takes_it(chip):
    jobs = [(kit.compiled(name, chip, **counted(c)), chip) for name in GRAPHS for c in COUNTS[:3]]
    for result in aot.compile_many(jobs, timeout=120):
        assert (result.kind, result.message) == ("ok", "")
        assert 0 < result.vmem_bytes <= result.predicted_bytes
