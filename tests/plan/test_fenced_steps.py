"""Unrolled steps of attention in pairs behind fences, across which nothing is scheduled."""

import kit
import pytest
import simulated

LARGE = "attention_b8_h32_s8192_d256"


def config(blocks, **keys):
    return {"block_sizes": blocks, "pallas_loop_type": "unroll"} | keys


def loop(graph, chip="v7x", blocks=(1, 128, 128), **keys):
    """The loop of the Plan."""
    (found,) = kit.plan(graph, chip, **config(list(blocks), **keys))["loops"]
    return found


@pytest.mark.parametrize("chip", ["v6e", "v7x"])
def test_attention_is_fenced(chip):
    """They overlap as steps of a fori_loop do, and are no loop; more rows are asked for."""
    plan = kit.plan(LARGE, chip, **config([1, 512, 1024]))
    (found,) = plan["loops"]
    assert found["type"] == "unroll"
    assert found["fenced"] and found["paired"] and not found["dma"]
    assert plan["config"]["block_sizes"] == [1, 512, 1024]
    source = kit.compiled(LARGE, chip, **config([1, 512, 1024])).source
    assert "fori_loop" not in source
    assert '"pallas_loop_type": "unroll"' in source
    assert "for i in range(3):\n\n        @pl.when(tile_b >= 0)\n" in source
    for rows, keys in ((512, {}), (2048, {"pallas_wide_blocks": "on"})):
        kernel = kit.emitted("kernel", LARGE, target=chip, **config([1, 512, 1024], **keys)).out
        assert f"bfloat16[1, {rows}, 256]" in kernel


@pytest.mark.parametrize(
    ("chip", "blocks", "keys"),
    [
        ("v5e", [1, 512, 1024], {}),  # steps do not overlap there
        ("v7x", [2, 512, 2048], {"pallas_narrow_steps": "off"}),  # many columns
        ("v6e", [1, 256, 512], {"pallas_wide_blocks": "off"}),  # rows are reduced along lanes
        ("v7x", [1, 512, 1024], {"pallas_fenced_steps": "off"}),
        ("v7x", [1, 512, 1024], {"pallas_matmul_ahead": 1}),
        ("v7x", [1, 512, 1024], {"pallas_loop_skew": "off"}),
        ("v7x", [1, 512, 1024], {"pallas_step_pairs": "off"}),
        ("v7x", [1, 256, 256], {}),  # estimated to be slower
    ],
)
def test_what_stays(chip, blocks, keys):
    found = loop(LARGE, chip, blocks, **keys)
    assert found["type"] == "unroll"
    assert not found["fenced"]


def test_on_whatever_is_estimated():
    assert not loop("attention")["fenced"]
    assert loop("attention", pallas_fenced_steps="on")["fenced"]


@pytest.mark.parametrize(
    ("graph", "blocks"),
    [
        ("attention", [1, 128, 128]),
        ("attention", [2, 128, 128]),
        ("attention_b1_h2_s384_d256", [1, 128, 128]),
        ("attention_b1_h2_s421_d128", [1, 128, 128]),  # a ragged last step
        ("attention_b1_h3_s421_d64", [1, 128, 128]),
    ],
)
@pytest.mark.parametrize("chip", ["v6e", "v7x"])
def test_numbers(graph, blocks, chip):
    keys = config(blocks, pallas_fenced_steps="on", pallas_transposed_scores="on")
    (found,) = kit.plan(graph, chip, **keys)["loops"]
    assert found["fenced"]
    assert simulated.wrong(kit.document(graph), keys, chip) == []


@pytest.mark.parametrize("rewrites", ["", "split", "split,skew", "split,skew,pairs"])
def test_as_text(rewrites):
    """A loop that is still to be fenced is verified and read again."""
    keys = config([1, 128, 128], pallas_fenced_steps="on")
    text = kit.emitted("kernel", "attention", f"--rewrites={rewrites}", target="v7x", **keys).out
    assert "    fenced\n" in text
    again, whole = (
        kit.accepted("-", text=text),
        kit.emitted("python", "attention", target="v7x", **keys),
    )
    assert sorted(again.out.replace("next_1", "next")) == sorted(
        whole.out.replace("next_1", "next")
    )


def test_what_is_said():
    keys = kit.settings(config([1, 128, 128], pallas_fenced_steps="on"))
    said = kit.accepted(
        kit.path("attention"), "--explain", "--emit=none", "--target=v7x", *keys
    ).err
    assert "plan: step: lowered by unroll: the configuration asks for it\n" in said
    assert "plan: step: two steps at a time, behind a fence each time: " in said
    assert "carried acc lives in VMEM scratch: it is passed over a fence\n" in said
