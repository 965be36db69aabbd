"""Every emitted module is clean: its syntax tree, its comments, its format, and what it claims."""

import collections
import re
import subprocess
import sys

import proof
import pytest
from coverage import row as coverage
from pallasc.lint import lint_module

LARGE = tuple(proof.Case(graph, loop) for graph in proof.LARGE for loop in proof.LOOPS)
CASES = (
    *proof.accepted(),
    *proof.variants(),
    *(case for case in LARGE if not proof.refusal(case)),
    *coverage.accepted(),
)
CASES = tuple(dict.fromkeys(CASES))


def source_lines(graph):
    """`loc.code` of each place in the graph's source, once for each place."""
    places = {
        (node["loc"]["file"], node["loc"]["line"], node["loc"]["code"])
        for item in proof.document(graph)["graphs"]
        for node in item["nodes"]
        if node.get("loc")
    }
    return [code for _, _, code in sorted(places)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_clean(case):
    """No unused assignment, repeated right-hand side, stray statement or repeated comment."""
    text = proof.module(case).source
    findings = lint_module(text, source_lines(case.graph))
    assert [finding.text(case.id) for finding in findings] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_source_lines_are_told(case):
    """Every comment is a line of the kernel's source, and none stands more often than there."""
    comments = collections.Counter(
        re.sub(r"^# (line \d+: )?|\.\.\.$", "", line.strip())
        for line in proof.module(case).source.splitlines()
        if line.strip().startswith("# ")
    )
    lines = source_lines(case.graph)
    for comment, count in comments.items():
        assert count <= sum(line.startswith(comment) for line in lines), comment
    assert comments or not lines


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_loop_type_is_the_one_asked_for(case):
    """In the plan unless that says why not, and in the text where a loop has steps to loop over."""
    overruled = ("pallas_straight_loops", "one window of emit_pipeline holds all its steps")
    plan, text = proof.module(case).plan, proof.module(case).source
    loops = [loop for kernel in plan.get("kernels", [plan]) for loop in kernel["loops"]]
    asked, kinds = case.config.get("pallas_loop_type", "default"), {loop["type"] for loop in loops}
    for loop in loops:
        assert asked in ("default", loop["type"]) or loop["why"].startswith(overruled)
    copies = any(loop["dma"] for loop in loops)
    # A gather's or scatter's own loop, one position after the other or several at once.
    places = "def position(" in text or "def positions(" in text
    points = "def body(point" in text  # of a grid, in the kernel
    brought = points or any(
        f" {x} = pltpu.make_async_copy(" in text for x in ("positions", "row", "rows", "back")
    )
    for kind, call in (("fori_loop", "jax.lax.fori_loop("), ("emit_pipeline", "emit_pipeline(")):
        steps = [loop["dims"] for loop in loops if loop["type"] == kind]
        again = any(d["computed"] or d["full_steps"] > 0 for dims in steps for d in dims)
        # of the whole grid
        own = "Buffered(3)" in text
        if kind == "fori_loop":
            own = points or places or "def find_runs(" in text
        assert (call in text) <= (kind in kinds or own)
        assert (call in text) >= again
    copied = any(
        loop["type"] == "fori_loop"
        and loop["dma"]
        and any(d["computed"] or d["full_steps"] > 0 for d in loop["dims"])
        for loop in loops
    )
    assert copied <= ("pltpu.make_async_copy(" in text) <= (copies or brought)
    assert not (copies and case.loop == "resident")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A directory with every module as a file."""
    directory = tmp_path_factory.mktemp("emitted")
    for case in CASES:
        (directory / f"{case.id.replace('=', '_')}.py").write_text(proof.module(case).source)
    return directory


@pytest.mark.parametrize("command", [("format", "--check"), ("check",)], ids=" ".join)
def test_as_ruff_leaves_it(command, written):
    """With ruff's own settings: none of this project's apply to what users get."""
    process = subprocess.run(
        [sys.executable, "-m", "ruff", *command, "--isolated", "--no-cache", written],
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.parametrize("case", proof.goldens().values(), ids=lambda case: case.id)
def test_same_again(case):
    """Byte for byte, from a fresh compilation."""
    fresh = proof.module.__wrapped__(case).source
    assert fresh == proof.module(case).source
