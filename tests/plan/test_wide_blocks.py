"""pallas_wide_blocks: how many of a grid dim's blocks a step takes, and what speaks against it."""

import json
import re

import builder
import kit
import pytest
import simulated
import sized
from pallasc.build import Graph, ops


def grid(graph, chip="v7x", **config):
    """The Plan's grid, as steps of each dim."""
    return [dim["steps"] for dim in kit.plan(graph, chip, **config)["grid"]]


@pytest.mark.parametrize(("chip", "points"), [("v5e", [32, 8]), ("v6e", [32, 2]), ("v7x", [32, 1])])
def test_short_steps_take_as_many_blocks_as_hide_the_latency_of_hbm(chip, points):
    """A step of 512 KiB is 0.64 us of v5e's HBM, 0.32 us of v6e's and 0.14 us of v7x's."""
    assert grid("attention_delta_8192", chip) == points
    assert grid("attention_delta_8192", chip, pallas_wide_blocks="off") == [32, 8]


def test_the_configuration_stays_what_it_was():
    module = kit.compiled("attention_delta_8192", "v7x")
    assert module.info["config"]["block_sizes"] == [1, 1024]
    assert module.plan["config"]["block_sizes"] == [1, 1024]
    again = kit.compiled("attention_delta_8192", "v7x", **module.plan["config"])
    assert again.source == module.source


@pytest.mark.parametrize(("chip", "points"), [("v5e", 64), ("v6e", 16), ("v7x", 32)])
def test_few_rows_of_a_matmul_whose_weights_are_copied_at_each_point(chip, points):
    """64 rows: of more, v5e would save too little, and on v7x 256 would not fit."""
    assert grid("fused_linear_jsd_8192", chip) == [points]
    assert grid("fused_linear_jsd_8192", chip, pallas_wide_blocks="off") == [64]


def sixteen_heads():
    """Attention with 1024 rows, a point of the grid for each 256 of them."""
    document = sized.renamed(
        kit.document("attention_b8_h32_s8192_d128"), {8192: 1024, 256: 16, 32: 2}
    )
    return document, {"block_sizes": [1, 256, 256], "pallas_loop_type": "fori_loop"}


@pytest.mark.parametrize(("chip", "points"), [("v5e", [16, 4]), ("v6e", [16, 1]), ("v7x", [16, 2])])
def test_rows_of_overlapping_steps_are_many(chip, points):
    """v5e overlaps no steps."""
    document, config = sixteen_heads()
    assert grid(document, chip, **config) == points
    assert grid(document, chip, **config, pallas_wide_blocks="off") == [16, 4]
    config |= {"pallas_loop_type": "unroll", "pallas_fenced_steps": "off"}
    assert grid(document, chip, **config) == [16, 4]


def test_many_rows_of_overlapping_steps_give_what_few_give():
    document, config = sixteen_heads()
    assert simulated.wrong(document, config, "v7x") == []


@pytest.mark.parametrize(("chip", "rows"), [("v6e", 2048), ("v7x", 2048)])
def test_attention_takes_as_many_rows_as_were_measured_to_gain(chip, rows):
    config = {"block_sizes": [1, 512, 1024], "pallas_loop_type": "fori_loop"}
    assert grid("attention_b8_h32_s8192_d256", chip, **config) == [256, 8192 // rows]
    assert "at the ends of a loop's iterations the MXU would run empty more often" in (
        kit.emitted("none", "attention_b8_h32_s8192_d256", "--explain", target=chip, **config).err
    )


def test_a_matmul_added_to_another_is_no_chain():
    """int4: the second product takes the first as what it adds to."""
    assert grid("int4_matmul_4096", "v6e", pallas_loop_type="fori_loop") == grid(
        "int4_matmul_4096", "v6e", pallas_loop_type="fori_loop", pallas_wide_blocks="off"
    )


def test_what_no_store_depends_on_is_no_reason():
    """With dead loads each step would copy enough."""
    document = kit.document("attention_delta_8192")
    nodes = document["graphs"][0]["nodes"]
    last = max(i for i, node in enumerate(nodes) if node.get("target") == "tile.load")
    nodes[last:last] = [{**nodes[last], "name": f"dead_{i}"} for i in range(64)]
    assert grid(document) == grid("attention_delta_8192") == [32, 1]


@pytest.mark.parametrize("rows", [16, 32, 48, 64, 96, 128])
def test_what_is_loaded_twice_is_no_reason(rows):
    """A step copies it once, as it does after the passes."""
    g = Graph("twice")
    x, out = g.input("x", [4096, 1024], "float32"), g.output("out", [4096, 1024], "float32")
    with g.grid(m=4096) as (m,):
        out[m, :] = (x[m, :] + 1) * (x[m, :] + 2) * (x[m, :] + 3)
    g.config(block_sizes=[rows])
    once = kit.run("-", "--emit=json", "--target=v6e", text=g.document()).out
    assert grid(g.document(), "v6e") == grid(json.loads(once), "v6e")


def test_what_the_passes_made_of_wide_tiles_has_their_sizes():
    after = json.loads(kit.emitted("json", "attention_delta_8192", target="v7x").out)
    assert [block.get("size") for block in after["block_sizes"]] == [1, 8192, None]
    assert grid(after) == [32, 1]


def test_tiles_of_random_numbers_may_be_wide():
    """A number depends on its place in the range alone."""

    def noise(g, _):
        shape = [{"sym": "u0"}, {"sym": "u1"}]
        return g.call("tile.rand", shape, 7, meta=builder.t("float32", "u0", "u1"))

    document = builder.pointwise_doc([1024, 256], [8, 256], noise)
    wide = {"pallas_wide_blocks": "on"}
    assert grid(document, pallas_wide_blocks="off") == [128, 1]
    assert grid(document, **wide) == [1, 1]
    assert simulated.wrong(document, wide, "v7x") == []


@pytest.mark.parametrize("asked", ["auto", "on"])
def test_rows_of_a_tile_that_meet_each_other_stay(asked):
    """Each row of a tile with each: [m, m] has the block twice."""
    g = Graph("within_tiles")
    x = g.input("x", [4096, 128], "bfloat16")
    out = g.output("out", [4096, 128], "float32")
    with g.grid(m=4096) as (m,):
        rows = x[m, :]
        out[m, :] = ops.dot(ops.dot(rows, rows.T).to("bfloat16"), rows)
    g.config(block_sizes={"m": 64})
    assert grid(g.document(), pallas_wide_blocks=asked) == [64]


def test_default_blocks_stay():
    document = kit.document("attention_delta_8192")
    del document["config"]
    assert grid(document) == grid(document, pallas_wide_blocks="off")


def test_few_points_and_ragged_blocks_stay():
    assert grid("attention_delta") == grid("attention_delta", pallas_wide_blocks="off")
    ragged = {"block_sizes": [1, 128], "pallas_wide_blocks": "on"}
    assert grid("attention_delta_odd", **ragged) == [3, 3]


@pytest.mark.parametrize(
    "graph",
    [
        "layer_norm_bwd",  # stores at tile.id
        "layer_norm_bwd_atomic",  # adds up over tiles
        "neighbours",  # loads next to its tile
        "positions",  # stores at one position
    ],
)
def test_kernels_that_look_at_their_tiles_stay(graph):
    assert grid(graph, pallas_wide_blocks="on") == grid(graph, pallas_wide_blocks="off")


WIDE = {
    "attention_delta": [2, 1],
    "add_in_place": [1, 3],
    "attention_d64": [2, 1],
    "fused_linear_jsd": [1],
    "halves_of_output": [1],
    "matmul_layer_norm": [1],
    "permuted_operands": [4, 1],
    "prod_rows": [1],
    "rolled_softmax": [1],
    "squeeze_excite": [1],
    "swiglu_packed": [4, 1],
    "transposed_views": [2, 3],
    "int8_matmul": [1, 2],
}


def test_a_dim_as_large_as_the_block_hinders_nothing():
    """Of 128 lanes, in blocks of 128 rows and of 64."""
    for block in (128, 64):
        source = kit.compiled("halves_of_output_65536", "v6e", block_sizes=[block]).source
        assert "pl.BlockSpec((2048, 256)" in source


@pytest.mark.parametrize("graph", WIDE)
def test_wide_steps_give_what_narrow_ones_give(graph):
    config = {"pallas_wide_blocks": "on"}
    assert grid(graph, **config) == WIDE[graph]
    assert grid(graph, pallas_wide_blocks="off") != WIDE[graph]
    assert simulated.wrong(kit.document(graph), config, "v7x") == []


def test_rows_of_one_register_that_are_only_summed_for_a_store_are_transposed_first():
    """Of 8192 rows: the sums as a column would be spread over lanes and transposed."""
    two = {"pallas_load_buffer_count": [2, 2]}
    source = kit.compiled("attention_delta_8192", "v7x", **two).source
    assert "jnp.sum(jnp.swapaxes(load_f32 * do, -1, -2), axis=1, keepdims=True)" in source
    assert "_to_row" not in source
    few = kit.compiled("attention_delta_8192", "v7x", pallas_wide_blocks="off")
    assert "_to_row(sum_1)" in few.source


@pytest.mark.parametrize("rows", [4096, 8192])
def test_transposed_rows_give_what_columns_give(rows):
    document = json.loads(re.sub(r"\b32\b", "2", kit.text("attention_delta_8192")))
    config = {"block_sizes": [1, rows], "pallas_wide_blocks": "off"}
    assert "jnp.swapaxes" in kit.compiled(document, "v7x", **config).source
    assert simulated.wrong(document, config, "v7x") == []
