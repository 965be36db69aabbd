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
    found = re.findall(r" = call step_(\d+)_(\d+)(?:_\d+)?\(", text)
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
    graph, whole, cut = texts(name, blocks, sizes, pallas_straight_loops="off")
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
    graph, whole, cut = texts(name, blocks, sizes, pallas_straight_loops="off")
    assert blocks_of(cut) == made
    assert executed.Runs(compare.make_inputs(graph, seed=1)).differences(whole, cut) == []


@pytest.mark.parametrize(
    ("name", "blocks", "sizes", "made"),
    [
        # Two blocks of rows, each of which sees two steps of three, or of two at the first tile.
        ("sliding_attention", [256, 1, 512], {512: 1024}, {(256, 256): 4 + 3}),
        ("sliding_attention", [128, 2, 512], {512: 1024}, {(256, 128): 6 + 5}),
        ("sliding_attention", [512, 1, 512], {512: 1024}, {(256, 256): 3, (256, 512): 2}),
        ("causal_attention", [1, 1024, 512], {512: 2048}, {(256, 256): 4, (256, 512): 16}),
    ],
)
def test_a_body_for_each_number_of_steps(name, blocks, sizes, made):
    """Steps that are made, of blocks: those that a row sees; numbers stay."""
    graph, whole, cut = texts(name, blocks, sizes)
    assert "  loop " not in cut and cut.count("when (") == 2
    assert blocks_of(cut) == made
    assert executed.read_again(cut) == cut
    assert executed.Runs(compare.make_inputs(graph, seed=1)).differences(whole, cut) == []


def test_what_bodies_leave():
    """Scratch of two blocks of rows, masks of own positions, a first step without one before."""
    _, _, cut = texts("sliding_attention", [256, 1, 1024], {512: 2048})
    assert re.findall(r"scratch (\S+) vmem (\S+\[.*\])", cut) == [
        ("scores_ref", "float32[5, 1, 256, 512]")
    ]
    first, mask = (
        cut[cut.index(f"def {name}(") :].split("\n  }")[0]
        for name in ("step_256_256", "step_mask_256_256")
    )
    assert not any(name in first for name in ("m_i", "tile_m", "until"))
    assert "until" in mask and "where" in mask and "max" in mask
    assert "store out_ref[:, 256 +: 256, :]" in cut
