"""Kernels that move parts of arrays, or of sums, round a ring of devices themselves: --ring kernel.

What all devices together give is compared with float64; the simulator looks for races of copies
between devices, and for reads of what nothing wrote.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import kit
import ml_dtypes
import numpy as np
import pallasc
import pytest
from kit import accepted, refused
from pallasc import aot, execute
from test_shard import small

HERE = Path(__file__).resolve().parent
BF16 = ml_dtypes.bfloat16


def matmul(m, k, n, blocks, loops="unroll", name="matmul_1024"):
    """[m, k] times [k, n]."""
    shapes = {"x": [m, k], "y": [k, n], "out": [m, n]}
    config = {"block_sizes": blocks, "pallas_loop_type": loops}
    return small(name, shapes, [m, n, k], config, "bfloat16")


def gathered(devices, *sizes, **options):
    """x in parts of rows, y of columns; each device has its columns of the product."""
    graph = matmul(*sizes, **options)
    axes = {"tile_n": "ring"}
    return pallasc.shard(graph, {"ring": devices}, axes, gather={"x": "ring"}, ring="kernel")


def scattered(devices, *sizes, **options):
    """Parts of the contracted dim; each device has its rows of the sum."""
    graph = matmul(*sizes, **options)
    axes = {"tile_k": "ring"}
    return pallasc.shard(graph, {"ring": devices}, axes, scatter={"out": "ring"}, ring="kernel")


def on_devices(module, folder, *arrays):
    """What the module's function of whole arrays gives, simulated in another process."""
    kept = {f"x{i}": array.view(np.uint16) for i, array in enumerate(arrays)}
    np.savez(folder / "in.npz", source=module.source, **kept)
    paths = os.pathsep.join([str(kit.ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, HERE / "ring_kernel_devices.py", folder / "in.npz"]
    environment = {**os.environ, "PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"}
    subprocess.run([*command, folder / "out.npz"], check=True, timeout=200, env=environment)
    with np.load(folder / "out.npz") as out:
        assert out["seen"].tolist() == []
        return out["outputs"]


def check_product(module, folder, m, k, n, roundings=1):
    """The product is that of float64, but for so many roundings to bfloat16 of parts of sums."""
    random = np.random.default_rng(m + n)
    x, y = (random.standard_normal(s).astype(BF16) for s in [(m, k), (k, n)])
    found = on_devices(module, folder, x, y)
    expected = x.astype(float) @ y.astype(float)
    most = abs(x.astype(float)) @ abs(y.astype(float))
    assert (abs(found - expected) <= 2**-8 * abs(expected) + most * 2**-20).all() or (
        roundings > 1 and (abs(found - expected) <= roundings * most * 2**-9).all()
    )


# ---- all-gather, then matmul ---------------------------------------------------------------------

# devices; m, k, n; blocks; directions and tiles of a share that come of it
GATHERS = {
    "two devices": (2, (64, 256, 256), [8, 128, 128], (2, 2)),
    "four": (4, (128, 256, 512), [16, 128, 256], (2, 1)),
    "four, one direction": (4, (96, 256, 1024), [24, 128, 256], (1, 1)),
    "four, walking back and forth": (4, (4096, 128, 1024), [256, 128, 128], (2, 2)),
    "eight": (8, (256, 128, 1024), [16, 128, 128], (2, 1)),
}


@pytest.mark.parametrize("case", GATHERS)
def test_gather(case, tmp_path):
    devices, sizes, blocks, (directions, tiles) = GATHERS[case]
    module = gathered(devices, *sizes, blocks)
    assert f"grid turn {devices * directions} arbitrary" in module.kernel
    assert f"grid tile_m {tiles} arbitrary" in module.kernel
    check_product(module, tmp_path, *sizes)


def test_gather_beside_a_pipeline(tmp_path):
    """The kernel copies windows of y by itself."""
    sizes = (128, 512, 512)
    module = gathered(4, *sizes, [16, 128, 128], loops="emit_pipeline")
    assert "pipeline body" in module.kernel
    check_product(module, tmp_path, *sizes)


# ---- matmul, then reduce-scatter -----------------------------------------------------------------

SCATTERS = {
    "two devices": (2, (64, 256, 256), [8, 128, 128], (2, 2)),
    "three": (3, (96, 384, 256), [16, 128, 128], (2, 1)),
    "four": (4, (128, 512, 256), [16, 128, 128], (2, 1)),
    "four, one direction": (4, (96, 512, 128), [24, 128, 128], (1, 1)),
    "four, walking back and forth": (4, (256, 512, 256), [16, 128, 128], (2, 2)),
    "eight": (8, (256, 1024, 128), [16, 128, 128], (2, 1)),
}


@pytest.mark.parametrize("case", SCATTERS)
def test_scatter(case, tmp_path):
    devices, sizes, blocks, (directions, tiles) = SCATTERS[case]
    module = scattered(devices, *sizes, blocks)
    assert f"grid turn {devices * directions} arbitrary" in module.kernel
    assert f"grid tile_m {tiles} arbitrary" in module.kernel
    check_product(module, tmp_path, *sizes)
