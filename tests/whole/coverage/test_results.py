"""results.json is of the kernels as they are printed now, and the TPU compiler still says so."""

import proof
import pytest
from pallasc import aot

from coverage import page, results
from coverage import row as coverage

FOUND = results.Results()
ASKED = [(row, name) for row in coverage.rows() for name in results.compilations(row)]
SAMPLE = 6
STALE = "make coverage measures it again"


@pytest.mark.parametrize("row", coverage.rows(), ids=lambda row: row.name)
def test_fresh(row):
    """What is recorded is of the modules compiled now; the page says what is not measured."""
    numerics, compiled = FOUND.part(row, "numerics"), FOUND.part(row, "compiled")
    assert not numerics or results.numerics_are_fresh(FOUND, row), STALE
    for name in FOUND.part(row, "distributions"):
        assert results.drawn_are_fresh(FOUND, row, name), f"{name}: {STALE}"
    asked = results.compilations(row)
    assert compiled.keys() <= asked.keys(), STALE
    for name, entry in compiled.items():
        assert results.compiled_is_fresh(FOUND, row, name), f"{name}: {STALE}"
        assert entry["predicted_bytes"] == results.predicted(*asked[name]), f"{name}: {STALE}"
    assert not FOUND.part(row, "helion") or results.helion_is_fresh(FOUND, row), STALE


@pytest.mark.parametrize("row", coverage.rows(), ids=lambda row: row.name)
def test_accepted(row):
    """By the TPU compiler, in no more VMEM than predicted; errors within what is allowed."""
    compiled = FOUND.part(row, "compiled")
    problems = {name: results.problem_of(name, entry) for name, entry in compiled.items()}
    assert not any(problems.values()), problems
    accepted = {name: entry for name, entry in compiled.items() if entry["kind"] == "ok"}
    low = {n for n, e in accepted.items() if e["vmem_bytes"] > e["predicted_bytes"]}
    assert not low, low
    judged = [FOUND.part(row, "numerics"), *FOUND.part(row, "distributions").values()]
    for numerics in filter(None, judged):
        assert max(numerics["reference"], numerics["formula"]) <= 1


def test_page():
    """docs/coverage.md is what the results give."""
    assert page.PATH.read_text() == page.text(FOUND), STALE


def recorded(row, name):
    """The recorded verdict on a pair, None if there is none."""
    return FOUND.part(row, "compiled").get(name)


def test_sample_agrees():
    """The real compiler on some pairs, others with each commit: verdicts and VMEM as recorded."""
    compiled = [pair for pair in ASKED if (recorded(*pair) or {}).get("kind") == "ok"]
    pairs = results.rotating(compiled, SAMPLE)
    cases = [results.compilations(row)[name] for row, name in pairs]
    jobs = [(proof.module(case, chip).with_all_vmem(), chip) for case, chip in cases]
    seen = aot.compile_many(jobs, timeout=240)
    for (row, name), result in zip(pairs, seen, strict=True):
        facts = ("kind", "vmem_bytes", "predicted_bytes")
        wanted = [recorded(row, name)[fact] for fact in facts]
        assert [getattr(result, fact) for fact in facts] == wanted, (row.name, name)
