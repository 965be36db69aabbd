"""What compiling a document takes of memory, by what its size explains (docs/graph-format.md)."""

import json
import os
import subprocess
import sys

import kit
import pytest
from test_document_limits import document

# A process of its own: the most that any child of this one took is not that of the last.
MEASURE = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
"""


def mebibytes(doc, path, *arguments):
    """The most that compiling it takes at one time."""
    path.write_text(json.dumps(doc))
    command = [sys.executable, "-c", MEASURE, str(kit.PALLASC), *arguments, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    status, most = done.stdout.split()
    assert status == "0", done.stderr
    return int(most)


@pytest.mark.skipif("PALLASC" in os.environ, reason="other builds take more")
@pytest.mark.parametrize("arguments", [[], ["--explain"]])
def test_ways_that_are_not_taken_give_theirs_back(tmp_path, arguments):
    """Each root is tried in several ways; of 64 roots these took 190 MiB together."""
    doc = document(roots=64, tensors=65, nodes=16)
    assert mebibytes(doc, tmp_path / "graph.json", *arguments) < 100
