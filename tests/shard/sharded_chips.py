"""What XLA schedules for each of several chips: `sharded_chips.py OUT < JOBS`.

JOBS is a JSON list of {"source", "slice"}: a module that was split over a mesh, and a topology's
name. OUT gets the text of each compiled program as JSON. A process of its own, for libtpu.
"""

import json
import sys
from pathlib import Path

from pallasc import aot_mesh
from pallasc.module import Module


def main(out):
    """Compiles what standard input says, and writes the file."""
    texts = []
    for job in json.load(sys.stdin):
        module = Module(job["source"], "sharded.py")
        texts.append(aot_mesh.compile_module(module, job["slice"]).as_text())
    Path(out).write_text(json.dumps(texts))


if __name__ == "__main__":
    main(*sys.argv[1:])
