"""`check --points`: chosen grid points alone, against their part of the reference."""

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
