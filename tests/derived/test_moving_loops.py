"""Loops whose range moves with a grid tile: what is proven of them, and what runs over what."""

import json
import re

import kit
import pallasc
import pytest
from pallasc.differentiate.lift import lift
from pallasc.differentiate.windows import Window

NAME = "sliding_attention_odd"  # the 100 keys up to each query


def changed(graph, name, args):
    """The document with other arguments of a node."""
    document = kit.document(NAME)
    node = next(n for n in kit.nodes(document, graph) if n["name"] == name)
    node["args"] = args(node["args"]) if callable(args) else args
    return document


def test_the_range_of_a_loop_beside_a_tile():
    program = lift(kit.document(NAME))
    assert program.windows == {"u0": Window("u2", 99, 0)}
    assert lift(kit.document("causal_attention")).windows == {"u3": Window("u1", None, 0)}
    assert lift(kit.document("causal_attention_dkdv")).windows == {"u3": Window("u1", 0, None)}


@pytest.mark.parametrize(
    ("graph", "name", "args", "told"),
    [
        ("root", "add", lambda args: [-98, args[1]], "is not proven to be -inf before it"),
        ("for_loop", "lt", lambda args: [args[0], 101], "is not proven to be -inf before it"),
        ("for_loop", "ge", lambda args: [args[0], -1], "is not proven to be -inf past it"),
        ("root", "sym_max", lambda args: [5, args[1]], "bounds that are computed"),
        ("root", "mul", lambda args: [args[0], 7], "bounds that are computed"),
    ],
)
def test_what_is_left_out_has_to_be_hidden(graph, name, args, told):
    with pytest.raises(pallasc.PallascError, match=told):
        pallasc.grad(changed(graph, name, args))


@pytest.mark.parametrize(
    ("graph", "name", "args"),
    [
        ("root", "add", lambda args: [-120, args[1]]),
        ("for_loop", "lt", lambda args: [args[0], 90]),
        ("for_loop", "ge", lambda args: [args[0], 3]),
        ("root", "sym_max", lambda args: args[::-1]),
    ],
)
def test_a_range_may_be_wider_than_what_it_has_to_hold(graph, name, args):
    assert pallasc.grad(changed(graph, name, args))["returns"]


def test_backwards_run_over_what_the_window_holds():
    """Of each tile: 99 keys before its queries; 99 queries behind its keys."""
    document = pallasc.grad(kit.document(NAME))
    roots = [g for g in document["graphs"] if g["kind"] == "root"]
    added = [n["args"][1] for root in roots for n in root["nodes"] if n.get("target") == "add"]
    assert sorted(added) == [-99, 99]
    module = pallasc.compile({k: v for k, v in document.items() if k != "config"})
    whole = re.sub(r"\b421\b", "8192", kit.text(NAME))
    cycles = [pallasc.compile(pallasc.grad(d)).plan["estimate"]["cycles"] for d in _both(whole)]
    assert module.info["name"] == "sliding_attention_grad" and cycles[0] < cycles[1] / 2


def _both(text):
    """Sliding attention, and causal attention of the same shape."""
    sliding = json.loads(text)
    causal = json.loads(text.replace('"add", "args": [-99', '"add", "args": [-8192'))
    loop = next(n for n in kit.nodes(causal, "for_loop") if n["name"] == "lt")
    loop["args"][1] = 8193
    return [{k: v for k, v in d.items() if k != "config"} for d in (sliding, causal)]
