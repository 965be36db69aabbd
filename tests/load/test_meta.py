"""`meta` may be left out: what is inferred is filled in, and the module is the same."""

import json

import kit
import pytest
from pallasc import judge

# Loops, carried values, whiles, ifs, scans with functions, gathers, int64, ragged and jagged ones.
SAME = [
    *("attention", "causal_attention", "layer_norm_bwd_odd", "softmax_two_pass", "matmul_split_k"),
    *("nested_sums", "positions", "coverage/embedding", "coverage/segmented_scan"),
    *(
        "coverage/argmax_reduce",
        "coverage/gated_delta_rule",
        "coverage/recurrence_scan_odd",
        "coverage/permute_rows",
    ),
]


def stripped(name):
    folder, _, graph = name.rpartition("/")
    path = (kit.COVERAGE if folder else kit.GRAPHS) / f"{graph}.json"
    document = json.loads(path.read_text())
    for one in document["graphs"]:
        for node in one["nodes"]:
            node.pop("meta", None)
    return path, document


@pytest.mark.parametrize("name", SAME)
def test_the_module_is_the_same(name):
    path, document = stripped(name)
    assert kit.accepted("-", text=document).out == kit.accepted(path).out


def test_it_is_filled_in():
    path, document = stripped("attention")
    filled = json.loads(kit.accepted("--passes=", "-", text=document).out)
    given = json.loads(kit.accepted("--passes=", path).out)
    assert filled == given


def test_a_part_of_them_may_be_left_out():
    path, _ = stripped("attention")
    document = json.loads(path.read_text())
    for one in document["graphs"]:
        for node in one["nodes"][::2]:
            node.pop("meta", None)
    assert kit.accepted("-", text=document).out == kit.accepted(path).out


def test_a_symbol_is_what_its_argument_says():
    """null is an int that is known at run time only, which no block's size is."""
    path = kit.COVERAGE / "embedding.json"
    document = json.loads(path.read_text())
    nodes = [node for one in document["graphs"] for node in one["nodes"]]
    symbols = [node for node in nodes if node.get("target") == "tile.symnode"]
    assert symbols
    for node in symbols:
        node["meta"] = {"sym": None}
    assert kit.accepted("-", text=document).out == kit.accepted(path).out


def test_what_cannot_be_inferred_says_so():
    said = kit.refused(1, "-", text=stripped("neighbours")[1])
    assert "the length of the slice in dim 1 is not declared [size-unknown]" in said
    assert "hint: it is in the node's `meta`" in said


def test_what_does_not_fit_is_refused_later():
    """The loader cannot judge an argument of an unknown type; the verifier does."""
    _, document = stripped("attention")
    nodes = [node for one in document["graphs"] for node in one["nodes"]]
    store = next(node for node in nodes if node.get("target") == "tile.store")
    store["args"][2] = {"ref": "_for_loop"}  # a tuple
    said = kit.refused(1, "-", text=document)
    assert "argument 'value' must be a value" in said and "[wrong-argument]" in said


def test_python_reads_it_filled_in():
    path, document = stripped("attention")
    read = judge.filled(document)
    assert read == judge.filled(json.loads(path.read_text()))
    assert read["config"] == document["config"]


def test_check_and_run_take_it(tmp_path):
    graph, module = tmp_path / "add.json", tmp_path / "add.py"
    graph.write_text(json.dumps(stripped("add")[1]))
    kit.accepted(graph, "-o", module)
    for command in (["check", graph], ["run", module, "--interpret=fast", "--graph", graph]):
        said = kit.accepted(*command).out
        assert said.endswith("PASS\n"), said


def test_a_backward_is_derived_of_it(tmp_path):
    path, document = stripped("attention")
    graph = tmp_path / path.name
    graph.write_text(json.dumps(document))
    assert kit.accepted("grad", graph).out == kit.accepted("grad", path).out
