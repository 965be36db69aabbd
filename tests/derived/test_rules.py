"""The derivative of each op alone, beside finite differences in float64."""

import finite
import numpy as np
import pallasc
import pytest
from builder import Doc, G, f32, sl, sym
from pallasc.differentiate.rules_curves import CURVES, TRIANGLES
from pallasc.differentiate.rules_rows import ROWS
from pallasc.differentiate.rules_views import VIEWS
from pallasc.reference import run

X, Y, Z = "x", "y", "z"
POSITIVE = ("aten.acosh.default", "aten.pow.Tensor_Tensor", "aten.pow.Scalar")
BELOW = ("aten.addcdiv", "aten.fmod", "aten.remainder")  # operands behind the first are far from 0
INSIDE = ("aten.asin.default", "aten.acos.default", "aten.atanh.default", "aten.erfinv.default")
# (arguments, keyword arguments, shape of the result) of those that are no function of x alone.
TWO = ([X, Y], {}, ["u0", 24])
CALLS = {
    "aten.hardtanh.default": ([X, -0.5, 1.5], {}, ["u0", 24]),
    "aten.leaky_relu.default": ([X, 0.2], {}, ["u0", 24]),
    "aten.elu.default": ([X, 1.5, 2.0, 0.7], {}, ["u0", 24]),
    "aten.softplus.default": ([X, 2.0, 3.0], {}, ["u0", 24]),
    "aten.pow.Tensor_Tensor": TWO,
    "aten.pow.Scalar": ([2.5, X], {}, ["u0", 24]),
    "aten.logaddexp.default": TWO,
    "aten.atan2.default": TWO,
    "aten.hypot.default": TWO,
    "aten.addcmul.default": ([X, Y, Z], {"value": 1.5}, ["u0", 24]),
    "aten.addcdiv.default": ([X, Y, Z], {"value": 1.5}, ["u0", 24]),
    "aten.lerp.Tensor": ([X, Y, Z], {}, ["u0", 24]),
    "aten.lerp.Scalar": ([X, Y, 0.3], {}, ["u0", 24]),
    "prims.fma.default": ([X, Y, Z], {}, ["u0", 24]),
    "aten.remainder.Tensor": TWO,
    "aten.remainder.Scalar": ([X, 0.7], {}, ["u0", 24]),
    "aten.fmod.Tensor": TWO,
    "aten.fmod.Scalar": ([X, 0.7], {}, ["u0", 24]),
    "aten.copysign.Tensor": TWO,
    "aten.copysign.Scalar": ([X, -1.0], {}, ["u0", 24]),
    "aten.logsumexp.default": ([X, [1]], {}, ["u0"]),
    "aten._softmax.default": ([X, 1, False], {}, ["u0", 24]),
    "aten.softmax.int": ([X, -1], {}, ["u0", 24]),
    "aten._log_softmax.default": ([X, 1, False], {}, ["u0", 24]),
    "aten.log_softmax.int": ([X, -1], {}, ["u0", 24]),
    "aten.var.correction": ([X, [1]], {"correction": 1, "keepdim": True}, ["u0", 1]),
    "aten.var.dim": ([X, [1], False], {}, ["u0"]),
    "aten.std.correction": ([X, [1]], {"correction": 0}, ["u0"]),
    "aten.amin.default": ([X, [1], True], {}, ["u0", 1]),
    "aten.cumsum.default": ([X, 1], {}, ["u0", 24]),
    "aten.cat.default": ([[X, Y, X], 1], {}, ["u0", 72]),
    "aten.stack.default": ([[X, Y], 1], {}, ["u0", 2, 24]),
    "aten.slice.Tensor": ([X, 1, 5, 17], {}, ["u0", 12]),
    "aten.select.int": ([X, 1, -3], {}, ["u0"]),
    "aten.constant_pad_nd.default": ([X, [3, 5], 2.0], {}, ["u0", 32]),
    "aten.flip.default": ([X, [1]], {}, ["u0", 24]),
    "prims.rev.default": ([X, [1]], {}, ["u0", 24]),
    "aten.roll.default": ([X, [5], [1]], {}, ["u0", 24]),
    "tile.join": ([X, Y], {}, ["u0", 24, 2]),
}
# Of graphs of testdata (tests/derived/test_finite.py), or of several results.
ELSEWHERE = {"@item", "aten.gather.default", "aten.min.default"}
CONSTANT = {"aten.div.Tensor_mode", "aten.div.Scalar_mode"}


def applied(target):
    """out = the op of x, y and z of float32[40, 24] (triangles: [24, 24]), and what it takes."""
    rows = 24 if target in TRIANGLES else 40
    lead = rows if target in TRIANGLES else "u0"
    args, kwargs, shape = CALLS.get(target, ([X], {}, [lead, 24]))
    used = [n for n in (X, Y, Z) if n in args or any(isinstance(a, list) and n in a for a in args)]
    doc = Doc(name="applied").block(rows)
    for name in used:
        doc.tensor(name, "input", "float32", [rows, 24])
    doc.tensor("out", "output", "float32", [rows, *shape[1:]])
    g = G(0, grid=[0])
    first = sl() if target in TRIANGLES else sym("u0")
    tiles = {name: g.load(name, [first, sl()], f32(lead, 24)) for name in used}
    args = [[tiles.get(x, x) for x in a] if isinstance(a, list) else tiles.get(a, a) for a in args]
    value = g.call(target, *args, meta=f32(*shape), **kwargs)
    g.store("out", [first, *[sl()] * (len(shape) - 1)], value)
    random = np.random.default_rng(3)
    values = {name: random.standard_normal((rows, 24)) for name in used}
    for name in used:
        if target in POSITIVE or (target.startswith(BELOW) and name != X):
            values[name] = 1.2 + np.abs(values[name])
        if target in INSIDE:
            values[name] = np.tanh(values[name]) * 0.9
    return doc.add(g.out()), values


@pytest.mark.parametrize(
    "target", sorted({*CURVES, *ROWS, *VIEWS, *TRIANGLES} - ELSEWHERE - CONSTANT)
)
def test_each_rule(target):
    document, values = applied(target)
    off = finite.differences(document, values=values)
    assert off and max(off.values()) < 4e-6, off


def test_shares_of_equal_extremes():
    """As JAX does: to each of the equal lanes the same."""
    document, values = applied("aten.amin.default")
    values["x"] = np.ones((40, 24))
    (got,) = run(
        pallasc.grad(document), [values["x"].astype(np.float32), np.ones((40, 1), np.float32)]
    )
    assert np.allclose(got, 1 / 24, rtol=1e-6)
