"""Pages that are made from the source are up to date: `make docs` writes them again."""

import subprocess
import sys

from kit import ROOT


def test_every_diagnostic_code_is_listed():
    command = [sys.executable, ROOT / "tools" / "diagnostics.py", "--check"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
