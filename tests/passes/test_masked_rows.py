"""Rows of scores that are -inf throughout: what the graph makes of them, in every pass."""

import copy

import kit
import numpy as np
import proof
import pytest
from coverage import row as coverage
from pallasc import compare, reference
from pallasc.simulate import interpret_params, simulate

PASSES = {
    "auto": {},
    "all": {
        "pallas_transposed_scores": "on",
        "pallas_pre_broadcast": "on",
        "pallas_loop_skew": "on",
        "pallas_scale_after_max": "on",
        "pallas_matmul_ahead": 1,
    },
    "none": {
        "pallas_transposed_scores": "off",
        "pallas_pre_broadcast": "off",
        "pallas_loop_skew": "off",
        "pallas_scale_after_max": "off",
        "pallas_matmul_ahead": 0,
    },
    "ids": {"pallas_id_masks": "on"},
}


def unguarded():
    """segment_attention without m_safe and l_safe: exp2(-inf - -inf) is NaN, and stays it."""
    document = copy.deepcopy(proof.document("segment_attention"))
    text = {"m_safe": "m_new", "l_safe": "_phi_1"}
    for graph in document["graphs"]:
        names = {node["name"] for node in graph["nodes"]}
        for node in graph["nodes"]:
            rename(node.get("args"), {a: b for a, b in text.items() if {a, b} <= names})
    return document


def rename(value, names):
    """Replaces references in an argument, in place."""
    if isinstance(value, dict):
        if value.get("ref") in names:
            value["ref"] = names[value["ref"]]
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        rename(item, names)


def arguments(document):
    """Inputs of which many rows of q, and in one batch all, are of a segment that k has not."""
    row = coverage.by_graph()["segment_attention"]
    found = row.inputs(document, np.random.default_rng(3))
    found[3][0] = 9
    return found


@pytest.fixture(scope="module")
def expected():
    document = unguarded()
    found = reference.run(document, arguments(document))
    nan = np.isnan(found[0].astype(np.float32)).all(-1)
    assert nan[0].all()
    assert 0 < nan[1].sum() < nan[1].size
    return found


@pytest.mark.parametrize("loop", ["unroll", "fori_loop"])
@pytest.mark.parametrize("passes", PASSES)
def test_nan_where_the_graph_has_it(loop, passes, expected):
    document = unguarded()
    config = {"pallas_loop_type": loop, **PASSES[passes]}
    module = kit.compiled(document, "v7x", **config)
    found = simulate(module.load(), arguments(document), interpret_params())
    assert not found.races
    for a, b in zip(found.outputs, expected, strict=True):
        assert np.array_equal(np.isnan(a.astype(np.float32)), np.isnan(b.astype(np.float32)))
        finite = ~np.isnan(b.astype(np.float32)).any(-1)
        tolerance = compare.tolerance_for(document, 0)
        assert compare.compare(a[finite], b[finite], tolerance).ok
