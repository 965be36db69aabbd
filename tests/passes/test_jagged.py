"""Jagged loops: each row ends at its own length."""

import json

import kit
import numpy as np
import pytest
from builder import Doc, G, dt, f32, sym, t
from pallasc import compile as compile_graph
from pallasc import judge
from pallasc.errors import CompileError
from simulated import wrong

U0, U1, U2 = sym("u0"), sym("u1"), sym("u2")


def lengths_of(rows, most, how):
    """Uniform, by a Zipf law, or mostly none; some of none, of all, of one, below 0."""
    rng = np.random.default_rng(7)
    found = {
        "uniform": rng.integers(0, most + 1, rows),
        "zipf": np.minimum(rng.zipf(1.3, rows), most),
        "empties": np.where(rng.random(rows) < 0.7, 0, rng.integers(0, most + 1, rows)),
        "none": np.zeros(rows),
        "negative": -rng.integers(1, 9, rows),
    }[how].astype(np.int32)
    if how not in ("none", "negative"):
        found[:4] = 0, most, 1, -3
    return found


def sums(rows, columns, block=(64, 128), dtype="float32", carried=False):
    """out = the sums of exp(x) inside rows; copy = exp(x) there, 7 elsewhere."""
    doc = Doc(config={"block_sizes": list(block)}).tensor("x", "input", dtype, [rows, columns])
    doc.tensor("n", "input", "int32", [rows]).tensor("out", "output", "float32", [rows])
    doc.tensor("copy", "output", "float32", [rows, columns], init=7).block(rows).block(None)
    tile, row, ends = f32("u0", "u1"), f32("u0"), t("int32", "u0")
    pairs = [[0, 0], [1, 1]] if carried else [[0, 0]]
    body = G(1, "for_loop", block_ids=[1], carried=pairs, lengths=1)
    acc, n = body.arg(row), body.arg(ends)
    x = body.load("x", [U0, U1], t(dtype, "u0", "u1"))
    x = body.call("prims.convert_element_type.default", x, dt("float32"), meta=tile)
    y = body.call("aten.exp.default", x, meta=tile)
    body.store("copy", [U0, U1], y)
    y = body.call("tile.mask_to", y, 0, meta=tile)
    part = body.call("aten.sum.dim_IntList", y, [1], meta=row)
    given = [body.call("aten.add.Tensor", acc, part, meta=row)]
    if carried:
        given.append(body.call("aten.add.Tensor", n, 5, meta=ends))
    body.out(*given)
    g = G(0, grid=[0])
    n = g.load("n", [U0], ends)
    zero = g.call("tile.full", [U0], 0, dt("float32"), meta=row)
    top = g.call("aten.amax.default", n, meta=t("int32"))
    metas = {"tuple": [row, ends] if carried else [row]}
    loop = g.call("tile.for_loop", 1, [0], [top], [zero, n], meta=metas)
    g.store("out", [U0], g.call("getitem", loop, 0, meta=row))
    return doc.add(body, g.out())


def nested(rows=12, most=40, columns=200, atomic=True):
    """The sums over the first n[i] of x[i], [most, columns], inside a loop over columns."""
    doc = Doc(config={"block_sizes": [6, 8, 128]})
    doc.tensor("x", "input", "float32", [rows, most, columns]).tensor("n", "input", "int32", [rows])
    doc.tensor("out", "output", "float32", [rows, most, columns], init=1)
    doc.block(rows).block(None).block(columns)
    tile, ends = f32("u0", "u1", "u2"), t("int32", "u0")
    inner = G(2, "for_loop", block_ids=[2])
    x = inner.load("x", [U0, U1, U2], tile)
    x = inner.call("aten.mul.Tensor", x, 2.0, meta=tile)
    if atomic:
        inner.call("tile.atomic_add", inner.host("out"), [U0, U1, U2], x, meta=tile)
    else:
        inner.store("out", [U0, U1, U2], x)
    inner.out()
    body = G(1, "for_loop", block_ids=[1], lengths=0)
    body.arg(ends)
    body.call("tile.for_loop", 2, [0], [columns], [], meta={"tuple": []})
    body.out()
    g = G(0, grid=[0])
    n = g.load("n", [U0], ends)
    top = g.call("aten.amax.default", n, meta=t("int32"))
    g.call("tile.for_loop", 1, [0], [top], [n], meta={"tuple": []})
    return doc.add(inner, body, g.out())


@pytest.mark.parametrize("how", ["uniform", "zipf", "empties", "none", "negative"])
@pytest.mark.parametrize("shape", [(64, 256), (77, 201)])
def test_rows_end_at_their_lengths(shape, how):
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    n = lengths_of(*shape, how)
    assert wrong(sums(*shape), given=[x, n]) == []


@pytest.mark.parametrize("more", [{"carried": True}, {"dtype": "bfloat16"}])
def test_ends_and_lengths(more):
    document = sums(77, 201, **more)
    x = judge.make_arguments(document, 0, None, None, None)[0]
    assert wrong(document, given=[x, lengths_of(77, 201, "uniform")]) == []


@pytest.mark.parametrize("atomic", [False, True])
def test_loops_inside_see_the_lengths(atomic):
    x = np.random.default_rng(2).standard_normal((12, 40, 200)).astype(np.float32)
    assert wrong(nested(atomic=atomic), given=[x, lengths_of(12, 40, "uniform")]) == []


def test_rows_written_at_places_are_masked_as_others():
    """out[place[i], j] += x[i, j] for j < n[i]: where a row goes does not say how long it is."""
    doc = Doc(config={"block_sizes": [8, 128]}).tensor("x", "input", "float32", [16, 256])
    doc.tensor("n", "input", "int32", [16]).tensor("place", "input", "int32", [16])
    doc.tensor("out", "output", "float32", [16, 256], init=0).block(16).block(None)
    tile, ends = f32("u0", "u1"), t("int32", "u0")
    body = G(1, "for_loop", block_ids=[1], lengths=0)
    body.arg(ends)
    place = body.load("place", [U0], ends)
    x = body.load("x", [U0, U1], tile)
    body.call("tile.atomic_add", body.host("out"), [place, U1], x, meta=tile)
    body.out()
    g = G(0, grid=[0])
    n = g.load("n", [U0], ends)
    top = g.call("aten.amax.default", n, meta=t("int32"))
    g.call("tile.for_loop", 1, [0], [top], [n], meta={"tuple": []})
    found = json.loads(kit.emitted("json", doc.add(body, g.out()), "--passes=jagged").out)
    inside = [n for n in kit.nodes(found, "for_loop") if n.get("target") == "aten.lt.Tensor"]
    assert {tuple(node["meta"]["shape"]) for node in inside} == {("u0", "u1")}


def test_what_has_no_lengths_is_said():
    document = sums(64, 256)
    document["tensors"][1]["dtype"] = "uint32"
    for graph in document["graphs"]:
        for node in graph["nodes"]:
            if node.get("meta", {}).get("dtype") == "int32":
                node["meta"]["dtype"] = "uint32"
    with pytest.raises(CompileError, match="lengths of uint32"):
        compile_graph(document)
