"""Each tensor gets the tile that it alone needs, and the kernel the VMEM that the chip has."""

import importlib.util
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from pallasc import compare, reference, simulate

ROOT = Path(__file__).resolve().parent.parent
GRAPHS = ROOT / "testdata" / "graphs"
PALLASC = os.environ.get("PALLASC", str(ROOT / "pallasc"))
LOOP_TYPES = ("unroll", "fori_loop", "emit_pipeline")
LONG = GRAPHS / "attention_b8_h32_s8192_d256.json"
SHORT = GRAPHS / "attention_b8_h32_s512_d256.json"


def run(*arguments):
    """The command's outcome, text captured."""
    return subprocess.run([PALLASC, *map(str, arguments)], capture_output=True, text=True)


def settings(pairs):
    return [f"--set={key}={json.dumps(value)}" for key, value in pairs.items()]


def plan(graph, target="v7x", **config):
    """The plan as a dict; fails with the diagnostics if it is refused."""
    found = run("--emit=plan", f"--target={target}", *settings(config), graph)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


def operands(found):
    return {o["ref"]: o for o in found["operands"]}


def errors(graph, target, folder, **config):
    """What is wrong with the module in interpret mode, NaN past the edges; [] if nothing."""
    made = run(f"--target={target}", *settings(config), graph)
    assert made.returncode == 0, made.stderr
    path = folder / "kernel.py"
    path.write_text(made.stdout)
    spec = importlib.util.spec_from_file_location("kernel", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    document = json.loads(Path(graph).read_text())
    inputs = compare.make_inputs(document, 1, adversarial="last_row")
    kernel = getattr(module, module.KERNEL_INFO["name"])
    done = simulate.simulate(kernel, inputs, simulate.interpret_params())
    expected = reference.run(
        document, inputs, config={"block_sizes": module.KERNEL_INFO["config"]["block_sizes"]}
    )
    wrong = [*done.races, *done.complaints]
    for i, (actual, wanted) in enumerate(zip(done.outputs, expected, strict=True)):
        found = compare.compare(actual, wanted, compare.tolerance_for(document, i))
        wrong += [] if found.ok else [found]
    return wrong


# ---- the headline: block_b stays 2 on every tensor ----------------------------------------------


def test_each_tensor_has_its_own_alignment():
    found = plan(LONG, block_sizes=[2, 512, 2048], pallas_loop_type="unroll")
    windows = operands(found)
    assert windows["q_in_ref"]["block"] == [2, 512, 256]
    assert windows["k_in_ref"]["block"] == [2, 8192, 256]
    assert windows["v_in_ref"]["block"] == [2, 8192, 256]
    assert windows["out_ref"]["block"] == [2, 512, 256]
    assert windows["lse_ref"]["block"] == [2, 1, 512]
    assert all(o["buffers"] == 2 for o in windows.values())
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
    found = run("--explain", "--set=block_sizes=[2,512,2048]", "--target=v7x", SHORT)
    assert "tile_n: tiles of 512, not 2048" in found.stderr
    assert '"block_sizes": [2, 512, 2048]' in found.stdout


@pytest.mark.parametrize("loop_type", LOOP_TYPES)
def test_an_odd_range_is_one_block_without_masks(loop_type, tmp_path):
    graph = GRAPHS / "attention_b1_h2_s421_d128.json"
    config = {"block_sizes": [1, 512, 512], "pallas_loop_type": loop_type}
    assert "_mask(" not in run(*settings(config), graph).stdout
    assert errors(graph, "v6e", tmp_path, **config) == []


# ---- VMEM pressure ------------------------------------------------------------------------------


def chip(folder, vmem_bytes):
    path = folder / f"chip_{vmem_bytes}.json"
    path.write_text(json.dumps({"base": "v7x", "vmem_bytes": vmem_bytes}))
    return path


SMALL = GRAPHS / "attention.json"
RESIDENT = {"block_sizes": [1, 128, 128], "pallas_loop_type": "unroll"}


def test_second_buffers_are_given_up_first(tmp_path):
    """K and V move once per head, Q with every grid point."""
    total = plan(SMALL, **RESIDENT)["vmem"]["total"]
    window = operands(plan(SMALL, **RESIDENT))["k_in_ref"]["vmem_bytes"] // 2
    counts = {}
    for saved in (1, window + 1, 2 * window + 1):
        found = operands(plan(SMALL, chip(tmp_path, total - saved), **RESIDENT))
        counts[saved] = [found[f"{name}_in_ref"]["buffers"] for name in "qkv"]
    assert list(counts.values()) == [[2, 1, 2], [2, 1, 1], [1, 1, 1]]


def test_it_says_so_and_computes_the_same(tmp_path):
    total = plan(SMALL, **RESIDENT)["vmem"]["total"]
    target = chip(tmp_path, total - 1)
    found = run("--explain", f"--target={target}", *settings(RESIDENT), SMALL)
    assert "k_in: one buffer of its windows, not two" in found.stderr
    assert "pipeline_mode=pl.Buffered(1)" in found.stdout
    assert errors(SMALL, target, tmp_path, **RESIDENT) == []


@pytest.mark.parametrize("loop_type", ["fori_loop", "emit_pipeline"])
def test_windows_of_loops_too(loop_type, tmp_path):
    config = {"block_sizes": [1, 128, 128], "pallas_loop_type": loop_type}
    free = plan(SMALL, **config)
    saved = (free["vmem"]["inner"] + operands(free)["q_in_ref"]["vmem_bytes"]) // 2
    target = chip(tmp_path, free["vmem"]["total"] - saved)
    found = plan(SMALL, target, **config)
    assert found["vmem"]["total"] <= found["vmem"]["limit"] < free["vmem"]["total"]
    assert [w["buffers"] for w in found["loops"][0]["windows"]] == [1, 1]
    assert errors(SMALL, target, tmp_path, **config) == []


def test_a_given_count_is_kept(tmp_path):
    target = chip(tmp_path, plan(SMALL, **RESIDENT)["vmem"]["total"] - 1)
    count = {"pallas_load_buffer_count": [2, 2, 2]}
    found = run(f"--target={target}", *settings(RESIDENT | count), SMALL)
    assert found.returncode == 1 and "[vmem]" in found.stderr


def test_the_refusal_names_what_is_large_and_what_fits():
    config = {"block_sizes": [16, 512, 2048], "pallas_loop_type": "unroll"}
    found = run("--target=v7x", *settings(config), LONG)
    assert found.returncode == 1
    assert re.search(r"windows of k_in take 67108864, of v_in 67108864 \[vmem\]", found.stderr)
    assert "lse" not in found.stderr
    most = int(re.search(r"tile_b at most (\d+)", found.stderr)[1])
    for size, status in ((most, 0), (most + 1, 1)):
        config["block_sizes"][0] = size
        assert run("--emit=none", "--target=v7x", *settings(config), LONG).returncode == status


@pytest.mark.parametrize("block_b", [1, 2, 3, 4, 8, 16])
@pytest.mark.parametrize("loop_type", LOOP_TYPES)
def test_a_refusal_is_never_because_of_lse(block_b, loop_type):
    config = {"block_sizes": [block_b, 512, 2048], "pallas_loop_type": loop_type}
    found = run("--emit=none", "--target=v7x", *settings(config), LONG)
    assert found.returncode == 0 or ("lse" not in found.stderr and "k_in take" in found.stderr)
    assert found.returncode == 0 or block_b > 2
