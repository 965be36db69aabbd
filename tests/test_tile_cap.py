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


@pytest.fixture
def capped(tmp_path):
    path = tmp_path / "capped.json"
    path.write_text('{"base": "v6e", "name": "capped", "max_tile_elements": 16384}')
    return path


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
    assert json.loads(plan.stdout)["config"]["block_sizes"] == [128, 128]
    small = json.loads(capped.read_text()) | {"max_tile_elements": 4096}
    capped.write_text(json.dumps(small))
    plan = run("--emit=plan", "--target", capped, input=json.dumps(graph))
    assert json.loads(plan.stdout)["config"]["block_sizes"] == [32, 128]


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
