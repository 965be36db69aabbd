"""The short forms of keys that are lists, as Helion has them: `block_size` for `block_sizes`."""

import json

import kit
import pytest
from kit import accepted, refused

# What is given, what it is short for, and a graph.
SHORT = [
    ({"block_size": 8}, {"block_sizes": [8]}, "softmax"),
    ({"block_size": [1, 64, 128]}, {"block_sizes": [1, 64, 128]}, "attention"),
    ({"reduction_loop": 512}, {"reduction_loops": [512]}, "softmax"),
    ({"reduction_loop": None}, {"reduction_loops": [None]}, "softmax"),
    ({"loop_order": [1, 0]}, {"loop_orders": [[1, 0]]}, "matmul_1024"),
    ({"flatten_loop": False}, {"flatten_loops": [False]}, "matmul_1024"),
]


def plan_of(graph, *options, **config):
    """By --set, in this order."""
    return json.loads(kit.emitted("plan", graph, *options, **config).out)


@pytest.mark.parametrize(("short", "long", "graph"), SHORT)
def test_it_is_the_list(short, long, graph):
    assert plan_of(graph, **short) == plan_of(graph, **long)


def test_it_changes_what_the_graph_says():
    assert plan_of("softmax", block_size=8)["config"]["block_sizes"] == [8]
    assert plan_of("softmax", block_size=16)["config"]["block_sizes"] == [16]
    assert plan_of("softmax", block_size=None)["config"]["block_sizes"] == [64]


def test_one_reduction_loop_is_that_of_each_row():
    """As in Helion, whatever the number of rows; a list of rows has an entry for each."""
    found = plan_of("layer_norm", reduction_loop=256)["config"]["reduction_loops"]
    assert found and set(found) == {256}


def test_the_later_of_both_holds():
    """Of two places the one over the other, whichever form each has."""
    assert plan_of("softmax", block_sizes=[8], block_size=16)["config"]["block_sizes"] == [16]
    assert plan_of("softmax", block_size=16, block_sizes=[8])["config"]["block_sizes"] == [8]


def test_both_in_one_place_are_refused(tmp_path):
    file = tmp_path / "config.json"
    file.write_text('{"block_sizes": [8],\n "block_size": 16}')
    found = refused(1, kit.path("softmax"), "--emit=none", "--config", file)
    assert "config.json:2:2: error: 'block_size' and 'block_sizes' are one key" in found
    assert "hint: give one of them" in found
    file.write_text('{"block_sizes": null, "block_size": 16}')
    assert plan_of("softmax", "--config", file)["config"]["block_sizes"] == [16]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ('block_size="a"', "expected an int, found the string"),
        ("block_size=0", "0 is out of range: 1 to 2147483647"),
        ("block_size=[8, 8]", "block_sizes"),
        ("loop_order=[0, 2]", "a permutation of the loop's dims"),
        ("flatten_loop=1", "true or false"),
        ("block_siz=8", "did you mean 'block_size'?"),
    ],
)
def test_what_is_wrong_is_said(given, message):
    graph = kit.path("matmul_1024" if "loop" in given else "softmax")
    assert message in refused(1, graph, "--emit=none", "--set", given)


def test_short_forms_of_ignored_keys_are_ignored():
    result = accepted(
        kit.path("softmax"), "--emit=none", "--set", "l2_grouping=4", "--set", "range_flatten=true"
    )
    assert "are ignored: l2_grouping" in result.err
