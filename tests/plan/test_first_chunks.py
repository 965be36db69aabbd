"""pallas_first_chunks: the first grid point's blocks come in chunks of its straight loop."""

import json
import re

import kit
import numpy as np
import pallasc.execute
import pytest
import simulated
from pallasc import aot, compare

ON = {"pallas_first_chunks": "on", "pallas_loop_type": "unroll"}
CASES = [
    ("matmul_1024", {"block_sizes": [256, 256, 256]}),
    ("matmul_1024", {"block_sizes": [512, 256, 128], "pallas_back_and_forth": "on"}),
    ("matmul_1024", {"block_sizes": [1024, 256, 512]}),  # x is one block, which is there whole
    ("matmul_bias_gelu", {}),  # and a bias, which comes whole
]


def text_of(name, *options, **config):
    return kit.emitted("kernel", name, *options, **config).out


def production(target, **config):
    return kit.compiled("matmul_4096", target, block_sizes=[1024, 1024, 1024], **config)


@pytest.mark.parametrize("chip", ["v6e", "v7x"])
def test_it_is_taken_where_points_compute_longer_than_hbm_copies(chip):
    source = production(chip).source
    assert "    def first_step(chunk" in source and "grid=()" in source
    assert source.count(".start()") == 6  # x's and y's chunks and blocks, results twice
    assert "first_step" not in production(chip, pallas_first_chunks="off").source


def test_it_is_not_where_hbm_is_busy_all_the_time():
    """16 rows: the weights take longer to come than to be used."""
    found = json.loads(kit.text("matmul_4096"))
    for tensor in found["tensors"]:
        if tensor["name"] in ("x", "out"):
            tensor["shape"][0] = 16
    found["block_sizes"] = [
        block | ({"extent": 16} if block["name"] == "tile_m" else {})
        for block in found["block_sizes"]
    ]
    for node in kit.nodes(found):
        if node.get("target") == "tile.host_tensor":
            del node["meta"]
    config = {"block_sizes": [16, 1024, 1024], "pallas_loop_type": "unroll"}
    assert "first_chunks" not in text_of(found, "--rewrites=", **config)
    asked = text_of(found, **config, pallas_first_chunks="on")
    assert re.search(
        r"call step\w*\(x_ref\[:, chunk\w* \* 1024 by 1024 \+: 1024\], y_ref\[0, ", asked
    )


def test_chips_whose_cores_share_the_grid_have_none():
    assert "first_chunks" not in text_of("matmul_1024", "--target=v4", "--rewrites=", **ON)


@pytest.mark.parametrize(("name", "config"), CASES)
def test_the_same_bits_as_before_the_rewrites(name, config):
    arrays = compare.make_inputs(kit.document(name), seed=3)
    texts = [text_of(name, *options, **config, **ON) for options in (["--rewrites="], [])]
    assert "\n  first_chunks\n" in texts[0] and "first_chunks" not in texts[1]
    assert "fori (" in texts[1] and " first_step(" in texts[1]
    before, after = (pallasc.execute.run(text, *arrays) for text in texts)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one.astype(float), other.astype(float))


@pytest.mark.parametrize(("name", "config"), CASES)
def test_right(name, config):
    """In a simulation that finds races and reads of what nobody wrote."""
    assert simulated.wrong(kit.document(name), config | ON, seed=1) == []


def test_text_reads_back(tmp_path):
    path = tmp_path / "matmul.kernel"
    path.write_text(text_of("matmul_1024", "--rewrites=", block_sizes=[256] * 3, **ON))
    assert kit.accepted(path).out == kit.compiled("matmul_1024", block_sizes=[256] * 3, **ON).source


def test_the_tpu_compiler_takes_it():
    jobs = [
        (kit.compiled(name, chip, **config, **ON), chip)
        for name, config in CASES
        for chip in ("v5e", "v7x")
    ]
    jobs.append((production("v6e"), "v6e"))
    for (module, _), result in zip(jobs, aot.compile_many(jobs, timeout=240), strict=True):
        assert (result.kind, result.message) == ("ok", "")
        assert 0 < result.vmem_bytes <= module.plan["vmem"]["total"]
