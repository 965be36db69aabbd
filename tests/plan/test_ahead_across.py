"""pallas_ahead_across: the grid point before computes what a loop's first step starts with."""

import json
import re

import executed
import kit
import pytest
import simulated
from pallasc import compare

LOOP = {
    "pallas_loop_type": "fori_loop",
    "pallas_fori_dma": "off",
    "pallas_straight_loops": "off",
    "pallas_loop_skew": "on",
    "pallas_wide_blocks": "off",
}
ON, OFF = {"pallas_ahead_across": "on"}, {"pallas_ahead_across": "off"}


def explained(graph, target="v6e", **config):
    """What --explain says of it."""
    document = kit.document(graph)
    document["config"] = document.get("config", {}) | config
    said = kit.accepted(
        "-", "--explain", "--emit=none", f"--target={target}", text=json.dumps(document)
    )
    return re.findall(r"plan: step: what runs ahead of the first step is computed (.*)", said.err)


def test_of_the_next_point():
    """Its tile of Q, and of K the window that its first step reads."""
    config = LOOP | ON | {"block_sizes": [1, 128, 128]}
    plan = kit.plan("attention", "v6e", **config)
    assert [loop["ahead_across"] for loop in plan["loops"]] == [True]
    assert {dim["semantics"] for dim in plan["grid"]} == {"arbitrary"}
    source = kit.compiled("attention", "v6e", **config).source
    heads, tiles = (int(n) for n in re.search(r"grid=\((\d+), (\d+)\)", source).groups())
    flat = re.sub(r"\s+", "", source)
    head = f"jnp.where(tile_b=={heads - 1},0,tile_b+1)"
    assert flat.count(f"jnp.where(tile_m=={tiles - 1},{head},tile_b)") == 2
    assert flat.count(f"jnp.where(tile_m=={tiles - 1},0,tile_m+1)") == 1
    assert source.count("step_ahead_next()") == 2
    assert "@pl.when((pl.program_id(0) == 0) & (pl.program_id(1) == 0))" in source
    assert kit.plan("attention", "v6e", **LOOP, **OFF)["loops"][0]["ahead_across"] is False


@pytest.mark.parametrize(
    ("graph", "target", "config", "why"),
    [
        ("attention", "v6e", OFF, "pallas_ahead_across is off"),
        ("attention", "v5p", {}, "there is no next point on the same core"),
        ("attention", "v6e", {"pallas_fori_dma": "on"}, "it is no fori_loop on resident blocks"),
        ("alibi_attention_8192", "v6e", {}, "tile_index needs more than the next point's blocks"),
        ("attention_b1_h2_s421_d128", "v6e", {}, "_mask_to_2 needs more than the next point's"),
        ("attention_d256_8192", "v7x", {}, "the next point's blocks do not fit"),
        ("causal_attention_dkdv", "v6e", {}, "needs more than the next point's blocks"),
    ],
)
def test_what_speaks_against_it(graph, target, config, why):
    """Also where it is asked for, but for the time that it takes."""
    asked = {} if graph.endswith("8192") else LOOP | ON
    (said,) = explained(graph, target, **(asked | config))
    assert said.startswith("before the loop: ")
    assert why in said


CAUSAL = {
    "pallas_loop_type": "fori_loop",
    "pallas_wide_blocks": "off",
    "pallas_straight_loops": "off",
}


@pytest.mark.parametrize(
    ("graph", "config", "why"),
    [
        ("attention", LOOP, "it takes no longer than to copy blocks for it"),
        ("causal_attention_dq_8192", {}, "what its last step is handed would be in the way"),
        (
            "causal_attention_b2_h8_s4096_d128",
            CAUSAL | {"block_sizes": [1, 1024, 1024]},
            "what its last step is handed would be in the way",
        ),
        ("causal_attention_b2_h8_s4096_d128", CAUSAL | {"block_sizes": [1, 512, 512]}, None),
        ("causal_attention_b2_h8_s4096_d128", CAUSAL | {"block_sizes": [1, 2048, 1024]}, None),
        ("attention_d128_8192", {}, None),
        ("attention_d128_8192", {"pallas_step_pairs": "off"}, "is handed would be in the way"),
    ],
)
@pytest.mark.parametrize("chip", ["v6e", "v7x"])
def test_where_it_pays(chip, graph, config, why):
    (said,) = explained(graph, chip, **config)
    assert why in said if why else said.startswith("by the grid point before")


def test_hbm_has_room(tmp_path):
    """A point that computes no longer than its copies take has none; by default."""
    slow = kit.chip(tmp_path, base="v6e", hbm_bytes_per_s=2e11)
    assert "HBM has no room" in explained("attention", slow, **LOOP)[0]
    assert explained("attention", slow, **LOOP, **ON)[0].startswith("by the grid point before")


@pytest.mark.parametrize(
    ("graph", "config"),
    [
        ("attention", {"block_sizes": [1, 128, 128]}),
        ("attention", {"block_sizes": [2, 256, 128], "pallas_step_pairs": "off"}),
        ("attention", {"block_sizes": [1, 128, 128], "pallas_step_pairs": "on"}),
        ("attention", {"pallas_loop_type": "unroll", "pallas_fenced_steps": "on"}),
        ("attention_d64", {}),
        ("causal_attention", {"block_sizes": [1, 256, 128]}),
        ("causal_attention", {"block_sizes": [1, 256, 128], "pallas_mask_blocks": "on"}),
        ("causal_attention", {"block_sizes": [1, 256, 256], "pallas_mask_blocks": "on"}),
        ("causal_attention_dq", {}),
        ("attention_dq", {}),
        ("attention_dkdv", {}),
        ("attention_scaled_q", {}),
        ("gqa_attention", {}),
        ("segment_attention", {}),
        ("softcap_attention", {}),
        ("exclusive_attention", {}),
    ],
)
def test_computes_the_same(graph, config):
    """To the last bit, each rewrite, and as Python."""
    config = LOOP | config
    document = kit.document(graph)
    before = executed.kernel_text(document, config | OFF)
    after = executed.kernel_text(document, config | ON)
    assert "_next" in after and after != before
    runs = executed.Runs(compare.make_inputs(document, seed=2))
    assert runs.differences(before, after) == []
    if graph == "causal_attention":  # its steps are masked where they stand, behind the loop
        return
    built = executed.kernel_text(document, config | ON, emit="--rewrites=split")
    assert re.search(r"^ +next \w+ for \w+$", built, re.M)
    assert runs.rewrite_problems(built, after) == []


@pytest.mark.parametrize(
    ("graph", "config"),
    [
        ("attention", {"block_sizes": [1, 128, 128]}),
        ("causal_attention", {"block_sizes": [1, 256, 128]}),
    ],
)
def test_simulated(graph, config):
    assert simulated.wrong(kit.document(graph), LOOP | ON | config) == []


def test_the_text_says_it():
    config = LOOP | ON | {"block_sizes": [1, 128, 128]}
    split = kit.emitted("kernel", "attention", "--rewrites=split", **config).out
    assert len(re.findall(r"^ +next \w+ for \w+$", split, re.M)) == 2
    moved = kit.emitted("kernel", "attention", "--rewrites=split,skew,pairs,points", **config).out
    assert re.search(r"^ +once$", moved, re.M)
    assert not re.search(r"^ +next ", moved, re.M)
    for text in (split, moved):
        again = kit.accepted("-", text=text).out
        assert again.count("step_ahead_next()") == 2


def test_what_is_made_ahead_of_the_loop():
    """Once, for the first point; each leaves it in scratch for the next one."""
    config = LOOP | ON | {"block_sizes": [1, 128, 128]}
    split = kit.emitted("kernel", "attention_scaled_q", "--rewrites=split", **config).out
    assert re.findall(r"^ +keep (\w+) in (\w+)$", split, re.M) == [("q", "q_ref")]
    source = kit.compiled("attention_scaled_q", "v6e", **config).source
    kernel = source[: source.index("@functools.partial")]
    assert kernel.count("q = q_ref[...]") == 1
    assert kernel.count("q_ref[...] = ") == 2  # of the first point, and of the next one
    assert kit.accepted("-", text=split).out.count("step_ahead_next()") == 2
    text = split.replace("in q_ref\n", "in scores_ref\n")
    assert "carry it in scratch of its own type" in kit.refused(1, "-", text=text)


@pytest.mark.parametrize(
    ("rewrites", "old", "new", "said"),
    [
        (
            "split",
            r"next \w+ for k_in_win",
            "next v_in_ref for k_in_win",
            "an operand in VMEM of its shape",
        ),
        (
            "split",
            r"next \w+ for k_in_win",
            "next lse_ref for k_in_win",
            "an operand in VMEM of its shape",
        ),
        ("split", r"next \w+ for", "next nothing for", "nothing"),
        ("split", r"\) fori_loop", ") unroll", "is of a fori_loop"),
        ("split,skew,pairs,points", r"= _ in scores_ref\)", "= _)", "lies in scratch"),
    ],
)
def test_refused_texts(rewrites, old, new, said):
    config = LOOP | ON | {"block_sizes": [1, 128, 128]}
    text = kit.emitted("kernel", "attention", f"--rewrites={rewrites}", **config).out
    assert re.search(old, text)
    assert said in kit.refused(1, "-", text=re.sub(old, new, text, count=1))
