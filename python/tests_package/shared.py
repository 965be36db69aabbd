"""Places, and running a command."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
GRAPH = ROOT / "testdata" / "graphs" / "softmax_two_pass.json"
PACKAGING = ROOT / ".venv-package" / "bin"
# The environment without what could lead to the checkout, or to a compiler.
_HIDDEN = (
    "PYTHONPATH",
    "JAX_PLATFORMS",
    "PALLASC_LIBRARY",
    "CC",
    "CFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "LDLIBS",
    "MAKEFLAGS",
    "MFLAGS",
)
BARE = {name: value for name, value in os.environ.items() if name not in _HIDDEN}


def run(*command, status=0, **options):
    """Runs a command; gives what it printed, both streams. Asserts the exit status."""
    environment = options.setdefault("env", BARE)
    options.setdefault("timeout", 300)
    program, *arguments = map(str, command)
    # Of the PATH in `env`, not of ours.
    found = shutil.which(program, path=environment["PATH"])
    assert found, f"no {program} in {environment['PATH']}"
    done = subprocess.run(
        [found, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    assert done.returncode == status, done.stdout
    return done.stdout
