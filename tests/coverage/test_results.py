"""results.json is of the kernels as they are printed now, and the TPU compiler still says so."""

import proof
import pytest
from pallasc import aot

from coverage import page, results
from coverage import row as coverage

FOUND = results.Results()
ASKED = [(row, name) for row in coverage.rows() for name in results.compilations(row)]
SAMPLE = 12
STALE = "make coverage measures it again"


@pytest.mark.parametrize("row", coverage.rows(), ids=lambda row: row.name)
def test_fresh(row):
    """Every hash is that of the module compiled now, and nothing is missing."""
    assert not row.simulated or results.numerics_are_fresh(FOUND, row), STALE
    for name, pair in results.compilations(row).items():
        assert results.compiled_is_fresh(FOUND, row, name), f"{name}: {STALE}"
        entry = FOUND.part(row, "compiled")[name]
        assert entry["predicted_bytes"] == results.predicted(*pair), f"{name}: {STALE}"
    assert results.helion_is_fresh(FOUND, row), STALE


@pytest.mark.parametrize("row", coverage.rows(), ids=lambda row: row.name)
def test_accepted(row):
    """By the TPU compiler, within the VMEM that was predicted; errors within what is allowed."""
    compiled = FOUND.part(row, "compiled")
    assert compiled.keys() == results.compilations(row).keys()
    problems = {name: results.problem_of(name, entry) for name, entry in compiled.items()}
    assert not any(problems.values()), problems
    if numerics := FOUND.part(row, "numerics"):
        assert max(numerics["reference"], numerics["formula"]) <= 1


def test_page():
    """docs/coverage.md is what the results give."""
    assert page.PATH.read_text() == page.text(FOUND), STALE


def recorded(row, name):
    """The recorded verdict on a pair."""
    assert name in FOUND.part(row, "compiled"), f"{row.name} {name}: {STALE}"
    return FOUND.part(row, "compiled")[name]


def test_sample_agrees():
    """The real compiler on some pairs, others with each commit: verdicts and VMEM as recorded."""
    compiled = [pair for pair in ASKED if recorded(*pair)["kind"] != "diagnostic"]
    pairs = coverage.rotating(compiled, SAMPLE)
    cases = [results.compilations(row)[name] for row, name in pairs]
    jobs = [(proof.module(case, chip), chip) for case, chip in cases]
    seen = aot.compile_many(jobs, timeout=240)
    for (row, name), result in zip(pairs, seen, strict=True):
        facts = ("kind", "vmem_bytes", "predicted_bytes")
        wanted = [recorded(row, name)[fact] for fact in facts]
        assert [getattr(result, fact) for fact in facts] == wanted, (row.name, name)
