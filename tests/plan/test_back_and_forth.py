"""pallas_back_and_forth: the grid's last dim turns round at its end, where that saves a copy."""

import executed
import kit
import pytest
from pallasc import compare

BLOCKS = {"block_sizes": [1024, 1024, 1024]}


def plan(graph="matmul_4096", chip="v6e", **config):
    return kit.plan(graph, chip, **config)


def walks(found):
    """Which grid dims turn round."""
    return [dim["back_and_forth"] for dim in found["grid"]]


@pytest.mark.parametrize(("chip", "turns"), [("v6e", True), ("v7x", False)])
def test_where_a_turn_is_waited_for(chip, turns):
    """18.9 MB at a turn: 11.5 us on v6e, where a point computes 10.5; 5.1 and 7.8 on v7x."""
    assert walks(plan(chip=chip, **BLOCKS)) == [False, turns]


@pytest.mark.parametrize(
    ("graph", "chip", "turns"),
    [
        ("int8_matmul_4096", "v6e", True),  # 6.4 us at a turn; a point computes 4.7
        ("int8_matmul_4096", "v7x", False),  # which has no such rate
        ("fp8_matmul_4096", "v6e", False),  # nor has this
        ("fp8_matmul_4096", "v7x", False),
    ],
)
def test_factors_of_8_bits_have_rates_of_their_own(graph, chip, turns):
    assert walks(plan(graph, chip, **BLOCKS)) == [False, turns]


def test_what_it_saves():
    """Three turns, at each of which y's block of 8 MiB stays."""
    forth, back = (plan(pallas_back_and_forth=way, **BLOCKS) for way in ("off", "on"))
    assert forth["hbm_bytes"] - back["hbm_bytes"] == 3 * 4096 * 1024 * 2


def test_batches_are_walked_alike():
    """[b, m, n]: y moves with b and n; it stays at the turn of m, not at that of b."""
    found = plan("bmm", pallas_back_and_forth="on", pallas_loop_type="unroll")
    assert walks(found) == [False, False, True]


@pytest.mark.parametrize("graph", ["add", "attention", "softmax"])
def test_nothing_stays(graph):
    """Each point has blocks of its own, or K and V stay as it is."""
    assert not any(walks(plan(graph, pallas_back_and_forth="on")))


def test_steps_that_add_up_keep_their_order():
    """Split-K: the parts of one block follow each other."""
    found = plan("matmul_split_k", pallas_back_and_forth="on", split_k=4)
    assert not any(walks(found))


def test_blocks_of_a_turned_dim_are_those_of_its_tiles():
    config = {"block_sizes": [256, 256, 1024], "pallas_back_and_forth": "on"}
    document = kit.document("matmul_1024")
    document.pop("config", None)
    before, after = (
        kit.emitted("kernel", document, rewrites, **config).out
        for rewrites in ("--rewrites=", "--rewrites=walk")
    )
    assert "of [1024, 1024] at (0, turn(tile_m, tile_n, 4))" in after
    assert "of [1024, 1024] at (tile_m, turn(tile_m, tile_n, 4))" in after
    runs = executed.Runs(compare.make_inputs(document, seed=1))
    assert runs.differences(before, after) == []
