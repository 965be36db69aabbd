"""reduction_loops where nobody chose it: src/driver/choose_rows.c. Long rows, planned only."""

import json
import re

import kit
import numpy as np
import pytest
from builder import Doc, G, f32, sl, sym
from pallasc import execute
from pallasc.errors import CompileError

ROWS = 64


def long_rows(graph, columns, **config):
    """The document of a graph whose rows [256, 1024] become [64, columns], with `config`."""
    document = dict(kit.document(graph), config={})
    text = re.sub(r"\b1024\b", str(columns), json.dumps(document))
    return dict(json.loads(re.sub(r"\b256\b", str(ROWS), text)), config=config)


def loops(document, chip="v7x"):
    """The reduction_loops in force; None where nothing chose."""
    return kit.plan(document, chip)["config"].get("reduction_loops")


@pytest.mark.parametrize("graph", ["softmax", "layer_norm"])
def test_rows_that_do_not_fit_are_rolled(graph):
    assert loops(long_rows(graph, 1 << 20)) == [4096]
    assert loops(long_rows(graph, 1 << 17)) is None


def test_whole_rows_stay_where_the_chip_holds_them():
    assert loops(long_rows("softmax", 1 << 20), "v6e") is None
    assert loops(long_rows("softmax", 1 << 18), "v4") == [4096]


def test_blocks_divide_the_row_if_they_can():
    """128 * 23 is the widest below 4096 that divides; of 1000003, a prime, none does."""
    assert loops(long_rows("softmax", 128 * 23 * 356)) == [128 * 23]
    assert loops(long_rows("softmax", 1000003)) == [4096]


def test_more_rows_at_a_time_are_narrower_blocks():
    assert loops(long_rows("softmax", 1 << 20, block_sizes=[8])) == [16384]
    assert loops(long_rows("softmax", 1 << 20, block_sizes=[64])) == [2048]


def test_what_is_asked_for_stays_and_its_refusal_names_the_blocks():
    with pytest.raises(CompileError, match=r"these fit: .*reduction_loops=\[16384\]"):
        loops(long_rows("softmax", 1 << 20, block_sizes=[8], reduction_loops=[None]))
    document = long_rows("softmax", 1 << 20, block_sizes=[8], reduction_loops=[1024])
    assert loops(document) == [1024]


def test_the_choice_gives_the_same_plan_again():
    document = long_rows("layer_norm", 1 << 20)
    plan = kit.plan(document, "v7x")
    again = kit.plan(dict(document, config={}), "v7x", **plan["config"])
    assert again["accesses"] == plan["accesses"]
    assert again["loops"] == plan["loops"]


@pytest.mark.parametrize("unbiased, divisor", [(True, 255), (False, 256)])
def test_a_count_stays_that_of_the_row(unbiased, divisor):
    """What is computed of the row's size does not become the block's."""
    doc = Doc({"block_sizes": [8], "reduction_loops": [128]}, name="variance", scalars=None)
    doc.tensor("x", "input", "float32", [16, 256]).tensor("out", "output", "float32", [16])
    doc.block(256, "columns", reduction=True).block(16, "rows")
    g = G(0, grid=[1])
    x = g.load("x", [sym("u1"), sl()], f32("u1", "u0"))
    g.store("out", [sym("u1")], g.call("aten.var.dim", x, [-1], unbiased, meta=f32("u1")))
    document = doc.add(g.out())
    x = np.random.default_rng(0).standard_normal((16, 256), "float32")
    (found,) = execute.run(kit.emitted("kernel", document).out, x)
    expected = x.astype("float64").var(axis=1) * 256 / divisor
    np.testing.assert_allclose(found, expected, rtol=1e-5)
