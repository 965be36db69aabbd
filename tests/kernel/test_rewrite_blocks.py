"""The rewrite that cuts masked steps behind a loop into blocks: what is left out; numbers stay."""

import re

import executed
import kit
import pytest
from pallasc import compare
from sized import renamed

LOOP = {"pallas_loop_type": "fori_loop", "pallas_fori_dma": "off"}


def texts(name, blocks, sizes=(), **more):
    """The kernel of a graph with its masked steps whole, and in blocks."""
    graph = renamed(kit.document(name), dict(sizes))
    graph.pop("config", None)
    config = LOOP | {"block_sizes": blocks} | more
    return graph, *(
        executed.kernel_text(graph, config | {"pallas_mask_blocks": each}) for each in ("off", "on")
    )


def blocks_of(text):
    """(rows, columns) of the functions of blocks, by how often they are called."""
    found = re.findall(r" = call step_(\d+)_(\d+)\(", text)
    return {(int(r), int(c)): found.count((r, c)) for r, c in found}


@pytest.mark.parametrize(
    ("name", "blocks", "sizes", "made"),
    [
        ("causal_attention", [1, 512, 512], {512: 1024}, {(256, 256): 1, (256, 512): 1}),
        # Two steps are left: of the first three blocks of four, of the second the last one.
        ("causal_attention", [1, 512, 256], {512: 1024}, {(256, 256): 3}),
        (
            "causal_attention",
            [1, 1024, 512],
            {512: 2048},
            {(256, 256): 2, (256, 512): 4},
        ),
        ("causal_attention", [1, 256, 256], {512: 1024}, {}),
        ("causal_attention", [1, 256, 512], {512: 1024}, {}),
    ],
)
def test_blocks_that_a_mask_leaves(name, blocks, sizes, made):
    graph, whole, cut = texts(name, blocks, sizes)
    assert blocks_of(whole) == {}
    assert blocks_of(cut) == made
    assert executed.read_again(cut) == cut
    arrays = compare.make_inputs(graph, seed=1)
    assert executed.Runs(arrays).differences(whole, cut) == []


@pytest.mark.parametrize(
    ("name", "blocks", "sizes", "made"),
    [
        ("causal_attention_dq", [1, 512, 512], {256: 1024}, {(256, 256): 1, (256, 512): 1}),
        # The mask stands among what runs ahead; it is in every step.
        ("alibi_attention", [1, 512, 512], {256: 1024}, {}),
        ("sliding_attention", [512, 1, 512], {512: 1024}, {}),
    ],
)
def test_other_masks(name, blocks, sizes, made):
    graph, whole, cut = texts(name, blocks, sizes)
    assert blocks_of(cut) == made
    assert executed.Runs(compare.make_inputs(graph, seed=1)).differences(whole, cut) == []
