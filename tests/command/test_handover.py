"""Commands of pallasc that its Python side runs: `pallasc check` is `python3 -m pallasc check`."""

import os
import shutil
import sys

import kit
import pytest
from kit import PALLASC, accepted, refused, run
from pallasc.__main__ import COMMANDS

ADD = kit.path("add")


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_each_command_of_the_python_side_is_one_of_pallasc(command):
    found = accepted(command, "--help")
    assert found.out.startswith(f"usage: pallasc {command} ")
    assert found.err == ""


def test_compile_is_what_it_does_without_a_command():
    assert accepted("compile", ADD).out == accepted(ADD).out
    assert accepted("compile", text=ADD.read_text()).out == accepted(ADD).out


@pytest.mark.parametrize("name", ["compile", "sweep", "check"])
def test_a_file_of_a_commands_name_is_named_by_its_path(name, tmp_path):
    shutil.copy(ADD, tmp_path / name)
    module = accepted(ADD).out
    assert accepted(f"./{name}", cwd=tmp_path).out == module
    assert accepted("--", name, cwd=tmp_path).out == module
    assert accepted("--emit=python", name, cwd=tmp_path).out == module


def test_a_check_from_a_folder_with_modules_of_its_own(tmp_path):
    for name in ("json", "jax", "pallasc", "runpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken from the folder')")
    found = accepted("check", ADD, cwd=tmp_path, timeout=300)
    assert found.out.endswith("PASS\n")


def test_the_exit_status_is_that_of_the_command(tmp_path):
    assert "no such file" in refused(3, "check", tmp_path / "none.json").lower()
    assert refused(2, "run").endswith("required: KERNEL.py (see pallasc run --help)\n")


def test_what_is_wrong_with_a_graph_is_said_of_its_file(tmp_path):
    path = tmp_path / "g.json"
    path.write_text('{"format": "fxtile",}')
    assert f"error: {path}:1:20: error: a comma behind the last member" in refused(1, "check", path)


def test_without_python_it_says_what_to_do(tmp_path):
    env = {**os.environ, "PALLASC_PYTHON": str(tmp_path / "python9")}
    found = run("tune", "g.json", env=env)
    assert (found.status, found.out) == (3, "")
    assert found.err == (
        f"pallasc: error: cannot run {tmp_path}/python9: No such file or directory: `pallasc tune` "
        "needs Python 3.11 or later with the package pallasc (pip install pallasc); PALLASC_PYTHON "
        "names another one [python]\n"
    )


def test_a_python_without_the_package_says_what_to_do(tmp_path):
    """A copy of the program away from its checkout, and a Python that has no packages."""
    shutil.copy(PALLASC, tmp_path)
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    found = kit.subprocess.run(
        [tmp_path / "pallasc", "profile", "m.py"], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout) == (3, "")
    assert "has no pallasc, whose Python side runs `pallasc profile`" in found.stderr
    assert "pip install pallasc" in found.stderr
