import dataclasses
import json
import tomllib

import pairs
import pallasc
import pytest
from pallasc import aot, chips
from pallasc.aot_worker import parse_scoped_vmem, parse_serialized_vmem
from pallasc.errors import FileError, UsageError
from pallasc.module import Module, read_module
from stubs import ROOT


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    """Each test has a cache of its own, empty, and nothing that the tests keep."""
    monkeypatch.setenv("PALLASC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(aot, "CACHE", aot.Cache())


def test_all_targets_in_one_worker(data, monkeypatch):
    started = []
    make = aot.Worker
    monkeypatch.setattr(aot, "Worker", lambda *a: started.append(1) or make(*a))
    names = ("tiled_add", "dma_double", "pipelined")
    jobs = [(data / f"{name}.py", target) for name in names for target in aot.TOPOLOGIES]
    results = list(aot.compile_many(jobs))
    assert [r.message for r in results] == [""] * len(jobs)
    assert len(started) == 1
    assert all(r.vmem_bytes == r.predicted_bytes for r in results)
    assert all(r.temp_bytes == 0 and not r.cached for r in results)
    again = list(aot.compile_many(jobs))
    assert all(r.cached for r in again) and len(started) == 1
    plain = [dataclasses.replace(r, cached=False) for r in again]
    assert plain == results


def test_over_the_limit(data):
    text = (data / "dma_double.py").read_text().replace("VMEM((2, 8,", "VMEM((2, 65536,")
    text = text.replace("x_buffer.at[slot]", "x_buffer.at[slot, pl.ds(0, 8)]")
    text = text.replace("x_buffer[slot]", "x_buffer[slot, :8]")
    result = aot.compile_one(Module(text, "big.py"), "v6e")
    assert (result.ok, result.kind) == (False, "vmem"), result.full
    assert result.vmem_bytes >= 64 << 20 and result.vmem_limit == 32 << 20
    assert "out of scoped VMEM: 64.0" in result.message
    assert aot.compile_one(Module(text, "big.py"), "v6e").cached


def test_refused_by_the_compiler(data):
    good = (data / "dma_double.py").read_text()
    text = good.replace("x_ref.at[rows]", "x_ref.at[rows, pl.ds(1, 128)]")
    result = aot.compile_one(Module(text, "odd.py"), "v5e")
    assert result.kind == "error" and 1 <= len(result.message.split("\n")) <= 6, result
    text = good.replace("x_buffer[slot] *", "jnp.sort(x_buffer[slot]) *")
    result = aot.compile_one(Module(text, "odd.py"), "v5e")
    assert result.kind == "error" and "sort" in result.message, result
    failing = (data / "dma_double.py").read_text().replace("(x,) = inputs", "(x,) = 1 / 0")
    result = aot.compile_one(Module(failing, "fails.py"))
    assert "ZeroDivisionError" in result.message


def test_lost_workers_are_replaced(data):
    good = read_module(data / "dma_double.py")
    sleeps = Module(good.source.replace("(x,) = inputs", "time.sleep(600)\n    (x,) = inputs"))
    sleeps.source = sleeps.source.replace("import functools", "import functools\nimport time")
    dies = Module(sleeps.source.replace("time.sleep(600)", "__import__('os').abort()"))
    eats = Module(sleeps.source.replace("time.sleep(600)", "x = b'1' * (2 << 30); time.sleep(600)"))
    jobs = [(sleeps, "v6e"), (good, "v6e"), (dies, "v6e"), (eats, "v6e"), (good, "v5p")]
    # The timeout holds a worker's start too: seconds, more on a machine that does other things.
    results = list(aot.compile_many(jobs, timeout=20, memory_bytes=3 << 29))
    assert [r.kind for r in results] == ["timeout", "ok", "crash", "memory", "ok"]
    assert "signal 6" in results[2].message
    assert not aot.compile_one(sleeps, "v6e", timeout=3).cached


def test_command(cli, data):
    result = cli("aot", data / "dma_double.py", "-t", "v6e", "-t", "v7x")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 2 and "v6e: ok: VMEM 40.00 KiB used, 40.00 KiB predicted" in lines[0]
    result = cli("aot", data / "dma_double.py", "--json")
    fields = json.loads(result.stdout)
    assert (fields["ok"], fields["target"], fields["kernels"]) == (True, "v6e", [40960])
    assert fields["cached"]


def test_estimates_beside_the_compilers(data):
    """Those of KERNEL_INFO, for its own chip only."""
    text = (data / "dma_double.py").read_text()
    told = (
        '    "vmem": {"windows": 40960, "inner": 0},\n'
        '    "estimate": {"cycles": 12345, "seconds": 7.5e-06, "mxu": 0, "hbm": 1600},\n'
    )
    source = text.replace("KERNEL_INFO = {\n", "KERNEL_INFO = {\n" + told)
    result = aot.AotResult("k.py", "v6e", True, "ok", vmem_bytes=40960, temp_bytes=0)
    assert len(aot.result_text(result).splitlines()) == 1
    prepared, module = aot._prepare(Module(source, "k.py"), None)
    result.predicted_vmem, result.estimate = prepared.predicted_vmem, prepared.estimate
    assert aot.result_text(result).splitlines()[1:] == [
        "  VMEM predicted: windows 40.00 KiB, inner 0 B",
        "  estimated: 12,345 cycles (7.5 us): hbm 1,600",
    ]
    other = next(chip for chip in aot.TOPOLOGIES if chip != module.info["target"])
    prepared, _ = aot._prepare(module, other)
    assert (prepared.predicted_vmem, prepared.estimate) == (None, None)


def test_of_a_pair_the_gradients_are_compiled_too():
    """Each kernel once, by what it takes; int inputs and outputs have no gradient."""
    pair = pairs.cross_entropy("bfloat16")
    module = pallasc.vjp(pair.forward, pair.backwards, **pair.wishes, target="v7x")
    result = aot.compile_one(module)
    assert result.ok, result.full
    assert len(result.kernels) == 2
    parts = module.info, *module.info["backward"]
    assert result.predicted_bytes == max(part["vmem_bytes"] for part in parts)
    assert result.vmem_bytes <= result.predicted_bytes


def test_usage_errors(cli, data):
    for arguments, status in [
        (("aot",), 2),
        (("aot", data / "dma_double.py", "--target", "v9"), 2),
        (("aot", data / "dma_double.py", "--timeout", "0"), 2),
        (("aot", "none.py"), 3),
        (("aot", __file__), 1),
    ]:
        assert cli(*arguments).returncode == status


def test_errors_before_the_worker(data, monkeypatch):
    with pytest.raises(UsageError, match="unknown target"):
        aot.compile_one(data / "dma_double.py", "v3")
    monkeypatch.setattr(aot, "_version", lambda package: "none")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (wanted,) = project["optional-dependencies"]["tpu"]
    with pytest.raises(FileError, match=f"not installed: pip install {wanted}$"):
        aot.compile_one(data / "dma_double.py", "v6e")


def test_flags_of_libtpu_are_added(monkeypatch):
    monkeypatch.delenv("LIBTPU_INIT_ARGS", raising=False)
    assert aot.worker_environment()["LIBTPU_INIT_ARGS"] == ""
    assert aot.worker_environment(["--a", "--b"])["LIBTPU_INIT_ARGS"] == "--a --b"
    monkeypatch.setenv("LIBTPU_INIT_ARGS", "--mine=1")
    assert aot.worker_environment(["--a"])["LIBTPU_INIT_ARGS"] == "--mine=1 --a"


def test_parse_overflow():
    texts = {
        "allocation with size 96.00M and limit 64.00M exceeded scoped vmem limit by 32.00M.": (
            96 << 20,
            64 << 20,
        ),
        "Used 63.95M of 63.94M vmem. Exceeded": (int(63.95 * 2**20), int(63.94 * 2**20)),
        "Allocation (size=69206016) would exceed memory (size=67108864) :: #a [space=vmem,": (
            69206016,
            67108864,
        ),
        "something else": (None, None),
    }
    for text, expected in texts.items():
        assert aot.parse_vmem_overflow(text) == expected


def test_parse_scoped():
    hlo = (
        'a = custom-call(b), custom_call_target="tpu_custom_call", x={"used_scoped_memory_configs":'
        '[{"memory_space":"1","offset":"0","size":"4096"}]}\n'
        'c = copy(d), {"used_scoped_memory_configs":[{"memory_space":"1","size":"7"}]}\n'
        'e = custom-call(f), custom_call_target="tpu_custom_call", '
        '{"used_scoped_memory_configs":[]}\n'
    )
    assert parse_scoped_vmem(hlo) == [4096, 0]


def test_arrays_that_xla_keeps_in_vmem_are_no_kernels():
    """What a kernel uses ends where the compiler says; it begins behind them."""
    given = '"scoped_memory_configs":[{"memory_space":"1","offset":"8192","size":"65536"}]'
    used = '"used_scoped_memory_configs":[{"memory_space":"1","offset":"0","size":"12288"}]'
    call = f'{{{given},"custom_call_config":{{"body":"x"}},{used}}}'
    line = f'a = custom-call(b), custom_call_target="tpu_custom_call", {call}'
    assert parse_scoped_vmem(line) == [4096]
    assert parse_serialized_vmem(f"\x01{call}\x02".encode()) == [4096]


def test_parse_serialized():
    """The configurations of custom calls only, each size once."""
    kernel = b'{"custom_call_config":{"body":"\n"},"used_scoped_memory_configs":'
    program = b'\x00{"used_scoped_memory_configs":[{"memory_space":"1","size":"7"}]}\xff'
    program += 2 * (kernel + b'[{"memory_space":"1","offset":"0","size":"4096"}]}\x01')
    assert parse_serialized_vmem(program + kernel + b"[]}") == [4096, 0]


def test_telling_lines():
    text = "Mosaic failed\n\n-----\nThe MLIR operation\n" + "x" * 500 + "\n" + "y\n" * 9
    lines = aot.telling_lines(text).split("\n")
    assert lines[:2] == ["Mosaic failed", "The MLIR operation"]
    assert len(lines) == 6 and max(map(len, lines)) == 240


def test_broken_cache_is_no_error(tmp_path, monkeypatch):
    monkeypatch.setenv("PALLASC_CACHE", "/proc/nowhere")
    aot.CACHE.store("key", aot.AotResult("k.py", "v6e"))
    assert not aot.CACHE.load("key", aot.AotResult("k.py", "v6e"))
    monkeypatch.setenv("PALLASC_CACHE", str(tmp_path))
    (tmp_path / "aot").mkdir()
    (tmp_path / "aot" / "key.json").write_text("{")
    assert not aot.CACHE.load("key", aot.AotResult("k.py", "v6e"))


def test_slices():
    """The smallest torus with as many devices; of v4 and v7x two devices are a chip."""
    found = [chips.topology(chip, n) for chip in ("v5e", "v6e") for n in (1, 4, 8, 9, 256)]
    shapes = ["2x2", "2x2", "2x4", "4x4", "16x16"]
    assert found == [f"{chip}:{shape}" for chip in ("v5e", "v6e") for shape in shapes]
    found = [chips.topology("v7x", n) for n in (8, 16, 32, 64, 256)]
    assert found == [f"tpu7x:{s}" for s in ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x8")]
    assert chips.topology("v5p", 4, "4x4x4") == "v5p:4x4x4"
    for chip, devices, shape, why in [
        ("v6e", 8, "2x2", "v6e:2x2 has 4 devices, not 8"),
        ("v6e", 8, "2x2x2", "--topology 2x2x2: expected NxN for v6e, such as 2x2"),
        ("v7x", 8, "4x0x4", "--topology 4x0x4: expected NxNxN for v7x, such as 2x2x1"),
        ("v5e", 4, "32x32", "32x32 chips are more than the largest slice of v5e has: 256 chips"),
        ("v5e", 257, None, "257 devices are more than the largest slice of v5e has: 256 chips"),
    ]:
        with pytest.raises(UsageError) as error:
            chips.topology(chip, devices, shape)
        assert str(error.value) == why
