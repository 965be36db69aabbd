"""Random documents hold every property of properties.py, and so does every find so far."""

import collections
import importlib.util
import json
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import drawing  # noqa: E402
import properties  # noqa: E402
import reduce  # noqa: E402
import soak  # noqa: E402
import worker  # noqa: E402

FINDS = sorted((HERE / "finds").glob("*.json"))
DOCUMENTS = 60
HAS_LIBTPU = importlib.util.find_spec("libtpu") is not None
MOST_REFUSED = 0.3


@pytest.fixture(scope="module")
def examiner():
    found = worker.Examiner()
    yield found
    found.close()


@pytest.mark.parametrize("path", FINDS, ids=lambda path: path.stem)
def test_find(examiner, path):
    """What was found once: right now, or refused with the code that it names."""
    case = json.loads(path.read_text())
    if "chip" in case and not HAS_LIBTPU:
        pytest.skip("needs libtpu")
    outcome = properties.compiles(case) if "chip" in case else examiner.examine(case)
    assert outcome["status"] == ("refused" if "refused" in case else "ok"), outcome
    assert outcome.get("code") == case.get("refused")


def test_drawn_documents(examiner, tmp_path):
    """A bounded set of documents, the same in each run; `make soak` draws others."""
    counts = collections.Counter()

    @seed(20)
    @settings(
        max_examples=DOCUMENTS,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(drawing.cases())
    def each(case):
        outcome = examiner.examine(case)
        counts[outcome["status"]] += 1
        if outcome["status"] == "find":
            path = tmp_path / "find.json"
            path.write_text(soak.text({**case, "found": outcome}))
            pytest.fail(f"{outcome['kind']}: {outcome['message']}\n{path}", pytrace=False)

    each()
    assert counts["refused"] <= MOST_REFUSED * sum(counts.values()), counts


def test_reduce_makes_a_case_small():
    """A case that fails because of one op loses everything else."""

    def is_document(case):
        return all(
            name in {n["name"] for n in graph["nodes"]}
            for graph in case["document"]["graphs"]
            for node in graph["nodes"]
            for name in reduce.refs([node.get("args")])
        )

    def fails(case):
        targets = [n.get("target") for g in case["document"]["graphs"] for n in g["nodes"]]
        return is_document(case) and "aten.exp.default" in targets

    case = json.loads((HERE / "data" / "reducible.json").read_text())
    small = reduce.reduce(case, fails, 20)
    (graph,) = small["document"]["graphs"]
    targets = [node.get("target") for node in graph["nodes"]]
    assert len(targets) <= 6
    assert targets[:2] == ["tile.full", "aten.exp.default"]
    assert list(small["document"]["config"]) == ["block_sizes"]
