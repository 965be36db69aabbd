"""Configurations by ranges of named sizes: the first entry that holds, over the other keys."""

import json

import kit
import numpy as np
import pallasc
import pytest
from builder import normal, pointwise_doc
from pallasc import reference
from pallasc.reference.document import Document, resized

ENTRIES = [
    {"when": {"S": [1, 64]}, "config": {"block_sizes": [8, 128]}},
    {"when": {"S": [65, None], "D": 256}, "config": {"block_sizes": [32, 128]}},
    {"when": {"S": [65, None]}, "config": {"block_sizes": [64, 128]}},
]
ROWS = [
    ({"S": 64}, [8, 128], 0),
    ({"S": 128}, [32, 128], 1),
    ({"S": 128, "D": 512}, [64, 128], 2),
    ({"S": 4096, "D": 512}, [64, 128], 2),
]


def twice(**config):
    """out = x * 2 of float32[S, D]."""
    graph = pointwise_doc(
        ["S", "D"],
        [16, 128],
        lambda g, x: g.call(
            "aten.mul.Tensor", x, 2.0, meta={"dtype": "float32", "shape": ["u0", "u1"]}
        ),
    )
    graph["config"].update(config)
    return {**graph, "sizes": {"S": 64, "D": 256}}


@pytest.mark.parametrize("sizes, blocks, entry", ROWS)
def test_the_first_entry_that_holds(sizes, blocks, entry):
    graph = twice(by_size=ENTRIES)
    assert pallasc.compile(graph, sizes=sizes).info["config"]["block_sizes"] == blocks
    assert Document(resized(graph, sizes)).config["block_sizes"] == blocks
    given = pallasc.compile(twice(), {"by_size": ENTRIES}, sizes=sizes)
    assert given.info["config"]["block_sizes"] == blocks
    words = [f"--size={name}={value}" for name, value in sizes.items()]
    said = kit.accepted("-", "--explain", "--emit=none", *words, text=graph).err.splitlines()
    all_sizes = {"S": 64, "D": 256, **sizes}
    why = ", ".join(f"{name} = {all_sizes[name]}" for name in ENTRIES[entry]["when"])
    assert f"config: /config/by_size/{entry} of <stdin> is in force: {why}" in said


def test_where_none_holds_the_other_keys_do():
    graph = twice(by_size=ENTRIES[1:])
    assert pallasc.compile(graph).info["config"]["block_sizes"] == [16, 128]
    assert Document(graph).config["block_sizes"] == [16, 128]
    assert "config: " not in kit.accepted("-", "--explain", "--emit=none", text=graph).err


def test_what_is_given_over_it_counts():
    found = pallasc.compile(twice(by_size=ENTRIES), {"block_sizes": [24, 256]})
    assert found.info["config"]["block_sizes"] == [24, 256]


def test_what_is_written_has_what_came_of_it():
    written = kit.accepted("-", "--emit=json", "--size=S=128", text=twice(by_size=ENTRIES)).out
    assert json.loads(written)["config"] == {"block_sizes": [32, 128]}


def test_the_reference_runs_under_it():
    x = normal(8, 256)
    (found,) = reference.run(resized(twice(by_size=ENTRIES), {"S": 8}), [x])
    np.testing.assert_array_equal(found, x * 2)


def test_a_graph_without_sizes_has_none_to_ask_for():
    with pytest.raises(pallasc.CompileError, match="the graph has no size 'S'"):
        kit.compiled("softmax", by_size=ENTRIES)
    assert kit.compiled("softmax", by_size=[]).source == kit.compiled("softmax").source
    every = [{"when": {}, "config": {"block_sizes": [8]}}]
    assert kit.compiled("softmax", by_size=every).info["config"]["block_sizes"] == [8]
