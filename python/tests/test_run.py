import os
import signal
import subprocess
import sys
import time

import pytest
from stubs import ROOT


def test_simulated_run(cli, data):
    result = cli("run", data / "tiled_add.py", "--scalar", "scale=2")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("tiled_add on cpu, interpret mode: ")
    assert "out out: float32[40, 300]: min " in result.stdout


def test_seed_decides(cli, data):
    def digests(*arguments):
        out = cli("run", data / "dma_double.py", *arguments).stdout
        return out.split("sha256 ")[1]

    assert digests() == digests("--seed", "0") != digests("--seed", "1")


def test_from_a_pipe(cli, data):
    text = (data / "pipelined.py").read_text()
    result = cli("run", "-", stdin=text)
    assert result.returncode == 0, result.stderr


def test_errors_are_one_line(cli, data, tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("def (:\n")
    graph = tmp_path / "graph.json"
    graph.write_text('{"format": "fxtile"}')
    cases = [
        (("run", "-"), 1, "empty"),
        (("run", graph), 1, f"compile it first: pallasc {graph} -o KERNEL.py"),
        (("run", bad), 1, "not Python"),
        (("run", tmp_path / "none.py"), 3, "cannot read"),
        (("run", __file__), 1, "not a pallasc module"),
        (("run",), 2, "required"),
        (("run", data / "dma_double.py", "--seed", "x"), 2, "invalid int"),
        (("run", data / "dma_double.py", "--scalar", "a=1"), 2, "unknown scalar"),
        (("run", data / "tiled_add.py", "--scalar", "scale=abc"), 2, "not a number"),
        (("run", data / "tiled_add.py", "--scalar", "scale"), 2, "KEY=VALUE"),
        (("run", data / "tiled_add.py", "--graph", tmp_path / "g.json"), 3, "cannot read"),
        (("tune", tmp_path / "g.json"), 3, "cannot read"),
        (("tun", "g.json"), 2, "unknown command 'tun'"),
        (("--bogus",), 2, "unknown command"),
    ]
    for arguments, status, message in cases:
        result = cli(*arguments, stdin="")
        assert (result.returncode, result.stdout) == (status, ""), (arguments, result)
        assert message in result.stderr and result.stderr.count("\n") == 1, (arguments, result)


def test_kernel_that_fails(cli, data, tmp_path):
    text = (data / "dma_double.py").read_text()
    broken = tmp_path / "broken.py"
    broken.write_text(
        text.replace("rows = pl.ds(pl.multiple_of(i * 8, 8), 8)", "rows = pl.ds(i * 8 + 8, 8)")
    )
    result = cli("run", broken)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1 and "ut-of-bounds" in result.stderr


def test_help(cli):
    result = cli("--help")
    assert result.returncode == 0 and "  tune " in result.stdout
    assert cli().returncode == 2
    assert cli("--version").stdout.startswith("pallasc ")
    for command in ("run", "check", "aot", "tune", "lint"):
        assert cli(command, "--help").returncode == 0


@pytest.fixture
def interruptible():
    """Shells start what runs in the background with SIGINT ignored, and children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_interrupt_is_quiet(data, tmp_path):
    stuck = tmp_path / "stuck.py"
    text = (data / "dma_double.py").read_text()
    stuck.write_text(text.replace("fori_loop(0, 8, body", "fori_loop(0, 9, body"))
    process = subprocess.Popen(
        [sys.executable, "-m", "pallasc", "run", stuck],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
    )
    time.sleep(6)
    process.send_signal(signal.SIGINT)
    try:
        output = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, *output) == (130, "", "")


def test_closed_output_is_quiet(data):
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        [sys.executable, "-m", "pallasc", "--help"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
    )
    os.close(writer)
    assert (process.returncode, process.stderr) == (3, "")


def test_plain_interpreter(cli, data):
    """The same numbers as in TPU interpret mode."""
    slow, fast = (
        cli("run", data / "tiled_add.py", how) for how in ("--interpret", "--interpret=fast")
    )
    assert fast.returncode == 0, fast
    assert fast.stdout.split("sha256 ")[1] == slow.stdout.split("sha256 ")[1]
