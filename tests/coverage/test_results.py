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
    assert [results.problem_of(entry) for entry in compiled.values() if entry] == [None] * len(
        compiled
    )
    if numerics := FOUND.part(row, "numerics"):
        assert max(numerics["reference"], numerics["formula"]) <= 1


def test_page():
    """docs/coverage.md is what the results give."""
    assert page.PATH.read_text() == page.text(FOUND), STALE


def test_sample_agrees():
    """The real compiler on some pairs, others with each commit: verdicts and VMEM as recorded."""
    pairs = coverage.rotating(ASKED, SAMPLE)
    cases = [results.compilations(row)[name] for row, name in pairs]
    jobs = [(proof.module(case, chip), chip) for case, chip in cases]
    seen = aot.compile_many(jobs, timeout=240)
    for (row, name), result in zip(pairs, seen, strict=True):
        entry = FOUND.part(row, "compiled")[name]
        now = (result.kind, result.vmem_bytes, result.predicted_bytes)
        assert now == tuple(entry[k] for k in ("kind", "vmem_bytes", "predicted_bytes")), (
            row.name,
            name,
        )
