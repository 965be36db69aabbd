"""pallas_sliced_windows: windows of a slice are windows of the array; no slice is made."""

import kit
import pytest
import simulated

INT4 = "int4_matmul"
COPIED = {"pallas_straight_loops": "off", "pallas_fori_dma": "on", "pallas_loop_type": "fori_loop"}


def inputs_of(graph, tensor, target="v6e", **config):
    found = kit.plan(graph, target, **config)
    return [operand for operand in found["operands"] if operand["tensor"] == tensor]


def sliced(rows, columns, start, dtype="float32", blocks=(128, 256)):
    """add, whose x is 512 rows of 1024 columns of an array of rows x columns, from `start` on."""
    found = kit.document("add")
    whole = {"name": "all", "role": "input", "dtype": dtype, "shape": [rows, columns]}
    cuts = [[first, first + size, 1] for first, size in zip(start, (512, 1024), strict=True)]
    found["tensors"][0] |= {"role": "view", "of": "all", "slice": cuts}
    found["tensors"].insert(0, whole)
    for tensor in found["tensors"]:
        tensor["dtype"] = dtype
    for node in kit.nodes(found):
        if "dtype" in node.get("meta", {}):
            node["meta"]["dtype"] = dtype
    found["config"] = {"block_sizes": list(blocks)}
    return found


def test_halves_of_columns_are_windows_of_the_array():
    first, second = inputs_of(INT4, "x")
    assert first["array_steps"] == second["array_steps"] == []
    assert first["within"] == {"shape": [256, 512], "first": [0, 0]}
    assert second["within"] == {"shape": [256, 512], "first": [0, 256]}
    assert (second["shape"], second["index_map"]) == ([256, 256], ["tile_m", "1"])
    found = kit.emitted("kernel", INT4)
    assert "of [256, 512] at (tile_m, 1)" in found.out
    assert "launch kernel=0, w, x, x" in found.out
    assert "strided" not in found.out
    assert "second: its windows are those of x, further on: no slice of it is made" in found.err


def test_off_has_the_wrapper_make_them():
    first, second = inputs_of(INT4, "x", pallas_sliced_windows="off")
    assert [len(o["array_steps"]) for o in (first, second)] == [1, 1]
    assert first["within"] is second["within"] is None


def test_a_loop_copies_from_the_array_as_well():
    _, second = inputs_of(INT4, "x", **COPIED)
    assert (second["space"], second["within"]["first"]) == ("hbm", [0, 256])
    found = kit.emitted("kernel", INT4, "--verify-each", **COPIED)
    assert "i * 128 + 256 +: 128" in found.out


@pytest.mark.parametrize(
    ("rows", "columns", "start"),
    [
        (512, 2048, (0, 128)),  # between two windows of 256 columns
        (1024, 1024, (64, 0)),  # and of 128 rows
    ],
)
def test_what_starts_between_windows_is_sliced(rows, columns, start):
    (x,) = inputs_of(sliced(rows, columns, start), "all")
    assert x["within"] is None
    assert len(x["array_steps"]) == 1


def test_windows_that_are_no_whole_tiles_of_the_array_are_sliced():
    first, _ = inputs_of("int4_matmul_odd", "x")
    assert (first["within"], len(first["array_steps"])) == (None, 1)


@pytest.mark.parametrize("blocks", [(16, 256), (8, 128)])
def test_windows_are_whole_tiles_of_rows(blocks):
    """Of eight in float32, which need not be as many as there are lanes."""
    found = sliced(512, 2048, (0, 1024), blocks=blocks)
    (x,) = inputs_of(found, "all", pallas_wide_blocks="off")
    assert x["within"] == {"shape": [512, 2048], "first": [0, 1024]}


def test_a_last_window_may_not_reach_past_the_slice():
    (x,) = inputs_of(sliced(1024, 4096, (0, 768), blocks=(128, 768)), "all")
    assert x["within"] is None


@pytest.mark.parametrize("dtype", ["float16", "bool"])
def test_what_comes_otherwise_than_it_lies_is_sliced(dtype):
    found = sliced(1024, 1024, (512, 0), dtype)
    if dtype == "bool":
        for node in kit.nodes(found):
            if node.get("target") == "aten.add.Tensor":
                node["target"] = "aten.logical_and.default"
    (x,) = inputs_of(found, "all")
    assert x["within"] is None


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize(
    ("rows", "columns", "start"),
    [
        (1024, 1024, (512, 0)),
        (1000, 1100, (128, 0)),
        (512, 3072, (0, 1024)),
        (700, 1700, (128, 512)),
    ],
)
def test_values(rows, columns, start, dtype):
    found = sliced(rows, columns, start, dtype)
    (x,) = inputs_of(found, "all")
    assert x["within"]["first"] == list(start)
    assert simulated.wrong(found) == []


@pytest.mark.parametrize(
    "config",
    [
        {"pallas_loop_type": "unroll"},
        {"pallas_loop_type": "emit_pipeline", "pallas_straight_loops": "off"},
        {"pallas_loop_type": "fori_loop", "pallas_straight_loops": "off", "pallas_fori_dma": "off"},
        COPIED,
    ],
)
def test_values_of_loops(config):
    assert simulated.wrong(kit.document(INT4), config) == []
