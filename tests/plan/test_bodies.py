"""Loops of computed bounds that are straight code for each number of steps; why others are not."""

import json
import re

import kit
import pytest
import simulated
from sized import renamed

LOOP = {"pallas_loop_type": "fori_loop", "pallas_fori_dma": "off"}


def sized(name, rows):
    """A graph of testdata, without its configuration, of so many rows."""
    document = renamed(kit.document(name), {512: rows})
    document.pop("config", None)
    return document


def window(rows=2048):
    """Attention over the last 200 of so many rows."""
    return sized("sliding_attention", rows)


def causal(rows=2048):
    return sized("causal_attention", rows)


def explained(document, target="v7x", *options, **config):
    """What --explain says of the loop."""
    found = kit.accepted(
        "-",
        "--explain",
        "--emit=none",
        f"--target={target}",
        *options,
        text=json.dumps(document | {"config": LOOP | config}),
    )
    said = re.findall(r"plan: step: (.* of steps that there is: .*|a loop, whatever .*)", found.err)
    return said[0] if said else None


@pytest.mark.parametrize(
    ("document", "blocks", "percent"),
    [
        (window(), [256, 1, 1024], 42),
        (window(), [512, 2, 512], 54),
        (causal(), [1, 1024, 512], 75),
    ],
)
@pytest.mark.parametrize("chip", ["v6e", "v7x"])
def test_taken(document, blocks, percent, chip):
    said = explained(document, chip, block_sizes=blocks)
    assert said == (
        f"straight code for each number of steps that there is: masks leave {percent}% of them"
    )
    (found,) = kit.plan(document, chip, block_sizes=blocks, **LOOP)["loops"]
    assert found["bodies"] and found["blocks"] and not found["paired"]
    assert {c["place"] for c in found["carried"]} == {"register"}


@pytest.mark.parametrize(
    ("document", "config", "why"),
    [
        (window(), {"pallas_straight_loops": "off"}, "pallas_straight_loops is off"),
        (window(), {"pallas_mask_blocks": "off"}, "pallas_mask_blocks is off"),
        (window(), {"pallas_loop_skew": "off"}, "its steps are not skewed"),
        (
            window(),
            {"block_sizes": [256, 1, 256]},
            "it has no more rows than a block",
        ),
        (window(4096), {"block_sizes": [128, 1, 2048]}, "it has 16 to 17 steps, of many numbers"),
        (
            causal(4096),
            {"block_sizes": [1, 512, 512]},
            "it has 1 to 8 steps, of many numbers",
        ),
        (causal(1024), {"block_sizes": [1, 512, 256]}, "masks leave most of its steps"),
        (
            causal(),
            {"block_sizes": [4, 1024, 512]},
            "masks leave 576 blocks of 256 rows and columns: that is much code",
        ),
    ],
)
def test_not_taken(document, config, why):
    config = {"block_sizes": [256, 1, 1024]} | config
    assert explained(document, **config) == f"a loop, whatever the number of its steps: {why}"
    (found,) = kit.plan(document, "v7x", **(LOOP | config))["loops"]
    assert not found["bodies"]


def test_what_stands_behind_must_be_plain():
    """A print of what the steps give would be in each body."""
    said = explained(window(), "v7x", "--debug-print=acc", block_sizes=[256, 1, 1024])
    assert said.endswith("more than what it computes stands behind it, or beside it")


@pytest.mark.parametrize(
    ("document", "blocks"),
    [
        (window(1024), [256, 1, 512]),
        (window(1024), [128, 2, 512]),
        (window(1536), [256, 1, 768]),
        (causal(1536), [1, 768, 256]),
        (causal(2048), [1, 1024, 512]),
    ],
)
@pytest.mark.parametrize("chip", ["v6e", "v7x"])
def test_numbers(document, blocks, chip):
    config = LOOP | {"block_sizes": blocks}
    assert kit.plan(document, chip, **config)["loops"][0]["bodies"]
    assert simulated.wrong(document, config, chip) == []


def test_scratch_of_two_blocks_of_rows():
    """What the plan says is what the kernel has."""
    config = LOOP | {"block_sizes": [256, 1, 1024]}
    (scratch,) = kit.plan(window(), "v7x", **config)["scratch"]
    assert scratch["shape"] == [5, 1, 256, 512]
    assert (
        "pltpu.VMEM((5, 1, 256, 512), jnp.float32)"
        in kit.compiled(window(), "v7x", **config).source
    )


@pytest.mark.parametrize("rewrites", ["", "split", "split,drive", "split,drive,blocks"])
def test_as_text(rewrites):
    config = LOOP | {"block_sizes": [256, 1, 1024]}
    text = kit.emitted("kernel", window(), f"--rewrites={rewrites}", **config).out
    again, whole = kit.accepted("-", text=text), kit.emitted("python", window(), **config)
    assert ("bodies 5 4 live" in text) == ("drive" not in rewrites)
    assert again.out.count("\n") == whole.out.count("\n")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("bodies 5 4 live", "bodies 6 5 live", "hand it on in scratch with a place for each step"),
        ("    skew 1\n", "", "bodies are of a fori_loop"),
        ("step(j) fori_loop", "step(j) unroll", "bodies are of a fori_loop"),
        ("bodies 5 4 live", "bodies 5 0 live", "how many steps, or live"),
        ("live 41 columns", "live 101 columns", "percent that masks leave"),
    ],
)
def test_refused_texts(old, new, said):
    config = LOOP | {"block_sizes": [256, 1, 1024]}
    text = kit.emitted("kernel", window(), "--rewrites=split", **config).out
    assert old in text
    assert said in kit.refused(1, "-", text=text.replace(old, new))
