"""Every row of docs/coverage.md is right in each loop type and configuration, or refused."""

import numpy as np
import proof
import pytest
from pallasc.errors import CompileError

from coverage import results
from coverage import row as coverage

# Others each day: what `make coverage` found right of them is in results.json.
PASSING = results.todays()


@pytest.mark.parametrize(
    "case", dict.fromkeys([*results.quick(), *PASSING]), ids=lambda case: case.id
)
def test_right(case, simulations):
    """Against the reference and the row's float64 formula."""
    assert simulations.problems(case) == []


@pytest.mark.parametrize("pair", coverage.refused(), ids=lambda pair: pair[0].id)
@pytest.mark.parametrize("target", proof.CHIPS)
def test_refused(pair, target):
    """With the named message and a hint."""
    case, text = pair
    with pytest.raises(CompileError) as refused:
        proof.module(case, target)
    assert any(text in item["message"] for item in refused.value.diagnostics), str(refused.value)
    assert any(item["hint"] for item in refused.value.diagnostics)


def test_every_graph_has_a_row():
    names = {path.stem for path in proof.COVERAGE_DIRECTORY.glob("*.json")}
    assert names <= coverage.by_graph().keys()
    assert not names & set(proof.GRAPHS)


@pytest.mark.parametrize("row", coverage.rows(), ids=lambda row: row.name)
def test_row(row):
    """Names are unique, sizes and configurations differ, and graphs mean one thing."""
    assert [other.name for other in coverage.rows()].count(row.name) == 1
    assert len(set(row.graphs)) == len(row.graphs)
    assert row.diagnostic or row.formula
    assert {key if isinstance(key, str) else key[1] for key in row.refused} <= set(coverage.LOOPS)
    for graph in row.graphs:
        first = coverage.by_graph()[graph]
        assert (first.formula, first.inputs) == (row.formula, row.inputs)
    for graph in row.simulated:
        own = proof.document(graph)["config"]
        assert all(own | config != own for config in row.configurations(graph)[1:])


def test_a_wrong_formula_is_seen():
    """The comparison can fail: the formula's own result, off by little, is off."""
    case = coverage.accepted()[0]
    blocks = case.blocks or proof.default_blocks(case.graph)
    right = proof.expected_reference(case.graph, "random", blocks)
    wrong = [np.asarray(a * 1.1, a.dtype) for a in right]
    info = proof.module(case).info
    rows = proof.judge(case.graph, info, "random", "random", blocks, wrong)
    assert not any(found.ok for found in rows)
