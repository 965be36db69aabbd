"""Shared by the tests: the kernels under data/, and running the command line."""

import os
import subprocess
import sys

import pytest
from pallasc import chips
from stubs import DATA, ROOT, build_stub

chips.choose_platform(simulate=True)


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
