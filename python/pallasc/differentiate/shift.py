"""Proofs that a result does not depend on a maximum that only shifts exponents."""

import math

from .values import LINEAR_VIEWS, Value, depends, number_of, topological

NOTHING = ("mul", 0.0)
_KEEPS = LINEAR_VIEWS | {"prims.convert_element_type.default", "aten.neg.default"}
EXPONENTIALS = ("aten.exp.default", "aten.exp2.default")
_INSIDE = ("@sum", "aten.sum.dim_IntList", "tile.mask_to")
_SUMS = ("aten.sum.dim_IntList", "aten.mean.dim", "@sum")
_MATMULS = ("aten.mm.default", "aten.mm.dtype", "aten.bmm.default", "aten.bmm.dtype")


def rate(builder, value, maximum):
    """How `value` changes when `maximum` grows by t: ("add", a): by a*t; ("mul", r): by exp(r*t).

    The t of a maximum of base 2 exponents counts in powers of two: r is then per ln 2. None: not
    known to be either, in which case the reason is the value's own op.
    """
    unit = math.log(2) if _base(builder, value, maximum) == "aten.exp2.default" else 1.0
    rates = {}
    for part in topological([value]):
        rates[part.number] = _rate(part, maximum, rates, unit)
    return rates[value.number]


def _base(builder, value, maximum):
    if maximum.number not in builder.bases:
        for part in topological([value]):
            exponential = part.target in ("aten.exp.default", "aten.exp2.default")
            if exponential and depends(part.args[0], maximum):
                builder.bases[maximum.number] = part.target
                break
    return builder.bases.get(maximum.number)


def _rate(value, maximum, rates, unit):
    if value is maximum:
        return ("add", 1.0)
    inputs = value.inputs
    got = [rates[x.number] for x in inputs]
    if all(g == NOTHING for g in got):
        return NOTHING
    if (kept := guarded(value)) is not None or (kept := nonzero(value)) is not None:
        return rates[kept.number]
    if any(g is None for g in got):
        return None
    target = value.target
    rule = _RULES.get(target)
    if rule is not None:
        return rule(value, rates, unit)
    if target in _KEEPS and len(got) == 1:
        sign = -1.0 if target == "aten.neg.default" and got[0][0] == "add" else 1.0
        return (got[0][0], sign * got[0][1])
    if target in _SUMS or target == "tile.mask_to":
        fixed = target != "tile.mask_to" or number_of(value.args[1]) == 0
        return got[0] if got[0][0] == "mul" and fixed else None
    if target in _MATMULS:
        return ("mul", got[0][1] + got[1][1]) if all(g[0] == "mul" for g in got) else None
    return None


def nonzero(value):
    """The x of `where(x == 0, number, x)`, a sum of exponentials of what may all be hidden.

    It is 0 only where its maximum is of nothing, and then nothing depends on either. None: no such.
    """
    x = _unless(value, 0.0)
    inner = x
    while inner is not None and (inner.target in _INSIDE or inner.target in LINEAR_VIEWS):
        inner = inner.args[0]
    return x if inner is not x and inner.target in EXPONENTIALS else None


def guarded(value):
    """The x of `where(x == -inf, number, x)`, a maximum of what may all be hidden; or None."""
    return _unless(value, -math.inf)


def _unless(value, limit):
    if not value.target.startswith("aten.where."):
        return None
    condition, number, x = value.args
    same = isinstance(condition, Value) and condition.target in ("aten.eq.Scalar", "aten.eq.Tensor")
    if same and condition.args[0] is x and number_of(condition.args[1]) == limit:
        return x if number_of(number) is not None else None
    return None


def _operand(argument, rates):
    return rates[argument.number] if isinstance(argument, Value) else NOTHING


def _plus(sign):
    def rule(value, rates, unit):
        a, b = (_operand(x, rates) for x in value.args[:2])
        if value.kwargs:
            return None
        if a[0] == "mul" and a == b:
            return a
        shifts = [x[1] if x[0] == "add" else 0.0 if x == NOTHING else None for x in (a, b)]
        if None in shifts:
            return None
        total = shifts[0] + sign * shifts[1]
        return NOTHING if abs(total) < 1e-9 else ("add", total)

    return rule


def _times(sign):
    def rule(value, rates, unit):
        a, b = (_operand(x, rates) for x in value.args[:2])
        if a[0] == b[0] == "mul":
            total = a[1] + sign * b[1]
            return NOTHING if abs(total) < 1e-9 else ("mul", total)
        factor = number_of(value.args[1])
        if a[0] == "add" and factor:
            return ("add", a[1] * factor**sign)
        return None

    return rule


def _exp(base):
    def rule(value, rates, unit):
        a = _operand(value.args[0], rates)
        return ("mul", a[1] * base / unit) if a[0] == "add" else None

    return rule


def _log(base):
    def rule(value, rates, unit):
        a = _operand(value.args[0], rates)
        return ("add", a[1] * unit / base) if a[0] == "mul" else None

    return rule


def _where(value, rates, unit):
    a, b = (_operand(x, rates) for x in value.args[1:3])
    if a[0] == "mul" and number_of(value.args[2]) == 0:
        return a
    if b[0] == "mul" and number_of(value.args[1]) == 0:
        return b
    return a if a == b else None


_RULES = {
    "aten.add.Tensor": _plus(1.0),
    "aten.sub.Tensor": _plus(-1.0),
    "aten.mul.Tensor": _times(1),
    "aten.div.Tensor": _times(-1),
    "aten.exp.default": _exp(1.0),
    "aten.exp2.default": _exp(math.log(2)),
    "aten.log.default": _log(1.0),
    "aten.log2.default": _log(math.log(2)),
    "aten.where.self": _where,
}
