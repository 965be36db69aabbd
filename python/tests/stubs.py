"""A stand-in for libpallasc, and a small document for it."""

import shutil
import subprocess
from pathlib import Path

DATA = Path(__file__).parent / "data"
ROOT = Path(__file__).resolve().parents[2]


def build_stub(path, *flags):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler is not None, "the tests of the binding need a C compiler"
    command = [
        compiler,
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
        "-shared",
        "-fPIC",
    ]
    command += [f"-I{ROOT / 'include'}", *flags, "-o", path, DATA / "stub_libpallasc.c"]
    subprocess.run(command, check=True)
    return path


def doubling_graph():
    """The graph of data/dma_double.py: out = x * 2 in float32[64, 128], rows by tiles."""
    meta = {"dtype": "float32", "shape": ["u0", 128]}
    host = {"dtype": "float32", "shape": [64, 128]}
    index = [{"sym": "u0"}, {"slice": [None, None, None]}]
    nodes = [
        {"name": "x", "target": "tile.host_tensor", "args": ["x"], "meta": host},
        {"name": "tile", "target": "tile.load", "args": [{"ref": "x"}, index], "meta": meta},
        {"name": "y", "target": "aten.mul.Tensor", "args": [{"ref": "tile"}, 2.0], "meta": meta},
        {"name": "out", "target": "tile.host_tensor", "args": ["out"], "meta": host},
        {
            "name": "store",
            "target": "tile.store",
            "args": [{"ref": "out"}, index, {"ref": "y"}],
        },
        {"name": "output", "op": "output", "args": [[]]},
    ]
    return {
        "format": "fxtile",
        "version": 1,
        "name": "dma_double",
        "tensors": [
            {"name": "x", "role": "input", "dtype": "float32", "shape": [64, 128]},
            {"name": "out", "role": "output", "dtype": "float32", "shape": [64, 128]},
        ],
        "block_sizes": [{"id": 0, "symbol": "u0", "name": "tile", "extent": 64}],
        "graphs": [{"id": 0, "kind": "root", "grid": [0], "nodes": nodes}],
        "config": {"block_sizes": [8]},
    }
