"""The cap on a tile's elements: the target's, read by block_constraints and config_shrink alone."""

import json

import kit
import pytest
from kit import ROOT, accepted, refused

ADD, LAYER_NORM = map(kit.path, ("add", "layer_norm_bwd_4096_10240"))


@pytest.fixture
def capped(tmp_path):
    """v6e, with tiles of so many elements at most."""
    return kit.chip(tmp_path, base="v6e", name="capped", max_tile_elements=16384)


def test_the_cap_is_read_in_two_places():
    """Outside of what reads and prints targets."""
    folders = [ROOT / name for name in ("src", "passes", "codegen")]
    files = [file for folder in folders for file in folder.rglob("*.c")]
    readers = {file.name for file in files if "target->max_tile_elements" in file.read_text()}
    assert readers == {"block_constraints.c", "config_shrink.c"}


def test_a_users_configuration_is_refused_not_changed(capped):
    found = refused(1, "--target", capped, ADD, "--emit=none")
    assert "128*256 = 32768 > 16384; largest that fits: tile_m 64 or tile_n 128" in found


def test_defaults_are_clamped(capped):
    graph = kit.document("add")
    del graph["config"]
    plan = accepted("--emit=plan", "--target", capped, text=graph).out
    assert json.loads(plan)["config"]["block_sizes"] == [16, 1024]
    small = kit.chip(capped.parent, base="v6e", name="small", max_tile_elements=4096)
    plan = accepted("--emit=plan", "--target", small, text=graph).out
    assert json.loads(plan)["config"]["block_sizes"] == [8, 512]


def test_annotations(capped):
    """Written where there is a cap, compared when read; a TPU's list is empty."""
    tpu = accepted("--emit=json", ADD)
    assert "element_limits" not in json.loads(tpu.out)["annotations"]
    sizes = accepted("--emit=json", "--target", capped, ADD).out
    assert json.loads(sizes)["annotations"]["element_limits"] == [
        {"elements": "u0 * u1", "most": 16384}
    ]
    assert accepted("--emit=json", "--target", capped, text=sizes).out == sizes
    other = sizes.replace("16384", "16385")
    found = kit.run("--emit=json", "--target", capped, text=other).err
    assert "a limit is missing: u0 * u1 <= 16384" in found
    assert "capped limits no tile to 16385 elements: u0 * u1" in found
    assert "annotation-differs" in kit.run("--emit=json", "--target=v6e", text=sizes).err


def test_explain(capped):
    said = accepted("--emit=json", "--explain", "--target", capped, ADD).err
    assert "block_constraints: tile_m * tile_n <= 16384: the elements of 'load' in one" in said
    assert "<=" not in accepted("--emit=json", "--explain", ADD).err


@pytest.fixture
def megacap(tmp_path):
    return kit.chip(tmp_path, base="v6e", name="v6e_capped", max_tile_elements=1048576)


def test_layer_norm_over_the_cap(megacap):
    found = refused(1, "--target", megacap, LAYER_NORM, "--emit=none", "--set=block_sizes=[128]")
    assert "128*10240 = 1310720 > 1048576; largest that fits: 64" in found
    assert "block_m * 10240: a tile of 'load_1' is too large for v6e_capped" in found
    assert found.count("error:") == 1
    # Split, no tile would be too large, and nothing would be said of the size that was asked for.
    options = ("--set=block_sizes=[128]", "--passes=block_constraints,row_split", "--explain")
    said = accepted("--target", megacap, LAYER_NORM, "--emit=json", *options).err
    assert "row_split: tiles stay whole: v6e_capped may refuse them" in said


def test_layer_norm_under_the_cap(megacap):
    """64 rows of mean are no legal block by themselves: another placement makes them one."""
    for split in ("auto", "off"):
        options = ("--set", "block_sizes=[64]", "--set", f"pallas_row_split={split}")
        accepted("--target", megacap, LAYER_NORM, "--emit=none", *options)


@pytest.mark.parametrize("size", [8, 64, 128, 256])
def test_layer_norm_cap_and_alignment(megacap, size):
    """The 1-D float32 mean and rstd ask for 128 where no boundary view helps: whatever is given."""
    options = ("--set", f"block_sizes=[{size}]", "--set", "pallas_boundary_views=off")
    found = refused(1, "--target", megacap, LAYER_NORM, "--emit=none", *options)
    assert "block_m * 10240 <= 1048576 and block_m >= 128 cannot both hold" in found
    assert "1-D float32 tensor rstd are multiples of 128" in found


@pytest.mark.parametrize("target", ["v4", "v5e", "v5p", "v6e", "v7x"])
def test_layer_norm_on_every_tpu(target):
    options = ("--set", "block_sizes=[128]", "--target", target)
    assert "the elements of" not in accepted(LAYER_NORM, "--emit=none", "--explain", *options).err
    graph = accepted(LAYER_NORM, "--emit=json", *options)
    assert "element_limits" not in json.loads(graph.out)["annotations"]
