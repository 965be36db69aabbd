"""`pallas_load_buffer_count`: 1, 2 or 3 windows of each input that a loop copies.

Of what each point of a grid reads 3 make the grid a loop in the kernel, or a pipeline. Where the
time of the core says so there are three, of both, by themselves.
"""

import json

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


# A fori_loop of it, estimated at 20,000 cycles or more, waits for latencies.
AUTO = {"fori_loop": 3, "emit_pipeline": 2}


@pytest.mark.parametrize("loop", COPIED)
@pytest.mark.parametrize("counts", [None, [1, 1, 1], [2, 1, 3], [1, 3, 2], [2, 3, 3]])
def test_each_input_has_its_own(loop, counts):
    found = buffers(compiled("attention", loop, counts))
    _q, k, v = counts or (2, *2 * [AUTO[loop]])
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


@pytest.mark.parametrize("name", ["long_sum_512_131072", "rolled_softmax_1048576"])
def test_a_third_where_a_loop_waits_for_latencies(name):
    """HBM takes about as long for a step's window as the core computes."""
    found = kit.emitted("plan", name, target="v7x")
    assert "a third buffer of the windows that a loop copies: about " in found.err
    three, two = (
        kit.compiled(name, "v7x", **more) for more in ({}, {"pallas_load_buffer_count": [2]})
    )
    assert set(buffers(three).values()) == {3}
    assert set(buffers(two).values()) == {2}
    cycles = [m.plan["estimate"]["cycles"] for m in (three, two)]
    assert cycles[0] * 1.038 <= cycles[1]


# Two steps, with three nothing more would be on its way (x is a block of the grid); so many as data
# say.
TWO_WINDOWS = [("broadcast_matmul", "v5e", [0, 2]), ("jagged_sum_1048576_512", "v7x", [2])]


@pytest.mark.parametrize(("name", "chip", "counts"), TWO_WINDOWS)
def test_two_where_a_loop_has_few_steps(name, chip, counts):
    module = kit.compiled(name, chip)
    loops = [loop for plan in module.plan.get("kernels", [module.plan]) for loop in plan["loops"]]
    assert [[w["buffers"] for w in loop["windows"]] for loop in loops] == [counts]


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


# ---- the grid's windows: third.c -----------------------------------------------------------------

NORM = "rms_norm_4096_8192"  # blocks of 64 rows: x moves on at each point, weight stays
OF_GRID = [
    ("softmax", [16], [3]),
    ("softmax_odd", [32], [3]),
    ("layer_norm_odd", [16], [3, 2, 2]),
    ("layer_norm_bwd_odd", [32], [2, 3, 2, 2, 2]),
    ("swiglu_odd", [16, 128], [3, 3]),
    # blocks that several points change: of the whole grid, of its rows, of one point
    ("layer_norm_bwd_atomic_odd", [32], [3, 3, 2, 2, 2]),
    ("f16_layer_norm_bwd_odd", [32], [3, 2, 2, 2, 2]),
    ("tickets_odd", [48, 128], [3]),
    ("halves_of_output_odd", [16], [3, 3]),
]


def of_grid(name, blocks, counts, target="v6e"):
    config = {"block_sizes": blocks, "pallas_load_buffer_count": counts}
    return kit.compiled(name, target, **config)


def grid_buffers(module):
    return {o["ref"]: o["buffers"] for o in module.plan["operands"]}


def test_a_third_where_copies_take_about_as_long_as_a_point():
    """On v7x a point of RMS-norm computes for most of the time that HBM takes; elsewhere less."""
    two = kit.compiled(NORM, "v7x", pallas_load_buffer_count=[2, 2])
    three = kit.compiled(NORM, "v7x")
    assert grid_buffers(two) == {"x_ref": 2, "weight_ref": 2, "out_ref": 2, "rstd_ref": 2}
    assert grid_buffers(three) == {"x_ref": 3, "weight_ref": 2, "out_ref": 3, "rstd_ref": 3}
    assert "make_async_copy" not in two.source
    for scratch in ("(3, 64, 8192), jnp.bfloat16", "(3, 1, 1, 64), jnp.float32"):
        assert f"pltpu.VMEM({scratch})" in three.source
    cycles = [m.plan["estimate"]["cycles"] for m in (two, three)]
    assert 0.8 < cycles[1] / cycles[0] < 0.87
    block, row, lanes = 64 * 8192 * 2, 2 * 8192 * 2, 128 * 4
    # With two, XLA makes the weight's row in windows of its own.
    more = three.plan["vmem"]["windows"] - two.plan["vmem"]["windows"]
    assert more == 2 * block + lanes - 2 * row
    (rows,) = three.plan["grid"]
    assert rows["why"] == "one core copies the blocks of two points ahead"


# By estimate next to nothing is saved; both sum across lanes.
FEWER_BUNDLES = [("logsumexp_rows_8192_4096", "v7x"), ("softmax_8192_4096", "v6e")]


@pytest.mark.parametrize(("name", "chip"), FEWER_BUNDLES)
def test_a_third_where_rows_are_summed_for_as_long_as_copies_take(name, chip):
    two, three = kit.compiled(name, chip, pallas_load_buffer_count=[2]), kit.compiled(name, chip)
    buffers = [grid_buffers(m)["x_ref"] for m in (two, three)]
    cycles = [m.plan["estimate"]["cycles"] for m in (two, three)]
    assert (buffers, cycles[0] / cycles[1] < 1.038) == ([2, 3], True)


# Nothing goes across lanes; little is computed; computed is so much that copies do not matter.
SAME_BUNDLES = [
    ("pointwise_exp_8192", "v7x"),
    ("rms_norm_4096_8192", "v6e"),
    ("any_all_8192_4096", "v7x"),
]


@pytest.mark.parametrize(("name", "chip"), SAME_BUNDLES)
def test_two_where_a_third_gains_nothing(name, chip):
    assert set(grid_buffers(kit.compiled(name, chip)).values()) == {2}


@pytest.mark.parametrize("chip", ["v4", "v5e", "v5p", "v6e"])
def test_two_where_hbm_alone_takes_longer_or_cores_share_the_grid(chip):
    assert set(grid_buffers(kit.compiled(NORM, chip)).values()) == {2}


def test_it_is_told_of():
    told = kit.emitted("plan", NORM, target="v7x").err
    assert "a third buffer of the blocks that each point reads: about " in told


@pytest.mark.parametrize(("name", "blocks", "counts"), OF_GRID)
def test_a_third_of_the_grids_windows_is_right(name, blocks, counts):
    module = of_grid(name, blocks, counts)
    operands = module.plan["operands"]
    assert sum(o["buffers"] == 3 for o in operands if o["role"] == "input") == counts.count(3)
    assert ("def body(point, before" in module.source) != ("Buffered(3)" in module.source)
    config = {"block_sizes": blocks, "pallas_load_buffer_count": counts}
    assert simulated.wrong(kit.document(name), config, adversarial="last_row", seed=1) == []


def test_what_the_first_and_the_last_point_do_stands_around_the_pipeline():
    """Sums of all points are filled before it, and rounded behind it, not in a branch of each."""
    text = of_grid("layer_norm_bwd_odd", [32], [2, 3, 2, 2, 2]).source
    zeros, steps = text.index("dbias_acc_ref[...] = jnp.zeros("), text.index("def steps(")
    assert zeros < steps < text.index("pipeline(x_hbm") < text.index("dbias_ref[...] = ")
    assert "pl.when" not in text
    assert "program_id" in text  # rows past the array's end are masked


def test_what_the_first_and_the_last_point_do_stands_around_the_loop():
    """The same; what is summed is stored while the last results are on their way."""
    text = kit.compiled("rms_norm_bwd_4096_8192", "v7x", block_sizes=[128]).source
    order = ("dweight_acc_ref[...] = jnp.zeros(", "def body(point", "fori_loop(0, 32, body, ")
    order += ("dx_copy(31, 1).start()", "dweight_ref[...] = ", "dx_copy(31, 1).wait()")
    assert [text.index(words) for words in order] == sorted(text.index(words) for words in order)
    assert text.count("pl.when") == 3  # results go, blocks come, slots are free


def test_whole_blocks_ask_for_no_place():
    whole = kit.compiled("rms_norm_bwd_4096_8192", "v7x", block_sizes=[128])
    assert "program_id" not in whole.source


@pytest.mark.parametrize(
    ("name", "weights"), [("layer_norm", 2), ("rms_norm", 1), ("rms_norm_bwd", 2)]
)
def test_weights_of_a_thousand_columns_are_1d_there(name, weights):
    """Those that come, and the gradient of one; each that comes is made a row of once."""
    text = kit.text(f"{name}_4096_8192").replace("8192", "1024").replace("4095", "79")
    document = json.loads(text.replace("4096", "80"))
    count = sum(tensor["role"] == "input" for tensor in document["tensors"])
    config = {"block_sizes": [16], "pallas_load_buffer_count": [3] + [2] * (count - 1)}
    source = kit.compiled(document, "v6e", **config).source
    given = name == "rms_norm_bwd"
    assert source.count("pl.BlockSpec((1024,), lambda: (0,))") == given
    assert source.count("pltpu.VMEM((1024,), jnp.bfloat16)") == weights - given
    assert source.count(".reshape((1, 1024))") == weights - given
    assert simulated.wrong(document, config, seed=2) == []


@pytest.mark.parametrize("chip", ["v5e", "v7x"])
def test_the_tpu_compiler_takes_a_third_of_the_grids(chip):
    modules = [of_grid(*case, chip) for case in OF_GRID]
    modules += [kit.compiled(NORM, "v7x")] * (chip == "v7x")
    jobs = [(module, chip) for module in modules]
    for module, result in zip(modules, aot.compile_many(jobs, timeout=240), strict=True):
        assert (result.kind, result.message) == ("ok", "")
        assert 0 < result.vmem_bytes <= module.plan["vmem"]["total"]


def test_what_cannot_have_a_third_is_refused():
    """Two points: there is nothing to copy two points ahead."""
    config = {"block_sizes": [128], "pallas_load_buffer_count": [3]}
    (found,) = kit.refusal("softmax", **config, pallas_row_split=False)
    assert found["code"] == "unsupported-config"
    assert "3 windows, but the grid's pipeline keeps 1 or 2: its points are too" in found["message"]


def test_a_vectors_part_that_points_share_comes_for_each():
    """Of 64 rows a column lies in 128 lanes, which two points read."""
    module = kit.compiled("rms_norm_bwd_4096_8192", "v7x", block_sizes=[64])
    assert "rstd_hbm.at[:, pl.ds(jax.lax.div(of_point, 2) * 128, 128)]" in module.source
    found = kit.compiled("rotary_production", "v7x", pallas_load_buffer_count=[3, 3, 3])
    assert "emit_pipeline(" in found.source  # its tables are more than a part of a vector
