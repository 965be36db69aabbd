"""Floors by hand, and that no stored cycles are below them."""

import numpy as np
import proof
import pytest
from pallasc.profile import chips, floor

from coverage import floors, results
from coverage import row as coverage

FOUND = results.Results()
ROWS = {row.name: row for row in coverage.rows()}
# Bytes that HBM moves in a cycle of v7x: 3.7e12 a second at 1.155e15 / 524,288 Hz.
V7X_BYTES = 3.7e12 * 524288 / 1.155e15


@pytest.mark.parametrize("row", coverage.rows(), ids=lambda row: row.name)
def test_no_cycles_are_below_the_floor(row):
    for chip, entry in FOUND.part(row, "cycles").items():
        assert entry["cycles"] is None or entry["cycles"] >= floors.cycles(row, chip), chip


@pytest.mark.parametrize(
    "name, wanted",
    [
        # 2 * 4096**3 FLOP, of which v7x has 524,288 in a cycle, of int8 as many, of float8 twice.
        ("matmul", 262144),
        ("matmul, int8, scales of rows and columns", 262144),
        ("matmul, float8, two scales", 131072),
        # 3 * 8192**2 elements of bfloat16.
        ("add", 402653184 / V7X_BYTES),
        # p, m, v of float32 are read and written, g of bfloat16 is read.
        ("AdamW in place", 8192 * 4096 * (3 * 8 + 2) / V7X_BYTES),
        # Two matmuls of 16 heads, 4096 * 4097 / 2 pairs, head dim 128.
        ("causal attention", 2 * 2 * 16 * 8390656 * 128 / 524288),
        # 1024 keys for each of 32 * 8192 queries, but for the first 1024 of a head.
        ("attention, sliding window", 2 * 2 * 32 * (1024 * 8192 - 523776) * 128 / 524288),
        # A row of 4096 float32 is read, one is written.
        ("positions at run time", 2 * 4096 * 4 / V7X_BYTES),
    ],
)
def test_by_hand(name, wanted):
    assert floors.cycles(ROWS[name], "v7x") == pytest.approx(wanted)


def needs_of(name, data, **shapes):
    """What a row needs of given data."""
    return ROWS[name].needs(shapes, data)


def test_groups_without_rows_need_no_weights():
    """Of four groups two have rows: 3 of one, 5 of another."""
    data = {"offsets": np.array([0, 3, 3, 8, 8], np.int32)}
    shapes = {"x": [8, 16], "w": [4, 16, 32], "scales": [4, 32]}
    needs = needs_of("grouped matmul, int8 weights", data, **shapes)
    assert needs.elements == {"w": 2 * 16 * 32, "scales": 2 * 32}
    assert needs.flops == {"bfloat16": 2 * 8 * 16 * 32}


def test_pages_are_needed_up_to_the_end_of_a_sequence():
    """Pages of 4 tokens: 5, none that is new, and 9 tokens; one page is shared and counts once."""
    data = {
        "lengths": np.array([5, 3, 9], np.int32),
        "table": np.array([[0, 1, 7], [2, 7, 7], [1, 3, 4]], np.int32),
        "starts": np.array([0, 2, 2, 3], np.int32),
    }
    shapes = {"q": [2, 10, 3, 8], "k_pages": [2, 16, 4, 8]}
    needs = needs_of("ragged paged attention", data, **shapes)
    # Page 0 and one token of page 1; all of pages 1, 3, one token of page 4.
    tokens = 4 + 4 + 4 + 1
    pages = {"k_pages": 2 * 8 * tokens, "v_pages": 2 * 8 * tokens}
    assert needs.elements == pages | {"q": 2 * 3 * 8 * 3, "table": 2 + 3}
    # Of the first sequence tokens 3 and 4 see 4 and 5, of the last token 8 sees 9.
    assert needs.flops == {"bfloat16": 4 * 2 * 3 * 8 * (4 + 5 + 9)}


def test_rows_in_no_list_are_not_needed():
    """Lists 2 -> 0 and 4, and an empty one, over five rows."""
    data = {"link": np.array([-1, -1, 0, -1, -1]), "first": np.array([2, -1, 4])}
    needs = needs_of("sums of the rows of linked lists", data, x=[5, 7])
    assert needs.elements == {"x": 3 * 7, "link": 3}


@pytest.mark.parametrize("name", ["matmul_4096", "gqa_attention_8192", "fused_linear_jsd_8192"])
def test_flops_are_those_of_the_plan(name):
    """Where blocks divide what they tile, and nothing is computed twice."""
    plan = proof.module(proof.Case(name), "v7x").plan
    assert floor.matmul_flops(proof.document(name)) == {"bfloat16": plan["flops"]}


def test_flops_have_no_padding():
    """K = 300 is three blocks of 128 to the plan."""
    assert floor.matmul_flops(proof.document("matmul_k300_4096")) == {
        "bfloat16": 2 * 4096 * 4096 * 300
    }


def test_flops_that_data_says_are_asked_for():
    with pytest.raises(floor.SteeredError):
        floor.matmul_flops(proof.document("ragged_paged_2048_128"))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int8", "float8_e4m3fn"])
@pytest.mark.parametrize("chip", results.CHIPS)
def test_rates(chip, dtype):
    """Matmuls of narrow factors are faster where the matrix units have them."""
    fast = {("v5e", "int8"), ("v6e", "int8"), ("v7x", "float8_e4m3fn")}
    flops = chips.CHIPS[chip].flops_per_cycle
    rate = 2 if (chip, dtype) in fast else 1
    assert floor.cycles(chip, 0, {dtype: 1000 * flops}) == 1000 / rate


def test_bytes():
    assert floor.array_bytes("int4", [3, 4]) == 6
    assert floor.array_bytes("float8_e4m3fn", [3, 4]) == 12
    assert floor.array_bytes("bool", [5]) == 5
    assert floor.cycles("v7x", 1e6, {}) == pytest.approx(1e6 / V7X_BYTES)
