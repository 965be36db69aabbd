"""The cap on a tile's elements: the target's, read by block_constraints and config_shrink alone."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PALLASC = os.environ.get("PALLASC", str(ROOT / "pallasc"))
ADD = ROOT / "testdata" / "graphs" / "add.json"


def run(*arguments, **options):
    return subprocess.run(
        [PALLASC, *map(str, arguments)], capture_output=True, text=True, **options
    )


def capped_target(folder, name, elements):
    """Path of a new target in the folder: v6e, with tiles of that many elements at most."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"base": "v6e", "name": name, "max_tile_elements": elements}))
    return path


@pytest.fixture
def capped(tmp_path):
    return capped_target(tmp_path, "capped", 16384)


def test_the_cap_is_read_in_two_places():
    """Outside of what reads and prints targets."""
    folders = [ROOT / name for name in ("src", "passes", "codegen")]
    files = [file for folder in folders for file in folder.glob("*.c")]
    readers = {file.name for file in files if "target->max_tile_elements" in file.read_text()}
    assert readers == {"block_constraints.c", "config_shrink.c"}


def test_a_users_configuration_is_refused_not_changed(capped):
    found = run("--target", capped, ADD, "--emit=none")
    assert found.returncode == 1
    assert "128*256 = 32768 > 16384; largest that fits: tile_m 64 or tile_n 128" in found.stderr


def test_defaults_are_clamped(capped):
    graph = json.loads(ADD.read_text())
    del graph["config"]
    plan = run("--emit=plan", "--target", capped, input=json.dumps(graph))
    assert json.loads(plan.stdout)["config"]["block_sizes"] == [16, 1024]
    small = json.loads(capped.read_text()) | {"max_tile_elements": 4096}
    capped.write_text(json.dumps(small))
    plan = run("--emit=plan", "--target", capped, input=json.dumps(graph))
    assert json.loads(plan.stdout)["config"]["block_sizes"] == [8, 512]


def test_annotations(capped):
    """Written where there is a cap, compared when read; a TPU's list is empty."""
    tpu = run("--emit=json", ADD)
    assert "element_limits" not in json.loads(tpu.stdout)["annotations"]
    sizes = run("--emit=json", "--target", capped, ADD).stdout
    assert json.loads(sizes)["annotations"]["element_limits"] == [
        {"elements": "u0 * u1", "most": 16384}
    ]
    again = run("--emit=json", "--target", capped, input=sizes)
    assert again.stdout == sizes
    other = sizes.replace("16384", "16385")
    found = run("--emit=json", "--target", capped, input=other).stderr
    assert "a limit is missing: u0 * u1 <= 16384" in found
    assert "capped limits no tile to 16385 elements: u0 * u1" in found
    assert "annotation-differs" in run("--emit=json", "--target=v6e", input=sizes).stderr


def test_explain(capped):
    said = run("--emit=json", "--explain", "--target", capped, ADD).stderr
    assert "block_constraints: tile_m * tile_n <= 16384: the elements of 'load' in one" in said
    assert "<=" not in run("--emit=json", "--explain", ADD).stderr


LAYER_NORM = ROOT / "testdata" / "graphs" / "layer_norm_bwd_4096_10240.json"


@pytest.fixture
def megacap(tmp_path):
    return capped_target(tmp_path, "v6e_capped", 1048576)


def test_layer_norm_over_the_cap(megacap):
    found = run("--target", megacap, LAYER_NORM, "--emit=none", "--set", "block_sizes=[128]")
    assert found.returncode == 1
    assert "128*10240 = 1310720 > 1048576; largest that fits: 64" in found.stderr
    assert "block_m * 10240: a tile of 'load_1' is too large for v6e_capped" in found.stderr
    assert found.stderr.count("error:") == 1


def test_layer_norm_under_the_cap(megacap):
    """64 rows of mean are no legal block by themselves: another placement makes them one."""
    for split in ("auto", "off"):
        options = ("--set", "block_sizes=[64]", "--set", f"pallas_row_split={split}")
        found = run("--target", megacap, LAYER_NORM, "--emit=none", *options)
        assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("size", [8, 64, 128, 256])
def test_layer_norm_cap_and_alignment(megacap, size):
    """The 1-D float32 mean and rstd ask for 128 where no boundary view helps: whatever is given."""
    options = ("--set", f"block_sizes=[{size}]", "--set", "pallas_boundary_views=off")
    found = run("--target", megacap, LAYER_NORM, "--emit=none", *options)
    assert found.returncode == 1
    assert "block_m * 10240 <= 1048576 and block_m >= 128 cannot both hold" in found.stderr
    assert "1-D float32 tensor rstd are multiples of 128" in found.stderr


@pytest.mark.parametrize("target", ["v4", "v5e", "v5p", "v6e", "v7x"])
def test_layer_norm_on_every_tpu(target):
    options = ("--set", "block_sizes=[128]", "--target", target)
    found = run(LAYER_NORM, "--emit=none", "--explain", *options)
    assert found.returncode == 0, found.stderr
    assert "the elements of" not in found.stderr
    graph = run(LAYER_NORM, "--emit=json", *options)
    assert "element_limits" not in json.loads(graph.stdout)["annotations"]
