"""What the tests of this room share: programs that fail, and how an output must be left."""

import os
import subprocess

import kit
from kit import ROOT

# One of each kind of kernel: small, and all its loops are there.
GRAPHS = ("attention", "matmul_1024", "jagged_softmax", "paged_decode", "layer_norm")


def built(name):
    """The path of a program or library of tests/faults, built."""
    target = f"build/tests/faults/{name}"
    environment = {key: value for key, value in os.environ.items() if key != "MAKEFLAGS"}
    command = ["make", "-s", "-C", ROOT, target]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return ROOT / target


def left_whole(folder, name="out", old="old"):
    """Asserts that a folder has the file alone, and that with its old text."""
    assert os.listdir(folder) == [name]
    assert (folder / name).read_text() == old


def words(graph, *options):
    """Arguments that compile a graph into OUT of the current folder."""
    return [str(kit.PALLASC), str(kit.path(graph)), "-o", "out", *options]
