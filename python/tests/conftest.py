"""Shared by the tests: the kernels under data/, and running the command line."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
DATA = Path(__file__).parent / "data"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def data():
    return DATA


@pytest.fixture
def cli(tmp_path):
    """Runs `python -m pallasc ...` as a user would; checks that no traceback appears."""

    def run(*arguments, stdin=None, env=None):
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), **(env or {})}
        environment.setdefault("PALLASC_CACHE", str(tmp_path / "cache"))
        process = subprocess.run(
            [sys.executable, "-m", "pallasc", *map(str, arguments)],
            input=stdin,
            capture_output=True,
            text=True,
            env=environment,
            timeout=90,
        )
        assert "Traceback" not in process.stdout + process.stderr
        return process

    return run


@pytest.fixture(scope="session")
def stub_library(tmp_path_factory):
    """Path of a stand-in for libpallasc, built from the public header."""
    return build_stub(tmp_path_factory.mktemp("stub") / "libpallasc.so")


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
