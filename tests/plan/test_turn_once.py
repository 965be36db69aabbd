"""pallas_turn_once: of masked steps in blocks, what several matmuls contract along its rows."""

import json
import re

import executed
import kit
import pytest
import simulated
from pallasc import aot, compare
from sized import renamed

LOOP = {"pallas_loop_type": "fori_loop", "pallas_fori_dma": "off"}
OFF = {"pallas_turn_once": "off"}
LANES = 128


def sized(name, rows, columns=LANES):
    """Attention of so many rows, of heads that are as wide as registers."""
    document = renamed(kit.document(name), {512: rows, 128: columns})
    document.pop("config", None)
    return document


CAUSAL = [sized("causal_attention", 2048), {"block_sizes": [1, 1024, 512]}]  # straight code
LOOPED = [CAUSAL[0], CAUSAL[1] | {"pallas_straight_loops": "off"}]
ON = {"pallas_turn_once": "on"}
# Of 200 rows, in blocks of 256: each row is read 1.7 times.
WINDOW = [sized("sliding_attention", 2048), {"block_sizes": [256, 1, 1024]} | ON]


def turned(document, config, chip="v7x"):
    """Shapes of what is turned."""
    found = kit.plan(document, chip, **(LOOP | config))["scratch"]
    return [scratch["shape"] for scratch in found if scratch["ref"] == "turned_ref"]


def remark(document, config, *options):
    text = json.dumps(document | {"config": LOOP | config})
    ran = kit.accepted("-", "--explain", "--emit=none", "--target=v7x", *options, text=text)
    found = [line for line in ran.err.splitlines() if "pallas_turn_once" in line]
    return found[0].split("the same rows ")[1] if found else None


@pytest.mark.parametrize("chip", ["v6e", "v7x"])
@pytest.mark.parametrize(
    ("case", "rows", "reads"),
    [(CAUSAL, 2048, 3.0), (LOOPED, 1024, 2.5), (WINDOW, 1280, 1.7)],
    ids=["causal", "looped", "window"],
)
def test_taken(case, rows, reads, chip):
    """All rows that the masked steps read."""
    document, config = case
    assert turned(document, config, chip) == [[1, LANES, rows]]
    assert turned(document, config | OFF, chip) == []
    bytes_of = [
        kit.plan(document, chip, **(LOOP | config | more))["vmem"]["scratch"] for more in ({}, OFF)
    ]
    assert bytes_of[0] - bytes_of[1] == 2 * LANES * rows
    source = kit.compiled(document, chip, **(LOOP | config)).source
    assert re.search(r"turned_ref\[.*\] = jnp\.transpose\(\s*v_in_ref\[", source)
    said = f"{reads} times: turned once, {rows / 4096:.2f} MiB of scratch"
    assert remark(document, config) == said
    assert remark(document, config | OFF) is None


def test_not_where_it_does_not_fit():
    document, config = WINDOW
    takes = kit.plan(document, "v7x", **(LOOP | config | OFF))["vmem"]["total"]
    tight = f"--vmem={takes + (64 << 10)}", "--vmem-margin=0"
    assert remark(document, config, *tight) == (
        "1.7 times: turned each time, 0.31 MiB of scratch do not fit"
    )


def test_not_where_rows_are_read_too_seldom():
    document, config = WINDOW
    said = "1.7 times: turned each time, 0.31 MiB of scratch are too much for that"
    assert remark(document, config | {"pallas_turn_once": "auto"}) == said
    assert turned(document, config | {"pallas_turn_once": "auto"}) == []


@pytest.mark.parametrize(
    ("document", "config"),
    [
        # V comes with its last two dims swapped, as XLA lays it out.
        (sized("sliding_attention", 2048, 64), WINDOW[1]),
        # Scores are not turned: P is the first factor.
        (WINDOW[0], WINDOW[1] | {"pallas_transposed_scores": "off"}),
        (WINDOW[0], WINDOW[1] | {"pallas_mask_blocks": "off"}),
        (WINDOW[0], WINDOW[1] | {"block_sizes": [256, 1, 256]}),
    ],
)
def test_not_taken(document, config):
    assert turned(document, config) == []


@pytest.mark.parametrize("chip", ["v6e", "v7x"])
@pytest.mark.parametrize("case", [CAUSAL, LOOPED, WINDOW], ids=["causal", "looped", "window"])
def test_what_it_computes(case, chip):
    """The same as with what is turned by each matmul, bit for bit; simulated."""
    document, config = case
    texts = [
        kit.emitted("kernel", document, target=chip, **(LOOP | config | more)).out
        for more in (OFF, {})
    ]
    assert ["turned_ref" in text for text in texts] == [False, True]
    assert executed.Runs(compare.make_inputs(document, seed=1)).differences(*texts) == []
    assert simulated.wrong(document, LOOP | config, chip) == []


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("chip", ["v6e", "v7x"])
def test_accepted(chip, dtype):
    """By the TPU compiler, in the VMEM that is predicted."""
    document = json.loads(json.dumps(WINDOW[0]).replace("bfloat16", dtype))
    module = kit.compiled(document, chip, **(LOOP | WINDOW[1]))
    assert "turned_ref" in module.source
    result = aot.compile_one(module, chip, timeout=200)
    assert result.kind == "ok", result.message
    assert result.vmem_bytes <= result.predicted_bytes
