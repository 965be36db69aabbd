"""One op of a whole tensor: right, and taken by the TPU compiler.

A part of them, whose share of the names' checksums is the same everywhere; all of them, which takes
two hours of a CPU: `PYTHONPATH=python python tests/whole/oracle/test_single_ops.py`.
"""

import importlib.util
import itertools
import json
import sys
import zlib
from pathlib import Path

for _path in (Path(__file__).parent, Path(__file__).parents[2]):
    if str(_path) not in sys.path:
        sys.path.insert(0, str(_path))

import meetings  # noqa: E402
import properties  # noqa: E402
import pytest  # noqa: E402
import single_ops  # noqa: E402

needs_libtpu = pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="needs libtpu")
EXECUTED_EACH, COMPILED_EACH = 40, 200  # one of so many


def chip(name):
    """Each case has one of its own, so that all are asked about all kinds."""
    return properties.CHIPS[zlib.crc32(name[::-1].encode()) % len(properties.CHIPS)]


def one_of(each):
    """{name: case} of one of so many."""
    every = itertools.chain(single_ops.cases(), meetings.cases())
    return {name: case for name, case in every if zlib.crc32(name.encode()) % each == 0}


def executed(some):
    """{name: outcome} of those that are wrong."""
    outcomes = {name: properties.examine(case, chip(name)) for name, case in some.items()}
    assert sum(found["status"] == "ok" for found in outcomes.values()) > len(outcomes) * 3 // 4
    return {name: found for name, found in outcomes.items() if found["status"] == "find"}


def compiled(some):
    """{name: outcome} of those that the TPU compiler refuses, or gives more VMEM than predicted."""
    compiler, wrong = properties.TpuCompiler(), {}
    for name, case in some.items():
        found = compiler.examine({**case, "chip": chip(name)})
        if found["status"] == "find":
            wrong[name] = found
    compiler.close()
    return wrong


def test_executed():
    some = one_of(EXECUTED_EACH)
    assert len(some) > 500
    assert executed(some) == {}


@needs_libtpu
def test_taken_by_the_compiler():
    """What takes more VMEM than predicted is measured elsewhere: tests/vmem, and the finds."""
    found = compiled(one_of(COMPILED_EACH))
    assert {n: outcome for n, outcome in found.items() if outcome["kind"] != "aot prediction"} == {}


if __name__ == "__main__":
    json.dump(
        {"executed": executed(one_of(1)), "compiled": compiled(one_of(1))}, sys.stdout, indent=1
    )
