"""`check` and `run` of modules split over a mesh: the whole function, on simulated devices."""

import os
import subprocess
import sys

import kit
import pytest


def command(*arguments, **environment):
    """A command of `python -m pallasc`: its status, standard output and standard error."""
    run = [sys.executable, "-m", "pallasc", *map(str, arguments)]
    kept = {name: text for name, text in os.environ.items() if name not in ("XLA_FLAGS", "NPROC")}
    env = {**kept, "PYTHONPATH": str(kit.ROOT / "python"), **environment}
    ran = subprocess.run(run, capture_output=True, text=True, timeout=100, env=env, check=False)
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.parametrize(
    ("mesh", "blocks"),
    [("data=2,model=4", ()), ("data=2,k=2", ("--shard=tile_m=data", "--shard=tile_k=k"))],
)
def test_check_of_the_whole(mesh, blocks):
    """The command says how many devices there are to be; whole arrays go in and come out."""
    graph = kit.path("matmul_1024")
    status, out, err = command("check", graph, "--mesh", mesh, *blocks)
    assert (status, err) == (0, "")
    first, *_, last = out.splitlines()
    count = 8 if "model" in mesh else 4
    assert first.startswith(f"matmul for {count} devices of v6e, VMEM ")
    assert first.endswith(": x bfloat16[1024, 1024], y bfloat16[1024, 1024]")
    assert last == "PASS"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--mesh", "data"], "argument --mesh: expected AXIS=DEVICES, found 'data'"),
        (["--shard", "tile_m=a"], "--shard: there is no --mesh"),
        (["--mesh", "a=2", "--shard", "tile_m"], "expected BLOCK=AXIS, found 'tile_m'"),
        (["--mesh", "a=2,b=2", "--shard", "tile_m=a", "--shard", "tile_m=b"],
         "--shard: a block stands twice: give its axes as BLOCK=AXIS+AXIS"),
        (["--mesh", "a=2", "--points", "2"],
         "--points simulates one device: give it without --mesh"),
    ],
)  # fmt: skip
def test_check_refuses(options, why):
    status, _, err = command("check", kit.path("matmul_1024"), *options)
    assert status == 2
    assert why in err
    assert err.count("\n") == 1


def test_run_of_the_whole(tmp_path):
    """Against the reference of the whole graph; with too few devices, one line says what to do."""
    module = tmp_path / "matmul.py"
    graph = kit.path("matmul_1024")
    assert kit.run(graph, "--mesh", "data=2,model=2", "-o", module).status == 0
    status, out, err = command("run", module, "--graph", graph)
    lines = out.splitlines()
    assert (status, err) == (0, "")
    assert lines[1:3] == ["  in  x: bfloat16[1024, 1024]", "  in  y: bfloat16[1024, 1024]"]
    assert lines[3].startswith("  out out: bfloat16[1024, 1024]: ")
    assert lines[-1] == "PASS"
    few = "--xla_force_host_platform_device_count=2"
    status, out, err = command("run", module, XLA_FLAGS=few)
    assert (status, out) == (2, "")
    assert err.startswith("pallasc: error: jax has 2 devices, not 4: have XLA_FLAGS say")
