"""Documents that `pallasc.build` writes: the format's own, with places in the program."""

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import kit
import numpy as np
import pallasc
import pytest
from built import KERNELS, attention, matmul_bias, split_k, sum_of_exp
from kit import ROOT
from pallasc.build import Graph, Size, axis, cdiv, max_size, min_size, next_pow2, ops

PYTHON = {"PYTHONPATH": str(ROOT / "python"), "PATH": ""}


def example():
    """The whole document of docs/graph-format.md."""
    page = (ROOT / "docs/graph-format.md").read_text()
    return json.loads(re.findall(r"```json\n(.*?)```", page, re.S)[-1])


def without_places(document):
    for node in kit.nodes(document):
        node.pop("loc", None)
    return document


def test_the_example_of_the_format():
    built = sum_of_exp()[0]
    printed = [
        pallasc.compile(without_places(graph)).source for graph in (example(), built.document())
    ]
    assert printed[0] == printed[1]
    assert built.document()["graphs"][0]["nodes"][1]["loc"] == {
        "file": "built.py",
        "line": line_of("            tile = x[m, n]"),
        "code": "tile = x[m, n]",
    }


def line_of(text):
    lines = Path(KERNELS["attention"].__code__.co_filename).read_text().splitlines()
    return lines.index(text) + 1


@pytest.mark.parametrize("name", KERNELS)
def test_the_schema_and_the_compiler_take_it(name, tmp_path):
    graph = KERNELS[name]()[0]
    document = graph.document()
    jsonschema.validate(document, json.loads((ROOT / "docs/fxtile.schema.json").read_text()))
    assert document == graph.document()
    graph.write(tmp_path / "graph.json")
    assert json.loads((tmp_path / "graph.json").read_text()) == document
    written = kit.accepted(tmp_path / "graph.json").out
    assert written == pallasc.compile(graph).source


def test_it_is_what_the_functions_take():
    forward = Graph("forward")
    x = forward.input("x", [256, 128], "float32")
    out = forward.output("out", [256, 128], "float32")
    with forward.grid(m=256) as (m,):
        out[m, :] = ops.exp(x[m, :])
    document = forward.document()
    backward = pallasc.grad(forward)
    assert backward == pallasc.grad(document)
    assert pallasc.vjp(forward, backward).source == pallasc.vjp(document, backward).source
    mesh = {"data": 2}
    assert pallasc.shard(forward, mesh).source == pallasc.shard(document, mesh).source
    assert repr(pallasc.jit(forward)) == "<pallasc.jit forward(x)>"


def test_errors_of_the_compiler_name_the_line(tmp_path):
    g = Graph("gamma")
    x = g.input("x", [256, 128], "float32")
    out = g.output("out", [256, 128], "float32")
    with g.grid(m=256) as (m,):
        out[m, :] = ops.lgamma(x[m, :])
    g.write(tmp_path / "g.json")
    lines = Path(__file__).read_text().splitlines()
    line = 1 + lines.index("        out[m, :] = ops.lgamma(x[m, :])")
    place = f"test_build_documents.py:{line}"
    with pytest.raises(pallasc.CompileError, match=rf"^{place}: error: ") as found:
        pallasc.compile(g)
    loc = found.value.diagnostics[0]["loc"]
    assert loc["file"] == "test_build_documents.py" and loc["line"] == line
    assert kit.refused(1, tmp_path / "g.json").startswith(f"{place}: error: ")


def test_names_are_those_of_the_program():
    names = [node["name"] for node in kit.nodes(attention()[0].document(), "for_loop")]
    for name in ("queries", "top", "total", "acc", "scores", "new_top", "weights", "part"):
        assert name in names
    assert len(set(names)) == len(names)


def test_tables():
    document = split_k()[0].document()
    assert document["tunables"] == {"parts": {"default": 2, "choices": [1, 2, 4]}}
    assert document["returns"] == [{"tensor": "doubled"}]
    assert document["block_sizes"][1]["size"] == "cdiv(512, parts)"
    assert document["tensors"][2]["ops"] == [["aten.mul.Tensor", 0.5]]
    assert matmul_bias()[0].document()["sizes"] == {"M": 200, "N": 256, "K": 300}
    g = Graph("more", assume_in_bounds=True)
    g.scalar("half", "float32", 0.5)
    x = g.inout("x", [64], "int32", whole=True)
    with g.grid(m=axis(64, 8)) as (m,):
        x[m] = x[m] + 1
    document = g.document()
    assert document["assume_in_bounds"] is True
    assert document["scalars"] == [{"name": "half", "dtype": "float32", "value": 0.5}]
    assert document["tensors"][0]["whole"] is True
    assert document["block_sizes"][0]["begin"] == 8
    assert document["graphs"][0]["nodes"][2]["args"] == [{"ref": "load"}, 1]


def test_sizes():
    s, t = Size("S"), Size("T")
    assert str((s + 1) * t // 2) == "((S + 1) * T) // 2"
    assert str(1 - s % t) == "1 - (S % T)"
    assert str(cdiv(s, 128) * 2) == "cdiv(S, 128) * 2"
    assert [str(f(s, 3)) for f in (min_size, max_size)] == ["min(S, 3)", "max(S, 3)"]
    assert str(next_pow2(s)) == "next_pow2(S)"
    assert (s == Size("S"), s == t, s == "S") == (True, False, False)


def test_types_are_inferred():
    g = Graph("types")
    (rows,) = g.sizes(S=100)
    x = g.input("x", [rows, 64], "bfloat16")
    count = g.scalar("count", "int32")
    with g.grid(m=rows) as (m,):
        tile = x[m, :]
        assert (tile.dtype, tile.shape) == ("bfloat16", (m.size, 64))
        assert repr(tile + 1.0) == "add: bfloat16[m, 64]"
        assert repr(tile + ops.zeros([64], dtype="float32")) == "add: float32[m, 64]"
        assert repr(np.float32(2) * tile - np.int32(1)) == "sub: bfloat16[m, 64]"
        assert (tile / 2 > 0).dtype == "bool"
        assert ops.sum(tile, -1).shape == (m.size,)
        assert tile[:, None, 3:9].shape == (m.size, 1, 6)
        assert (tile.T @ tile).shape == (64, 64)
        assert repr(m.begin + 1) == "add: int"
        assert repr((m.begin < count) & (count > 3)) == "and_: bool[]"
        assert ops.arange(rows // 2 * 2).shape == (Size("S // 2 * 2"),)
        parts = ops.aten_split(tile, 16, 1)
        assert [part.shape for part in parts] == [(m.size, 16)] * 4
        v = g.var(tile)
        assert (v.dtype, v.shape) == ("bfloat16", (m.size, 64))
        assert repr(v) == "variable v: bfloat16[m, 64]"
        small = tile.to("int8")
        assert ops.call("aten._int_mm.default", small.T, small).dtype == "int32"


def test_what_it_imports():
    program = (
        "import sys, pallasc.build as b; g = b.Graph('f'); x = g.inout('x', [8], 'float32')\n"
        "with g.grid(m=8) as (m,): x[m] = b.ops.exp(x[m])\n"
        "g.document()\n"
        "print([m for m in ('torch', 'jax', 'numpy', 'ml_dtypes') if m in sys.modules])"
    )
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, env=PYTHON, capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_all_ops_of_the_table_are_known():
    targets = re.findall(r"^\| `(\S+)`", (ROOT / "docs/ops.md").read_text(), re.M)
    assert sorted(ops.PARAMS) == sorted(targets)
