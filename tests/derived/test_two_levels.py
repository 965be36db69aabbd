"""Loops over the tile of the grid point that they are in."""

import kit
from two_level import layer_norm_two_level


def test_a_loop_over_a_tile_writes_within_it():
    """So each grid point has a block of its own to hold, and the points may run in any order."""
    text = kit.emitted("kernel", layer_norm_two_level(), pallas_loop_type="fori_loop").out
    assert "\n  grid tile_m 4 parallel\n" in text
    assert "\n  out out_ref vmem bfloat16[128, 1000] of [421, 1000] at (tile_m, 0)" in text
