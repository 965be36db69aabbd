"""What a file may have at most (docs/graph-format.md): accepted at it, one more is refused."""

import itertools
import json
import os
import re

import kit
import pytest
from builder import Doc, G, f32, sl, sym

TILE = f32("u0", 128)
LIMIT = re.compile(r'^LIMIT\(\w+, "(\w+)", ([^,]+),', re.M)


def defaults():
    """{name: number} of include/limits.def."""
    found = LIMIT.findall((kit.ROOT / "include" / "limits.def").read_text())
    return {name: eval(most, {"__builtins__": {}}) for name, most in found}


def branch(g, graph_id):
    """A tile.if that runs the graph."""
    taken = g.call("lt", 0, 1, meta={"dtype": "bool", "sym": None})
    g.call("tile.if", taken, graph_id, None, [], [], meta={"tuple": []})


def document(
    nodes=5, tensors=2, roots=1, loops=0, blocks=0, returns=0, steps=0, derived=0, name="x"
):
    """A kernel that copies x, and of each kind so many more than that takes."""
    doc = Doc(name="k").block(256, "m")
    doc.tensor(name, "input", "float32", [256, 128])
    for i in range(roots):
        doc.tensor(f"out{i}", "output", "float32", [256, 128])
    for i in range(tensors - 1 - roots):
        doc.tensor(f"more{i}", "input", "float32", [8])
    for i in range(derived):
        doc.tensor(
            f"d{i}",
            "derived",
            "float32",
            [256, 128],
            of=f"d{i - 1}" if i else name,
            ops=[["aten.exp.default"]],
        )
    for i in range(blocks):
        doc.block(8, f"b{i}")
    graphs = []
    for i in range(roots):
        root = G(i, grid=[0])
        value = root.load(name, [sym("u0"), sl()], TILE)
        for _ in range(nodes - 5 if i == 0 else 0):
            value = root.call("aten.exp.default", value, meta=TILE)
        for j in range(loops if i == 0 else 0):
            branch(root, roots + j)
        root.store(f"out{i}", [sym("u0"), sl()], value)
        graphs.append(root.out())
    for j in range(loops):
        graphs.append(G(roots + j, "if").out())
    if returns or steps:
        step = {"tensor": "out0", "ops": [["aten.exp.default"]] * steps}
        doc.raw["returns"] = [step] * max(returns, 1)
    return doc.add(*graphs)


def refusal(doc, **limits):
    """The codes of the errors, and what is said of the first."""
    said = " ".join(f"{name}={most}" for name, most in limits.items())
    options = {"env": {**os.environ, "PALLASC_LIMITS": said}} if limits else {}
    ran = kit.run("--diagnostics=json", "-", text=doc, **options)
    errors = [json.loads(line) for line in ran.err.splitlines()]
    assert ran.status == (1 if errors else 0), ran.err
    return errors


AT = {
    "roots": lambda most: document(roots=most, tensors=most + 1),
    "nodes": lambda most: document(nodes=most),
    "copies": lambda most: document(roots=2, tensors=3, nodes=most // 2 - 5),
    "tensors": lambda most: document(tensors=most),
    "graphs": lambda most: document(loops=most - 1),
    "returns": lambda most: document(returns=most),
    "blocks": lambda most: document(blocks=most - 1),
    "steps": lambda most: document(steps=most),
    "string": lambda most: document(name="n" * most),
}
SMALL = dict(
    roots=3, nodes=12, copies=24, tensors=5, graphs=4, returns=3, blocks=4, steps=5, string=5000
)


def test_the_page_has_them():
    text = (kit.ROOT / "docs" / "graph-format.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \|", text.split("PALLASC_LIMITS=")[1], re.M)
    assert {name: int(most) for name, most in rows} == defaults()
    assert set(defaults()) == {*AT, "file"}


@pytest.mark.parametrize("name", AT)
def test_as_many_as_there_may_be(name):
    assert refusal(AT[name](SMALL[name]), **{name: SMALL[name]}) == []


@pytest.mark.parametrize("name", sorted({*AT} - {"copies"}))
def test_one_more_is_refused(name):
    most = SMALL[name]
    error, *_ = refusal(AT[name](most + 1), **{name: most})
    assert error["code"] == "limit"
    assert error["message"].startswith(f"{most + 1} ")
    assert error["message"].endswith(f": at most {most} are read")
    assert error["hint"].endswith(f"or set PALLASC_LIMITS={name}={most + 1}")
    assert error["pointer"]
    # and what the hint says, helps
    assert refusal(AT[name](most + 1), **{name: most + 1}) == []


@pytest.mark.parametrize("name", sorted({*AT} - {"nodes", "copies", "string"}))
def test_the_defaults(name):
    most = defaults()[name]
    assert refusal(AT[name](most)) == []
    assert [e["code"] for e in refusal(AT[name](most + 1))] == ["limit"]


def test_bytes_of_a_file():
    text = json.dumps(document())
    assert refusal(text, file=len(text)) == []
    (error,) = refusal(text, file=len(text) - 1)
    assert (error["code"], error["message"].split()[0]) == ("limit", str(len(text)))


def test_roots_times_nodes():
    assert refusal(document(roots=3, tensors=4), copies=45) == []
    assert [e["code"] for e in refusal(document(roots=3, tensors=4), copies=44)] == ["limit"]


def test_steps_of_a_chain_count_together():
    assert refusal(document(derived=6), steps=6) == []
    assert [e["code"] for e in refusal(document(derived=7), steps=6)] == ["limit"]


@pytest.mark.parametrize("said", ["node=1", "nodes", "nodes=", "nodes=x", "nodes=1x", "nodes=-1"])
def test_limits_that_are_none(said):
    environment = {"env": {**os.environ, "PALLASC_LIMITS": f"roots=8 {said}"}}
    ran = kit.run("-", text=document(), **environment)
    assert ran.status == 1
    assert f"PALLASC_LIMITS says '{said}' [limit]" in ran.err


@pytest.mark.parametrize("said", ["", " ", "nodes=100,roots=4", "nodes=99999999999999999999"])
def test_limits_that_are_some(said):
    environment = {"env": {**os.environ, "PALLASC_LIMITS": said}}
    assert kit.run("-", text=document(), **environment).status == 0


# ---- those of the format ------------------------------------------------------------------------


def nested(depth):
    value = 0
    for _ in range(depth):
        value = [value]
    doc = document()
    doc["graphs"][0]["nodes"][1]["args"] = [value]
    return doc


def deep_calls(depth):
    doc = Doc(name="k").block(256, "m")
    doc.tensor("x", "inout", "float32", [256, 128])
    root, graphs = G(0, grid=[0]), [G(i + 1, "if") for i in range(depth)]
    for above, below in itertools.pairwise([root, *graphs]):
        branch(above, below.id)
    return doc.add(*[g.out() for g in (root, *graphs)])


def with_shape(size, rank=1):
    doc = document()
    doc["tensors"].append(
        {"name": "t", "role": "input", "dtype": "float32", "shape": [size] * rank}
    )
    return doc


def called(name):
    return document() | {"name": name}


FORMAT = {
    "rank": (with_shape(8, 8), with_shape(8, 9), "rank"),
    "calls": (deep_calls(64), deep_calls(65), "graph-depth"),
    "levels": (
        with_shape("(" * 198 + "8" + ")" * 198),
        with_shape("(" * 201 + "8" + ")" * 201),
        "bad-expression",
    ),
    "operators": (
        with_shape("+".join(["8"] * 1001)),
        with_shape("+".join(["8"] * 1002)),
        "bad-expression",
    ),
    "the function's name": (called("k" * 200), called("k" * 201), "bad-name"),
}


@pytest.mark.parametrize("name", FORMAT)
def test_of_the_format(name):
    good, bad, code = FORMAT[name]
    assert refusal(good) == []
    assert [e["code"] for e in refusal(bad)] == [code]


def test_nesting_of_an_argument():
    """At the limit it is the value that is wrong, above it the depth."""
    codes = [[e["code"] for e in refusal(nested(depth))] for depth in (32, 33, 34)]
    assert "value-depth" not in codes[0]
    assert "value-depth" in codes[-1]


def test_nesting_of_json():
    """x_ may hold anything."""
    text = json.dumps(document())[:-1]
    for depth, codes in ((2046, []), (2048, ["json-depth"])):
        errors = refusal(text + ', "x_deep": ' + "[" * depth + "]" * depth + "}")
        assert [e["code"] for e in errors] == codes
