"""A tile to the power of a scalar: an int of the run time is a float, a known one stays."""

import json

import kit
import pytest


def raised(value):
    """`add.json` whose sum is instead x to the power of an int scalar, known or not."""
    found = kit.document("add")
    found["scalars"] = [{"name": "power", "dtype": "int32", **value}]
    (root,) = found["graphs"]
    (add,) = [n for n in root["nodes"] if n.get("target") == "aten.add.Tensor"]
    scalar = {"name": "power", "target": "tile.scalar", "args": ["power"]}
    scalar["meta"] = {"dtype": "int32", "shape": []}
    add["target"], add["args"] = "aten.pow.Tensor_Scalar", [add["args"][0], {"ref": "power"}]
    root["nodes"].insert(root["nodes"].index(add), scalar)
    return json.dumps(found)


@pytest.mark.parametrize(
    ("value", "text"),
    [({}, ", jnp.float32(power_ref[0]))"), ({"value": 3}, ", 3)")],
    ids=["of the run time", "known"],
)
def test_power_of_a_scalar(value, text):
    """A known one is a few products, where any float takes a logarithm."""
    (line,) = [x for x in kit.compiled(raised(value)).source.splitlines() if "jnp.power(" in x]
    assert line.endswith(text), line
