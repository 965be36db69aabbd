"""Symbolic comparisons of ints, and what combines them, as conditions of stores."""

import numpy as np
import pallasc.reference
import pytest
import simulated
from builder import Doc, G, f32, sl, sym, t

BOOL = {"sym": None, "dtype": "bool"}
POINTS = 12

# what the condition is, of the grid's point i and a run-time int n: as targets and as Python
CONDITIONS = {
    "eq": (lambda g, i, n: g("eq", i, n), lambda i, n: i == n),
    "ne": (lambda g, i, n: g("ne", i, n), lambda i, n: i != n),
    "not_eq": (lambda g, i, n: g("not_", g("eq", i, 3)), lambda i, n: i != 3),
    "and": (
        lambda g, i, n: g("and_", g("ge", i, 2), g("ne", i, n)),
        lambda i, n: i >= 2 and i != n,
    ),
    "or": (lambda g, i, n: g("or_", g("eq", i, 0), g("gt", i, n)), lambda i, n: i == 0 or i > n),
    "nested": (
        lambda g, i, n: g("or_", g("not_", g("or_", g("lt", i, 4), g("eq", i, n))), g("eq", i, 1)),
        lambda i, n: not (i < 4 or i == n) or i == 1,
    ),
    "number": (lambda g, i, n: g("eq", 3, 3), lambda i, n: True),
}


def conditional(condition, otherwise):
    """out[i, :] = x[i, :] where the condition holds; else its double, or nothing."""
    doc = Doc(config={"block_sizes": []}).tensor("x", "input", "float32", [POINTS, 256])
    doc.tensor("out", "output", "float32", [POINTS, 256], init=0)
    doc.scalar("n", "int32").block(POINTS, size=1)
    bodies = []
    for number, factor in ((1, 1.0), (2, 2.0)):
        body = G(number, "if" if number == 1 else "else")
        at = body.call("tile.begin", sym("u0"), meta=sym(None))
        x = body.load("x", [at, sl()], f32(256))
        body.store("out", [at, sl()], body.call("aten.mul.Tensor", x, factor, meta=f32(256)))
        bodies.append(body.out())
    g = G(0, grid=[0])
    at = g.call("tile.begin", sym("u0"), meta=sym(None))
    n = g.call("tile.scalar", "n", meta=t("int32"))
    holds = CONDITIONS[condition][0](lambda op, *args: g.call(op, *args, meta=kind(g, args)), at, n)
    if otherwise:
        g.call("tile.if", holds, 1, 2, [], [], meta={"tuple": []})
    else:
        g.call("tile.if", holds, 1, None, [], meta={"tuple": []})
    return doc.add(*bodies[: 1 + otherwise], g.out())


def kind(graph, args):
    """A bool tensor where an operand is a run-time scalar or one of those, else a symbolic bool."""
    metas = {node["name"]: node.get("meta", {}) for node in graph.raw["nodes"]}
    tensors = [a for a in args if isinstance(a, dict) and "shape" in metas[a["ref"]]]
    return t("bool") if tensors else BOOL


@pytest.mark.parametrize("otherwise", [False, True])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_of_ints(condition, otherwise):
    document = conditional(condition, otherwise)
    x = np.random.default_rng(0).standard_normal([POINTS, 256]).astype(np.float32)
    for n in (5, -1):
        holds = np.array([CONDITIONS[condition][1](i, n) for i in range(POINTS)])[:, None]
        wanted = np.where(holds, x, 2 * x if otherwise else 0)
        (said,) = pallasc.reference.run(document, [x, n])
        np.testing.assert_array_equal(said, wanted)
    assert simulated.wrong(document, scalars={"n": 5}) == []
