"""pallas_straight_loops: which loops are straight code on resident blocks, and which stay loops."""

import kit
import pytest

BLOCKS = {"block_sizes": [1024, 1024, 1024]}


def loop(graph="matmul_4096", chip="v7x", **config):
    """The first loop of the Plan: its type, why, and how many of its windows are copied."""
    (first, *_) = kit.plan(graph, chip, **config)["loops"]
    return first["type"], first["why"], sum(w["dma"] for w in first["windows"])


@pytest.mark.parametrize("asked", ["default", "fori_loop", "emit_pipeline"])
@pytest.mark.parametrize("chip", ["v5e", "v5p", "v6e", "v7x"])
def test_few_steps_that_hand_on_a_large_sum(asked, chip):
    """Between two of four steps 4 MiB, where registers hold 256 KiB; between two of eight 1 MiB."""
    why = "pallas_straight_loops auto: {} steps on resident blocks"
    assert loop(chip=chip, pallas_loop_type=asked, **BLOCKS) == ("unroll", why.format(4), 0)
    found = loop(chip=chip, pallas_loop_type=asked, block_sizes=[512, 512, 512])
    assert found == ("unroll", why.format(8), 0)


@pytest.mark.parametrize("asked", ["default", "fori_loop"])
@pytest.mark.parametrize("chip", ["v6e", "v7x"])
def test_many_skewed_steps_stay_a_loop(asked, chip):
    """Eight steps of attention in pairs, with the matmul of the next one beside each softmax."""
    config = {"block_sizes": [1, 1024, 1024], "pallas_loop_type": asked}
    (found,) = kit.plan("attention_d128_8192", chip, **config)["loops"]
    assert (found["type"], found["skewed"]) == ("fori_loop", True)


def test_many_steps():
    why = "pallas_straight_loops auto: 16 steps on resident blocks"
    config = {"block_sizes": [1024, 1024, 256], "pallas_loop_type": "emit_pipeline"}
    assert loop(**config) == ("unroll", why, 0)


def test_off_is_off():
    config = {**BLOCKS, "pallas_straight_loops": "off", "pallas_loop_type": "emit_pipeline"}
    assert loop(**config)[0] == "emit_pipeline"


def told(graph, chip, **config):
    """What is said of both kernels, where the estimates of both are compared."""
    said = kit.emitted("plan", graph, target=chip, **config).err
    return [line for line in said.splitlines() if "straight code would take" in line]


@pytest.mark.parametrize(
    ("graph", "loops", "said"),
    [
        ("neighbour_sums_4096", ["unroll"], "taken"),  # a pipeline starts empty at each point
        ("squeeze_excite_4096", ["unroll", "unroll"], "taken"),
        ("gated_delta_rule_4096", ["fori_loop"], "that is too little"),
        ("cross_entropy_online_8192_128256", ["fori_loop"], "it spills"),
    ],
)
def test_both_kernels_tell(graph, loops, said):
    """Of what registers hold, where the loop moves an array of 8 MiB or more."""
    (line,) = told(graph, "v7x")
    assert line.endswith(said)
    assert [x["type"] for x in kit.plan(graph, "v7x")["loops"]][: len(loops)] == loops


def test_small_arrays_are_not_asked_about():
    """What their loops wait for is too little for the code."""
    assert told("softmax_two_pass", "v7x", block_sizes=[128, 128]) == []


@pytest.mark.parametrize("asked", ["default", "fori_loop", "emit_pipeline"])
def test_a_single_step(asked):
    """It hands nothing on; the grid brings the next point's blocks, where a loop would wait."""
    why = "pallas_straight_loops auto: 1 step on resident blocks"
    assert loop("matmul_k7_4096", pallas_loop_type=asked) == ("unroll", why, 0)
    blocks = {"block_sizes": [1024, 1024, 4096]}
    assert loop(pallas_loop_type=asked, **blocks) == ("unroll", why, 0)


@pytest.mark.parametrize("asked", ["default", "fori_loop", "emit_pipeline"])
@pytest.mark.parametrize("chip", ["v6e", "v7x"])
def test_steps_from_the_begin_of_a_tile(asked, chip):
    """Each part of split-K is a tile of 4096: four steps, at 0 to 3072 of its resident block."""
    config = {"block_sizes": [512, 64, 1024], "split_k": 8, "pallas_loop_type": asked}
    why = "pallas_straight_loops auto: 4 steps on resident blocks"
    assert loop("matmul_split_k_512", chip, **config) == ("unroll", why, 0)
    source = kit.compiled("matmul_split_k_512", chip, **config).source
    assert "for j in range(4):" in source
    assert "x_ref.at[:, pl.ds(j * 1024, 1024)]" in source


@pytest.mark.parametrize(
    ("graph", "asked", "config"),
    [
        # 32 steps
        ("matmul_split_k_512", "fori_loop", {"block_sizes": [512, 64, 1024], "split_k": 1}),
        # the last of two steps is ragged, in some parts
        ("matmul_split_k_odd", "fori_loop", {"block_sizes": [72, 96, 128], "split_k": 4}),
        # no matmul: sums of rows, from the begin of a tile on
        ("layer_norm_bwd_two_level_4096_8192", "emit_pipeline", {"block_sizes": [64, 8]}),
    ],
)
def test_other_steps_from_a_begin_stay_a_loop(graph, asked, config):
    """Where `auto` would gain nothing, or steps may be ragged."""
    assert loop(graph, "v6e", pallas_loop_type=asked, **config)[0] == asked


@pytest.mark.parametrize("asked", ["default", "fori_loop", "emit_pipeline"])
@pytest.mark.parametrize("graph", ["matmul_m1_4096", "matmul_m7_4096"])
def test_few_rows_of_a_matmul(graph, asked):
    """512 KiB of weights a step: the sum is small, but a loop waits at each grid point."""
    why = "pallas_straight_loops auto: 8 steps on resident blocks"
    for chip in ("v5e", "v6e", "v7x"):
        assert loop(graph, chip, pallas_loop_type=asked) == ("unroll", why, 0)


@pytest.mark.parametrize("rows", [32, 64])
def test_how_many_rows_are_few(rows):
    """An eighth of the matrix unit's 256: of more both kernels are compared."""
    config = {"block_sizes": [rows, 512, 512], "pallas_wide_blocks": "off"}
    config["pallas_loop_type"] = "emit_pipeline"
    assert loop(**config)[0] == "unroll"
    assert len(told("matmul_4096", "v7x", **config)) == (rows == 64)


def test_few_rows_of_several_matmuls_stay_a_loop():
    """Attention of one query row: what it carries is no sum of products alone."""
    assert loop("decode_attention_8192", "v6e", pallas_loop_type="fori_loop")[0] == "fori_loop"


def test_windows_that_must_be_copied_are():
    """pallas_fori_dma on is obeyed."""
    found = loop(pallas_loop_type="fori_loop", pallas_fori_dma="on", **BLOCKS)
    assert found[0] == "fori_loop"
    assert found[2] == 2


def test_what_does_not_fit_stays_a_loop():
    """v4 has 16 MiB of VMEM: two blocks each of [512, 4096] and [4096, 1024] are 24 MiB."""
    config = {"block_sizes": [512, 1024, 1024], "pallas_loop_type": "emit_pipeline"}
    assert loop(chip="v4", **config)[0] == "emit_pipeline"


@pytest.mark.parametrize("asked", ["fori_loop", "emit_pipeline"])
def test_on_takes_every_loop_of_static_bounds(asked):
    on = {"pallas_straight_loops": "on", "pallas_loop_type": asked}
    assert loop("attention", **on)[:2] == ("unroll", "pallas_straight_loops is on")
    assert loop("causal_attention", **{**on, "pallas_loop_type": "fori_loop"})[0] == "fori_loop"


def test_the_module_is_that_of_unroll():
    """The same kernel, text for text, but for the configuration that it names."""

    def body(config):
        source = kit.compiled("matmul_4096", **BLOCKS, **config).source
        return source[source.index("\ndef _matmul_kernel") :]

    assert body({"pallas_loop_type": "emit_pipeline"}) == body({"pallas_loop_type": "unroll"})
