"""Random documents hold every property of properties.py, and so does every find so far."""

import collections
import contextlib
import importlib.util
import itertools
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pallasc import compare
from pallasc.reduce import reduce, refs

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import drawing  # noqa: E402
import optable  # noqa: E402
import properties  # noqa: E402
import soak  # noqa: E402
import spread  # noqa: E402
import worker  # noqa: E402

FINDS = sorted((HERE / "finds").glob("*.json"))
DOCUMENTS = 40
FORMATTED = 120
MOST_DRAWN = 4000  # the rarest op is in one of some thousand
# 20% of the documents of docs/results.md are refused; of 40 drawn ones the share strays by 6 points
# (its standard deviation).
MOST_REFUSED = 0.4


@pytest.fixture(scope="module")
def examiner():
    found = worker.Examiner()
    yield found
    found.close()


@pytest.fixture(scope="module")
def tpu_compiler():
    if importlib.util.find_spec("libtpu") is None:
        pytest.skip("needs libtpu")
    found = properties.TpuCompiler()
    yield found
    found.close()


@pytest.mark.parametrize("path", FINDS, ids=lambda path: path.stem)
def test_find(request, path):
    """What was found once: right now, or refused with the code that it names."""
    case = json.loads(path.read_text())
    by = request.getfixturevalue("tpu_compiler" if "chip" in case else "examiner")
    outcome = by.examine(case)
    assert outcome["status"] == ("refused" if "refused" in case else "ok"), outcome
    assert outcome.get("code") == case.get("refused")


def test_what_is_drawn_is_of_dtypes_that_arrays_have():
    """A bool and an int give int64, which no array has: nothing is drawn of it."""
    assert optable.ruled("PROMOTE", [("bool", 2), 0, 1]) == "int64"
    assert optable.ruled("DIV_MODE", [("bool", 1), 3]) == "int64"
    for case in soak.cases(0, 400):
        for graph in case["document"]["graphs"]:
            metas = [node.get("meta", {}) for node in graph["nodes"]]
            assert "int64" not in [meta.get("dtype") for meta in metas]


def test_arrays_that_are_drawn_fit_in_memory():
    """Document 1225 was of 330 million elements, places of places: more than a process may hold."""
    for case in soak.cases(1200, 100):
        for tensor in case["document"]["tensors"]:
            assert math.prod(tensor["shape"]) <= drawing.MOST_OF_AN_ARRAY


def test_every_op_is_drawn():
    """Of the op table's targets that a kernel may hold, but for those that say why not."""
    missing = set(optable.refused_dtypes()) & set(optable.ops.op_rows())
    for case in soak.cases(0, MOST_DRAWN):
        for graph in case["document"]["graphs"]:
            missing -= {node.get("target") for node in graph["nodes"]}
        if missing == set(drawing.NOT_DRAWN):
            return
    assert missing == set(drawing.NOT_DRAWN)


def test_drawn_documents(examiner, tmp_path):
    """A bounded set of documents, the same in each run; `make soak` draws others."""
    counts = collections.Counter()
    for case in soak.cases(20, DOCUMENTS):
        outcome = examiner.examine(case)
        counts[outcome["status"]] += 1
        if outcome["status"] == "find":
            path = tmp_path / "find.json"
            path.write_text(soak.text({**case, "found": outcome}))
            pytest.fail(f"{outcome['kind']}: {outcome['message']}\n{path}", pytrace=False)
    assert counts["refused"] <= MOST_REFUSED * sum(counts.values()), counts


def test_drawn_modules_are_as_ruff_leaves_them(tmp_path):
    """Formatted and free of what `ruff check` finds, under its own settings.

    But for F841: the bound of a loop that never runs is computed and not read.
    """
    printed = itertools.count()

    for case in soak.cases(21, FORMATTED):
        with contextlib.suppress(properties.Refused):
            source = properties.compile_text(json.dumps(case["document"]))
            (tmp_path / f"drawn_{next(printed)}.py").write_text(source)
    assert next(printed) > FORMATTED * (1 - MOST_REFUSED)
    for command in (("format", "--check"), ("check", "--ignore=F841")):
        run = [sys.executable, "-m", "ruff", *command, "--isolated", "--no-cache", tmp_path]
        process = subprocess.run(run, capture_output=True, text=True)
        assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.parametrize("chip", properties.CHIPS)
def test_the_tpu_compiler_takes_what_is_accepted(tpu_compiler, chip):
    """Of a few documents for each chip; `make soak` asks about others."""
    cases = soak.cases(20 + 3 * properties.CHIPS.index(chip), 3)
    outcomes = [tpu_compiler.examine({**case, "chip": chip}) for case in cases]
    assert [o for o in outcomes if o["status"] == "find"] == []
    assert any(o["status"] == "ok" for o in outcomes)


def test_reduce_makes_a_case_small():
    """A case that fails because of one op loses everything else."""

    def is_document(case):
        return all(
            name in {n["name"] for n in graph["nodes"]}
            for graph in case["document"]["graphs"]
            for node in graph["nodes"]
            for name in refs([node.get("args")])
        )

    def fails(case):
        targets = [n.get("target") for g in case["document"]["graphs"] for n in g["nodes"]]
        return is_document(case) and "aten.exp.default" in targets

    case = json.loads((HERE / "data" / "reducible.json").read_text())
    small = reduce(case, fails, 20)
    (graph,) = small["document"]["graphs"]
    targets = [node.get("target") for node in graph["nodes"]]
    assert len(targets) <= 6
    assert targets[:2] == ["tile.full", "aten.exp.default"]
    assert list(small["document"]["config"]) == ["block_sizes"]


def test_each_document_is_examined_in_one_way():
    """As many in each as told, evenly spread."""
    ways = soak.schedule({"executed": 6, "simulated": 1, "AOT": 2})
    assert "".join(way[0] for way in ways) == "eAeeseAee"
    assert soak.drawn(7) == soak.drawn(7) != soak.drawn(8)


def test_counts_are_kept_while_a_run_goes_on(tmp_path, capsys):
    """Those of a run replace its own; a document counts once, with how it was examined."""
    log = tmp_path / "log.json"
    log.write_text('[\n {"seed": 1, "seeds": 2}\n]\n')
    words = ["--seed", "5", "--count", "3", "--executed", "1", "--simulated", "0", "--aot", "0"]
    assert soak.main([*words, "--log", str(log), "--output", str(tmp_path)]) == 0
    assert soak.main([*words, "--log", str(log), "--output", str(tmp_path)]) == 0
    before, run = json.loads(log.read_text())
    assert before == {"seed": 1, "seeds": 2}
    assert (run["seed"], run["accepted"], run["executed"]) == (5, 3, 3)
    assert run["documents"] == 3 + sum(run["codes"].values())
    assert "3 executed" in capsys.readouterr().out


def stored_case():
    return json.loads((HERE / "finds" / "row_stored_to_more_rows.json").read_text())


def test_a_kernel_that_is_off_is_found():
    case = stored_case()
    text = json.dumps(case["document"])
    source = properties.compile_text(text)
    with pytest.raises(properties.Find, match=r"expected 1\.0") as found:
        properties.accepted(case, text, source.replace("(8, 8), 1.0,", "(8, 8), 2.0,"), "v6e")
    assert found.value.kind == "numerics"


def test_a_kernel_whose_text_is_off_is_found(monkeypatch):
    case, compile_text = stored_case(), properties.compile_text

    def off(text, *options):
        return compile_text(text, *options).replace("1.0", "2.0", 1)

    monkeypatch.setattr(properties, "compile_text", off)
    found = properties.examine({**case, "way": "executed"})
    assert found["kind"] == "numerics" and "executed: output 0" in found["message"]


def test_a_pass_that_changes_the_meaning_is_found(monkeypatch):
    case = stored_case()
    text, compile_text = json.dumps(case["document"]), properties.compile_text

    def wrong_after_cse(text, *options):
        after = compile_text(text, *options)
        if "--passes=cse" not in options:
            return after
        document = json.loads(after)
        document["graphs"][0]["nodes"][0]["args"][1] = 2  # of tile.full
        return json.dumps(document)

    monkeypatch.setattr(properties, "compile_text", wrong_after_cse)
    with pytest.raises(properties.Find, match="after cse"):
        properties.accepted(case, text, compile_text(text), "v6e")


def test_a_refusal_and_a_crash_are_told_apart(tmp_path, monkeypatch):
    case = stored_case()
    case["document"]["graphs"][0]["nodes"][0]["target"] = "aten.lgamma.default"
    assert properties.examine(case)["status"] == "refused"
    crashing = tmp_path / "pallasc"
    crashing.write_text("#!/bin/sh\nkill -SEGV $$\n")
    crashing.chmod(0o755)
    monkeypatch.setattr(properties.kit, "PALLASC", crashing)
    assert properties.examine(case)["kind"] == "crash"


@pytest.mark.parametrize(
    ("alone", "told", "kinds"),
    [
        (False, ["memory", "ok"], ["ok"]),
        (False, ["memory", "memory"], ["memory"]),
        (True, ["memory", "ok"], ["memory", "ok"]),
        (False, ["hang", "ok"], ["hang", "ok"]),
    ],
)
def test_a_case_is_not_judged_by_what_others_took(monkeypatch, alone, told, kinds):
    """Memory that a process of many cases holds is theirs: one that takes too much is alone."""
    examiner, left = worker.Examiner(), [{"kind": kind} for kind in told]
    examiner.process = None if alone else "of other cases"
    monkeypatch.setattr(examiner, "_ask", lambda _: left.pop(0))
    found = []
    while left:
        found.append(examiner.examine({})["kind"])
    assert found == kinds


def test_noise_excuses_what_rounding_may_do():
    """Nearly equal numbers subtracted may differ; a number far from all noise may not."""
    expected = np.array([1e-7, 1.0], np.float32)
    noisy = [(np.array([2e-7, 1.0], np.float32))]
    tolerance = compare.Tolerance("pointwise", "float32")
    assert spread.difference(np.array([3e-7, 1.0], np.float32), expected, noisy, tolerance) is None
    found = spread.difference(np.array([1e-7, 1.001], np.float32), expected, noisy, tolerance)
    assert found[0] == (1,)
