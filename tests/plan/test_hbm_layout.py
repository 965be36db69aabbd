"""Arrays that XLA lays out with their last two dims swapped: the kernel takes them as they lie."""

import json

import kit
import pytest
import simulated
import tiles
from builder import G

SPLIT_K = "matmul_split_k_512"


def operand(graph, tensor, **config):
    plan = kit.plan(graph, "v7x", **config)
    return next(o for o in plan["operands"] if o["tensor"] == tensor)


def test_a_narrow_right_factor_is_taken_as_it_lies():
    """y [32768, 64] bfloat16 lies as [64, 32768]: half of its tiles would be padding."""
    y = operand(SPLIT_K, "y")
    swap = {"step": "transpose", "permutation": [1, 0], "boundary": True}
    assert (y["array_steps"], y["shape"], y["block"]) == ([swap], [64, 32768], [64, 4096])
    found = kit.emitted("python", SPLIT_K, target="v7x")
    assert "jnp.transpose(y, (1, 0))" in found.out
    assert "load, load_1, (((1,), (1,)), ((), ()))" in found.out
    assert "y: taken with its last two dims swapped, as XLA lays it out" in found.err


def test_what_has_whole_lanes_stays():
    assert operand(SPLIT_K, "x")["array_steps"] == []


def test_factors_that_a_matmul_would_turn_are_taken_as_they_lie():
    """Attention of 64 columns, computed turned: q is a right factor, v a left one that turns."""
    swap = {"step": "transpose", "permutation": [0, 2, 1], "boundary": True}
    for tensor, steps in (("q_in", [swap]), ("k_in", []), ("v_in", [swap])):
        found = operand("attention_d64", tensor)["array_steps"]
        assert [step for step in found if step["step"] == "transpose"] == steps, tensor
    found = kit.emitted("python", "attention_d64", target="v7x").out
    assert "k, q, (((2,), (1,)), ((0,), (0,)))" in found
    assert "swapaxes" not in found


def narrow_factor(left):
    """x [256, 64] times y [64, 128], or y [128, 64] times x turned."""
    k = tiles.Kernel("narrow_factor", [256], {"block_sizes": [128]})
    k.tensor("x", "input", "float32", [256, 64])
    k.tensor("y", "input", "float32", [64, 128] if left else [128, 64])
    k.tensor("z", "output", "float32", [256, 128] if left else [128, 256])
    x, y = k.load("x", "u0", ":"), k.load("y", ":", ":")
    if left:
        k.store("z", k.op("aten.mm.default", x, y, shape=["u0", 128]), "u0", ":")
    else:
        turned = k.op("aten.permute.default", x, [1, 0], shape=[64, "u0"])
        k.store("z", k.op("aten.mm.default", y, turned, shape=[128, "u0"]), ":", "u0")
    return k.json()


@pytest.mark.parametrize("left", [True, False])
def test_a_left_factor_that_is_not_turned_stays(left):
    document = narrow_factor(left)
    assert operand(document, "x")["array_steps"] == ([] if left else [SWAPPED])
    assert simulated.wrong(json.loads(document), target="v7x") == []


def test_off_without_boundary_views():
    assert operand(SPLIT_K, "y", pallas_boundary_views="off")["array_steps"] == []


def test_rows_that_pad_less_as_they_are_stay():
    """[32768, 128] is whole tiles either way."""
    text = kit.text(SPLIT_K).replace("64]", "128]").replace('"extent": 64', '"extent": 128')
    assert operand(text, "y", block_sizes=[128, 128, 1024])["array_steps"] == []


def test_ragged_rows_stay():
    """1000 is no multiple of 128: swapped, the last dim would be padded."""
    assert operand("matmul_split_k_odd", "y")["array_steps"] == []


# ---- what is written -----------------------------------------------------------------------------


SWAPPED = {"step": "transpose", "permutation": [1, 0], "boundary": True}


def test_a_narrow_output_is_given_as_it_lies():
    """out [512, 64]: turned where it is added up, and for nothing by the wrapper."""
    out = operand(SPLIT_K, "out")
    assert (out["array_steps"], out["shape"], out["block"]) == ([SWAPPED], [64, 512], [64, 128])
    found = kit.emitted("python", SPLIT_K, target="v7x")
    assert "return jnp.transpose(out, (1, 0))" in found.out
    assert "out_acc_ref[...] + jnp.swapaxes(acc_2, -1, -2)" in found.out
    assert "out: given with its last two dims swapped, as XLA lays it out" in found.err


def test_a_turned_sum_is_not_turned_back():
    """Attention of 64 columns, computed turned, is written as it was computed."""
    found = kit.emitted("python", "attention_d64", target="v7x")
    assert "jnp.transpose(out, (0, 2, 1))" in found.out
    assert "swapaxes" not in found.out


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("shape, blocks", [([256, 64], [128, 64]), ([2, 128, 8], [1, 128, 8])])
def test_values_of_a_narrow_output(dtype, shape, blocks):
    document = tiles.widened(dtype, shape, blocks)
    assert operand(document, "y")["array_steps"][-1]["step"] == "transpose"
    assert simulated.wrong(json.loads(document), target="v7x") == []


def test_tiles_narrower_than_the_output_stay():
    """Half of the columns, or half of a register of rows."""
    for blocks in ([128, 32], [64, 64]):
        steps = operand(tiles.widened("float32", [256, 64], blocks), "y")["array_steps"]
        assert [step["step"] for step in steps if step["step"] == "transpose"] == []


def test_an_output_that_the_kernel_reads_stays():
    k = tiles.Kernel("read_back", [256], {"block_sizes": [128]})
    k.tensor("x", "input", "float32", [256, 64])
    k.tensor("y", "output", "float32", [256, 64])
    k.tensor("z", "output", "float32", [256, 64])
    k.store("y", k.load("x", "u0", ":"), "u0", ":")
    k.store("z", k.load("y", "u0", ":"), "u0", ":")
    document = k.json()
    assert operand(document, "y")["array_steps"] == []
    assert operand(document, "z")["array_steps"] == [SWAPPED]


def test_what_each_step_of_a_loop_writes_stays():
    """It would be turned in each step."""
    widened = json.loads(tiles.widened("float32", [2, 256, 64], [1, 128, 64]))
    loop, root = G(1, "for_loop", block_ids=[1]), G(0, grid=[0, 2])
    loop.raw["nodes"] = kit.nodes(widened)
    root.call("tile.for_loop", 1, [0], [256], [], meta={"tuple": []}, name="loop")
    document = json.dumps(widened | {"graphs": [loop.raw, root.out().raw]})
    assert operand(document, "y")["array_steps"] == []


def test_what_takes_long_to_turn_stays():
    """More registers than XLA's copy takes, at once or in 64 parts of out."""
    assert operand(tiles.widened("bfloat16", [8192, 64], [128, 64]), "y")["array_steps"] == []
    assert operand(SPLIT_K, "out", split_k=64)["array_steps"] == []
    assert operand(SPLIT_K, "out", split_k=8)["array_steps"] == [SWAPPED]


def norm(dtype, columns=512, rows=256):
    """x scaled by its rows' sums, times a vector."""
    k = tiles.Kernel("norm", [rows], {"block_sizes": [32]})
    k.tensor("x", "input", "float32", [rows, columns])
    k.tensor("weight", "input", dtype, [columns])
    k.tensor("out", "output", "float32", [rows, columns])
    x, shape = k.load("x", "u0", ":"), ["u0", columns]
    total = k.op("aten.sum.dim_IntList", x, [1], True, shape=["u0", 1])
    weight = k.convert(k.load("weight", ":"), "float32")
    scaled = k.op("aten.mul.Tensor", x, total, shape=shape)
    k.store("out", k.op("aten.mul.Tensor", scaled, weight, shape=shape), "u0", ":")
    return k.json()


def fused(graph, **config):
    """Whether XLA is asked to make `weight` in VMEM."""
    lines = kit.emitted("kernel", graph, **config).out.splitlines()
    return next(line for line in lines if "in weight_" in line).endswith(" fused")


@pytest.mark.parametrize("dtype", ["bfloat16", "int16", "int8", "float8_e5m2", "float8_e4m3fn"])
def test_rows_of_narrow_elements_are_made_in_vmem(dtype):
    """As [1, N] they lie otherwise in HBM than as [N]: XLA would copy them before the kernel."""
    assert fused(norm(dtype))
    found = kit.emitted("python", norm(dtype)).out
    assert "allow_input_fusion=[False, True]," in found
    assert simulated.wrong(json.loads(norm(dtype))) == []


def test_other_rows_are_not():
    """What lies in HBM as the kernel wants it, is padded, or is read by a pipeline of its own."""
    assert not fused(norm("float32"))
    assert not fused(norm("bfloat16", columns=500))
    assert not fused(norm("bfloat16"), pallas_load_buffer_count=[3, 2])
