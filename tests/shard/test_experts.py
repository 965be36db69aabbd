"""`pallasc.experts`: mixtures of experts cut along an axis of a mesh, against float64."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import kit
import numpy as np
import pallasc
import pytest
from pallasc import aot, chips
from pallasc.errors import UsageError

HERE = Path(__file__).resolve().parent
TOKENS, EACH, EXPERTS, WIDTH, INNER = 32, 2, 8, 128, 256


def named(graph, renamed, dtype):
    """A graph of testdata/coverage, whose numbers of shapes and extents are names."""
    text = (kit.ROOT / f"testdata/coverage/graphs/{graph}.json").read_text()
    document = json.loads(text.replace("bfloat16", dtype))

    def of(shape):
        return [renamed.get(size, size) for size in shape]

    for tensor in document["tensors"]:
        tensor["shape"] = of(tensor["shape"])
    for block in document["block_sizes"]:
        block["extent"] = renamed.get(block["extent"], block["extent"])
    for node in kit.nodes(document):
        if node.get("target") == "tile.host_tensor":
            node["meta"]["shape"] = of(node["meta"]["shape"])
    return document


def fused(dtype="float32"):
    """Rows sorted by expert, in groups of any size."""
    document = named("experts_fused", {256: "L", 9: "E", 10: "E + 1"}, dtype)
    for tensor in document["tensors"]:  # 256 is the inner width too
        if tensor["name"].startswith("w_"):
            tensor["shape"] = [INNER if size == "L" else size for size in tensor["shape"]]
    weights = {t["name"]: t["shape"] for t in document["tensors"]}
    for node in kit.nodes(document):
        if node.get("target") == "tile.host_tensor":
            node["meta"]["shape"] = weights[node["args"][0]]
    document["block_sizes"][2]["extent"] = INNER
    document["config"] = {"block_sizes": [32, 128], "pallas_loop_type": "fori_loop"}
    return document | {"sizes": {"L": 256, "E": 9}}


def listed(dtype="float32"):
    """Blocks of 32 rows, by lists."""
    document = named("experts_worklist", {8: "B", 9: "E", 10: "E + 1", 16: "B + E - 1"}, dtype)
    return document | {"sizes": {"B": 8, "E": 9}}


def layer(rng, skewed=False, inner=INNER):
    """x, the experts of each token and what they count, and the experts' weights."""
    x = rng.standard_normal((TOKENS, WIDTH), np.float32)
    chances = np.arange(1, EXPERTS + 1) ** (-3.0 if skewed else 0)
    chosen = np.array(
        [rng.choice(EXPERTS, EACH, False, chances / chances.sum()) for _ in range(TOKENS)], np.int32
    )
    chosen[rng.integers(0, TOKENS, 3), 1] = -1
    weight = rng.random((TOKENS, EACH), np.float32)
    gate, up = (rng.standard_normal((EXPERTS, WIDTH, inner), np.float32) / WIDTH**0.5 for _ in "gu")
    down = rng.standard_normal((EXPERTS, inner, WIDTH), np.float32) / inner**0.5
    return x, chosen, weight, gate, up, down


def expected(x, chosen, weight, gate, up, down):
    """In float64, token by token."""
    out = np.zeros(x.shape)
    for t, (experts, counts) in enumerate(zip(chosen, weight.astype(float), strict=True)):
        for e, count in ((e, c) for e, c in zip(experts, counts, strict=True) if e >= 0):
            a = x[t].astype(float) @ gate[e]
            out[t] += count * (a / (1 + np.exp(-a)) * (x[t].astype(float) @ up[e])) @ down[e]
    return out


def simulated(folder, graph, mesh, tokens, arrays, block=0, capacity=0):
    """What simulated devices give."""
    said = {"graph": graph, "mesh": mesh, "tokens": tokens}
    said = {name: json.dumps(value) for name, value in said.items()}
    how = {"block": block, "capacity": capacity}
    given = {f"x{i}": array for i, array in enumerate(arrays)}
    np.savez(folder / "in.npz", **said, **how, **given)
    paths = os.pathsep.join([str(kit.ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [sys.executable, HERE / "experts_devices.py", folder / "in.npz", folder / "out.npz"],
        check=True,
        timeout=200,
        env={**os.environ, "PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"},
    )
    (found,) = np.load(folder / "out.npz").values()
    return found


@pytest.mark.parametrize(
    ("mesh", "tokens", "skewed"),
    [
        ({"model": 2}, [], False),
        ({"model": 4}, [], True),
        ({"data": 2, "model": 4}, ["data"], False),
        ({"model": 2}, ["model"], False),
        ({"model": 4}, ["model"], True),
        ({"data": 2, "model": 4}, ["data", "model"], True),
        ({"model": 8}, ["model"], False),
    ],
)
def test_tokens_whole_or_in_parts(mesh, tokens, skewed, tmp_path):
    arrays = layer(np.random.default_rng(len(mesh) + skewed), skewed)
    found = simulated(tmp_path, fused(), mesh, tokens, arrays)
    np.testing.assert_allclose(found, expected(*arrays), rtol=1e-4, atol=1e-4)


def test_lists(tmp_path):
    """A kernel of blocks and lists; its blocks are more than are needed."""
    arrays = layer(np.random.default_rng(5), skewed=True, inner=512)
    found = simulated(tmp_path, listed(), {"model": 4}, ["model"], arrays, block=32)
    np.testing.assert_allclose(found, expected(*arrays), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("tokens", [[], ["model"]])
def test_what_is_above_the_capacity_counts_as_nothing(tokens, tmp_path):
    """A device takes rows by the device that they are of, there by expert, and then by token."""
    capacity = 12
    arrays = layer(np.random.default_rng(6), skewed=True)
    found = simulated(tmp_path, fused(), {"model": 4}, tokens, arrays, capacity=capacity)
    x, chosen, weight, *weights = arrays
    kept = weight.copy()
    rows = [(t, j) for t in range(TOKENS) for j in range(EACH)]
    per = TOKENS // 4 if tokens else TOKENS
    for device in range(4):
        own = [(t // per, chosen[t, j], t, j) for t, j in rows if chosen[t, j] // 2 == device]
        for _, _, t, j in sorted(own)[capacity:]:
            kept[t, j] = 0
    assert (kept == 0).sum() > 5
    np.testing.assert_allclose(found, expected(x, chosen, kept, *weights), rtol=1e-4, atol=1e-4)


PAGE = """
import jax, numpy, pallasc
x, chosen, weight, w_gate, w_up, w_down = numpy.load("in.npz").values()
{}
numpy.savez("out.npz", out)
"""


def test_example_of_the_page(tmp_path):
    """docs/sharding.md, on simulated devices."""
    section = (kit.ROOT / "docs" / "sharding.md").read_text().split("## Experts")[1]
    code = (
        section.split("```python\n")[1]
        .split("```")[0]
        .replace("w_down)", "w_down, interpret=True)")
    )
    arrays = layer(np.random.default_rng(7))
    np.savez(tmp_path / "in.npz", *arrays)
    (tmp_path / "experts.json").write_text(json.dumps(fused()))
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "NPROC": "32"}
    subprocess.run(
        [sys.executable, "-c", PAGE.format(code)],
        check=True,
        timeout=200,
        cwd=tmp_path,
        env={**os.environ, **flags, "PYTHONPATH": f"{kit.ROOT}/python", "JAX_PLATFORMS": "cpu"},
    )
    (found,) = np.load(tmp_path / "out.npz").values()
    np.testing.assert_allclose(found, expected(*arrays), rtol=1e-4, atol=1e-4)


def test_an_axis_that_the_mesh_has_not():
    mesh = jax.sharding.Mesh(np.asarray(jax.devices()[:1]), ("data",))
    with pytest.raises(UsageError, match="experts: the mesh has no axis 'model': data"):
        pallasc.experts(None, mesh, "model")


COMPILED = """
import json, sys
import jax, numpy, pallasc
from jax.experimental import topologies
from pallasc.aot_worker import tracing_for
said = json.load(sys.stdin)
devices = topologies.get_topology_desc(platform="tpu", topology_name=said["slice"]).devices
mesh = jax.sharding.Mesh(numpy.asarray(devices), ("model",))
kernel = pallasc.jit(said["graph"], target=said["chip"])
kernel = pallasc.worklist(kernel, said["block"]) if said["block"] else kernel
layer = pallasc.experts(kernel, mesh, "model", said["tokens"], said["capacity"])
def of(shape, dtype, *axes):
    place = jax.sharding.NamedSharding(mesh, jax.P(*axes))
    return jax.ShapeDtypeStruct(shape, dtype, sharding=place)
count, experts, inner = 16 * len(devices), 2 * len(devices), said["inner"]
arrays = [of((count, 128), "bfloat16", *said["tokens"]), of((count, 2), "int32", *said["tokens"])]
arrays += [of((count, 2), "float32", *said["tokens"])]
for shape in [(experts, 128, inner)] * 2 + [(experts, inner, 128)]:
    arrays.append(of(shape, "bfloat16", "model"))
with tracing_for(devices[0]):
    lowered = layer.trace(*arrays).lower()
lowered.compile()
text = lowered.as_text()
names = ("@tpu_custom_call(", "@ragged_all_to_all(", "stablehlo.all_reduce")
print(json.dumps([text.count(name) for name in names]))
"""


@pytest.mark.parametrize(
    ("chip", "shape", "tokens", "block"),
    [("v6e", "2x2", [], 0), ("v5e", "2x4", ["model"], 0), ("v6e", "2x4", ["model"], 32),
     ("v7x", "2x2x1", ["model"], 32)],
)  # fmt: skip
def test_the_tpu_compiler_takes_it(chip, shape, tokens, block):
    """For 4 and 8 devices: one kernel, with what goes between devices before and after."""
    graph = listed("bfloat16") if block else fused("bfloat16")
    said = {"graph": graph, "chip": chip, "slice": chips.topology(chip, 1, shape)}
    said |= {"tokens": tokens, "block": block, "inner": 512 if block else INNER}
    said |= {"capacity": 128 if tokens else None}
    ran = subprocess.run(
        [sys.executable, "-c", COMPILED],
        input=json.dumps(said),
        env=aot.worker_environment(),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == ([1, 2, 0] if tokens else [1, 0, 1])
