"""Helion's kernels through pallasc: calls, results, writes, refusals, tuning, and back again."""

import os
import re
import sys

import helion
import helion.language as hl
import pallasc.helion
import pytest
import torch
from helion.runtime.kernel import BoundKernel
from pallasc.errors import UsageError
from pallasc.helion.calls import RefusedError

OWN = {name: BoundKernel.__dict__[name] for name in ("__init__", "compile_config", "to_code")}
BIAS = torch.arange(128.0)


def kernel(fn, **settings):
    """A kernel as one that is decorated after `use` is."""
    configs = settings.pop("configs", [])
    return helion.Kernel(
        fn, configs=configs, settings=helion.Settings(backend="pallas", **settings)
    )


def plain(fn, **settings):
    """A kernel with no configuration that is not to be tuned."""
    return kernel(fn, autotune_effort="none", **settings)


@pytest.fixture
def used(monkeypatch, tmp_path):
    """pallasc in the place of Helion's backend, for one test; its cache of tuning is empty."""
    monkeypatch.setenv("HELION_CACHE_DIR", str(tmp_path))
    pallasc.helion.use("v6e")
    yield
    pallasc.helion.stop()


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        out[tile] = x[tile] + y[tile]
    return out


def scale_in_place(x: torch.Tensor, factor: float = 2.0):
    for tile in hl.tile(x.size(0)):
        x[tile, :] = x[tile, :] * factor


def scale_and_sum(x: torch.Tensor):
    total = torch.empty([x.size(0)], dtype=torch.float32)
    for tile in hl.tile(x.size(0)):
        row = x[tile, :] * 2.0
        x[tile, :] = row
        total[tile] = row.sum(-1)
    return {"total": total, "nothing": None, "both": [x, total]}


def matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    m, k = x.size()
    k, n = y.size()
    out = torch.empty([m, n], dtype=x.dtype)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc.to(x.dtype)
    return out


def greatest(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0)], dtype=torch.int64)
    for tile in hl.tile(x.size(0)):
        out[tile] = torch.argmax(x[tile, :], dim=-1)
    return out


def picked(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    n, v = x.size()
    flat = x.view(-1)
    out = torch.empty([n], dtype=x.dtype)
    for tile in hl.tile(n):
        out[tile] = hl.load(flat, [tile.index * v + labels[tile]])
    return out


def first_rows(x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    out = torch.empty([ends[1].item(), x.size(1)], dtype=x.dtype)
    for tile in hl.tile(out.size(0)):
        out[tile, :] = x[tile, :] * 2.0
    return out


def biased(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile] + BIAS[tile]
    return out


def of_a_product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    product = x @ y
    out = torch.empty_like(product)
    for tile in hl.tile(out.size()):
        out[tile] = product[tile] * 2.0
    return out


def rows(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    out = torch.empty([at.size(0), x.size(1)], dtype=x.dtype)
    for tile in hl.tile(at.size(0)):
        out[tile, :] = x[at[tile], :]
    return out


def noise(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        out[tile] = x[tile] + torch.rand_like(x[tile])
    return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int32])
def test_a_call_gives_what_torch_gives(used, dtype):
    x, y = (torch.arange(start, start + 24 * 130).reshape(24, 130).to(dtype) for start in (0, 7))
    assert torch.equal(plain(add)(x, y), x + y)


def test_what_a_kernel_writes_is_written_and_nothing_is_returned(used):
    x = torch.randn(24, 128)
    written, times_three = x.clone(), x.clone()
    scale = plain(scale_in_place)
    assert scale(written) is None
    assert scale(times_three, factor=3.0) is None
    assert torch.equal(written, x * 2.0)
    assert torch.equal(times_three, x * 3.0)


def test_results_stand_as_the_kernel_returns_them(used):
    x = torch.arange(16 * 128.0).reshape(16, 128)
    given = x.clone()
    result = plain(scale_and_sum)(given)
    assert set(result) == {"total", "nothing", "both"} and result["nothing"] is None
    assert result["both"][0] is given and torch.equal(given, x * 2)
    torch.testing.assert_close(result["total"], (x * 2).sum(-1))
    assert torch.equal(result["both"][1], result["total"])


def test_other_arguments_are_compiled_for_once(used):
    scale = plain(scale_in_place)
    for rows, factor in ((8, 2.0), (16, 2.0), (8, 2.0), (8, 5.0)):
        x = torch.ones(rows, 128)
        scale(x, factor)
        assert torch.equal(x, torch.full((rows, 128), factor))
    rows = pallasc.helion.table()
    assert [(r.arguments, r.by) for r in rows] == [
        ("float32[8, 128], 2.0", "pallasc"),
        ("float32[16, 128], 2.0", "pallasc"),
        ("float32[8, 128], 5.0", "pallasc"),
    ]
    assert str(rows).splitlines()[0].split() == ["compiled", "by", "kernel", "why"]


def test_one_bound_kernel_takes_other_sizes_where_its_shapes_are_not_static(used):
    double = plain(add, static_shapes=False)
    bound = double.bind((torch.ones(24, 130), torch.ones(24, 130)))
    for rows, columns in ((24, 130), (40, 200)):
        x = torch.randn(rows, columns)
        assert torch.equal(double(x, x), x + x)
        assert torch.equal(bound(x, x), x + x)


def test_ints_of_64_bits_go_in_and_come_out(used):
    x = torch.randn(24, 300)
    found = plain(greatest)(x)
    assert found.dtype == torch.int64 and torch.equal(found, x.argmax(-1))
    labels = torch.randint(0, 300, (24,))
    take = plain(picked)
    assert torch.equal(take(x, labels), x[torch.arange(24), labels])
    labels[3] = 0
    assert torch.equal(take(x, labels), x[torch.arange(24), labels])
    assert "def picked(x, labels" in take.bind((x, labels)).to_code()


def test_sizes_that_hang_on_values_are_compiled_for_those(used):
    first = plain(first_rows)
    x = torch.randn(40, 128)
    for count in (8, 24, 8):
        assert torch.equal(first(x, torch.tensor([3, count])), x[:count] * 2)
    assert len(pallasc.helion.table()) == 1


def test_a_captured_tensor_is_read_as_it_is_now(used, monkeypatch):
    shift = plain(biased)
    x = torch.randn(128)
    assert torch.equal(shift(x), x + BIAS)
    monkeypatch.setattr(sys.modules[__name__], "BIAS", torch.full((128,), 3.0))
    assert torch.equal(shift(x), x + 3.0)


def test_random_numbers_are_new_for_each_call(used):
    draw, x = plain(noise), torch.zeros(16, 128)
    first, second = draw(x), draw(x)
    assert not torch.equal(first, second)
    assert first.min() >= 0 and first.max() < 1 and 0.4 < first.mean() < 0.6


def test_the_code_is_a_module_that_needs_jax_alone(used):
    x = torch.randn(32, 256)
    bound = plain(add).bind((x, x))
    code = bound.to_code(bound.config_spec.default_config())
    assert code.startswith('"""add: a Pallas TPU kernel for v6e, made by pallasc')
    imports = [line for line in code.splitlines() if re.match(r"(import|from) ", line)]
    assert {line.split()[1].split(".")[0] for line in imports} == {"functools", "warnings", "jax"}


def test_configurations_are_obeyed_or_adapted(used):
    x, y = torch.randn(64, 200).bfloat16(), torch.randn(200, 256).bfloat16()
    config = helion.Config(block_sizes=[32, 128, 128])
    bound = kernel(matmul, configs=[config]).bind((x, y))
    assert '"block_sizes": [32, 128, 128]' in bound.to_code()
    assert pallasc.helion.table()[-1].config["block_sizes"] == [32, 128, 128]


def test_rows_of_a_table_larger_than_vmem_are_compiled(used):
    x, at = torch.randn(40000, 128), torch.randint(0, 40000, (32,), dtype=torch.int32)
    assert torch.equal(plain(rows)(x, at), x[at])


def test_a_refusal_is_one_of_helions_errors_with_the_place(used):
    x = torch.eye(128)
    with pytest.raises(helion.exc.Base, match=r"test_helion_use.py:\d+: .*pass its result") as told:
        plain(of_a_product)(x, x)
    assert isinstance(told.value, RefusedError)
    (row,) = pallasc.helion.table()
    assert row.by == "" and row.why == str(told.value)


def test_helions_own_backend_compiles_what_is_refused_on_request(used):
    pallasc.helion.use("v6e", fallback=True)
    x = torch.eye(128)
    double = plain(of_a_product)
    assert torch.equal(double(x, x), x * 2)
    (row,) = pallasc.helion.table()
    assert row.by == "helion" and "pass its result" in row.why
    assert "default_pallas_launcher" in double.bind((x, x)).to_code()


def test_the_autotuner_searches_by_estimates(used, monkeypatch):
    x, y = torch.randn(512, 512).bfloat16(), torch.randn(512, 512).bfloat16()
    tuned = kernel(matmul, autotune_random_seed=1, autotune_effort="quick")
    bound = tuned.bind((x, y))
    config = bound.autotune((x, y))
    best = bound._run.estimate((x, y))
    bound.set_config(helion.Config(block_sizes=[128, 128, 128]))
    assert best < 0.8 * bound._run.estimate((x, y))
    bound.set_config(config)
    assert bound._run.estimate((x, y)) == best
    assert len(pallasc.helion.table()) <= 3  # those that were only looked at are not in it


def test_arrays_of_jax_go_through_jax_fn(used):
    import jax
    import jax.numpy as jnp

    x = jnp.arange(16 * 128.0).reshape(16, 128)
    call = kernel(add, configs=[helion.Config(block_sizes=[16, 128])]).jax_fn
    assert (call(x, x) == x * 2).all()
    assert (jax.jit(call)(x, x) == x * 2).all()


def test_kernels_of_other_backends_are_left_alone(used):
    x = torch.randn(16, 128)
    eager = helion.Kernel(
        add, configs=[], settings=helion.Settings(backend="triton", ref_mode=helion.RefMode.EAGER)
    )
    assert torch.equal(eager(x, x), x + x)
    assert pallasc.helion.table() == []


def test_stop_leaves_helion_as_it_was(monkeypatch):
    monkeypatch.delenv("HELION_PALLAS_INTERPRET", raising=False)
    monkeypatch.delenv("HELION_BACKEND", raising=False)
    pallasc.helion.use()
    assert os.environ["HELION_BACKEND"] == "pallas"
    assert BoundKernel.compile_config is not OWN["compile_config"]
    pallasc.helion.stop()
    assert {name: BoundKernel.__dict__[name] for name in OWN} == OWN
    assert "HELION_BACKEND" not in os.environ and "HELION_PALLAS_INTERPRET" not in os.environ
    assert pallasc.helion.table() == []


def test_what_use_cannot_do_is_said(monkeypatch):
    with pytest.raises(UsageError, match="no chip 'v9': there are v4, v5e, v5p, v6e, v7x"):
        pallasc.helion.use("v9")
    monkeypatch.setenv("HELION_BACKEND", "triton")
    with pytest.raises(UsageError, match="HELION_BACKEND is triton"):
        pallasc.helion.use()
