"""`check --points`: chosen grid points alone, against their part of the reference."""

import json

import pytest
from stubs import ROOT

GRAPHS = ROOT / "testdata" / "graphs"


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
    assert capsys.readouterr().out.count("OFF") == 1
