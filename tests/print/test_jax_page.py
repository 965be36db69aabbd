"""docs/jax.md is one program: its blocks run as they stand, on two simulated devices."""

import os
import re
import subprocess
import sys

from proof import ROOT


def test_the_page_runs():
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/jax.md").read_text(), re.M | re.S)
    assert len(blocks) > 8
    paths = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    flags = "--xla_force_host_platform_device_count=2"
    given = {"JAX_PLATFORMS": "cpu", "NPROC": "8", "XLA_FLAGS": flags, "PYTHONPATH": paths}
    process = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)],
        cwd=ROOT,
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")
