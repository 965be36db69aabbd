"""What stands at computed positions: right, and taken by the TPU compiler."""

import importlib.util
import zlib

import at_positions as positions
import properties
import pytest

needs_libtpu = pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="needs libtpu")
CASES = dict(positions.cases())


def chip(name):
    """Each case has one of its own, so that all are asked about all kinds."""
    return properties.CHIPS[zlib.crc32(name.encode()) % len(properties.CHIPS)]


@pytest.mark.parametrize("what", positions.WHAT)
def test_executed(what):
    outcomes = {
        name: properties.examine(case, chip(name))
        for name, case in CASES.items()
        if name.startswith(what)
    }
    assert len(outcomes) > 100
    assert {name: found for name, found in outcomes.items() if found["status"] != "ok"} == {}


@needs_libtpu
@pytest.mark.parametrize("dtype", positions.DTYPES)
def test_taken_by_the_compiler(dtype):
    """A third of them."""
    compiler, wrong = properties.TpuCompiler(), {}
    for name, case in CASES.items():
        if f" {dtype} " not in name or zlib.crc32(name[::-1].encode()) % 3:
            continue
        found = compiler.examine({**case, "chip": chip(name)})
        if found["status"] != "ok":
            wrong[name] = found
    compiler.close()
    assert wrong == {}
