"""Kernels whose inputs, or sums, travel round the devices of an axis while they run."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import jax
import kit
import numpy as np
import pallasc
import pytest
from on_devices import arrays, small, wide, wrong
from pallasc import aot, chips
from test_whole_commands import command

HERE = Path(__file__).resolve().parent


def matmul(rows=128, inner=1024, columns=1024, fixed=()):
    """[rows, inner] times [inner, columns] in float32; `fixed`: blocks that are one tile."""
    shapes = {"x": [rows, inner], "y": [inner, columns], "out": [rows, columns]}
    config = {"block_sizes": [8, 128, 128], "pallas_loop_type": "fori_loop"}
    document = small("matmul_1024", shapes, [rows, columns, inner], config)
    for block in document["block_sizes"]:
        if block["name"] in fixed:
            block["size"] = block["extent"]
    if fixed:
        del document["config"]["block_sizes"]
    return document


def product(document, mesh, blocks, tmp_path, **ring):
    """The module, and what is wrong with what its devices give together, beside float64."""
    module = pallasc.shard(document, mesh, blocks, **ring)
    random = np.random.default_rng(0)
    x, y = (
        random.standard_normal(tensor["shape"], np.float32)
        for tensor in document["tensors"]
        if tensor["role"] == "input"
    )
    expected = x.astype(np.float64) @ y.astype(np.float64)
    assert module.info["sharding"]["shapes"] == {
        "inputs": [list(x.shape), list(y.shape)],
        "outputs": [list(expected.shape)],
    }
    given = {"x": x, "y": y}
    return module, wrong(module, given, [expected], tmp_path, rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    ("mesh", "blocks", "array", "inputs", "outputs"),
    [
        ({"model": 2}, {"tile_n": "model"}, "x", [["model"], [None, "model"]], [[None, "model"]]),
        ({"model": 4}, {"tile_n": "model"}, "x", [["model"], [None, "model"]], [[None, "model"]]),
        ({"model": 8}, {"tile_n": "model"}, "x", [["model"], [None, "model"]], [[None, "model"]]),
        ({"data": 2, "model": 4}, {"tile_m": "data", "tile_n": "model"}, "x",
         [[("data", "model")], [None, "model"]], [["data", "model"]]),
        ({"data": 2, "model": 2}, {"tile_m": "data", "tile_n": "model"}, "y",
         [["data"], [None, ("model", "data")]], [["data", "model"]]),
    ],
)  # fmt: skip
def test_gather(mesh, blocks, array, inputs, outputs, tmp_path):
    """A grid's block in time: parts of one input come by, parts of the output are written."""
    axis = "model" if array == "x" else "data"
    module, off = product(matmul(), mesh, blocks, tmp_path, gather={array: axis})
    assert off == []
    info = module.info["sharding"]
    assert (info["inputs"], info["outputs"]) == (inputs, outputs)
    assert info["gather"] == {array: axis}


def test_gather_of_a_sum(tmp_path):
    """A loop in time: of the other factor a step takes its part, and the steps add up."""
    ring = {"gather": {"y": "m:tile_k"}}
    module, off = product(matmul(), {"m": 4}, {"tile_m": "m"}, tmp_path, **ring)
    assert off == []
    assert module.info["sharding"]["inputs"] == [["m"], ["m"]]
    assert "dynamic_slice_in_dim(arrays[0], part * 256, 256, 1)" in module.source
    assert "return (x[0] + y[0],)" in module.source


@pytest.mark.parametrize(
    ("mesh", "blocks", "outputs"),
    [
        ({"k": 2}, {"tile_k": "k"}, [["k"]]),
        ({"k": 4}, {"tile_k": "k"}, [["k"]]),
        ({"k": 8}, {"tile_k": "k"}, [["k"]]),
        ({"data": 2, "k": 4}, {"tile_m": "data", "tile_k": "k"}, [[("data", "k")]]),
        ({"a": 2, "k": 4}, {"tile_k": ("a", "k")}, [["k"]]),
    ],
)
def test_scatter(mesh, blocks, outputs, tmp_path):
    module, off = product(matmul(), mesh, blocks, tmp_path, scatter={"out": "k"})
    assert off == []
    assert module.info["sharding"]["outputs"] == outputs
    assert module.info["sharding"]["scatter"] == {"out": "k"}
    assert "_ring_sum(" in module.source


def test_scatter_of_a_kernel_that_is_not_cut(tmp_path):
    """Where no step is a part of the output, the sum is scattered when it is whole."""
    document = matmul(fixed=("tile_m", "tile_n"))
    module, off = product(document, {"k": 4}, {"tile_k": "k"}, tmp_path, scatter={"out": "k"})
    assert off == []
    assert module.info["sharding"]["outputs"] == [["k"]]
    assert "_ring_sum" not in module.source
    assert re.search(r'psum_scatter\(\s*outputs\[0\], "k", scatter_dimension=0,', module.source)


ATTENTION = {"block_sizes": [1, 64, 64], "pallas_loop_type": "fori_loop"}


@pytest.mark.parametrize("mesh", [{"seq": 2}, {"seq": 4}, {"seq": 8}, {"heads": 2, "seq": 4}])
def test_ring_attention(mesh, tmp_path):
    """Each device keeps its queries, its maximum and its sums; keys and values come by."""
    document = wide("attention")
    document["config"] = ATTENTION
    blocks = {"tile_m": "seq", **({"tile_b": "heads"} if "heads" in mesh else {})}
    ring = {"gather": {"k_in": "seq", "v_in": "seq"}}
    module = pallasc.shard(document, mesh, blocks, **ring)
    heads = "heads" if "heads" in mesh else None
    assert module.info["sharding"]["inputs"] == [[heads, None, "seq"]] * 3
    given = arrays(document)
    q, k, v = (x.astype(np.float64) for x in given.values())
    scores = q @ k.swapaxes(-1, -2) * document["scalars"][0]["value"]
    weights = np.exp2(scores)
    total = weights.sum(-1, keepdims=True)
    expected = weights / total @ v, np.log2(total).reshape(4, 512)
    assert wrong(module, given, expected, tmp_path) == []


@pytest.mark.parametrize("mesh", [{"seq": 2}, {"heads": 2, "seq": 4}])
def test_causal_ring_attention(mesh, tmp_path):
    """Rows and keys know where they are: what is masked for all of a device's rows is not run."""
    document = wide("causal_attention")
    document["config"] = ATTENTION
    blocks = {"tile_m": "seq", **({"tile_b": "heads"} if "heads" in mesh else {})}
    ring = {"gather": {"k_in": "seq", "v_in": "seq"}}
    module = pallasc.shard(document, mesh, blocks, **ring)
    assert module.info["scalars"] == [{"name": "ring_step", "dtype": "int32"}]
    assert module.info["sharding"]["step"] == "ring_step"
    given = arrays(document)
    q, k, v = (x.astype(np.float64) for x in given.values())
    scores = q @ k.swapaxes(-1, -2) * document["scalars"][0]["value"]
    weights = np.exp2(scores) * np.tri(512)
    expected = weights / weights.sum(-1, keepdims=True) @ v
    assert wrong(module, given, [expected, None], tmp_path, rtol=1e-3) == []


def test_scatter_before_an_activation(tmp_path):
    """A bias and an activation are of the part that stays."""
    document = wide("matmul_bias_gelu")
    options = {"scatter": {"out": "k"}}
    module = pallasc.shard(document, {"k": 4}, {"tile_k": "k"}, **options)
    assert module.info["sharding"]["outputs"] == [["k"]]
    given = arrays(document, 0.1)
    x, y, bias = (x.astype(np.float64) for x in given.values())
    z = x @ y + bias
    gelu = 0.5 * z * (1 + np.vectorize(math.erf)(z / math.sqrt(2)))
    assert wrong(module, given, [gelu], tmp_path, rtol=1e-3) == []


def test_parts_are_checked():
    """On a mesh of one device, too, where nothing travels."""
    module = pallasc.shard(matmul(), {"model": 1}, {"tile_n": "model"}, gather={"x": "model"})
    mesh = jax.sharding.Mesh(jax.devices("cpu")[:1], ("model",))
    function = module.load().matmul_sharded(mesh)
    x, y = np.ones((128, 1024), np.float32), np.ones((1024, 1024), np.float32)
    np.testing.assert_array_equal(function(x, y, interpret=True), np.full((128, 1024), 1024))
    with pytest.raises(TypeError, match=r"x must be float32\[128, 1024\], not float32\[64, 1024\]"):
        function(x[:64], y, interpret=True)


def test_check_of_the_whole():
    """A bias and an activation, of each step's rows; whole arrays go in and come out."""
    options = ["--mesh", "data=2,model=2", "--gather", "x=model"]
    status, out, err = command("check", kit.path("matmul_bias_gelu"), *options)
    assert (status, err) == (0, "")
    assert out.splitlines()[0].endswith(
        ": x bfloat16[256, 512], y bfloat16[512, 384], bias bfloat16[384]"
    )
    assert out.splitlines()[-1] == "PASS"
    status, _, err = command("check", kit.path("matmul_1024"), *options, "--gather", "x=data")
    assert (status, err.count("\n")) == (2, 1)
    assert "--gather: an array stands twice" in err


# ---- what is said ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "options", "lines"),
    [
        (matmul(), ["--mesh", "data=2,model=4", "--gather", "x=model"],
         ["tile_m is cut along data: 64 positions on each of 2 devices",
          "tile_n is cut along model: 256 positions on each of 4 devices",
          "the ring along model has 4 steps, each of 16 positions of tile_m",
          # Three parts of x of [16, 1024]; one of x, of y [1024, 256] and of out [64, 256].
          "a device sends and gets 196608 bytes, and holds 1179648 of arrays"]),
        (matmul(), ["--mesh", "model=4", "--shard", "tile_k=model", "--scatter", "out=model"],
         ["the ring along model has 4 steps, each of 32 positions of tile_m",
          # Three parts of out of [32, 1024]; x of [128, 256], y of [256, 1024], a part of out.
          "a device sends and gets 393216 bytes, and holds 1310720 of arrays"]),
        (matmul(fixed=("tile_m", "tile_n")),
         ["--mesh", "k=4", "--shard", "tile_k=k", "--scatter", "out=k"],
         ["sums are scattered along k when they are whole, and not in 4 steps: tile_m has tiles "
          "of 128, and 4 devices 32 positions each; tile_n has tiles of 1024, and 4 devices 256 "
          "positions each"]),
    ],
)  # fmt: skip
def test_explained(document, options, lines, tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(document))
    ran = kit.run(path, *options, "--explain", "--emit=none")
    assert ran.status == 0
    for line in lines:
        assert f"shard: {line}\n" in ran.err


@pytest.mark.parametrize(
    ("graph", "options", "why"),
    [
        ("matmul_1024", ["--gather", "z=a"], "there is no input 'z'; there are: x, y"),
        ("matmul_1024", ["--scatter", "x=a"], "there is no output 'x'; there are: out"),
        ("matmul_1024", ["--gather", "x"], "expected ARRAY=AXIS, found 'x'"),
        ("matmul_1024", ["--gather", "x=z"], "the mesh has no axis 'z'"),
        ("matmul_1024", ["--gather", "x=a,x=a"], "x stands twice"),
        ("matmul_1024", ["--gather", "x=a", "--gather", "y=b"],
         "there is one ring, along a or along b"),
        ("matmul_1024", ["--gather", "x=a", "--scatter", "out=a"],
         "either inputs are gathered or an output is scattered: there is one ring"),
        ("matmul_1024", ["--gather", "x=a", "--shard", "tile_m=a"],
         "the axis a would cut two dims of x"),
        ("matmul_1024", ["--gather", "x=a,y=a", "--shard", "tile_n=a"],
         "the axis a would cut two dims of y"),
        ("matmul_1024", ["--scatter", "out=a", "--shard", "tile_m=a"], "out is no sum along a"),
        ("layer_norm", ["--gather", "weight=a"],
         "no block but those that the axis cuts goes over a dim of weight"),
        ("layer_norm_bwd_4096_10240", ["--gather", "x=a"],
         "depends on the configuration, which a ring does not take"),
        ("matmul_1024", ["--gather", "x=a:tile_n"], "tile_n goes over no dim of x"),
        ("matmul_1024", ["--gather", "x=a:tile_q"],
         "there is no block 'tile_q'; there are: tile_m, tile_n, tile_k"),
        ("matmul_1024", ["--gather", "x=a:tile_m,y=a:tile_n"],
         "a step is a part of tile_m or of tile_n"),
        ("attention", ["--gather", "q_in=a", "--shard", "tile_b=a"],
         "the axis a would cut two dims of q_in"),
        ("attention", ["--scatter", "out=a", "--shard", "tile_n=a"],
         "'m_i', which the loop '_for_loop' carries, is no sum; in one step: more is made of"),
    ],
)  # fmt: skip
def test_refused(graph, options, why):
    ran = kit.run(kit.path(graph), "--mesh", "a=2,b=2", *options, "--emit=none")
    assert ran.status == 1
    assert "[shard]" in ran.err
    assert why in ran.err


def test_wrong_usage():
    ran = kit.run(kit.path("bmm"), "--gather", "x=a")
    assert ran.status == 2
    assert "--gather and --scatter are along an axis of --mesh: there is no --mesh" in ran.err
    for asked in ({"gather": {"x": "a"}}, {"shard": {"tile_m": "a"}}):
        with pytest.raises(pallasc.CompileError, match="there is no mesh"):
            pallasc.compile(kit.document("matmul_1024"), **asked)


# ---- chips -------------------------------------------------------------------------------------

RINGS = (
    ("matmul_4096", {"tile_n": "ring"}, {"gather": {"x": "ring"}}),
    ("matmul_4096", {"tile_k": "ring"}, {"scatter": {"out": "ring"}}),
    *(
        (graph, {"tile_m": "ring"}, {"gather": {"k_in": "ring", "v_in": "ring"}})
        for graph in ("attention_b8_h32_s8192_d128", "causal_attention")
    ),
)
# Slices of 4 and 8 chips, of v7x with two devices each.
SLICES = [("v5e", 4), ("v6e", 4), ("v7x", 8)]
SLICES += [pytest.param(chip, 2 * n, marks=pytest.mark.full) for chip, n in SLICES]


def entry(text):
    """What XLA starts, awaits and runs, in its schedule's order: (kind, name, operands)."""
    kinds = {"collective-permute-start": "start", "collective-permute-done": "done"}
    found = []
    for line in text[text.index("\nENTRY") :].splitlines():
        match = re.match(r"\s*(?:ROOT )?(\S+) = .*? ([a-z-]+)\(([^)]*)\)", line)
        if match and match[2] in kinds:
            found.append((kinds[match[2]], match[1], match[3].split(", ")))
        elif 'custom_call_target="tpu_custom_call"' in line:
            found.append(("kernel", match[1], ()))
    return found


@pytest.mark.parametrize(("chip", "count"), SLICES)
def test_chips_compute_while_parts_travel(chip, count, tmp_path):
    """In XLA's schedule a kernel stands between each permutation's start and its end."""
    jobs = []
    for graph, blocks, ring in RINGS:
        module = pallasc.shard(kit.path(graph), {"ring": count}, blocks, target=chip, **ring)
        # Of attention two arrays travel, and a last kernel divides by the sum.
        also = (2, 1) if "attention" in graph else (1, 0)
        jobs.append((graph, *also, module.source))
    out = tmp_path / "schedules.json"
    name = chips.topology(chip, count)
    given = [{"source": source, "slice": name} for *_, source in jobs]
    ran = subprocess.run(
        [sys.executable, HERE / "sharded_chips.py", out],
        input=json.dumps(given),
        env=aot.worker_environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    for (graph, travel, ends, _), text in zip(jobs, json.loads(out.read_text()), strict=True):
        steps = entry(text)
        started = {}
        for at, (kind, instruction, operands) in enumerate(steps):
            if kind == "start":
                started[instruction] = at
            elif kind == "done":
                between = steps[started.pop(operands[0]) : at]
                assert "kernel" in [kind for kind, *_ in between], (graph, steps)
        counted = [kind for kind, *_ in steps]
        assert counted.count("kernel") == count + ends, graph
        assert counted.count("start") == (count - 1) * travel, graph
        assert not started
