"""`pallas_load_buffer_count`: 1, 2 (when absent) or 3 windows of each input that a loop copies."""

import kit
import pytest
import simulated
from pallasc import aot
from pallasc.errors import CompileError

COPIED = ("fori_loop", "emit_pipeline")


def configuration(loop, counts):
    config = {"pallas_loop_type": loop, "pallas_fori_dma": True}
    return config | ({"pallas_load_buffer_count": counts} if counts else {})


def compiled(name, loop, counts, target="v6e"):
    return kit.compiled(name, target, **configuration(loop, counts))


def buffers(module):
    return {w["ref"]: w["buffers"] for w in module.plan["loops"][0]["windows"]}


@pytest.mark.parametrize("loop", COPIED)
@pytest.mark.parametrize("counts", [None, [1, 1, 1], [2, 1, 3], [1, 3, 2], [2, 3, 3]])
def test_each_input_has_its_own(loop, counts):
    found = buffers(compiled("attention", loop, counts))
    _q, k, v = counts or (2, 2, 2)
    assert found == {"k_in_win": k, "v_in_win": v}


@pytest.mark.parametrize("loop", COPIED)
def test_the_buffers_are_there(loop):
    """fori_loop's own in scratch, emit_pipeline's by pipeline_mode; VMEM grows by what is added."""
    two, three = (compiled("attention", loop, [2, n, n]) for n in (2, 3))
    window = 128 * 128 * 2
    assert three.plan["vmem"]["inner"] - two.plan["vmem"]["inner"] == 2 * window
    if loop == "emit_pipeline":
        assert three.source.count("pipeline_mode=pl.Buffered(3)") == 2
        assert "Buffered" not in two.source
    else:
        assert three.source.count("pltpu.VMEM((3, 1, 128, 128), jnp.bfloat16)") == 2
        assert three.source.count("pltpu.SemaphoreType.DMA((3,))") == 2
        assert "_copy(j + 2).start()" in three.source


CASES = [
    (name, loop, counts)
    for name, counts in (
        ("attention", [1, 3, 1]),
        ("attention_b1_h2_s421_d128", [2, 3, 3]),
        ("matmul_split_k", [3, 3]),
        ("matmul_split_k", [1, 3]),
    )
    for loop in COPIED
]


@pytest.mark.parametrize(("name", "loop", "counts"), CASES)
def test_right(name, loop, counts):
    """Also where there are fewer steps than buffers: split-K has two steps."""
    config = configuration(loop, counts)
    assert simulated.wrong(kit.document(name), config, adversarial="last_row", seed=1) == []


@pytest.mark.parametrize("chip", ["v4", "v7x"])
def test_the_tpu_compiler_takes_it(chip):
    jobs = [(compiled(*case, chip), chip) for case in CASES]
    for case, result in zip(CASES, aot.compile_many(jobs, timeout=120), strict=True):
        assert (case, result.kind, result.message) == (case, "ok", "")
        assert 0 < result.vmem_bytes <= result.predicted_bytes


def test_three_of_a_grid_window_are_refused():
    with pytest.raises(CompileError, match="the grid's pipeline keeps 1 or 2"):
        compiled("attention", "fori_loop", [3, 2, 2])
