"""Derivatives of functions of one lane or two, beyond the arithmetic of rules.py."""

import math

from .values import Value, number_of


def wide(b, x):
    """A value as float32: derivatives are not rounded in between."""
    return b.convert(x, "float32") if isinstance(x, Value) else x


def flows(x):
    """Whether derivatives flow through an argument."""
    return isinstance(x, Value) and x.is_float


def of_input(derivative):
    """A rule of one operand, of the derivative as a function of it."""
    return lambda b, value, g: [(value.args[0], b.mul(g, derivative(b, wide(b, value.args[0]))))]


def of_result(derivative):
    """A rule of one operand, of the derivative as a function of the result."""
    return lambda b, value, g: [(value.args[0], b.mul(g, derivative(b, wide(b, value))))]


def quotient_by(denominator, factor=1.0):
    """A rule of one operand whose derivative is `factor` by a function of the operand."""

    def rule(b, value, g):
        below = denominator(b, wide(b, value.args[0]))
        return [(value.args[0], b.mul(b.div(g, below), factor))]

    return rule


def inside(low, high, slope=1.0, strict=True):
    """A rule of one operand: a straight line between two limits, level outside."""

    def rule(b, value, g):
        x = value.args[0]
        for limit, name in ((low(value), "g"), (high(value), "l")):
            if limit is not None:
                compared = b.compare(f"aten.{name}{'t' if strict else 'e'}.Tensor", x, limit)
                g = b.where(compared, g, 0.0)
        return [(x, g if slope == 1.0 else b.mul(g, slope))]

    return rule


def _argument(value, position, name, default):
    if len(value.args) > position:
        return value.args[position]
    return value.kwargs.get(name, default)


def _square(b, x):
    return b.mul(x, x)


def _sqrt(b, x):
    return b.unary("aten.sqrt.default", x)


def _sigmoid(b, x):
    return b.unary("aten.sigmoid.default", x)


def _leaky_relu(b, value, g):
    x, slope = value.args[0], _argument(value, 1, "negative_slope", 0.01)
    return [(x, b.where(b.compare("aten.gt.Tensor", x, 0.0), g, b.mul(g, slope)))]


def _elu(b, value, g):
    x = value.args[0]
    alpha, scale, narrow = (
        _argument(value, i, name, 1) for i, name in ((1, "alpha"), (2, "scale"), (3, "input_scale"))
    )
    below = b.unary("aten.exp.default", b.mul(wide(b, x), float(narrow)))
    below = b.mul(b.mul(g, below), float(alpha * scale * narrow))
    above = b.mul(g, float(scale))
    return [(x, b.where(b.compare("aten.gt.Tensor", x, 0.0), above, below))]


def _softplus(b, value, g):
    x, beta, limit = (
        value.args[0],
        _argument(value, 1, "beta", 1),
        _argument(value, 2, "threshold", 20),
    )
    scaled = b.mul(wide(b, x), float(beta))
    straight = b.compare("aten.gt.Tensor", scaled, float(limit))
    return [(x, b.where(straight, g, b.mul(g, _sigmoid(b, scaled))))]


def _hardswish(b, value, g):
    x = value.args[0]
    middle = b.mul(g, b.add(b.mul(wide(b, x), 1 / 3), 0.5))
    above = b.where(b.compare("aten.ge.Tensor", x, 3.0), g, middle)
    return [(x, b.where(b.compare("aten.le.Tensor", x, -3.0), 0.0, above))]


def _mish(b, x):
    t = b.unary("aten.tanh.default", b.unary("aten.softplus.default", x))
    flank = b.mul(b.mul(x, _sigmoid(b, x)), b.sub(1.0, _square(b, t)))
    return b.add(t, flank)


def _pair(of_first, of_second):
    """A rule of two operands; each derivative is a function of both and of the result."""

    def rule(b, value, g):
        x, y = value.args[:2]
        operands = wide(b, b.known(x)), wide(b, b.known(y)), wide(b, value)
        both = ((x, of_first), (y, of_second))
        return [(p, b.mul(g, d(b, *operands))) for p, d in both if flows(p)]

    return rule


def _power(b, value, g):
    x, y = value.args[:2]
    found = []
    if flows(x):
        down = b.binary("aten.pow.Tensor_Tensor", wide(b, x), b.sub(wide(b, y), 1.0))
        found.append((x, b.mul(b.mul(g, down), wide(b, y))))
    if flows(y):
        log = b.unary("aten.log.default", wide(b, x)) if isinstance(x, Value) else math.log(x)
        zero = b.compare("aten.eq.Tensor", value, 0.0)
        found.append((y, b.where(zero, 0.0, b.mul(b.mul(g, wide(b, value)), log))))
    return found


def _power_of_number(b, value, g):
    base, y = number_of(value.args[0]), value.args[1]
    return None if not base or base < 0 else [(y, b.mul(b.mul(g, value), math.log(base)))]


def _logaddexp_share(b, one, other):
    difference = b.sub(one, other)
    return _sigmoid(b, difference)


def _atan2(b, one, x, y):
    return b.div(one, b.add(_square(b, x), _square(b, y)))


def _addcmul(b, value, g):
    start, x, y = value.args[:3]
    scaled = b.mul(g, float(value.kwargs.get("value", 1)))
    found = [(start, g)]
    found += [(p, b.mul(scaled, wide(b, q))) for p, q in ((x, y), (y, x)) if flows(p)]
    return found


def _addcdiv(b, value, g):
    start, x, y = value.args[:3]
    scaled = b.div(b.mul(g, float(value.kwargs.get("value", 1))), wide(b, y))
    down = b.neg(b.mul(scaled, b.div(wide(b, x), wide(b, y))))
    return [(start, g), (x, scaled), (y, down)]


def _lerp(b, value, g):
    x, y, weight = value.args[:3]
    w = wide(b, b.known(weight))
    rest = b.sub(1.0, w) if isinstance(w, Value) else 1.0 - w
    found = [(x, b.mul(g, rest)), (y, b.mul(g, w))]
    if flows(weight):
        found.append((weight, b.mul(g, b.sub(wide(b, y), wide(b, x)))))
    return found


def _fma(b, value, g):
    x, y, z = value.args[:3]
    found = [(p, b.mul(g, b.known(q))) for p, q in ((x, y), (y, x)) if flows(p)]
    return [*found, (z, g)]


def _remainder(rounding):
    """x - y * (x / y, rounded)."""

    def rule(b, value, g):
        x, y = value.args[:2]
        found = [(x, g)]
        if flows(y):
            whole = b.unary(rounding, b.div(wide(b, x), wide(b, y)))
            found.append((y, b.neg(b.mul(g, whole))))
        return found

    return rule


def _copysign(b, value, g):
    x = value.args[0]
    if not flows(x):
        return []
    same = b.mul(b.unary("aten.sign.default", wide(b, x)), b.unary("aten.sign.default", value))
    return [(x, b.mul(g, same))]


def _rounded_quotient(b, value, g):
    mode = value.args[2] if len(value.args) > 2 else value.kwargs.get("rounding_mode")
    return [] if mode is not None else None


def _triangle(b, value, g):
    dtype, shape = "float32", value.shape
    return [
        (value.args[0], b.make(value.target, [b.expand(g, shape), *value.args[1:]], dtype, shape))
    ]


_one_less_square = lambda b, x: b.sub(1.0, _square(b, x))  # noqa: E731
_ROOT_PI = math.sqrt(math.pi)

CURVES = {
    "aten.tan.default": of_result(lambda b, y: b.add(_square(b, y), 1.0)),
    "aten.asin.default": quotient_by(lambda b, x: _sqrt(b, _one_less_square(b, x))),
    "aten.acos.default": quotient_by(lambda b, x: _sqrt(b, _one_less_square(b, x)), -1.0),
    "aten.atan.default": quotient_by(lambda b, x: b.add(_square(b, x), 1.0)),
    "aten.sinh.default": of_input(lambda b, x: b.unary("aten.cosh.default", x)),
    "aten.cosh.default": of_input(lambda b, x: b.unary("aten.sinh.default", x)),
    "aten.asinh.default": quotient_by(lambda b, x: _sqrt(b, b.add(_square(b, x), 1.0))),
    "aten.acosh.default": quotient_by(lambda b, x: _sqrt(b, b.sub(_square(b, x), 1.0))),
    "aten.atanh.default": quotient_by(_one_less_square),
    "aten.erfc.default": of_input(
        lambda b, x: b.mul(b.unary("aten.exp.default", b.neg(_square(b, x))), -2 / _ROOT_PI)
    ),
    "aten.erfinv.default": of_result(
        lambda b, y: b.mul(b.unary("aten.exp.default", _square(b, y)), _ROOT_PI / 2)
    ),
    "aten.relu6.default": inside(lambda _: 0.0, lambda _: 6.0),
    "aten.hardtanh.default": inside(
        lambda v: _argument(v, 1, "min_val", -1), lambda v: _argument(v, 2, "max_val", 1)
    ),
    "aten.hardsigmoid.default": inside(lambda _: -3.0, lambda _: 3.0, 1 / 6),
    "aten.leaky_relu.default": _leaky_relu,
    "aten.elu.default": _elu,
    "aten.softplus.default": _softplus,
    "aten.hardswish.default": _hardswish,
    "aten.mish.default": of_input(_mish),
    "aten.pow.Tensor_Tensor": _power,
    "aten.pow.Scalar": _power_of_number,
    "aten.logaddexp.default": _pair(
        lambda b, x, y, _: _logaddexp_share(b, x, y), lambda b, x, y, _: _logaddexp_share(b, y, x)
    ),
    "aten.atan2.default": _pair(
        lambda b, x, y, _: _atan2(b, y, x, y), lambda b, x, y, _: b.neg(_atan2(b, x, x, y))
    ),
    "aten.hypot.default": _pair(lambda b, x, _, z: b.div(x, z), lambda b, _, y, z: b.div(y, z)),
    "aten.addcmul.default": _addcmul,
    "aten.addcdiv.default": _addcdiv,
    "aten.lerp.Tensor": _lerp,
    "aten.lerp.Scalar": _lerp,
    "prims.fma.default": _fma,
    "aten.frac.default": lambda b, value, g: [(value.args[0], g)],
    "aten.remainder.Tensor": _remainder("aten.floor.default"),
    "aten.remainder.Scalar": _remainder("aten.floor.default"),
    "aten.fmod.Tensor": _remainder("aten.trunc.default"),
    "aten.fmod.Scalar": _remainder("aten.trunc.default"),
    "aten.copysign.Tensor": _copysign,
    "aten.copysign.Scalar": _copysign,
    "aten.div.Tensor_mode": _rounded_quotient,
    "aten.div.Scalar_mode": _rounded_quotient,
}
TRIANGLES = {"aten.tril.default": _triangle, "aten.triu.default": _triangle}
