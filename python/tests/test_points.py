"""`check --points`: chosen grid points alone, against their part of the reference."""

import json
import re

import pytest
from sized import sized
from stubs import ROOT

GRAPHS = ROOT / "testdata" / "graphs"
COVERAGE = ROOT / "testdata" / "coverage" / "graphs"


def test_corners_and_tails(cli):
    result = cli("check", GRAPHS / "add_odd.json", "--points", "3")
    assert result.returncode == 0, result
    assert result.stdout.endswith("PASS\n") and result.stdout.count("out: ok") == 3


def test_points_that_belong_together(cli):
    """Steps of a grid that add to one block run together."""
    result = cli("check", GRAPHS / "matmul_split_k_odd.json", "--points", "2")
    assert result.returncode == 0 and "out: ok" in result.stdout, result


@pytest.mark.parametrize(
    "arguments, message", [(("--points", "2", "--adversarial"), "without --points")]
)
def test_refused(cli, arguments, message):
    result = cli("check", GRAPHS / "add_odd.json", *arguments)
    assert result.returncode == 2 and message in result.stderr


def test_a_root_that_reads_what_one_before_it_stores(cli):
    graph = ROOT / "testdata" / "coverage" / "graphs" / "normalise_by_total.json"
    result = cli("check", graph, "--points", "2")
    assert result.returncode == 1 and "which one before it stores" in result.stderr, result


def test_which_points():
    from pallasc.points import _chosen

    assert _chosen([4, 5], 4, 0)[:3] == [(0, 0), (3, 4), (3, 0)]
    assert sorted(_chosen([2, 2], 9, 0)) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_wrong_tail_shows(capsys):
    """A kernel that is off in the last columns alone is off at the points that have them."""
    from types import SimpleNamespace

    from pallasc.binding import compile as compile_graph
    from pallasc.module import Module
    from pallasc.points import check_points
    from pallasc.simulate import interpret_params

    graph = json.loads((GRAPHS / "add_odd.json").read_text())
    right = compile_graph(graph)
    text = right.source.replace("= load + load_1", "= load + load_1 * (pl.program_id(1) < 2)")
    assert text != right.source
    module = Module(text, plan=right.plan)
    options = SimpleNamespace(points=3, seed=0)
    params = interpret_params(races=False)
    assert check_points(right, graph, {}, params, options, {})
    assert not check_points(module, graph, {}, params, options, {})
    found = re.findall(r"OFF: .* at \[(\d+), (\d+)\]", capsys.readouterr().out)
    assert len(found) == 1 and 384 <= int(found[0][0]) < 421 and 256 <= int(found[0][1]) < 300


def test_places_are_those_in_the_whole_array():
    """Of a box of what was written, of what was written in a row, and of all of an output."""
    import numpy as np
    from pallasc.points import _Points

    run = _Points(json.loads((GRAPHS / "add_odd.json").read_text()), config={})
    (tensor,) = (run.memory.find(entry["tensor"]) for entry in run.document.returns)
    run._written = lambda found: np.array([3 * 300 + 7, 3 * 300 + 9, 5 * 300 + 8])
    assert tensor.shape == (421, 300)
    assert run.place(0, tensor.shape, (3, 3), (2, 1)) == (5, 8)
    assert run.place(0, tensor.shape, (3,), (1,)) == (3, 9)
    run.document.returns[0]["ops"] = [["reshape", [-1]]]
    assert run.place(0, (421 * 300,), (421 * 300,), (11,)) == (11,)


# An array that is updated, run-time numbers, tables that are there before the grid, an update in
# place of one that is not of whole blocks, and loops that copy what their steps read.
KINDS = (
    ("adamw_run_time_odd", ()),
    ("put_row", ()),
    ("grouped_worklist_odd", ()),
    ("table_rows_odd", ()),
    ("adamw_odd", ("--set", "pallas_in_place=on")),
    ("bias_attention_odd", ()),
)


@pytest.mark.parametrize("graph, options", KINDS)
def test_kinds_of_arguments(cli, graph, options):
    result = cli("check", COVERAGE / f"{graph}.json", "--points", "3", *options)
    assert result.returncode == 0 and ": ok: " in result.stdout, result
    assert result.stdout.endswith("PASS\n") and "OFF" not in result.stdout


@pytest.mark.parametrize("how", (("--points", "2"), (), ("--interpret=fast",)))
def test_another_size(cli, tmp_path, how):
    """The kernel and the reference are both of the size that is asked for."""
    graph = tmp_path / "softmax.json"
    graph.write_text(json.dumps(sized("softmax", {"S": 1024})))
    result = cli("check", graph, "--size", "S=640", *how)
    assert result.returncode == 0 and "x float32[256, 640]" in result.stdout, result
    wrong = cli("check", graph, "--size", "T=640", *how)
    assert wrong.returncode == 1 and "'T'" in wrong.stderr, wrong


def test_the_plain_interpreter(cli):
    """The same numbers at the same places; what it knows nothing of is refused."""
    graph = GRAPHS / "matmul_split_k_odd.json"
    for how in ((), ("--points", "2")):
        slow, fast = (cli("check", graph, *how, *more) for more in ((), ("--interpret=fast",)))
        assert fast.returncode == 0 and fast.stdout == slow.stdout, (slow, fast)
    result = cli("check", graph, "--interpret=fast", "--cores", "2")
    assert result.returncode == 2 and "leave out --cores" in result.stderr
    ran = cli("check", GRAPHS / "add_odd.json", "--interpret=fast", "--adversarial")
    assert ran.returncode == 0 and "past_edge" in ran.stdout and "eager" not in ran.stdout
