"""Graphs that copy between devices: simulated, beside the reference and float64, compiled."""

import json
import os
import subprocess
import sys
from pathlib import Path

import kit
import ml_dtypes
import numpy as np
import pytest
from builder import Doc, G, sl, sym, t
from pallasc import aot, devices

GRAPHS = kit.ROOT / "testdata" / "devices" / "graphs"
NAMES = sorted(path.stem for path in GRAPHS.glob("*.json"))
BF16, FP8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn


def document(name):
    """A graph of testdata/devices."""
    return json.loads((GRAPHS / f"{name}.json").read_text())


# ---- what each kernel is to give -----------------------------------------------------------------


def ring(count):
    """Of each device, the one behind it and all steps' slots: its own first, then those before."""
    peers = [np.array([(i + 1) % count], np.int32) for i in range(count)]
    slots = [
        np.array([[(i - step) % count for step in range(count)]], np.int32) for i in range(count)
    ]
    return peers, slots


def normal(seed, count, shape, dtype):
    """An array for each device."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32).astype(dtype) for _ in range(count)]


def pass_on(count):
    """Each device has its left neighbour's rows."""
    x, (peers, _) = normal(1, count, (64, 256), FP8), ring(count)
    return list(zip(x, peers, strict=True)), [x[i - 1].astype(float) for i in range(count)]


def gather_matmul(count):
    """Each device has all rows times its own columns."""
    x, w = normal(2, count, (16, 128), BF16), normal(3, count, (128, 128), BF16)
    rows = np.stack(x).astype(float)
    return list(zip(x, w, *ring(count), strict=True)), [rows @ y.astype(float) for y in w]


def matmul_scatter(count):
    """Each device has its rows of the sum over all devices; a sum ends where its rows are."""
    x, w = normal(4, count, (count, 16, 128), BF16), normal(5, count, (128, 128), BF16)
    peers, _ = ring(count)
    slots = [
        np.array([[(i - 1 - step) % count for step in range(count)]], np.int32)
        for i in range(count)
    ]
    total = sum(a.astype(float) @ b.astype(float) for a, b in zip(x, w, strict=True))
    return list(zip(x, w, peers, slots, strict=True)), list(total)


def add_up(count):
    """Each device has the sum."""
    x, rounds = normal(6, count, (16, 128), np.float32), count.bit_length() - 1
    partners = [np.array([[i ^ 1 << r for r in range(rounds)]], np.int32) for i in range(count)]
    return list(zip(x, partners, strict=True)), [sum(a.astype(float) for a in x)] * count


def exchange_rounds(count):
    """After 20 rounds each has those of the device so many to its left."""
    x, (peers, _) = normal(7, count, (8, 128), np.float32), ring(count)
    both = [np.array([p[0], (i - 1) % count], np.int32) for i, p in enumerate(peers)]
    return list(zip(x, both, strict=True)), [x[i - 20 % count] * 0.5**20 for i in range(count)]


CASES = {
    "pass_on": pass_on,
    "gather_matmul": gather_matmul,
    "matmul_scatter": matmul_scatter,
    "add_up": add_up,
    "exchange_rounds": exchange_rounds,
}


def case(name):
    """The inputs by device, and the one result of each."""
    kind, _, count = name.rpartition("_")
    return CASES[kind](int(count))


def worst(found, expected):
    """The greatest error beside the greatest magnitude."""
    return np.abs(found.astype(float) - expected).max() / np.abs(expected).max()


def of_parameters(graph, inputs):
    """Arrays named as the kernel's arguments are, in the order of the document's parameters."""
    order = [t["name"] for t in graph["tensors"] if t["role"] in ("input", "inout")]
    given = {"x": 0, "w": 1, "peers": -2 if "slots" in order else 1, "partners": 1, "slots": -1}
    return [[arrays[given[name]] for name in order] for arrays in inputs]


# ---- on the CPU ----------------------------------------------------------------------------------


def simulated(module, inputs, folder):
    """What the module gives on as many devices, by output; and what the simulator saw."""
    whole = [np.concatenate(arrays) for arrays in zip(*inputs, strict=True)]
    kept = {f"x{i}": np.ascontiguousarray(array).view(np.uint8) for i, array in enumerate(whole)}
    np.savez(folder / "in.npz", source=module.source, **kept)
    command = [sys.executable, Path(__file__).parent / "simulate_mesh.py", folder / "in.npz"]
    flags = {key: text for key, text in os.environ.items() if key not in ("XLA_FLAGS", "NPROC")}
    env = {**flags, "PYTHONPATH": str(kit.ROOT / "python")}
    subprocess.run([*command, folder / "out.npz"], check=True, timeout=300, env=env)
    with np.load(folder / "out.npz") as out:
        return [out[f"y{i}"] for i in range(len(module.info["outputs"]))], out["seen"].tolist()


@pytest.mark.parametrize("name", NAMES)
def test_simulated(name, tmp_path):
    """Without races, and as the reference has it, which two orders of copies agree on."""
    graph, (arrays, expected) = document(name), case(name)
    check(kit.compiled(graph), graph, of_parameters(graph, arrays), expected, tmp_path)


def small_chip(folder):
    """One of which a tenth of VMEM holds none of what devices exchange in these graphs."""
    return kit.chip(folder, base="v6e", name="small", vmem_bytes=150000)


@pytest.mark.parametrize("name", ("gather_matmul_4", "matmul_scatter_4", "add_up_8"))
def test_simulated_from_hbm(name, tmp_path):
    """What is loaded and stored of a tensor that is too large for VMEM goes through scratch."""
    graph, (arrays, expected) = document(name), case(name)
    module = kit.compiled(graph, small_chip(tmp_path))
    assert "staged_sem" in module.source
    check(module, graph, of_parameters(graph, arrays), expected, tmp_path)


def test_rows_one_by_one(tmp_path):
    """More copies than semaphores, each of a row of a tensor in HBM, and each read as it comes."""
    rows, graph = 40, row_by_row(40)
    x = normal(8, 4, (rows, 128), np.float32)
    module = kit.compiled(graph, small_chip(tmp_path))
    assert "staged_sem" in module.source and "def meet():" in module.source
    expected = [x[i - 1].astype(float) + 1 for i in range(4)]
    check(module, graph, [[a] for a in x], expected, tmp_path)


def row_by_row(rows):
    """out[j] = 1 + what the left neighbour has in row j, of a box of so many rows, and others."""
    doc = Doc(mesh={"ring": 4})
    doc.tensor("x", "input", "float32", [rows, 128])
    doc.tensor("box", "output", "float32", [rows, 128]).tensor(
        "out", "output", "float32", [rows, 128]
    )
    doc.block(1, size=1).block(rows, size=1)
    g, step, row = G(1, grid=[0]), G(0, kind="for_loop", block_ids=[1]), t("float32", 128)
    me = step.call("tile.device_id", meta=sym(None))
    right = step.call("mod", step.call("add", me, 1, meta=sym(None)), 4, meta=sym(None))
    at = [step.call("tile.begin", sym("u1"), meta=sym(None)), sl()]
    part = step.call("tile.part", step.host("x"), at, meta=row)
    step.call("tile.remote_copy", step.host("box"), at, part, right, 0)
    step.call("tile.remote_wait", step.host("box"), at, 0)
    came = step.load("box", at, row)
    step.store("out", at, step.call("aten.add.Tensor", came, 1.0, meta=row))
    g.call("tile.for_loop", 0, [0], [rows], [], meta={"tuple": []})
    return doc.add(step.out(), g.out()) | {"returns": [{"tensor": "out"}]}


def check(module, graph, inputs, expected, folder):
    """The module's one output, simulated, the reference's and what is expected agree."""
    early = devices.run(graph, inputs)
    late = devices.run(graph, inputs, late=True)
    for a, b, right in zip(early, late, expected, strict=True):
        assert a[0].tobytes() == b[0].tobytes()
        assert worst(a[0].reshape(right.shape), right) < 1e-6
    (found,), seen = simulated(module, inputs, folder)
    reference = np.concatenate([outputs[0] for outputs in early])
    assert seen == []
    assert (
        worst(found.view(reference.dtype).reshape(reference.shape), reference.astype(float)) < 1e-6
    )


# ---- for real chips ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_compiled(name):
    verdict = aot.compile_one(kit.compiled(document(name)), "v6e", timeout=120)
    assert (verdict.kind, verdict.message) == ("ok", "")


@pytest.mark.parametrize("name", ("gather_matmul_4", "row_by_row"))
def test_compiled_from_hbm(name, tmp_path):
    graph = row_by_row(40) if name == "row_by_row" else document(name)
    module = kit.compiled(graph, small_chip(tmp_path))
    verdict = aot.compile_one(module, "v6e", timeout=120)
    assert (verdict.kind, verdict.message) == ("ok", "")


@pytest.mark.parametrize("chip", ("v4", "v5e", "v5p", "v7x"))
def test_compiled_for_other_chips(chip):
    module = kit.compiled(document("gather_matmul_4"), chip)
    verdict = aot.compile_one(module, chip, timeout=120)
    assert (verdict.kind, verdict.message) == ("ok", "")
