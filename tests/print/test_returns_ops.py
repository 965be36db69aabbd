"""Ops after the kernel, `ops` and `shape` of `returns`: printed as jnp, or refused by name."""

import kit
import numpy as np
import pytest
from pallasc import compare, reference

SUM, CONVERT = "aten.sum.dim_IntList", "prims.convert_element_type.default"


def graph(ops, shape=None):
    """add.json (float32 [512, 1024]) with these ops after it."""
    found = kit.document("add")
    found["returns"] = [{"tensor": "out", "ops": ops}]
    if shape is not None:
        found["returns"][0]["shape"] = shape
    return found


# ops, shape, what the wrapper returns, the text of it
CASES = [
    ([[SUM, [0]]], None, "float32[1024]", "jnp.sum(out, axis=0)"),
    (
        [[SUM, [0]], [CONVERT, {"dtype": "bfloat16"}]],
        None,
        "bfloat16[1024]",
        "jnp.sum(out, axis=0).astype(jnp.bfloat16)",
    ),
    ([[SUM, [-1], True]], None, "float32[512, 1]", "jnp.sum(out, axis=1, keepdims=True)"),
    ([[SUM, [0, 1]]], [1], "float32[1]", "jnp.sum(out, axis=(0, 1)).reshape((1,))"),
    ([["aten.mean.dim", [1]]], [2, 256], "float32[2, 256]", "jnp.mean(out, axis=1)"),
    ([["aten.amax.default", [1]]], None, "float32[512]", "jnp.max(out, axis=1)"),
    ([["aten.permute.default", [1, 0]]], None, "float32[1024, 512]", "jnp.transpose(out, (1, 0))"),
    ([["aten.view.default", [256, 2048]], [SUM, [0]]], None, "float32[2048]", "axis=0)"),
    ([["aten.mul.Tensor", 0.5], ["aten.exp.default"]], None, "float32[512, 1024]", "out * 0.5"),
    ([["aten.add.Tensor", 2.0], ["aten.sqrt.default"]], None, "float32[512, 1024]", "out + 2.0"),
]


@pytest.mark.parametrize(("ops", "shape", "gives", "text"), CASES, ids=lambda x: str(x)[:30])
def test_served(ops, shape, gives, text):
    found = graph(ops, shape)
    module = kit.compiled(found)
    [output] = module.info["outputs"]
    assert f"{output['dtype']}{output['shape']}" == gives
    assert text in module.source
    assert f'"""Returns {gives}.' in module.source
    arrays = [np.abs(array) for array in compare.make_inputs(found, seed=1)]
    actual = np.asarray(module.load()(*arrays, interpret=True))
    [wanted] = reference.run(found, arrays)
    assert (str(actual.dtype), list(actual.shape)) == (output["dtype"], output["shape"])
    found_error = compare.compare(actual, wanted, compare.tolerance_for(found, 0))
    assert found_error.ok, found_error


REFUSED = [
    ([["aten.cumsum.default", 0]], None, "aten.cumsum.default after the kernel is not lowered yet"),
    ([["aten.add.Tensor", 2.0, 3]], None, "aten.add.Tensor after the kernel is not lowered yet"),
    ([[SUM, [2]]], None, "after the kernel: dim 2 is not in a value of rank 2"),
    ([["aten.max.dim", 0]], None, "aten.max.dim gives no tensor after the kernel"),
    ([[SUM, [0]]], [1000], "the shape has another number of elements than what the ops give"),
]


@pytest.mark.parametrize(("ops", "shape", "message"), REFUSED, ids=lambda x: str(x)[:30])
def test_refused(ops, shape, message):
    [item] = kit.refusal(graph(ops, shape))
    assert message in item["message"]
    assert item["pointer"].startswith("/returns/0/")


def test_results_of_partial_sums():
    """[cdiv(M, u0), N] stored at tile.id: one row for each window, no revisited block."""
    parts = {"pallas_summed_parts": "off"}
    module = kit.compiled("layer_norm_bwd_odd", **parts)
    by_name = kit.by_ref(module.plan["operands"])
    assert by_name["dweight_ref"]["shape"] == [4, 1, 300]
    assert by_name["dweight_ref"]["block"] == [1, 1, 300]
    assert [dim["semantics"] for dim in module.plan["grid"]] == ["parallel"]
    assert module.info["outputs"][1] == {"name": "dweight", "dtype": "bfloat16", "shape": [300]}
    resident = kit.plan("layer_norm_bwd_odd", pallas_boundary_views="off", **parts)
    assert kit.by_ref(resident["operands"])["dweight_ref"]["block"] == [4, 300]
    assert [dim["semantics"] for dim in resident["grid"]] == ["arbitrary"]
