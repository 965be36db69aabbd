"""A stand-in for libpallasc, and a small document for it."""

import shutil
import subprocess
from pathlib import Path

from builder import Doc, G, f32, sl, sym

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
    doc = Doc({"block_sizes": [8]}, name="dma_double", scalars=None).block(64, "tile")
    doc.tensor("x", "input", "float32", [64, 128]).tensor("out", "output", "float32", [64, 128])
    g, index, tile = G(0, grid=[0]), [sym("u0"), sl()], f32("u0", 128)
    x = g.load("x", index, tile)
    g.store("out", index, g.call("aten.mul.Tensor", x, 2.0, meta=tile))
    return doc.add(g.out())
