"""Variances of dims whose size the configuration decides, less any correction."""

import kit
import pytest
from builder import Doc, G, f32, sym
from simulated import wrong


def variances(columns, correction, scalars=None):
    """y[m] = the variance of the tile x[m, n], all of whose columns one grid point has."""
    doc = Doc(config={"block_sizes": [8, columns]}, scalars=scalars)
    doc.tensor("x", "input", "float32", [16, columns]).tensor("y", "output", "float32", [16])
    doc.block(16).block(columns)
    g = G(0, grid=[0, 1])
    x = g.load("x", [sym("u0"), sym("u1")], f32("u0", "u1"))
    var = g.call("aten.var.correction", x, [1], correction=correction, meta=f32("u0"))
    g.store("y", [sym("u0")], var)
    return doc.add(g.out())


@pytest.mark.parametrize(("columns", "correction"), [(2, 1.5), (2, 1), (128, 2.5), (128, 0)])
def test_the_count_less_the_correction(columns, correction):
    """2 less 1.5 is a half: the divisor is not cut off at 1."""
    assert wrong(variances(columns, correction)) == []


def test_a_scalar_that_nothing_reads_is_no_operand():
    scalars = [{"name": "unread", "dtype": "float32"}]
    found = kit.plan(variances(128, 0, scalars))
    assert [o["ref"] for o in found["operands"] if "unread" in o["ref"]] == []
