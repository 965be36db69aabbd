"""docs/build.md is one program: its blocks run as they stand."""

import os
import re
import subprocess
import sys

from kit import ROOT


def test_the_page_runs():
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/build.md").read_text(), re.M | re.S)
    assert len(blocks) == 5
    given = {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT / "python")}
    process = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")
