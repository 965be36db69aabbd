"""Tensors that the wrapper computes of others before the kernel."""

import kit
import numpy as np
import pytest
from builder import Doc, G, sl, sym, t
from simulated import wrong

ALL = sl()
VIEW, CONVERT = "aten.view.default", "prims.convert_element_type.default"


def scaled(ops, shape, dtype="float32", of=(40, 256), index=None, role="input"):
    """out[m] = x[m] + d, which ops make of x; an `inout` becomes 0."""
    doc, g = Doc(name="derived", config={"block_sizes": [16]}), G(0, grid=[0])
    doc.block(of[0], "tile")
    doc.tensor("x", role, dtype, list(of)).tensor("out", "output", dtype, list(of))
    doc.tensor("d", "derived", dtype, list(shape), of="x", ops=ops)
    x = g.load("x", [sym("u0"), ALL], t(dtype, "u0", of[1]))
    d = g.load("d", index or [ALL] * len(shape), t(dtype, *(shape if index is None else [of[1]])))
    total = g.call("aten.add.Tensor", x, d, meta=t(dtype, "u0", of[1]))
    g.store("out", [sym("u0"), ALL], total)
    if role == "inout":
        zeros = g.call("aten.mul.Tensor", x, 0, meta=t(dtype, "u0", of[1]))
        g.store("x", [sym("u0"), ALL], zeros)
    return doc.add(g.out())


SUM = ["aten.sum.dim_IntList", [0]]
CASES = {
    "a row": ([SUM], [256]),
    "a number": ([["aten.amax.default", [0, 1]]], []),
    "all of it": ([["aten.max.default"]], []),
    "several steps": ([SUM, ["aten.exp.default"], [VIEW, [1, 256]]], [1, 256]),
    "a permuted one": ([["aten.permute.default", [1, 0]], ["aten.mean.dim", [1]]], [256]),
}


@pytest.mark.parametrize("role", ["input", "inout"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("ops", CASES.values(), ids=CASES)
def test_what_is_derived_is_added(ops, dtype, role):
    """Also where the kernel then changes what it is derived from."""
    steps, shape = ops
    if dtype == "int32" and any("exp" in s[0] or "mean" in s[0] for s in steps):
        steps = [["aten.amax.default", [0]]]
        shape = [256]
    assert wrong(scaled(steps, shape, dtype, role=role), seed=1) == []


def test_it_is_computed_before_the_kernel():
    text = kit.emitted("python", scaled(*CASES["a row"])).out
    assert "jnp.sum(x, axis=0)" in text.partition("call = _pallas_call")[2]


def derived_of_derived():
    """d2[n] = the maximum over m of exp(x[m, n]), through a view."""
    doc, g = Doc(name="derived", config={"block_sizes": [16]}), G(0, grid=[0])
    doc.block(40, "tile")
    doc.tensor("x", "input", "float32", [40, 256]).tensor("out", "output", "float32", [40, 128])
    doc.tensor("e", "derived", "float32", [40, 256], of="x", ops=[["aten.exp.default"]])
    doc.tensor("v", "view", "float32", [80, 128], of="e")
    doc.tensor("d", "derived", "float32", [128], of="v", ops=[["aten.amax.default", [0]]])
    d = g.load("d", [ALL], t("float32", 128))
    rows = g.call("aten.expand.default", d, [sym("u0"), 128], meta=t("float32", "u0", 128))
    g.store("out", [sym("u0"), ALL], rows)
    return doc.add(g.out())


def test_of_a_view_of_another():
    assert wrong(derived_of_derived(), seed=1) == []


REFUSED = {
    "no op of the wrapper": (
        [["aten.cumsum.default", 0], SUM],
        [256],
        "aten.cumsum.default before the kernel is not lowered yet",
        "/tensors/2/ops/0",
    ),
    "no such dim": ([["aten.amax.default", [2]]], [256], "before the kernel: dim 2", "/tensors/2"),
    "another shape": ([SUM], [1, 256], "derived tensor d is declared with", "/tensors/2"),
    "several results": ([["aten.max.dim", 0]], [256], "gives no tensor before", "/tensors/2/ops/0"),
}


@pytest.mark.parametrize(("ops", "shape", "message", "pointer"), REFUSED.values(), ids=REFUSED)
def test_refused(ops, shape, message, pointer):
    [item] = kit.refusal(scaled(ops, shape))
    assert message in item["message"]
    assert item["pointer"].startswith(pointer)


def test_a_table_of_positions():
    """Ints that steer loads are read from SMEM."""
    doc, g = Doc(name="derived", config={"block_sizes": [8]}), G(0, grid=[0])
    doc.block(16, "tile")
    doc.tensor("at", "input", "int32", [1, 16]).tensor("x", "input", "float32", [40, 128])
    doc.tensor("d", "derived", "int32", [16], of="at", ops=[["aten.amax.default", [0]]])
    doc.tensor("out", "output", "float32", [16, 128])
    rows = g.load("d", [sym("u0")], t("int32", "u0"))
    x = g.load("x", [rows, ALL], t("float32", "u0", 128))
    g.store("out", [sym("u0"), ALL], x)
    given = [np.arange(16, dtype=np.int32)[None] * 3 % 40]
    given.append(np.random.default_rng(1).standard_normal((40, 128)).astype(np.float32))
    document = doc.add(g.out())
    assert wrong(document, given=given) == []
    assert "smem" in kit.by_ref(kit.plan(document)["operands"])["d_ref"]["space"]
