"""Named sizes: a document at other sizes is the document that has those numbers."""

import json

import numpy as np
import pallasc
import pytest
from builder import Doc, G, dt, f32, normal, sym
from kit import accepted, compiled, document, refused, run
from pallasc import reference
from pallasc.reference.document import resized
from sized import renamed, sized


def row_means(sizes=None, config=None, **fields):
    """out[i] = the mean of x[i, :D], x [2 * S, D + 8], in steps of a tile of D."""
    config = config or {"block_sizes": [8, 128]}
    doc = Doc(config, sizes=sizes or {"S": 16, "D": 256}, **fields)
    doc.tensor("x", "input", "float32", ["2 * S", "D + 8"])
    doc.tensor("v", "view", "float32", ["2 * S", "D"], of="x", slice=[[0, "2 * S", 1], [0, "D", 1]])
    doc.tensor("out", "output", "float32", ["S * 2"])
    doc.block("2 * S").block("D")
    body = G(1, "for_loop", block_ids=[1], carried=[[0, 0]])
    acc = body.arg(f32("u0"))
    tile = body.load("v", [sym("u0"), sym("u1")], f32("u0", "u1"))
    total = body.call("aten.sum.dim_IntList", tile, [-1], meta=f32("u0"))
    body.out(body.call("aten.add.Tensor", acc, total, meta=f32("u0")))
    g = G(0, grid=[0])
    zero = g.call("tile.full", [sym("u0")], 0.0, dt("float32"), meta=f32("u0"))
    loop = g.call("tile.for_loop", 1, [0], [sym("D")], [zero], meta={"tuple": [f32("u0")]})
    total = g.call("getitem", loop, 0, meta=f32("u0"))
    mean = g.call("aten.div.Tensor", total, sym("D"), meta=f32("u0"))
    g.store("out", [sym("u0")], mean)
    return doc.add(body, g.out())


def unsized(source):
    """A module's text without what it says of sizes."""
    return "".join(line for line in source.splitlines(True) if '"sizes": ' not in line)


GRAPHS = [
    ("attention", {"S": 512, "D": 64}, {"S": 256}),
    ("matmul_bias_gelu", {"S": 1024}, {"S": 512}),
    ("softmax", {"S": 256, "D": 1024}, {"S": 64, "D": 512}),
]


@pytest.mark.parametrize("name, numbers, chosen", GRAPHS, ids=[name for name, *_ in GRAPHS])
def test_a_document_at_other_sizes_has_those_numbers(name, numbers, chosen):
    named = sized(name, numbers)
    other = {numbers[key]: value for key, value in chosen.items()}
    found = pallasc.compile(named, sizes=chosen)
    assert found.info["sizes"] == {**numbers, **chosen}
    assert unsized(found.source) == compiled(renamed(document(name), other)).source
    assert unsized(compiled(named).source) == compiled(document(name)).source


def test_a_module_of_a_document_without_sizes_says_nothing_of_them():
    assert "sizes" not in compiled("softmax").info


def test_the_command_and_the_library_read_the_same():
    graph = row_means()
    text = accepted("-", "--size=S=4", "--size", "D=128", "--size", "D=384", text=graph).out
    found = pallasc.compile(graph, sizes={"S": 4, "D": 384})
    assert text == found.source
    assert found.info["inputs"] == [{"name": "x", "dtype": "float32", "shape": [8, 392]}]


@pytest.mark.parametrize("what", ["json", "kernel"])
def test_what_is_written_at_some_sizes_gives_the_same_module(what):
    sizes = ["--size=S=4", "--size=D=384"]
    graph = row_means()
    written = accepted("-", f"--emit={what}", *sizes, text=graph).out
    assert accepted("-", text=written).out == accepted("-", *sizes, text=graph).out


def test_what_is_written_has_no_other_sizes():
    written = accepted("-", "--emit=json", "--size=S=4", text=row_means()).out
    assert json.loads(written)["sizes"] == {"S": {"fixed": 4}, "D": {"fixed": 256}}
    assert accepted("-", "--size=S=4", text=written).out == accepted("-", text=written).out
    assert "size 'S' is fixed: the graph was written for 4, not for 8" in refused(
        1, "-", "--size=S=8", text=written
    )


def test_a_sweep_is_of_the_sizes_that_are_chosen():
    words = ("sweep", "-", '--space={"block_sizes": [[8, 128], [8, 384]]}')
    found = accepted(*words, "--size=D=384", text=row_means()).out.splitlines()
    hbm = [json.loads(line)["hbm_bytes"] for line in found]
    assert len(hbm) == 6 and min(hbm) >= 32 * 384 * 4
    assert "size 'T'" in refused(1, *words, "--size=T=1", text=row_means())


@pytest.mark.parametrize("sizes", [{}, {"S": 4}, {"S": 3, "D": 40}])
def test_the_reference_reads_sizes(sizes):
    graph = resized(row_means(), sizes)
    rows, columns = 2 * sizes.get("S", 16), sizes.get("D", 256)
    x = normal(rows, columns + 8)
    (found,) = reference.run(graph, [x])
    np.testing.assert_allclose(found, x[:, :columns].mean(1), rtol=1e-4, atol=1e-5)


def test_the_reference_refuses_other_names():
    with pytest.raises(reference.GraphError, match="no size 'T': its sizes are S, D"):
        resized(row_means(), {"T": 1})


REFUSED = {
    "unknown": ({"T": 4}, "unknown-size", "the graph has no size 'T'", "its sizes are S, D"),
    "zero": (
        {"S": 0},
        "size-value",
        "expected NAME=SIZE, a size from 1 to 2147483647, found 'S=0'",
        None,
    ),
    "text": (
        {"S": "x"},
        "size-value",
        "expected NAME=SIZE, a size from 1 to 2147483647, found 'S=x'",
        None,
    ),
    "large": (
        {"S": 2**31},
        "size-value",
        "expected NAME=SIZE, a size from 1 to 2147483647, found 'S=2147483648'",
        None,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_sizes_that_are_refused(case):
    sizes, code, message, hint = REFUSED[case]
    with pytest.raises(pallasc.CompileError) as error:
        pallasc.compile(row_means(), sizes=sizes)
    assert [(d["code"], d["message"], d["hint"]) for d in error.value.diagnostics] == [
        (code, message, hint)
    ]
    ((name, value),) = sizes.items()
    status = 2 if code == "size-value" else 1
    assert f"{name}" in refused(status, "-", f"--size={name}={value}", text=row_means())


def test_a_size_of_a_graph_that_names_none():
    message = "the graph names no sizes, and 'S' is given"
    for graph in (document("softmax"), {**row_means(), "sizes": None}):
        with pytest.raises(pallasc.CompileError) as error:
            pallasc.compile(graph, sizes={"S": 1})
        if graph.get("sizes", 0) == 0:
            assert [d["message"] for d in error.value.diagnostics] == [message]


def test_an_error_says_which_sizes_it_was_read_with():
    for words, message in [
        (["--size=D=384", "--set=block_sizes=[8]"], "it was read with the sizes S = 16, D = 384"),
        (["--size=S=9", "--vmem=4KiB"], "it was read with the sizes S = 9, D = 256"),
    ]:
        found = refused(1, "-", "--diagnostics=json", *words, text=row_means()).splitlines()
        notes = [json.loads(line) for line in found]
        assert [d["message"] for d in notes if d["code"] == "sizes-read"] == [message]
        assert notes[-1]["pointer"] == "/sizes"
    assert "sizes-read" not in run("-", text=row_means()).err


def test_a_graph_that_is_refused_at_its_own_sizes_may_do_at_others():
    graph = row_means()
    graph["tensors"][1]["slice"][1] = [0, "D", "D // 256"]
    graph["tensors"][1]["shape"][1] = "D"
    assert pallasc.compile(graph).info["sizes"]["D"] == 256
    graph["sizes"]["D"] = 128  # steps of 0
    with pytest.raises(pallasc.CompileError) as error:
        pallasc.compile(graph)
    assert [d["code"] for d in error.value.diagnostics] == ["view-slice", "sizes-read"]
    assert pallasc.compile(graph, sizes={"D": 256}).info["sizes"]["D"] == 256


def test_sizes_compare_as_the_numbers_that_they_are():
    graph = row_means(sizes={"S": 16, "D": 256, "E": 256})
    for node in graph["graphs"][0]["nodes"]:
        if node.get("target") == "tile.host_tensor":
            node["meta"]["shape"] = [32, "E"]
    assert pallasc.compile(graph).info["sizes"]["E"] == 256
    with pytest.raises(pallasc.CompileError) as error:
        pallasc.compile(graph, sizes={"E": 128})
    assert error.value.diagnostics[0]["code"] == "type-mismatch"


def test_a_slice_by_a_size_that_a_configuration_chooses_is_refused():
    graph = row_means()
    graph["tensors"][1]["slice"][1] = [0, "u1", 1]
    with pytest.raises(pallasc.CompileError) as error:
        pallasc.compile(graph)
    first = error.value.diagnostics[0]
    assert (first["code"], first["pointer"]) == ("wrong-type", "/tensors/1/slice/1/1")
    assert first["message"] == 'expected an int, or an expression of sizes, found the string "u1"'


def test_a_name_that_is_nearly_one():
    graph = row_means()
    graph["tensors"][0]["shape"] = ["2 * Sx", "D + 8"]
    graph["sizes"] = {"Sxy": 16, "S": 16, "D": 256}
    found = refused(1, "-", text=graph)
    assert "unknown symbol 'Sx' (did you mean 'S" in found


def test_one_graph_at_several_sizes():
    """One graph of the library at several sizes, and at its own again."""
    from pallasc.binding import Graph

    graph = Graph(json.dumps(row_means()))
    own = graph.compile()["source"]
    other = graph.compile(sizes=["S=4"])["source"]
    assert own != other == pallasc.compile(row_means(), sizes={"S": 4}).source
    assert graph.compile()["source"] == own
    refused_one = graph.compile(sizes=["T=4"])
    assert refused_one["status"] == 1 and not refused_one["source"]
