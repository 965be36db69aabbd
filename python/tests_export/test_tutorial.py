"""The commands and programs of docs/tutorial.md and docs/reading.md, as typed, in one folder."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What a reader has: a checkout, whose programs are on the PATH, and a folder of their own."""
    there = tmp_path_factory.mktemp("tutorial")
    (there / "testdata").symlink_to(ROOT / "testdata")
    return there


def run(folder, *command):
    environment = {
        **os.environ,
        "PATH": f"{ROOT}:{os.environ['PATH']}",
        "PALLASC_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "python"),
        "JAX_PLATFORMS": "cpu",
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def shape(line):
    """A line without its numbers, which versions of the compiler and of libtpu change."""
    return re.sub(r"\d+(\.\d+)?(e[-+]\d+)?", "#", line.strip())


@pytest.mark.parametrize("page", ["tutorial", "reading"])
def test_page(page, folder):
    blocks = BLOCK.findall((ROOT / "docs" / f"{page}.md").read_text())
    commands = 0
    for kind, text in blocks:
        if kind == "python":
            run(folder, sys.executable, "-c", text)
            continue
        for asked in text.split("$ ")[1:]:
            command, *shown = asked.splitlines()
            printed = {shape(line) for line in run(folder, "bash", "-c", command).splitlines()}
            assert {shape(line) for line in shown} <= printed, command
            commands += 1
    assert commands == {"tutorial": 14, "reading": 3}[page]


def test_the_graph_is_that_of_testdata(folder):
    """Who has no torch takes that one, which has a configuration besides."""
    ours, theirs = (
        json.loads(path.read_text())
        for path in (folder / "attention.json", ROOT / "testdata/graphs/attention.json")
    )
    assert ours.pop("config") == {} and theirs.pop("config")
    assert ours == theirs
