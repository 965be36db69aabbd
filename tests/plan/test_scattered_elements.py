"""Scatters of single elements: stores and atomics where int tensors say each of the positions."""

import json

import kit
import numpy as np
import pallasc.execute
import pallasc.reference
import pytest
import simulated
from builder import Doc, G, sym, t

ATOMICS = {"add": np.add, "max": np.maximum, "min": np.minimum}


def scatter(how, dtype, shape, count, block, masked=False, number=None):
    """out[ids[i], ...] = x[i], or combined with it; a table of positions for each dim of out."""
    doc = Doc(config={"block_sizes": [block]}).tensor("x", "input", dtype, [count])
    doc.block(count)
    g = G(0, grid=[0])
    index = []
    for i, _ in enumerate(shape):
        doc.tensor(f"ids{i}", "input", "int32", [count])
        found = g.load(f"ids{i}", [sym("u0")], t("int32", "u0"))
        # two 1-D tensors over blocks would make a dim each: as [1, u0] they go together
        whole = {"slice": [None] * 3}
        together = t("int32", 1, "u0")
        index.append(
            g.call("tile.subscript", found, [None, whole], meta=together)
            if len(shape) > 1
            else found
        )
    doc.tensor("out", "output", dtype, shape, init=0)
    value = g.load("x", [sym("u0")], t(dtype, "u0"))
    mask = []
    if masked:
        doc.tensor("on", "input", "int32", [count])
        on = g.load("on", [sym("u0")], t("int32", "u0"))
        mask = [g.call("aten.gt.Scalar", on, 0, meta=t("bool", "u0"))]
    if number is not None:
        value = number
    if len(shape) > 1 and number is None:
        value = g.call("aten.unsqueeze.default", value, 0, meta=t(dtype, 1, "u0"))
    if len(shape) > 1 and masked:
        mask = [g.call("aten.unsqueeze.default", mask[0], 0, meta=t("bool", 1, "u0"))]
    if how == "store":
        g.store("out", index, value, *mask)
    else:
        result = t(dtype, 1, "u0") if len(shape) > 1 else t(dtype, "u0")
        g.call(f"tile.atomic_{how}", g.host("out"), index, value, meta=result)
    return doc.add(g.out())


def given(document, low, high, seed=0, skewed=False):
    """Its inputs: positions from `low` on below `high`, most of them few where `skewed`."""
    rng = np.random.default_rng(seed)
    found = []
    for tensor in document["tensors"]:
        if tensor["role"] != "input":
            continue
        name, shape = tensor["name"], tensor["shape"]
        if name.startswith("ids"):
            ids = rng.integers(low, high, shape, np.int32)
            found.append(
                np.minimum(rng.zipf(1.5, shape), high - 1).astype(np.int32) if skewed else ids
            )
        elif name == "on":
            found.append(rng.integers(0, 2, shape, np.int32))
        else:
            dtype = pallasc.reference.values.dtype_of(tensor["dtype"])
            found.append(rng.integers(-8, 9, shape).astype(dtype))
    return found


def in_order(how, out, ids, values, on):
    """What a sequential run leaves in `out`."""
    for n, value in enumerate(values):
        at = tuple(int(table[n]) for table in ids)
        if not all(0 <= i < size for i, size in zip(at, out.shape, strict=True)) or not on[n]:
            continue
        out[at] = value if how == "store" else ATOMICS[how](out[at], value)
    return out


CASES = [
    ("store", "float32", [300], 200, 64),
    ("store", "bfloat16", [300], 100, 100),
    ("store", "int8", [1000], 64, 32),
    ("add", "int32", [8], 256, 128),
    ("add", "float32", [5000], 130, 64),
    ("add", "bfloat16", [100], 64, 64),
    ("max", "int32", [130], 100, 32),
    ("min", "float32", [64], 100, 100),
    ("store", "float32", [20, 300], 96, 32),
    ("add", "float32", [9, 5], 96, 48),
    ("store", "int32", [3, 9, 130], 64, 64),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_elements_in_order(case):
    """The last one wins, sums add up, and nothing outside is touched."""
    how, _, shape, count, _ = case
    document = scatter(*case)
    text = kit.emitted("kernel", json.dumps(document)).out
    for low, high, skewed in (
        (0, 5, True),
        (-5, 2 * shape[0], False),
        (-(2**31), 2**31 - 1, False),
    ):
        inputs = given(document, low, high, skewed=skewed)
        x, ids = inputs[0], inputs[1:]
        wanted = in_order(how, np.zeros(shape), ids, x.astype(np.float64), [True] * count)
        (said,) = pallasc.reference.run(document, inputs)
        np.testing.assert_array_equal(np.asarray(said, np.float64), wanted)
        (found,) = pallasc.execute.run(text, *inputs)
        np.testing.assert_array_equal(np.asarray(found, np.float64), wanted)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_simulated(case):
    document = scatter(*case)
    inputs = given(document, -2, case[2][0] + 2)
    assert simulated.wrong(document, given=inputs) == []


@pytest.mark.parametrize("shape", [[300], [9, 130]])
def test_masks_and_numbers(shape):
    """Where extra_mask is false nothing is stored; a number goes to each place."""
    document = scatter("store", "float32", shape, 100, 32, masked=True)
    inputs = given(document, -2, shape[0] + 2)
    assert simulated.wrong(document, given=inputs) == []
    wanted = in_order("store", np.zeros(shape), inputs[1:-1], inputs[0], inputs[-1] > 0)
    (said,) = pallasc.reference.run(document, inputs)
    np.testing.assert_array_equal(said, wanted)
    document = scatter("add", "int32", shape, 100, 32, number=1)
    assert simulated.wrong(document, given=given(document, -2, shape[0] + 2)) == []
