"""Column strips: which tiles are cut, into what, and what one run over them keeps for the next."""

import json

import kit
import numpy as np
import pytest
import simulated
from pallasc import compare

ON = {"pallas_column_strips": "on"}
WIDE = "layer_norm_bwd_4096_10240"


def strips(graph, target="v7x", **config):
    return kit.plan(graph, target, **config)["strips"]


def test_softmax_keeps_the_exponentials():
    """Row maxima, then sums, then quotients. 64 rows of 512 columns are half of the registers."""
    stash = {"node": "weight", "scratch": "weight_ref", "phase": 1}
    expected = {"size": 1024, "width": 512, "count": 2, "phases": 3, "spread": 0}
    expected["stashes"] = [stash]
    assert strips("softmax", block_sizes=[64], **ON) == expected


@pytest.mark.parametrize(("rows", "width"), [(8, 512), (64, 512), (128, 256), (256, 128)])
def test_a_strip_fits_the_registers(rows, width):
    """At least two strips, at most 128 KiB each, whole registers wide."""
    assert strips("softmax", block_sizes=[rows], **ON)["width"] == width


def test_one_op_is_computed_again():
    """The conversion of x and the subtraction of the mean are one op each: nothing is kept."""
    found = strips("layer_norm", **ON)
    assert (found["phases"], found["stashes"]) == (3, [])


def test_large_tiles_are_cut_by_default():
    found = strips(WIDE)
    assert (found["width"], found["count"], found["phases"]) == (256, 40, 2)
    assert [stash["node"] for stash in found["stashes"]] == ["x_hat", "wdy"]
    assert strips(WIDE, pallas_column_strips="off") is None
    assert strips("softmax", block_sizes=[64]) is None


@pytest.mark.parametrize(
    ("graph", "rows", "spread", "width"),
    [
        ("rms_norm_bwd_4096_8192", 64, 1, 256),
        ("rms_norm_bwd_4096_8192", 128, 1, 128),
        ("rms_norm_bwd_4096_8192", 256, 0, 128),
        (WIDE, 64, 2, 256),
        (WIDE, 128, 1, 256),
        (WIDE, 256, 0, 128),
    ],
)
def test_columns_are_spread_where_registers_have_room(graph, rows, spread, width):
    """Sums and columns take three quarters of 64 registers at most; all spread, strips halve."""
    found = strips(graph, block_sizes=[rows])
    assert (found["spread"], found["width"]) == (spread, width)


def test_the_column_of_most_phases_is_spread():
    """The mean is read in the first run alone, the standard deviation in both."""
    text = kit.compiled(WIDE, "v7x").source
    assert "row_rstd = jnp.swapaxes(jnp.broadcast_to(load_3, (128, 128)), 0, 1)" in text
    assert "x_hat = (rows - subscript_2) * jnp.tile(row_rstd, (1, 2))" in text
    assert "subscript_2 = _to_column(load_4)" in text


@pytest.mark.parametrize("rows", [8, 64])
def test_spread_columns_give_what_the_reference_gives(rows):
    found = {**ON, "block_sizes": [rows]}
    assert strips("rms_norm_bwd", **found)["spread"] == 1
    assert simulated.wrong(kit.document("rms_norm_bwd"), found, seed=5) == []


def test_sums_over_rows_are_whole_in_each_strip():
    text = kit.compiled(WIDE, "v7x").source
    assert "registers_1 = grad.reshape((16, 8, 256))" in text
    assert "dbias_acc_ref[:, at] = dbias_acc_ref[:, at] + jnp.sum(registers_1, axis=0)" in text
    assert "sum_4 = _fold_lanes(jnp.add, sum_4, wdy)" in text
    assert "sum_4 = jnp.sum(sum_4, axis=1, keepdims=True)" in text


def test_a_block_that_all_points_add_to_is_added_to_strip_by_strip():
    """Filled before the strips of the first visit; no run over them loads it again."""
    text = kit.compiled("layer_norm_bwd_atomic_4096_8192", "v7x").source
    assert "dbias_acc_ref[:, at] = dbias_acc_ref[:, at] + jnp.sum(registers_1, axis=0)" in text
    assert "dbias_acc_ref[...] = jnp.zeros((8, 8192), jnp.float32)" in text
    assert text.count("dweight_acc_ref[:, at]") == 2
    assert "dweight_ref[...] = jnp.sum(dweight_acc_ref[...], axis=0, keepdims=True)" in text
    assert simulated.wrong(kit.document("layer_norm_bwd_atomic"), ON, seed=3) == []


@pytest.mark.parametrize("change", ["twice", "maximum"])
def test_a_block_that_is_used_otherwise_is_not(change):
    found = kit.document("layer_norm_bwd_atomic")
    nodes = kit.nodes(found, "root")
    (first, second) = [n for n in nodes if n.get("target") == "tile.atomic_add"]
    if change == "twice":
        second["args"][:2] = first["args"][:2]
    else:
        first["target"] = "tile.atomic_max"
    said = kit.emitted("none", found, target="v7x", **ON).err
    assert "column strips: none: atomic_add: it combines with what was there" in said


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("v7x", "row_max = _fold_lanes(jnp.maximum, row_max, load)"),
        ("v5e", "row_max = _fold_lanes(jnp.maximum, row_max, row)"),
    ],
)
def test_maxima_of_bfloat16_are_taken_of_what_was_converted(target, expected):
    """Where the vector unit has bfloat16; the conversion then waits for the run that needs it."""
    whole = kit.text("softmax_odd").replace("1000", "1024")
    source = kit.compiled(whole, target, **ON).source
    assert expected in source
    assert source.count(".astype(jnp.float32)\n") == (1 if target == "v7x" else 2)


def cross_entropy():
    """The document of cross-entropy of bfloat16 [421, 1024], in ragged tiles of 64 rows."""
    return json.loads(kit.text("cross_entropy_odd").replace("1000", "1024"))


CROSS_ENTROPY = {"block_sizes": [64], "pallas_column_strips": True}


def test_a_maximum_shares_the_conversion_of_its_run():
    """The label's logit is summed up beside it, in float32; columns count on."""
    text = kit.compiled(cross_entropy(), "v7x", **CROSS_ENTROPY).source
    assert "top = _fold_lanes(jnp.maximum, top, row)" in text
    assert "at.start + jax.lax.broadcasted_iota(jnp.int32, (1, 512), 1)" in text


def test_columns_are_counted_through_all_strips():
    """Labels of every strip, against the reference."""
    document = cross_entropy()
    logits, labels = compare.make_inputs(document, 1)
    labels = (np.arange(421, dtype=np.int32)[:, None] * 5 + 3) % 1024
    assert simulated.wrong(document, CROSS_ENTROPY, "v7x", given=[logits, labels]) == []


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        ("softmax_odd", "none: the rows are not of whole registers"),
        ("add", "none: nothing waits for a reduction of its rows"),
        ("attention", "none: the body has loops of its own"),
    ],
)
def test_why_not(graph, why):
    found = kit.emitted("plan", graph, target="v7x", **ON)
    assert json.loads(found.out)["strips"] is None
    assert f"column strips: {why}" in found.err


def test_small_tiles_stay_whole():
    said = kit.emitted("plan", "softmax", target="v7x", block_sizes=[64]).err
    assert "column strips: none: auto: the largest tile is 262144 bytes" in said


def test_tiles_stay_whole_where_the_stash_does_not_fit():
    """[128, 10240] bfloat16: windows of 15 MiB, and stashes of 10 MiB more."""
    small = {"base": "v7x", "name": "small", "vmem_bytes": 27500000}
    assert strips(WIDE, small, pallas_row_split="off") is None
