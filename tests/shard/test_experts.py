"""`pallasc.experts`: mixtures of experts cut along an axis of a mesh, against float64."""

import json
import os
import subprocess
import sys
from pathlib import Path

import kit
import numpy as np
import pytest

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
    weight = rng.random((TOKENS, EACH), np.float32)
    gate, up = (rng.standard_normal((EXPERTS, WIDTH, inner), np.float32) / WIDTH**0.5 for _ in "gu")
    down = rng.standard_normal((EXPERTS, inner, WIDTH), np.float32) / inner**0.5
    return x, chosen, weight, gate, up, down


def expected(x, chosen, weight, gate, up, down):
    """In float64, token by token."""
    out = np.zeros(x.shape)
    for t, (experts, counts) in enumerate(zip(chosen, weight.astype(float), strict=True)):
        for e, count in zip(experts, counts, strict=True):
            a = x[t].astype(float) @ gate[e]
            out[t] += count * (a / (1 + np.exp(-a)) * (x[t].astype(float) @ up[e])) @ down[e]
    return out


def simulated(folder, graph, mesh, tokens, arrays, block=0, capacity=0, parts=1):
    """What simulated devices give."""
    said = {"graph": graph, "mesh": mesh, "tokens": tokens}
    said = {name: json.dumps(value) for name, value in said.items()}
    how = {"block": block, "capacity": capacity, "parts": parts}
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
    ("mesh", "tokens", "parts", "skewed"),
    [
        ({"model": 2}, [], 1, False),
        ({"model": 4}, [], 2, True),
        ({"data": 2, "model": 4}, ["data"], 1, False),
        ({"model": 2}, ["model"], 1, False),
        ({"model": 4}, ["model"], 2, True),
        ({"data": 2, "model": 4}, ["data", "model"], 1, True),
        ({"model": 8}, ["model"], 1, False),
    ],
)
def test_tokens_whole_or_in_parts(mesh, tokens, parts, skewed, tmp_path):
    arrays = layer(np.random.default_rng(len(mesh) + parts), skewed)
    found = simulated(tmp_path, fused(), mesh, tokens, arrays, parts=parts)
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


COMPILED = """
import json, re, sys
import jax, numpy, pallasc
from jax.experimental import topologies
from pallasc.aot_worker import tracing_for
said = json.load(open(sys.argv[1]))
devices = topologies.get_topology_desc(platform="tpu", topology_name=said["topology"]).devices
devices = devices[: said["devices"]]
mesh = jax.sharding.Mesh(numpy.asarray(devices), ("model",))
kernel = pallasc.jit(said["graph"], target=said["chip"])
kernel = pallasc.worklist(kernel, said["block"]) if said["block"] else kernel
tokens = "model" if said["cut"] else ()
layer = pallasc.experts(kernel, mesh, "model", tokens=tokens, capacity=said["capacity"], parts=2)
def of(shape, dtype, *spec):
    place = jax.sharding.NamedSharding(mesh, jax.P(*spec))
    return jax.ShapeDtypeStruct(shape, dtype, sharding=place)
rows = ["model"] if said["cut"] else []
t, k, e, d, f = said["sizes"]
arrays = [of((t, d), "bfloat16", *rows), of((t, k), "int32", *rows), of((t, k), "float32", *rows)]
arrays += [of(s, "bfloat16", "model") for s in ((e, d, f), (e, d, f), (e, f, d))]
with tracing_for(devices[0]):
    compiled = layer.trace(*arrays).lower().compile()
text = compiled.as_text()
print(text, file=open(sys.argv[1] + ".hlo", "w"))
print(json.dumps([text.count("tpu_custom_call"), len(re.findall(r"= \\S+ ragged-all-to-all|ragged-all-to-all-start", text)),
    len(re.findall(r"= .* all-reduce(-start)?\\(", text))]))
"""
