"""Each tensor gets the tile that it alone needs, and the kernel the VMEM that the chip has."""

import json
import re

import kit
import pytest
import simulated
import tiles
from kit import refused, run, settings
from pallasc import aot
from pallasc.errors import CompileError
from pallasc.module import Module

LOOP_TYPES = ("unroll", "fori_loop", "emit_pipeline")
LONG = kit.path("attention_b8_h32_s8192_d256")
SHORT = kit.path("attention_b8_h32_s512_d256")


def plan(graph, target="v7x", **config):
    return kit.plan(graph, target, **config)


def operands(found):
    return kit.by_ref(found["operands"])


def errors(graph, target, **config):
    """What is wrong with the kernel in interpret mode, of inputs whose last row dominates."""
    document = json.loads(graph.read_text())
    return simulated.wrong(document, config, target, adversarial="last_row", seed=1)


# ---- the headline: block_b stays 2 on every tensor ----------------------------------------------


def test_each_tensor_has_its_own_alignment():
    steps = {"pallas_loop_type": "unroll", "pallas_ahead_across": "off"}
    found = plan(LONG, block_sizes=[2, 512, 2048], **steps)
    windows = operands(found)
    assert windows["q_in_ref"]["block"] == [2, 512, 256]
    assert windows["k_in_ref"]["block"] == [2, 8192, 256]
    assert windows["v_in_ref"]["block"] == [2, 8192, 256]
    assert windows["out_ref"]["block"] == [2, 512, 256]
    assert windows["lse_ref"]["block"] == [2, 1, 512]
    # By its upper estimate the kernel fits with one window of K, which moves once for each tile_b.
    assert {name for name, o in windows.items() if o["buffers"] == 1} <= {"k_in_ref"}
    assert found["vmem"]["total"] <= found["vmem"]["limit"]
    assert [g["semantics"] for g in found["grid"]] == ["parallel", "parallel"]


# ---- tiles no wider than their range ------------------------------------------------------------


@pytest.mark.parametrize("loop_type", LOOP_TYPES)
def test_a_tile_is_no_wider_than_its_range(loop_type):
    wide = plan(SHORT, block_sizes=[2, 512, 2048], pallas_loop_type=loop_type)
    exact = plan(SHORT, block_sizes=[2, 512, 512], pallas_loop_type=loop_type)
    assert wide["config"]["block_sizes"] == [2, 512, 2048]
    assert exact["config"]["block_sizes"] == [2, 512, 512]
    assert {k: v for k, v in wide.items() if k not in ("config", "remarks")} == {
        k: v for k, v in exact.items() if k not in ("config", "remarks")
    }


def test_it_is_explained_and_the_configuration_stays():
    found = kit.emitted("python", SHORT, target="v7x", block_sizes=[2, 512, 2048])
    assert "tile_n: tiles of 512, not 2048" in found.err
    assert '"block_sizes": [2, 512, 2048]' in found.out


@pytest.mark.parametrize("loop_type", LOOP_TYPES)
def test_an_odd_range_is_one_block_without_masks(loop_type, tmp_path):
    graph = kit.path("attention_b1_h2_s421_d128")
    config = {"block_sizes": [1, 512, 512], "pallas_loop_type": loop_type}
    assert "_mask(" not in kit.compiled(graph, **config).source
    assert errors(graph, "v6e", **config) == []


# ---- VMEM pressure ------------------------------------------------------------------------------


def chip(folder, vmem_bytes):
    return kit.chip(folder, base="v7x", vmem_bytes=vmem_bytes)


SMALL = kit.path("attention")
RESIDENT = {
    "block_sizes": [1, 128, 128],
    "pallas_loop_type": "unroll",
    "pallas_matmul_ahead": 1,  # less of it would need less VMEM
}


def test_second_buffers_are_given_up_first(tmp_path):
    """K and V move once per head, Q with every grid point."""
    total = plan(SMALL, **RESIDENT)["vmem"]["total"]
    window = operands(plan(SMALL, **RESIDENT))["k_in_ref"]["vmem_bytes"] // 2
    counts = {}
    for saved in (1, 5 * window // 4, 10 * window // 4):
        found = operands(plan(SMALL, chip(tmp_path, total - saved), **RESIDENT))
        counts[saved] = [found[f"{name}_in_ref"]["buffers"] for name in "qkv"]
    assert list(counts.values()) == [[2, 1, 2], [2, 1, 1], [1, 1, 1]]


def test_it_says_so_and_computes_the_same(tmp_path):
    total = plan(SMALL, **RESIDENT)["vmem"]["total"]
    target = chip(tmp_path, total - 1)
    found = kit.emitted("python", SMALL, target=target, **RESIDENT)
    assert "k_in: one buffer of its windows, not two" in found.err
    assert "pipeline_mode=pl.Buffered(1)" in found.out
    assert errors(SMALL, target, **RESIDENT) == []


@pytest.mark.parametrize("loop_type, tenths", [("fori_loop", 7), ("emit_pipeline", 5)])
def test_windows_of_loops_too(loop_type, tenths, tmp_path):
    config = {"block_sizes": [1, 128, 128], "pallas_loop_type": loop_type}
    config["pallas_transposed_scores"] = "off"
    config["pallas_loop_skew"] = "off"
    if loop_type == "fori_loop":
        config["pallas_fori_dma"] = "on"
    free = plan(SMALL, **config, pallas_load_buffer_count=[2, 2, 2])
    saved = (free["vmem"]["inner"] + free["vmem"]["windows"]) * tenths // 10
    target = chip(tmp_path, free["vmem"]["total"] - saved)
    found = plan(SMALL, target, **config)
    assert found["vmem"]["total"] <= found["vmem"]["limit"] < free["vmem"]["total"]
    assert [w["buffers"] for w in found["loops"][0]["windows"]] == [1, 1]
    assert errors(SMALL, target, **config) == []


def test_a_given_count_is_kept(tmp_path):
    """Outputs have no count: out, and then lse, give up theirs."""
    target = chip(tmp_path, plan(SMALL, **RESIDENT)["vmem"]["total"] - 1)
    config = RESIDENT | {"pallas_load_buffer_count": [2, 2, 2]}
    found = operands(plan(SMALL, target, **config))
    assert [o["buffers"] for o in found.values()] == [2, 2, 2, 1, 2]
    assert errors(SMALL, target, **config) == []
    window = 2 * found["k_in_ref"]["vmem_bytes"]
    target = chip(tmp_path, plan(SMALL, **RESIDENT)["vmem"]["total"] - window)
    assert "vmem" in [d["code"] for d in kit.refusal(SMALL, target, **config)]


def test_the_refusal_names_what_is_large_and_what_fits():
    config = {"block_sizes": [16, 512, 2048], "pallas_loop_type": "unroll"}
    config["pallas_narrow_steps"] = "off"
    found = refused(1, "--target=v7x", *settings(config), LONG)
    assert re.search(r"windows of k_in take 67108864, of v_in 67108864 \[vmem\]", found)
    assert "lse" not in found
    most = int(re.search(r"tile_b at most (\d+)", found)[1])
    for size, status in ((most, 0), (most + 1, 1)):
        config["block_sizes"][0] = size
        assert run("--emit=none", "--target=v7x", *settings(config), LONG).status == status


@pytest.mark.parametrize("block_b", [1, 2, 3, 4, 8, 16])
@pytest.mark.parametrize("loop_type", LOOP_TYPES)
def test_a_refusal_is_never_because_of_lse(block_b, loop_type):
    config = {"block_sizes": [block_b, 512, 2048], "pallas_loop_type": loop_type}
    found = run("--emit=none", "--target=v7x", *settings(config), LONG)
    assert found.status == 0 or ("lse" not in found.err and "k_in take" in found.err)
    assert found.status == 0 or block_b > 2


# ---- small tiles: own block, view, split view, or a block that several steps share --------------

OFF = {"pallas_boundary_views": "off"}
UNROLL, FORI, EMIT = ({"pallas_loop_type": loop_type} for loop_type in LOOP_TYPES)
TWO = ("float32", "bfloat16")
# name: document, placements of its operands in the order of the call
SMALL_TILES = {
    "1d_64": (tiles.row_maxima(1024, 256, 64), "own own split"),
    "1d_8": (tiles.row_maxima(1024, 256, 8), "own own split"),
    "1d_64_off": (tiles.row_maxima(1024, 256, 64, **OFF), "own own shared"),
    "1d_two_64": (tiles.row_maxima(1024, 256, 64, "bfloat16", TWO), "own own split split"),
    "1d_two_128": (tiles.row_maxima(1024, 256, 128, "float32", TWO), "own own own own"),
    # 1-D as it is: 128 * 32 / bits, so that 128 of bfloat16 are half a block
    "1d_two_128_off": (
        tiles.row_maxima(1024, 256, 128, "float32", TWO, **OFF),
        "own own own shared",
    ),
    "1d_256_off": (tiles.row_maxima(1024, 256, 256, outs=TWO, **OFF), "own own own own"),
    "1d_odd_50": (tiles.row_maxima(1000, 200, 50), "shared view split"),
    "1d_odd_48": (tiles.row_maxima(1000, 200, 48), "own own shared"),
    "2d_2": (tiles.statistic(16, 512, 128, [2, 128]), "own shared view"),
    "2d_2_off": (tiles.statistic(16, 512, 128, [2, 128], **OFF), "own shared shared"),
    "2d_1_off": (tiles.statistic(16, 512, 128, [1, 128], **OFF), "own shared shared"),
    "2d_3": (tiles.statistic(16, 512, 128, [3, 128]), "own view view"),
    "2d_3_off": (tiles.statistic(16, 512, 128, [3, 128], **OFF), "own shared shared"),
    "2d_odd_4": (tiles.statistic(6, 421, 128, [4, 128]), "own view view"),
    "2d_2_64": (tiles.statistic(16, 512, 128, [2, 64]), "own split split"),
    "2d_8_64": (tiles.statistic(16, 512, 128, [8, 64]), "own shared split"),
    "3d_1": (tiles.statistic_3d(2, 3, 512, [1, 1, 128]), "own view"),
    "3d_2": (tiles.statistic_3d(2, 16, 512, [1, 2, 128]), "own view"),
    "3d_2_off": (tiles.statistic_3d(2, 16, 512, [1, 2, 128], **OFF), "own shared"),
    "int8_32": (tiles.widened("int8", [64, 256], [32, 128]), "own own"),
    "int8_16": (tiles.widened("int8", [64, 256], [16, 128]), "own own"),
    "int8_8": (tiles.widened("int8", [64, 256], [8, 128]), "own own"),
    "int8_4": (tiles.widened("int8", [64, 256], [4, 128]), "shared view"),
    "fp8_8": (tiles.widened("float8_e4m3fn", [64, 256], [8, 128]), "own own"),
    "fp8_4": (tiles.widened("float8_e4m3fn", [64, 256], [4, 128]), "shared view"),
    "bf16_4_off": (tiles.widened("bfloat16", [64, 256], [4, 128], **OFF), "shared shared"),
    "f32_1d_100_off": (tiles.widened("float32", [1000], [100], **OFF), "shared shared"),
    "two_tilings_read": (tiles.two_tilings(False), "own own own"),
    "two_tilings_stored": (tiles.two_tilings(True), ""),
    "loop_unroll_2": (
        tiles.statistic_in_loop(16, 512, 128, [2, 128], **UNROLL),
        "",
    ),
    "loop_fori_3": (
        tiles.statistic_in_loop(16, 512, 128, [3, 128], **FORI),
        "",
    ),
    "loop_emit_1": (tiles.statistic_in_loop(16, 512, 128, [1, 128], **EMIT), ""),
    "loop_unroll_8_64": (tiles.statistic_in_loop(16, 512, 128, [8, 64], **UNROLL), ""),
    "positions": (tiles.positions("float32", [64, 2, 512], [16, 128]), "merged merged own"),
    "positions_odd": (tiles.positions("bfloat16", [421, 3, 384], [64, 128]), "merged merged own"),
    "positions_whole": (tiles.positions("int8", [100, 5, 256], [32]), "merged merged own"),
    "positions_ragged": (tiles.positions("float32", [64, 2, 421], [16, 128]), "view view own"),
    "positions_40": (tiles.positions("bfloat16", [64, 9, 40], [16]), "view view own"),
    "positions_few_rows": (tiles.positions("float32", [64, 2, 512], [4, 128]), "view view view"),
    "positions_off": (tiles.positions("float32", [64, 2, 512], [16, 128], **OFF), "own own"),
}


def written(name, folder):
    path = folder / f"{name}.json"
    path.write_text(SMALL_TILES[name][0])
    return path


@pytest.mark.parametrize("name", SMALL_TILES)
def test_small_tiles(name, tmp_path):
    graph = written(name, tmp_path)
    found = plan(graph)
    if SMALL_TILES[name][1]:
        assert [o["placement"] for o in found["operands"]] == SMALL_TILES[name][1].split()
    assert errors(graph, "v7x") == []


def test_the_compiler_takes_small_tiles(tmp_path):
    """Each on one chip in turn; all on all of them were compiled when this was written."""
    chips = ("v4", "v5e", "v5p", "v6e", "v7x")
    jobs = []
    for i, name in enumerate(SMALL_TILES):
        chip_name = chips[i % len(chips)]
        made = kit.accepted(f"--target={chip_name}", written(name, tmp_path))
        jobs.append((Module(made.out), chip_name))
    for name, result in zip(SMALL_TILES, aot.compile_many(jobs, timeout=120), strict=True):
        assert (name, result.kind, result.message) == (name, "ok", "")
        assert result.vmem_bytes <= result.predicted_bytes


def test_steps_that_share_a_written_block_are_in_order(tmp_path):
    found = plan(written("2d_2_off", tmp_path))
    assert [g["semantics"] for g in found["grid"]] == ["arbitrary", "arbitrary"]
    lse = operands(found)["lse_ref"]
    assert (lse["block"], lse["index_map"]) == ([8, 512], ["tile_0 // 4", "0"])
    assert lse["why"].endswith("(0 bytes moved in HBM, 32768 of VMEM, in order)")
    reads = plan(written("2d_2", tmp_path))
    assert [g["semantics"] for g in reads["grid"]] == ["parallel", "parallel"]
    assert operands(reads)["delta_ref"]["placement"] == "shared"


def test_a_loop_of_matmuls_has_no_branches():
    """A part of a shared block is chosen by a branch, across which no matmul is scheduled."""
    dq = plan(kit.path("attention_dq_8192"))
    for vector in ("lse_ref", "delta_ref"):
        assert operands(dq)[vector]["placement"] == "view"
        assert "rather than" not in operands(dq)[vector]["why"]


def test_a_position_before_the_last_dim_is_chosen_by_the_index_map(tmp_path):
    one, two, _ = plan(written("positions_odd", tmp_path))["operands"]
    assert one["shape"] == [1, 421, 1152] and one["block"] == [1, 64, 128]
    assert one["index_map"] == ["0", "tile_0", "tile_1 + 3"]
    assert two["index_map"] == ["0", "tile_0", "tile_1"]
    assert "; a block of the last two dims as one (" in one["why"]


def test_costs_are_explained(tmp_path):
    found = kit.emitted("plan", written("2d_2", tmp_path), target="v7x").err
    assert (
        "lse: a view with a unit dim (65536 bytes moved in HBM, 2048 of VMEM), rather than a "
        "block that several steps share (0 bytes moved in HBM, 32768 of VMEM, in order)" in found
    )


REFUSED = {
    "rows": (
        tiles.statistic_in_loop(16, 512, 128, [2, 128], **UNROLL, **OFF),
        "tensor lse cannot be tiled this way: in dim 0 a block of 2 must be a multiple of 8 or",
        "tile_0 8 is the smallest that works; pallas_boundary_views auto",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_served_is_refused(name, tmp_path):
    document, *words = REFUSED[name]
    path = tmp_path / "graph.json"
    path.write_text(document)
    found = refused(1, "--emit=none", "--target=v7x", path)
    for word in words:
        assert word in found
    smallest = re.search(r"(tile_\d) (\d+) is the smallest", found)
    if smallest:
        sizes = json.loads(document)["config"]["block_sizes"]
        sizes[int(smallest[1][-1])] = int(smallest[2])
        kit.emitted("none", path, target="v7x", block_sizes=sizes)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (tiles.row_maxima(120, 256, 9), "9 divides no 128: one block is held"),
        (tiles.row_maxima(256, 256, 4, **OFF), "and without views"),
    ],
)
def test_tiles_that_no_block_is_are_held(document, why):
    assert simulated.wrong(json.loads(document), target="v7x") == [], why


@pytest.mark.parametrize("loop", [FORI, UNROLL])
def test_steps_between_tiles_are_turned_to_their_place(loop):
    document = json.loads(tiles.statistic_in_loop(16, 512, 128, [2, 64], **loop))
    assert "pltpu.roll(" in kit.compiled(document, "v7x").source
    assert simulated.wrong(document, target="v7x") == []


def test_a_loop_that_begins_anywhere():
    for chip in ("v4", "v7x"):
        options = (f"--target={chip}", "--set=pallas_loop_type=fori_loop", kit.path("sum_to"))
        assert "pltpu.roll(" in kit.accepted("--set=block_sizes=[256, 64]", *options).out
        assert "pltpu.roll(" not in kit.accepted("--set=block_sizes=[128, 64]", *options).out


def test_arrays_that_hbm_does_not_hold_are_refused():
    """In blocks of one lane y and out are padded 128 times: 8 GiB each, where v5e has 15.75.

    The caller's stand beside them, 32 MiB each, as does x.
    """
    config = {"block_sizes": [1024, 1, 1024]}
    needed = 2 * (8 << 30) + 3 * (32 << 20)
    with pytest.raises(
        CompileError,
        match=rf"need {needed} bytes of HBM.* y, as bfloat16\[4096, 4096, 1, 1\], takes 8589934592",
    ):
        kit.compiled("matmul_4096", "v5e", **config)
    assert kit.compiled("matmul_4096", "v6e", **config)
    assert kit.compiled("matmul_4096", "v5e", block_sizes=[1024, 2, 1024])


def test_a_block_of_several_rows_of_one_is_one_row():
    document = json.loads(re.sub(r"\b256\b", "1", kit.text("softmax")))
    found = kit.plan(document, "v6e", block_sizes=[64])
    assert [operand["block"] for operand in found["operands"]] == [[1, 1024]] * 2
    assert simulated.wrong(document, {"block_sizes": [64]}, "v6e") == []
