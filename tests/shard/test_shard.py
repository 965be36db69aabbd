"""Kernels split over a mesh: what is cut, what is refused, and what the devices together give."""

import json
import os
import subprocess
import sys

import kit
import numpy as np
import on_devices
import pallasc
import pytest
from on_devices import arrays, small, wrong
from pallasc import aot, execute


def matmul():
    """[64, 512] times [512, 512]."""
    shapes = {"x": [64, 512], "y": [512, 512], "out": [64, 512]}
    config = {"block_sizes": [8, 128, 128], "pallas_loop_type": "fori_loop"}
    return small("matmul_1024", shapes, [64, 512, 512], config)


@pytest.mark.parametrize(
    ("mesh", "blocks", "inputs", "outputs"),
    [
        ({"data": 2, "model": 4}, {"tile_m": "data", "tile_n": "model"},
         [["data"], [None, "model"]], [["data", "model"]]),
        ({"k": 2}, {"tile_k": "k"}, [[None, "k"], ["k"]], [[]]),
        ({"data": 2, "k": 2}, {"tile_m": "data", "tile_k": "k"},
         [["data", "k"], ["k"]], [["data"]]),
    ],
)  # fmt: skip
def test_matmul(mesh, blocks, inputs, outputs, tmp_path):
    module = pallasc.shard(matmul(), mesh, blocks)
    explicit = len(mesh) == 2  # as jax.make_mesh makes axes; arrays do not lie as the specs say
    assert module.info["sharding"] == {"mesh": mesh, "inputs": inputs, "outputs": outputs}
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(s, np.float32) for s in [(64, 512), (512, 512)])
    given = {"x": x, "y": y}
    assert wrong(module, given, [x @ y], tmp_path, atol=1e-3, explicit=explicit) == []


def test_what_is_off_is_told(tmp_path, monkeypatch):
    """Of each output that something is expected of, beyond its tolerance."""
    module = pallasc.shard(matmul(), {"k": 2}, {"tile_k": "k"})
    ones = np.ones((64, 512), np.float32)
    monkeypatch.setattr(on_devices, "devices", lambda *_: [ones, ones, ones])
    (line,) = wrong(module, {"x": ones}, [ones * 1.01, None, ones * 0.999], tmp_path, rtol=2e-3)
    assert line.startswith("output 0: ")
    assert "Max absolute difference among violations: 0.0" in line


def test_heads_of_attention(tmp_path):
    shape = [2, 2, 128, 128]
    flat = [4, 128, 128]
    shapes = {"q_in": shape, "k_in": shape, "v_in": shape, "q_view": flat, "k_in_reshape": flat}
    shapes |= {"k_view": flat, "v_view": flat, "out": flat, "lse": [4, 128]}
    config = {"block_sizes": [1, 128, 128], "pallas_loop_type": "fori_loop"}
    document = small("attention", shapes, [4, 128, 128], config)
    document["returns"][0]["shape"] = shape
    module = pallasc.shard(document, {"data": 2, "model": 2}, {"tile_b": ("data", "model")})
    assert module.info["sharding"]["inputs"] == [["data", "model"]] * 3
    assert module.info["sharding"]["outputs"] == [["data", "model"], [("data", "model")]]
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal(shape, np.float32) for _ in range(3))
    scores = q @ k.swapaxes(-1, -2) * kit.document("attention")["scalars"][0]["value"]
    weights = np.exp2(scores)
    total = weights.sum(-1, keepdims=True)
    expected = weights / total @ v, np.log2(total).reshape(4, 128)
    given = {"q": q, "k": k, "v": v}
    assert wrong(module, given, expected, tmp_path, rtol=1e-3, atol=1e-3) == []


def test_what_is_cut_is_chosen_and_said():
    ran = kit.run(kit.path("matmul_1024"), "--mesh", "data=2,model=4", "--explain", "--emit=none")
    assert "shard: tile_m is cut along data: 512 positions on each of 2 devices" in ran.err
    assert "shard: tile_n is cut along model: 256 positions on each of 4 devices" in ran.err
    assert "shard: a device sends and gets 0 bytes, and holds 1835008 of arrays" in ran.err


@pytest.mark.parametrize(
    ("graph", "mesh", "blocks", "why"),
    [
        ("layer_norm", "a=3", None,
         "tile_m has 256 positions, which 3 devices cannot share equally"),
        ("welford", "a=2", "block_n=a",
         "'squares_1' makes 'squares', which the loop '_for_loop' carries, into what no merge of"),
        ("recurrence_loop", "a=2", "block_1=a",
         "'store' writes what the loop '_for_loop' has carried so far"),
        ("flagged_sums", "a=2", "tile_n=a",
         "more is made of what the cut loop '_for_loop' gives within another loop"),
        ("gram", "a=2", "tile_m=a", "the axis a would cut two dims of out"),
        ("bmm", "a=2", "tile_q=a", "there is no block 'tile_q'; there are: tile_b, tile_m"),
        ("bmm", "a=2", "tile_b=b", "the mesh has no axis 'b'"),
    ],
)  # fmt: skip
def test_refused(graph, mesh, blocks, why):
    options = ["--mesh", mesh, *(["--shard", blocks] if blocks else [])]
    ran = kit.run(kit.path(graph), *options, "--emit=none")
    assert ran.status == 1
    assert "[shard]" in ran.err
    assert why in ran.err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--mesh", "data"], "expected AXIS=DEVICES, found 'data'"),
        (["--mesh", "a=0"], "the axis a needs a number of devices, 1 or more, not '0'"),
        (["--mesh", "a=2,a=2"], "the axis a stands twice"),
        (["--shard", "tile_m=a"], "there is no --mesh"),
    ],
)
def test_wrong_usage(options, why):
    ran = kit.run(kit.path("bmm"), *options)
    assert ran.status == 2
    assert why in ran.err


def test_run_judges_whole_arrays(tmp_path):
    """`run` simulates all devices, and compares with what the graph says."""
    graph, module = tmp_path / "graph.json", tmp_path / "module.py"
    graph.write_text(json.dumps(matmul()))
    assert kit.run(graph, "--mesh", "a=2,b=2", "--shard", "tile_k=a+b", "-o", module).status == 0
    command = [sys.executable, "-m", "pallasc", "run", module, "--graph", graph, "--interpret"]
    environment = {**os.environ, "PYTHONPATH": str(kit.ROOT / "python"), "JAX_PLATFORMS": "cpu"}
    ran = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=100, env=environment
    )
    assert ran.stdout.splitlines()[-1] == "PASS"
    assert "in  x: float32[64, 512]" in ran.stdout


def test_real_compiler_takes_split_modules():
    """Kernels, what devices merge between them, and offsets of positions."""
    jobs = [
        (pallasc.shard(kit.document(name), mesh, blocks), "v6e")
        for name, mesh, blocks in [
            ("matmul_bias_gelu", {"k": 4}, {"tile_k": "k"}),
            ("causal_attention", {"m": 2, "n": 2}, {"tile_m": "m", "tile_n": "n"}),
        ]
    ]
    for result in aot.compile_many(jobs, timeout=120):
        assert result.kind == "ok", result.full


def test_kernel_text_has_what_is_between_devices(tmp_path):
    """It reads back the same, and its devices give together what the whole kernel does."""
    words = ["--mesh", "m=2,k=2", "--shard", "tile_m=m", "--shard", "tile_k=k", "--emit=kernel"]
    document = matmul()
    text = kit.emitted("kernel", document, *words).out
    assert "\naxes m 2 k 2\n" in text
    assert "= all_sum out axes=(1) : float32[32, 512]\n" in text
    file = tmp_path / "matmul.kernel"
    file.write_text(text)
    assert kit.run(file, "--emit=kernel").out == text
    x, y = arrays(document).values()
    parts = [np.split(half, 2, 1) for half in np.split(x, 2, 0)]
    given = np.stack([part for row in parts for part in row]), np.stack(np.split(y, 2, 0) * 2)
    (out,) = execute.run(text, *given)
    np.testing.assert_array_equal(out[0], out[1])
    np.testing.assert_allclose(np.concatenate(out[::2]), x @ y, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("mesh", "along", "axes"),
    [("k=2", "k", '"k"'), ("m=2,k=2", "m+k", '("m", "k")')],
)
def test_sums_along_axes_are_printed(mesh, along, axes):
    words = ["--mesh", mesh, "--shard", f"tile_k={along}"]
    lines = kit.emitted("python", kit.document("matmul_1024"), *words).out.splitlines()
    said = [line.strip() for line in lines if line.strip().startswith(("out_1 = ", "specs = ("))]
    assert said == [
        f"out_1 = jax.lax.psum(out, {axes})",
        f"specs = (jax.P(None, {axes}), jax.P({axes}))",
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("  out_1 = all_sum out axes=(1)", "the program has no axis 1"),
        ("  out_1 = all_sum out", "the host alone goes along axes, one or more"),
    ],
)
def test_kernel_text_with_no_such_axis(line, why):
    text = kit.emitted("kernel", matmul(), "--mesh", "k=2", "--shard", "tile_k=k").out
    before = next(x for x in text.splitlines() if "all_sum" in x)
    ran = kit.run("-", text=text.replace(before, f"{line} :{before.split(' :')[1]}"))
    assert ran.status == 1
    assert why in ran.err
