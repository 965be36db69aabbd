"""--sizes: one module for several sizes, which chooses by the shapes of its arguments."""

import json
import os
import subprocess
import sys

import kit
import numpy as np
import pytest
from builder import close, normal, pointwise_doc
from pallasc import aot, reference
from pallasc.errors import UsageError
from pallasc.lint import lint_module
from pallasc.module import Module
from pallasc.profile import command as profile
from pallasc.reference.document import resized
from pallasc.simulate import interpret_params, simulate
from sized import sized


def twice(shape=("S", "D"), sizes=None, **config):
    """out = exp(x) of float32[S, D]."""
    meta = {"dtype": "float32", "shape": [f"u{i}" for i in range(len(shape))]}
    graph = pointwise_doc(
        list(shape),
        [8, 128][: len(shape)],
        lambda g, x: g.call("aten.exp.default", x, meta=meta),
    )
    graph["config"].update(config)
    return {**graph, "sizes": sizes or {"S": 64, "D": 256}}


@pytest.fixture(scope="module")
def text():
    return kit.accepted("-", "--sizes=S=8,16", "--sizes", "D=128,256", text=twice()).out


def variants(text):
    return Module(text).info["variants"]


def test_each_size_is_compiled_as_it_would_be_alone(text):
    found = variants(text)
    assert [v["sizes"] for v in found] == [{"S": s, "D": d} for s in (8, 16) for d in (128, 256)]
    for variant in found:
        alone = kit.compiled({**twice(), "sizes": variant["sizes"]}).info
        name = "test_S{S}_D{D}".format(**variant["sizes"])
        assert {**alone, "name": name} == {
            **variant,
            "compiler": alone["compiler"],
            "jax": alone["jax"],
        }
        assert f"def {name}(x, interpret=False):" in text
    info = Module(text).info
    assert (info["name"], info["sizes"]) == ("test", found[0]["sizes"])
    assert text.count("import jax\n") == text.count("def _check(") == text.count("def test(") == 1


def test_each_size_computes_what_the_reference_does(text):
    kernel = Module(text).load()
    for variant in variants(text):
        sizes = variant["sizes"]
        x = normal(sizes["S"], sizes["D"])
        (found,) = simulate(kernel, [x], interpret_params(races=False)).outputs
        (wanted,) = reference.run(resized(twice(), sizes), [x])
        close(np.asarray(found), wanted)


def test_other_shapes_are_refused(text):
    kernel = Module(text).load()
    with pytest.raises(ValueError) as error:
        kernel(np.zeros((8, 384), np.float32))
    assert str(error.value) == (
        "test has no kernel for the shapes [[8, 384]]; its sizes are {'S': 8, 'D': 128}, "
        "{'S': 8, 'D': 256}, {'S': 16, 'D': 128}, {'S': 16, 'D': 256}"
    )
    with pytest.raises(TypeError, match="x must be float32"):
        kernel(np.zeros((8, 128), np.int32))


def test_it_is_as_lint_and_ruff_want_it(text, tmp_path):
    assert_clean(text, tmp_path)


def assert_clean(text, tmp_path):
    """As `lint` and ruff want modules."""
    assert lint_module(text) == []
    written = tmp_path / "kernel.py"
    written.write_text(text)
    for words in (["format", "--check"], ["check"]):
        command = [sys.executable, "-m", "ruff", *words, "--isolated", "--no-cache", written]
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_attention_at_two_lengths(tmp_path):
    """Loops, scalars, and helpers that only some of them need."""
    found = kit.accepted("-", "--sizes=S=256,1024", text=sized("attention", {"S": 512}))
    assert [v["inputs"][0]["shape"] for v in variants(found.out)] == [
        [2, 2, 256, 128],
        [2, 2, 1024, 128],
    ]
    assert all(f"def _attention_S{size}_kernel(" in found.out for size in (256, 1024))
    assert_clean(found.out, tmp_path)


def test_size_beside_sizes_and_by_size():
    entries = [{"when": {"S": [1, 8]}, "config": {"block_sizes": [4, 256]}}]
    graph = twice(by_size=entries)
    words = ["--sizes=S=8,16", "--size=D=512", "--explain"]
    found = kit.accepted("-", *words, text=graph)
    info = variants(found.out)
    assert [v["config"]["block_sizes"] for v in info] == [[4, 256], [8, 128]]
    assert [v["sizes"]["D"] for v in info] == [512, 512]
    assert found.err.startswith(
        "test_S8:\nconfig: /config/by_size/0 of <stdin> is in force: S = 8\n"
    )


def test_what_is_said_of_each_is_said_once():
    graph = twice(num_warps=4)
    assert kit.accepted("-", "--sizes=S=8,16", text=graph).err.count("config-ignored") == 1


REFUSED = [
    (1, ["--sizes=T=1,2"], "the graph has no size 'T'"),
    (
        1,
        ["--sizes=S=8,16", "--vmem=4KiB"],
        "it was read with the sizes S = 8, D = 256",
    ),
    (
        1,
        ["--sizes=S=" + ",".join(map(str, range(1, 66)))],
        "--sizes give more than 64 combinations",
    ),
    (1, ["--sizes=N=1,2"], "the arguments of test_N1 and of test_N2 have the same shapes"),
    (2, ["--sizes=S=8,"], "expected NAME=SIZE,SIZE,... after --sizes, sizes from 1 to 2147483647"),
    (2, ["--sizes=S"], "expected NAME=SIZE,SIZE,... after --sizes"),
    (2, ["--sizes=S=8,x"], "found 'S=8,x'"),
    (2, ["--sizes=S=8,8"], "--sizes S=8,8 has 8 twice"),
    (2, ["--sizes=S=8", "--sizes=S=16"], "--sizes is given twice for 'S'"),
    (2, ["--sizes=S=8", "--size=S=16"], "the size 'S' is given by --size and by --sizes"),
    (2, ["--sizes=S=8", "--emit=plan"], "--sizes prints one module of several sizes"),
    (2, ["sweep", "--sizes=S=8"], "a sweep is of one size"),
    (2, ["--sizes=S=8", "--backward=b.json"], "a pair is of one size"),
]


@pytest.mark.parametrize("status, words, message", REFUSED)
def test_refusals(status, words, message):
    graph = twice(sizes={"S": 64, "D": 256, "N": 1})
    assert message in kit.refused(status, *words, text=graph)


def test_commands_take_each_size_or_one(text, tmp_path):
    """`run --graph` compares each with the reference at its sizes; --size chooses."""
    module, graph = tmp_path / "k.py", tmp_path / "g.json"
    module.write_text(text)
    graph.write_text(json.dumps(twice()))

    def run(*options):
        command = [sys.executable, "-m", "pallasc", "run", module, "--graph", graph, *options]
        env = {**os.environ, "PYTHONPATH": str(kit.ROOT / "python")}
        return subprocess.run(command, capture_output=True, text=True, env=env, timeout=100)

    ran = run()
    assert ran.returncode == 0, ran.stderr
    first = [line.split(" on ")[0] for line in ran.stdout.splitlines() if " on cpu" in line]
    assert first == [f"test_S{s}_D{d}" for s in (8, 16) for d in (128, 256)]
    assert ran.stdout.splitlines().count("PASS") == 4
    ran = run("--size", "S=16", "--size=D=128")
    assert [line for line in ran.stdout.splitlines() if "  in " in line] == [
        "  in  x: float32[16, 128]"
    ]
    ran = run("--size=S=12")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        f"pallasc: error: {module}: no kernel for --size S=12: its sizes are "
        "S=8, D=128; S=8, D=256; S=16, D=128; S=16, D=256\n"
    )


def test_a_page_is_of_one_size(text, tmp_path):
    module = tmp_path / "k.py"
    module.write_text(text)
    with pytest.raises(UsageError, match="--page: the module has several sizes"):
        profile.main([str(module), "--page", str(tmp_path / "k.html")])
    with pytest.raises(UsageError, match="no kernel for --size S=9: its sizes are S=8, D=128;"):
        profile.main([str(module), "--size", "S=9"])


def test_each_size_is_compiled_for_a_tpu(text, monkeypatch, tmp_path):
    monkeypatch.setenv("PALLASC_CACHE", str(tmp_path))
    modules = Module(text, "k.py").sized({"D": 256})
    results = list(aot.compile_many([(module, None) for module in modules], timeout=120))
    assert [(result.kind, result.sizes) for result in results] == [
        ("ok", {"S": 8, "D": 256}),
        ("ok", {"S": 16, "D": 256}),
    ]
    assert aot.result_text(results[1]).startswith("k.py: S=16, D=256: v6e: ok: VMEM ")
