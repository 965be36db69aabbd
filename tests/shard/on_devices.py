"""Graphs of testdata at small sizes, and what their modules give on several devices of the CPU."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import kit
import numpy as np
import verdicts

HERE = Path(__file__).resolve().parent


def wide(name):
    """A graph of testdata, its bfloat16 arrays float32."""
    return json.loads(kit.text(name).replace("bfloat16", "float32"))


def arrays(document, scale=1):
    """Whole inputs of a graph, normally distributed, by name and in order."""
    random = np.random.default_rng(0)
    return {
        tensor["name"]: random.standard_normal(tensor["shape"], np.float32) * np.float32(scale)
        for tensor in document["tensors"]
        if tensor["role"] == "input"
    }


def small(name, shapes, extents, config):
    """The same at other shapes."""
    return resized(wide(name), shapes, extents, config)


def resized(document, shapes, extents, config):
    """A document at other shapes, and of another configuration; it is changed."""
    for tensor in document["tensors"]:
        tensor["shape"] = shapes.get(tensor["name"], tensor["shape"])
    for block, extent in zip(document["block_sizes"], extents, strict=True):
        block["extent"] = extent
    sizes = {tensor["name"]: tensor["shape"] for tensor in document["tensors"]}
    for node in kit.nodes(document):
        if node.get("target") == "tile.host_tensor":
            node["meta"]["shape"] = sizes[node["args"][0]]
        if node.get("target") == "tile.for_loop":
            graph = next(g for g in document["graphs"] if g["id"] == node["args"][0])
            node["args"][2] = [extents[b] for b in graph["block_ids"]]
    document["config"] = config
    return document


def wrong(module, given, expected, tmp_path, rtol=1e-4, atol=1e-4, explicit=False):
    """What is off of the outputs of a module's sharded function, lines: none by a kept verdict.

    Args:
      given, expected: whole inputs by name, and outputs in order; None: any.
      explicit: of the mesh's axes.
    """

    def simulate():
        lines, ratios = [], []
        found = devices(module, given, tmp_path, explicit)
        for output, (out, wanted) in enumerate(zip(found, expected, strict=True)):
            if wanted is None:
                continue
            try:
                np.testing.assert_allclose(out, wanted, rtol, atol)
            except AssertionError as error:
                lines.append(f"output {output}: {error}")
            allowed = atol + rtol * np.abs(wanted) + np.finfo(np.float32).tiny
            ratios.append(np.max(np.abs(out - wanted) / allowed))
        return lines, ratios

    runs = [code_of("sharded_devices.py"), verdicts.source(wrong), f"{rtol} {atol} {explicit}"]
    wanted = [x for x in expected if x is not None]
    return settled(module.source, runs, lambda: [*given, *given.values(), *wanted], simulate)


def code_of(file):
    """The code of one of these files."""
    return verdicts.code((HERE / file).read_text())


def settled(source, runs, arrays, simulate):
    """What is off of a module, as `verdicts.settle` says it, for the test that runs.

    The inputs and what is expected are known by the code that makes them: floats are not the same
    on all machines.
    """
    test = os.environ["PYTEST_CURRENT_TEST"].removesuffix(" (call)")
    judges = [test, code_of("on_devices.py"), code_of(kit.ROOT / test.split("::")[0])]
    return verdicts.settle(verdicts.Question(test, source, runs, judges, arrays), simulate)


def devices(module, given, tmp_path, explicit=False):
    """The outputs of a module's sharded function, of whole arrays; on a mesh of explicit axes."""
    count = math.prod(module.info["sharding"]["mesh"].values())
    packed, out = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(packed, source=module.source, devices=count, explicit=explicit, **given)
    paths = os.pathsep.join([str(kit.ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [sys.executable, HERE / "sharded_devices.py", packed, out],
        check=True,
        timeout=100,
        env={**os.environ, "PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"},
    )
    return list(np.load(out).values())
