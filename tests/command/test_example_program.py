"""packaging/examples/compile.c, built against the library as `make install` leaves it."""

import json
import os
import shlex
import shutil
import subprocess

import pytest
from kit import ROOT, accepted, path

CHIPS = ("v6e", "v7x")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """(the program, an environment in which it finds the library)."""
    if not shutil.which("pkg-config"):
        pytest.skip("there is no pkg-config")
    folder = tmp_path_factory.mktemp("installed")
    environment = {key: value for key, value in os.environ.items() if key != "MAKEFLAGS"}
    environment["PKG_CONFIG_PATH"] = str(folder / "lib/pkgconfig")
    environment["LD_LIBRARY_PATH"] = str(folder / "lib")

    def run(*words):
        options = {"capture_output": True, "text": True, "check": True, "env": environment}
        return subprocess.run(words, **options).stdout

    run("make", "-s", "-C", ROOT, "install", f"PREFIX={folder}")
    flags = shlex.split(run("pkg-config", "--cflags", "--libs", "pallasc"))
    strict = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    source = ROOT / "packaging/examples/compile.c"
    run("cc", *strict, "-o", folder / "compile", source, *flags)
    return folder / "compile", environment


def compiled(program, graph, prefix):
    found, environment = program
    return subprocess.run(
        [found, graph, prefix], capture_output=True, text=True, env=environment, check=False
    )


def test_it_writes_what_the_command_writes(program, tmp_path):
    done = compiled(program, path("attention"), tmp_path / "out")
    assert done.returncode == 0, done.stderr
    for chip in CHIPS:
        options = ["--set=pallas_loop_type=unroll", f"--target={chip}"]
        text = (tmp_path / f"out.{chip}.py").read_text()
        assert text == accepted(path("attention"), *options).out


def test_what_is_refused_is_said(program, tmp_path):
    done = compiled(program, ROOT / "testdata/bad/truncated.json", tmp_path / "out")
    assert done.returncode == 1
    assert json.loads(done.stderr.splitlines()[0])["code"] == "json-truncated"
    assert os.listdir(tmp_path) == []
    assert compiled(program, tmp_path / "none.json", tmp_path / "out").returncode == 3
