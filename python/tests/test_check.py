import json
import time

import numpy as np
import pytest
from pallasc.module import read_module
from pallasc.simulate import huge_memory, interpret_params, parse_races, simulate
from stubs import doubling_graph


@pytest.fixture
def check(cli, stub_library, tmp_path):
    graph = tmp_path / "g.json"
    graph.write_text(json.dumps(doubling_graph()))

    def run(module, *arguments):
        env = {"PALLASC_LIBRARY": str(stub_library), "STUB_SOURCE": str(module)}
        return cli("check", graph, *arguments, env=env)

    return run


def test_pass(check, data):
    result = check(data / "dma_double.py")
    assert result.returncode == 0, result
    assert result.stdout.endswith("PASS\n")
    assert "  out:  ok: max error 0 " in result.stdout
    result = check(data / "dma_double.py", "--adversarial", "--no-race", "--seed", "3")
    assert result.returncode == 0, result
    assert "inputs: seed 3, past_edge" in result.stdout


def test_race_is_detected(check, data):
    result = check(data / "dma_racy.py")
    assert result.returncode == 1
    assert "race in vmem: write at dma_racy.py:" in result.stdout
    assert result.stdout.endswith("FAIL\n")
    assert check(data / "dma_racy.py", "--no-race").returncode == 0


def test_off(check, data, tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text((data / "dma_double.py").read_text().replace("* 2.0", "* 2.001"))
    result = check(wrong)
    assert result.returncode == 1 and "OFF" in result.stdout


def test_uninitialised_memory_shows(check, data, tmp_path):
    lazy = tmp_path / "lazy.py"
    text = (data / "dma_double.py").read_text()
    lazy.write_text(text.replace("fori_loop(0, 8, body", "fori_loop(0, 7, body"))
    result = check(lazy)
    assert result.returncode == 1
    assert "nan" in result.stdout


def test_dma_that_nothing_waits_for(check, data, tmp_path):
    loose = tmp_path / "loose.py"
    text = (data / "dma_double.py").read_text()
    loose.write_text(text.replace("    copy(0, 0).start()\n", "    copy(0, 0).start()\n" * 2))
    result = check(loose, "--adversarial", "--no-race")
    assert result.returncode == 1
    assert "Semaphore" in result.stdout.split("eager DMA")[1]


def test_out_of_bounds_is_an_error(check, data, tmp_path):
    far = tmp_path / "far.py"
    text = (data / "dma_double.py").read_text()
    far.write_text(
        text.replace("rows = pl.ds(pl.multiple_of(i * 8, 8), 8)", "rows = pl.ds(i * 8 + 8, 8)")
    )
    result = check(far)
    assert result.returncode == 1
    assert "ut-of-bounds" in result.stderr and result.stderr.count("\n") == 1


def test_deadlock_ends(check, data, tmp_path):
    stuck = tmp_path / "stuck.py"
    text = (data / "dma_double.py").read_text()
    stuck.write_text(text.replace("fori_loop(0, 8, body", "fori_loop(0, 9, body"))
    started = time.monotonic()
    result = check(stuck, "--timeout", "6")
    assert time.monotonic() - started < 8  # it is killed, whatever it does
    assert result.returncode == 1
    assert "did not end within 6 s: " in result.stderr and result.stderr.count("\n") == 1
    assert check(stuck, "--timeout", "-1").returncode == 2


def test_usage(check, data, cli, tmp_path):
    module = data / "dma_double.py"
    assert check(module, "--set", "x").returncode == 2
    assert check(module, "--config", tmp_path / "none.json").returncode == 3
    assert check(module, "--target", "bad").returncode == 2
    assert check(module, "--scalar", "a=1").returncode == 2
    assert cli("check", tmp_path / "none.json").returncode == 3
    refused = tmp_path / "refuse.json"
    refused.write_text('{"refuse": 1}')
    result = cli("check", refused, env={"PALLASC_LIBRARY": str(tmp_path / "none.so")})
    assert result.returncode == 3 and "run `make`" in result.stderr


def test_run_against_a_graph(cli, data, tmp_path):
    graph = tmp_path / "g.json"
    graph.write_text(json.dumps(doubling_graph()))
    result = cli("run", data / "dma_double.py", "--graph", graph)
    assert result.returncode == 0 and result.stdout.endswith("PASS\n"), result
    wrong = tmp_path / "wrong.py"
    wrong.write_text((data / "dma_double.py").read_text().replace("* 2.0", "* 2.001"))
    result = cli("run", wrong, "--graph", graph)
    assert result.returncode == 1 and result.stdout.endswith("FAIL\n"), result
    graph.write_text("{}")
    assert cli("run", data / "dma_double.py", "--graph", graph).returncode == 2


def test_simulate_recovers_after_a_failure(data):
    text = (data / "dma_double.py").read_text()
    broken = type(read_module(data / "dma_double.py"))(
        text.replace("rows = pl.ds(pl.multiple_of(i * 8, 8), 8)", "rows = pl.ds(i * 8 + 8, 8)")
    )
    x = np.ones((64, 128), np.float32)
    with pytest.raises(Exception, match="ut-of-bounds"):
        simulate(broken.load(), [x], interpret_params())
    good = simulate(read_module(data / "dma_double.py").load(), [x], interpret_params())
    assert np.array_equal(good.outputs[0], x * 2) and not good.races


def test_races_name_both_places(data):
    module = read_module(data / "dma_racy.py")
    x = np.ones((64, 128), np.float32)
    races = simulate(module.load(), [x], interpret_params()).races
    lines = module.source.split("\n")
    write = next(i for i, line in enumerate(lines, 1) if "copy(i + 1, 0).start()" in line)
    read = next(i for i, line in enumerate(lines, 1) if "x_buffer[0] * 2.0" in line)
    assert races == [f"race in vmem: write at dma_racy.py:{write}, read at dma_racy.py:{read}"]
    assert parse_races("nothing") == []
    assert parse_races("RACE DETECTED\n garbage") == ["race: garbage"]


def test_huge_memory_shows_a_maximum_without_a_mask():
    """NaN that nothing wrote is dropped by a maximum on a CPU; 2**100 is not."""
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    def kernel(x_ref, out_ref, scratch_ref):
        scratch_ref[:, :100] = x_ref[:, :100]
        out_ref[...] = jnp.max(scratch_ref[...], axis=1, keepdims=True)

    def run(x, interpret):
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((8, 1), jnp.float32),
            scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
            interpret=interpret,
        )(x)

    x = jnp.ones((8, 128), jnp.float32)
    with huge_memory():
        (huge,) = simulate(run, [x], interpret_params()).outputs
    (plain,) = simulate(run, [x], interpret_params()).outputs
    assert (huge == 2.0**100).all()
    assert not (plain == 2.0**100).any()
