"""Pages that are made from the source are up to date: `make docs` writes them again."""

import subprocess
import sys

from kit import ROOT


def check(tool):
    command = [sys.executable, ROOT / "tools" / tool, "--check"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_diagnostic_code_is_listed():
    check("diagnostics.py")


def test_keys_and_dtypes_are_listed():
    check("tables.py")
