"""Arrays that XLA lays out with their last two dims swapped: the kernel takes them as they lie."""

import kit

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


def test_off_without_boundary_views():
    assert operand(SPLIT_K, "y", pallas_boundary_views="off")["array_steps"] == []


def test_rows_that_pad_less_as_they_are_stay():
    """[32768, 128] is whole tiles either way."""
    text = kit.text(SPLIT_K).replace("64]", "128]").replace('"extent": 64', '"extent": 128')
    assert operand(text, "y", block_sizes=[128, 128, 1024])["array_steps"] == []


def test_ragged_rows_stay():
    """1000 is no multiple of 128: swapped, the last dim would be padded."""
    assert operand("matmul_split_k_odd", "y")["array_steps"] == []
