"""Kernels written by hand as text: they read back, print, simulate, execute and compile.

What each does is computed in float64 by NumPy. The simulator is Pallas' interpret mode, with races
and reads of what nothing wrote; `execute` runs the text itself.
"""

import functools
import itertools
import json
import os
import re
import subprocess
import sys

import kit
import ml_dtypes
import numpy as np
import pytest
from kit import ROOT
from pallasc import aot, execute, mesh
from pallasc.errors import UsageError
from pallasc.inputs import make_tensors
from pallasc.lint import lint_module
from pallasc.run import run_module
from pallasc.simulate import interpret_params, simulate

NAMES = ("paged_decode", "jagged_sum", "ring_matmul", "gather_rows")
BF16 = ml_dtypes.bfloat16
NAN = np.float32(np.nan)


def text(name):
    """The kernel's text."""
    return (kit.KERNELS / f"{name}.kernel").read_text()


@functools.cache
def module(name):
    """The Module of a kernel's text."""
    return kit.compiled(kit.KERNELS / f"{name}.kernel")


def simulated(name, *arrays):
    """What the printed module gives in interpret mode, where the simulator sees nothing wrong."""
    kernel = getattr(module(name).load(), name)
    ran = simulate(kernel, arrays, interpret_params())
    assert (ran.races, ran.complaints) == ([], [])
    return ran.outputs[0]


def executed(name, *arrays):
    """What the text gives, executed in NumPy."""
    (output,) = execute.run(text(name), *arrays)
    return output


def near(found, expected, tolerance):
    """Whether all is within its tolerance; NaN is not."""
    assert found.shape == expected.shape
    return bool((np.abs(found - expected) <= tolerance).all())


# ---- text and module -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_text_comes_back(name):
    plain = [line for line in text(name).splitlines() if not line.lstrip().startswith("#")]
    emitted = module(name).kernel
    assert emitted.splitlines() == plain
    again = kit.compiled(emitted)
    assert (again.kernel, again.source) == (emitted, module(name).source)


@pytest.mark.parametrize("name", NAMES)
def test_module_is_clean(name, tmp_path):
    written = tmp_path / f"{name}.py"
    written.write_text(module(name).source)
    for command in (["check"], ["format", "--check"]):
        run = [sys.executable, "-m", "ruff", *command, "--isolated", "--no-cache", written]
        done = subprocess.run(run, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert [finding.text(name) for finding in lint_module(module(name).source, [])] == []


@pytest.fixture(scope="module")
def verdicts():
    """What the TPU compiler says of each kernel for each chip."""
    jobs = [(name, chip) for name in NAMES for chip in ("v6e", "v7x")]
    found = aot.compile_many([(module(name), chip) for name, chip in jobs], timeout=120)
    return dict(zip(jobs, found, strict=True))


@pytest.mark.parametrize("chip", ("v6e", "v7x"))
@pytest.mark.parametrize("name", NAMES)
def test_tpu_compiler_takes_it(name, chip, verdicts):
    verdict = verdicts[name, chip]
    assert (verdict.kind, verdict.message) == ("ok", "")
    assert len(verdict.kernels) == 1
    assert verdict.vmem_bytes <= verdict.predicted_bytes
    # Of a SparseCore's memory libtpu does not say how much is used.
    assert (verdict.vmem_bytes > 0) == (name != "gather_rows")


def test_example_of_the_page():
    """docs/kernel.md: blocks of a prefetched order."""
    page = (ROOT / "docs" / "kernel.md").read_text()
    (example,) = (part for part in page.split("```\n") if part.startswith("program pick "))
    order = np.asarray([2, 0, 3, 3], np.int32)
    x = np.arange(32 * 128, dtype=np.float32).reshape(32, 128)
    expected = x.reshape(4, 8, 128)[order].reshape(32, 128)
    printed = kit.compiled(example)
    ran = simulate(printed.load().pick, [order, x], interpret_params())
    assert (ran.outputs[0] == expected).all() and not ran.races
    assert (execute.run(example, order, x)[0] == expected).all()
    assert [aot.compile_one(printed, chip).kind for chip in ("v6e", "v7x")] == ["ok", "ok"]


# ---- paged decode --------------------------------------------------------------------------------


def paged(lengths, seed):
    """The kernel's inputs, K and V of each sequence; pages that no token lies in hold NaN."""
    rng = np.random.default_rng(seed)
    free = list(rng.permutation(24))
    table = np.full((4, 8), 23, np.int32)
    pages = np.full((2, 2, 24, 64, 128), NAN).astype(BF16)
    tokens = []
    for b, length in enumerate(lengths):
        tokens.append(rng.standard_normal((2, 2, length, 128)).astype(BF16))
        for j, start in enumerate(range(0, length, 64)):
            table[b, j] = free.pop()
            part = tokens[b][:, :, start : start + 64]
            pages[:, :, table[b, j], : part.shape[2]] = part
    q = rng.standard_normal((4, 16, 128)).astype(BF16)
    return (table, np.asarray(lengths, np.int32), q, *pages), tokens


def decoded(q, tokens):
    """Attention of each query in float64, and of what size its terms are."""
    out = np.zeros((2, 4, 16, 128))
    for b, kv in enumerate(tokens):
        for head in range(16 if kv.shape[2] else 0):
            k, v = kv[:, head // 8].astype(float)
            scores = k @ q[b, head].astype(float) / np.sqrt(128)
            p = np.exp(scores - scores.max())
            out[:, b, head] = p / p.sum() @ v, p / p.sum() @ abs(v)
    return out


LENGTHS = ((0, 1, 63, 64), (65, 127, 128, 511), (512, 512, 2, 257), (0, 0, 0, 0))


@pytest.mark.parametrize("run", (simulated, executed))
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_paged_decode(lengths, run):
    arrays, tokens = paged(lengths, sum(lengths))
    expected, size = decoded(arrays[2], tokens)
    # p is rounded to bfloat16 before its matmul
    assert near(run("paged_decode", *arrays), expected, size * 2**-8)


# ---- jagged sums ---------------------------------------------------------------------------------

OFFSETS = (
    (0, 0, 1, 8, 8, 41, 100, 100, 363, 364, 997, 1000, 1000),
    (0,) * 12 + (1000,),
    (13, 14, 45, 78, 110, 143, 200, 201, 233, 969, 971, 985, 990),
    (7,) * 13,
    (1000,) * 13,
)


@pytest.mark.parametrize("run", (simulated, executed))
@pytest.mark.parametrize("offsets", OFFSETS, ids=str)
def test_jagged_sum(offsets, run):
    values = np.random.default_rng(0).standard_normal((1000, 128)).astype(np.float32)
    values[: offsets[0]] = values[offsets[-1] :] = NAN
    groups = [values[a:b].astype(float) for a, b in itertools.pairwise(offsets)]
    expected = np.stack([group.sum(0) for group in groups])
    size = np.stack([abs(group).sum(0) for group in groups])
    found = run("jagged_sum", np.asarray(offsets, np.int32), values)
    assert near(found, expected, size * 2**-20)


# ---- a ring of devices ---------------------------------------------------------------------------


def on_devices(folder, name, *arrays):
    """What the printed module gives on devices of the CPU, simulated in another process."""
    kept = {f"x{i}": array.view(np.uint16) for i, array in enumerate(arrays)}
    np.savez(folder / "in.npz", source=module(name).source, **kept)
    command = [sys.executable, ROOT / "tests" / "kernel" / "ring_devices.py", folder / "in.npz"]
    subprocess.run([*command, folder / "out.npz"], check=True, timeout=120)
    with np.load(folder / "out.npz") as out:
        assert out["seen"].tolist() == []
        return out["outputs"]


@pytest.mark.parametrize("rings", (1, 2))
def test_ring_matmul(rings, tmp_path):
    """Of one ring, and of two in a mesh with another axis."""
    rng = np.random.default_rng(rings)
    x = rng.standard_normal((rings, 4, 128, 256)).astype(BF16)
    w = rng.standard_normal((rings, 4, 256, 128)).astype(BF16)
    rows, columns = x.reshape(rings, 1, 512, 256).astype(float), w.astype(float)
    expected, size = rows @ columns, abs(rows) @ abs(columns)
    assert near(on_devices(tmp_path, "ring_matmul", x, w), expected, size * 2**-20)
    for ring in range(rings):
        found = executed("ring_matmul", x[ring], w[ring])
        assert near(found, expected[ring], size[ring] * 2**-20)


def test_ring_on_another_mesh():
    import jax

    mesh = jax.sharding.Mesh(jax.devices()[:1], ("ring",))
    spec = jax.sharding.PartitionSpec("ring")
    call = jax.shard_map(
        module("ring_matmul").load().ring_matmul, mesh=mesh, in_specs=spec, out_specs=spec
    )
    with pytest.raises(TypeError, match="the axis ring must have 4 devices"):
        call(np.zeros((128, 256), BF16), np.zeros((256, 128), BF16))


def test_ring_of_more_devices_than_there_are():
    plain = text("ring_matmul").partition("\nprogram")
    ring = kit.compiled((plain[1] + plain[2]).lstrip().replace("mesh ring 4", "mesh ring 64"))
    verdict = aot.compile_one(ring, "v6e", timeout=120, cache=False)
    assert (verdict.kind, verdict.message) == ("error", "UsageError: v6e:2x4 has 8 devices, not 64")


def command(tmp_path, *arguments, **environment):
    """A command of `python -m pallasc`, of the ring's module."""
    module("ring_matmul").save(tmp_path / "ring.py")
    run = [sys.executable, "-m", "pallasc", arguments[0], tmp_path / "ring.py", *arguments[1:]]
    path = {"PYTHONPATH": str(ROOT / "python"), "PALLASC_CACHE": str(tmp_path)}
    kept = {name: text for name, text in os.environ.items() if name != "XLA_FLAGS"}
    env = {**kept, **path, **environment}
    return subprocess.run(run, capture_output=True, text=True, timeout=300, env=env, check=False)


def test_run_of_a_ring(tmp_path):
    """On devices of the CPU, whose parts stand one behind the other."""
    ran = command(tmp_path, "run", "--seed=3")
    x, w = mesh_inputs(3)
    outputs = executed("ring_matmul", x, w).reshape(4 * 512, 128)
    lines = ran.stdout.splitlines()
    assert ran.returncode == 0, ran.stderr
    assert lines[0].startswith("ring_matmul on cpu, interpret mode: ")
    assert lines[1:3] == ["  in  x: bfloat16[512, 256]", "  in  w: bfloat16[1024, 128]"]
    told = re.fullmatch(r"  out out: float32\[2048, 128\]: min (\S+), max (\S+), mean .*", lines[3])
    assert [float(x) for x in told.groups()] == pytest.approx([outputs.min(), outputs.max()])


def mesh_inputs(seed):
    """What `run` gives each of the ring's devices."""
    x, w = make_tensors(mesh.whole_info(module("ring_matmul").info), seed)
    return x.reshape(4, 128, 256), w.reshape(4, 256, 128)


def test_run_of_a_ring_of_too_few_devices(tmp_path):
    flags = "--xla_force_host_platform_device_count=2"
    ran = command(tmp_path, "run", XLA_FLAGS=flags)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        "pallasc: error: jax has 2 devices, not 4: have XLA_FLAGS say"
        " --xla_force_host_platform_device_count=4 before jax starts\n"
    )
    arrays = [array.reshape(-1, array.shape[-1]) for array in mesh_inputs(0)]
    with pytest.raises(UsageError, match="jax has 1 device, not 4: have XLA_FLAGS say"):
        run_module(module("ring_matmul"), arrays)


def test_a_ring_has_no_graph(tmp_path):
    ran = command(tmp_path, "run", f"--graph={ROOT}/testdata/graphs/add.json")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "pallasc: error: --graph: no graph gives a module that runs on a mesh\n"


def test_profile_of_a_ring(tmp_path):
    """Of one device, and it says so."""
    ran = command(tmp_path, "profile", "--json")
    found = json.loads(ran.stdout)
    assert ran.returncode == 1
    assert found["errors"] == ["one of 4 devices is executed: copies between them take no time"]
    (kernel,) = (facts for facts in found["kernels"].values() if facts["pallas"])
    assert kernel["matmul_flops"] == 4 * 2 * 128 * 256 * 256  # whole tiles of the matrix unit
    assert kernel["copied_bytes"]["hbm_to_vmem"] == 2 * 128 * 256 * 2


def test_statements_of_a_ring(tmp_path):
    ran = command(tmp_path, "profile", "--statements")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "ring.py: statements of a module that runs on a mesh" in ran.stderr


# ---- a gather on SparseCores ---------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_gather_rows(seed):
    """Executed only: jax 0.10.2 runs the first subcore alone, and no copy by a table."""
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((4096, 128)).astype(np.float32)
    rows = rng.integers(0, 4096, 1024).astype(np.int32)
    rows[:3] = 0, 4095, 4095
    assert (executed("gather_rows", table, rows) == table[rows]).all()


def test_gather_of_a_row_that_is_not_there():
    table, rows = np.zeros((4096, 128), np.float32), np.full(1024, 4096, np.int32)
    with pytest.raises(execute.ExecuteError, match="a row of 4096 is out of bounds"):
        executed("gather_rows", table, rows)


def test_gather_is_not_simulated():
    table, rows = np.zeros((4096, 128), np.float32), np.zeros(1024, np.int32)
    with pytest.raises(NotImplementedError, match="jax simulates no SparseCores"):
        module("gather_rows").load().gather_rows(table, rows, interpret=True)
