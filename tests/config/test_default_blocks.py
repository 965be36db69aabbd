"""Block sizes where nothing is configured: what each rule of src/config/default_blocks.c gives."""

import json
import re

import kit
import proof
import pytest


def bare(graph):
    """The document of a graph, without its configuration."""
    return kit.document(graph) | {"config": {}}


def resized(graph, extents):
    """The same with numbers replaced wherever they stand: {from: to}."""
    text = json.dumps(bare(graph))
    return json.loads(re.sub(r"\b\d+\b", lambda n: extents.get(n[0], n[0]), text))


def sizes(document, chip="v7x"):
    """The block sizes in force."""
    return kit.plan(document, chip)["config"]["block_sizes"]


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        # Rows and columns: 1024 each, where HBM is 312 FLOPs away; what is contracted in chunks.
        ("matmul_4096", [1024, 1024, 1024]),
        ("matmul_bias_gelu", [256, 512, 512]),
        # One batch or head; more of them where all tiles are small.
        ("bmm", [2, 256, 256, 256]),
        ("attention_b8_h32_s8192_d128", [1, 1024, 1024]),
        ("attention_b8_h32_s8192_d256", [1, 1024, 1024]),
        ("attention_b1_h3_s421_d64", [1, 512, 512]),
        # The loop ends with the tile of rows: its steps are no longer than that.
        ("causal_attention", [1, 512, 512]),
        # Ranges no longer than a tile may be.
        ("softmax", [256]),
        ("layer_norm", [256]),
        ("add", [512, 1024]),
        ("softmax_two_pass", [1024, 256]),
    ],
)
def test_v7x(graph, expected):
    assert sizes(bare(graph)) == expected


@pytest.mark.parametrize(
    ("graph", "chip", "rule", "expected", "loops"),
    [
        # Nothing to overlap in a loop of one step.
        ("matmul_k300_4096", "v6e", [1024, 1024, 512], [4096, 512, 512], ["unroll"]),
        # Seven rows: each step is the copy of a tile of weights.
        ("matmul_m7_4096", "v6e", [8, 1024, 1024], [8, 256, 4096], ["unroll"]),
        # Steps that copy half as much as hides the latency of HBM.
        ("attention_delta_8192", "v6e", [2, 1024], [1, 4096], []),
        # One tile: nothing hides its copies.
        ("matmul_1024", "v7x", [1024, 1024, 1024], [1024, 512, 1024], ["unroll"]),
        # 64 columns: steps of 1024 are short.
        ("matmul_split_k_512", "v7x", [512, 64, 1024], [512, 64, 2048], ["emit_pipeline"]),
        # Whole rows of 20 KiB: 64 of them are 1.25 MiB.
        ("layer_norm_bwd_4096_10240", "v7x", [64], [128], []),
    ],
)
def test_what_is_near_and_faster_is_taken(graph, chip, rule, expected, loops):
    """By the rules alone; what stands near that."""
    document = bare(graph)
    found = kit.plan(document, chip)
    rules = {"block_sizes": rule, "pallas_wide_blocks": "off"}
    if rule[0] == 8:  # of given sizes few rows are straight code, of default ones a loop
        rules["pallas_straight_loops"] = "off"
    given = kit.plan(document, chip, **rules)
    assert found["config"]["block_sizes"] == expected
    assert [loop["type"] for loop in found["loops"]] == loops
    assert found["estimate"]["cycles"] * 1.04 <= given["estimate"]["cycles"]
    seconds = [plan["estimate"]["compared_seconds"] for plan in (found, given)]
    assert seconds[0] * 1.03 <= seconds[1]


@pytest.mark.parametrize(
    "graph",
    ["matmul_k300_4096", "matmul_m7_4096", "decode_attention_8192", "attention_delta_8192"],
)
def test_little_is_faster_than_what_is_near(graph):
    """Within 10% of the best estimate of a sweep."""
    swept = kit.accepted("sweep", kit.path(graph), "--target=v6e").out.splitlines()
    best = min(line["cycles"] for line in map(json.loads, swept) if "cycles" in line)
    assert kit.plan(bare(graph), "v6e")["estimate"]["cycles"] <= 1.1 * best


def test_only_one_of_two_estimates_is_not_enough():
    """Straight code of attention is faster by the core's time alone; compiled, it is slower."""
    document = bare("attention_b8_h32_s8192_d128")
    found = kit.plan(document, "v6e")
    straight = kit.plan(
        document,
        "v6e",
        **found["config"] | {"pallas_loop_type": "unroll", "pallas_fenced_steps": "off"},
    )
    assert found["loops"][0]["type"] == "fori_loop"
    assert straight["estimate"]["cycles"] * 1.05 < found["estimate"]["cycles"]
    assert straight["estimate"]["compared_seconds"] > found["estimate"]["compared_seconds"]


def test_a_sweep_finds_what_a_compilation_does():
    """Also where it compiled the sizes of the rule before: the climb begins at what is known."""
    sizes = {"block_sizes": [[2, 1024], None], "pallas_loop_type": [None]}
    swept = kit.accepted(
        "sweep",
        kit.path("decode_attention_8192"),
        "--target=v6e",
        "-j",
        1,
        "--space",
        json.dumps(sizes),
    )
    rule, found = map(json.loads, swept.out.splitlines())
    estimate = kit.plan(bare("decode_attention_8192"), "v6e")["estimate"]
    assert found["cycles"] == estimate["cycles"] < rule["cycles"]
    assert "block_sizes" not in found["config"]


@pytest.mark.parametrize(("steps", "loops"), [(64, ["unroll"]), (65, ["fori_loop"])])
def test_long_loops_become_no_straight_code(steps, loops):
    plan = kit.plan(resized("recurrence_loop", {"64": str(steps)}), "v6e")
    assert [loop["type"] for loop in plan["loops"]] == loops


def test_a_loop_type_that_is_given_stays():
    found = kit.plan(bare("recurrence_scan_8192_2048"), "v6e", pallas_loop_type="emit_pipeline")
    assert [loop["type"] for loop in found["loops"]] == ["emit_pipeline"]


def test_sizes_that_are_given_stay():
    remarks = kit.run(
        kit.path("matmul_k300_4096"),
        "--target=v6e",
        "--set",
        "block_sizes=[1024,1024,512]",
        "--explain",
    )
    assert "near the defaults" not in remarks.err


def test_what_is_near_is_said():
    remarks = kit.run("-", "--target=v6e", "--explain", text=bare("matmul_k300_4096"))
    said = next(line for line in remarks.err.splitlines() if line.startswith("choose: "))
    assert re.fullmatch(
        r"choose: taken: near the defaults, tile_m 4096, tile_n 512, tile_k 512: "
        r"\d+ cycles, not \d+: about [\d.]+ us",
        said,
    )


@pytest.mark.parametrize(
    ("chip", "side"), [("v4", 512), ("v5e", 512), ("v5p", 512), ("v6e", 1024), ("v7x", 1024)]
)
def test_a_matmul_tile_balances_hbm(chip, side):
    """side FLOPs for each byte read: twice the chip's FLOPs for each byte of HBM, 1024 at most."""
    assert sizes(bare("matmul_4096"), chip)[:2] == [side, side]


@pytest.mark.parametrize("graph", ["matmul_bias_gelu_4096", "int8_matmul_4096"])
def test_straight_steps_that_only_add_up_are_one(graph):
    """Given so, or in steps of 1024, it stays as it is given."""
    document, chip = bare(graph), "v7x"
    found = kit.plan(document, chip)
    assert found["config"]["block_sizes"] == [1024, 1024, 4096]
    assert [dim["full_steps"] for loop in found["loops"] for dim in loop["dims"]] == [1]
    for steps in (1024, 4096):
        given = kit.plan(document, chip, block_sizes=[1024, 1024, steps], pallas_loop_type="unroll")
        assert given["config"]["block_sizes"] == [1024, 1024, steps]
    remarks = kit.run("-", f"--target={chip}", "--explain", "--emit=none", text=document)
    assert "choose: taken: steps that only add up as one, tile_m 1024, tile_n" in remarks.err


@pytest.mark.parametrize("graph", ["matmul_4096", "matmul_bias_gelu_4096"])
def test_steps_whose_first_blocks_come_in_chunks_stay(graph):
    """One step, whose point waits for all of them, is estimated to be as fast without that."""
    document = bare(graph)
    said = kit.run("-", "--target=v6e", "--explain", "--emit=none", text=document).err
    assert "as one" not in said
    assert "pallas_first_chunks: the first point's blocks come in 4 chunks" in said
    assert sizes(document, "v6e") == [1024, 1024, 1024]
    unchunked = document | {"config": {"pallas_first_chunks": "off"}}
    assert sizes(unchunked, "v6e") == [1024, 1024, 4096]


def test_two_buffers_need_save_little():
    """8192 cubed: [1024, 8192] of x in one buffer, or half as many columns with two of it."""
    document = resized("matmul_4096", {"4096": "8192"})
    given = {"block_sizes": [1024, 1024, 1024], "pallas_loop_type": "unroll"}
    waits = {o["tensor"]: o["buffers"] for o in kit.plan(document, "v7x", **given)["operands"]}
    found = kit.plan(document, "v7x")
    assert waits["x"] == 1
    assert found["config"]["block_sizes"] == [1024, 512, 8192]
    assert [o["buffers"] for o in found["operands"]] == [2, 2, 2]


def test_steps_that_do_more_than_add_up_stay():
    """Those of attention scale what they have so far."""
    document = bare("attention_b8_h32_s8192_d128")
    remarks = kit.run(
        "-", "--target=v6e", "--explain", "--set=pallas_loop_type=unroll", text=document
    )
    assert "as one" not in remarks.err
    found = kit.plan(document, "v6e", pallas_loop_type="unroll")
    assert found["loops"][0]["dims"][0]["full_steps"] > 1


@pytest.mark.parametrize(
    ("extent", "expected"),
    [
        (1280, 640),  # two tiles and nothing over, not 1024 and 256
        (3072, 1024),
        (2944, 1024),  # 128 over in three; 23 x 128 has no divisor from 4 to 8
        (1100, 640),  # the least over: 180
    ],
)
def test_ranges_that_1024_does_not_divide(extent, expected):
    document = resized("matmul_4096", {"4096": str(extent)})
    assert sizes(document)[:2] == [expected, expected]


def test_long_rows_leave_room_for_fewer():
    """[m, n] in tiles of at most 2 MiB: 1024 rows of 2048 float32 are 8 MiB."""
    document = resized("add", {"512": "8192", "1024": "16384"})
    assert sizes(document) == [256, 2048]


@pytest.mark.parametrize("graph", sorted({*proof.SECOND_BLOCKS, *proof.LARGE}))
@pytest.mark.parametrize("chip", proof.CHIPS)
def test_every_graph_is_served(graph, chip):
    """Something fits every chip, and no tile of a matmul's range is below 128."""
    document = bare(graph)
    plan = kit.plan(document, chip)
    assert plan["vmem"]["total"] <= plan["vmem"]["limit"]


def test_what_is_refused_is_tried_smaller():
    """A chip of 6 MiB holds no tile of 1024 x 1024 and what it is made of."""
    target = {"base": "v7x", "name": "small", "vmem_bytes": 6 << 20}
    plan = kit.plan(bare("matmul_4096"), target)
    assert plan["config"]["block_sizes"] == [512, 512, 512]
    assert plan["vmem"]["total"] <= 6 << 20


def test_they_are_said_and_can_be_given():
    """The sizes stand in the plan's configuration, and give the same kernel again."""
    document = bare("attention_b8_h32_s8192_d128")
    found = kit.compiled(document, "v7x")
    again = kit.compiled(document, "v7x", **found.plan["config"])
    assert again.source.split("def ", 1)[1] == found.source.split("def ", 1)[1]
