"""The derivative of each op: what its operands' gradients are, given its result's.

A rule is a function of (builder, value, gradient) that gives [(operand, gradient), ...]. A gradient
may be of any shape that broadcasts to its value's; where it is wider, the reverse pass sums it.
"""

import math

from .rules_curves import CURVES, TRIANGLES
from .rules_rows import ROWS
from .rules_views import VIEWS
from .values import Value, number_of

_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)


def _add(b, value, g):
    alpha = value.kwargs.get("alpha", value.args[2] if len(value.args) > 2 else 1)
    first, second = value.args[:2]
    return [(first, g), (second, g if alpha == 1 else b.mul(g, alpha))]


def _sub(b, value, g):
    first, (second, scaled) = _add(b, value, g)
    return [first, (second, b.neg(scaled))]


def _rsub(b, value, g):
    alpha = value.kwargs.get("alpha", value.args[2] if len(value.args) > 2 else 1)
    first, second = value.args[:2]
    return [(first, b.mul(g, -alpha)), (second, g)]


def _mul(b, value, g):
    x, y = value.args
    if x is y:
        return [(x, b.mul(g, b.mul(x, 2.0)))]
    return [(p, b.mul(g, b.known(q))) for p, q in ((x, y), (y, x)) if _flows(p)]


def _exponent(y):
    """The x of y = 1 + exp(-x), whose reciprocal is sigmoid(x); None if y is no such sum."""
    if not isinstance(y, Value) or y.target != "aten.add.Tensor" or y.kwargs:
        return None
    power = next((x for x in y.args if isinstance(x, Value)), None)
    if power is None or 1.0 not in map(number_of, y.args) or power.target != "aten.exp.default":
        return None
    negated = power.args[0]
    return negated.args[0] if negated.target == "aten.neg.default" else None


def _div(b, value, g):
    x, y = value.args
    if (exponent := _exponent(y)) is not None:  # y may be infinite, where sigmoid is but 0
        share = _sigmoid(b, _wide(b, exponent))
        scaled = b.mul(g, share)
        down = b.mul(b.mul(scaled, b.sub(1.0, share)), x)
        return [(x, scaled), (exponent, down)] if _flows(x) else [(exponent, down)]
    scaled = b.div(g, y)
    found = [(x, scaled)]
    if _flows(y):
        found.append((y, b.neg(b.mul(scaled, value))))
    return found


def _reciprocal(b, value, g):
    if (exponent := _exponent(value.args[0])) is not None:
        share = _wide(b, value)
        return [(exponent, b.mul(g, b.mul(share, b.sub(1.0, share))))]
    inverse = _wide(b, value)
    return [(value.args[0], b.neg(b.mul(g, b.mul(inverse, inverse))))]


def _flows(x):
    return isinstance(x, Value) and x.is_float


def _pow(b, value, g):
    x, exponent = value.args
    power = number_of(exponent)
    if power is None:
        return None
    if power == 2:
        return [(x, b.mul(g, b.mul(x, 2.0)))]
    wide = _wide(b, x)
    lower = b.make("aten.pow.Tensor_Scalar", [wide, power - 1], "float32", x.shape, name="power")
    return [(x, b.mul(g, b.mul(lower, power)))]


def _wide(b, x):
    """A value as float32: derivatives are not rounded in between."""
    return b.convert(x, "float32")


def _of_input(derivative):
    """A rule of one operand, of the derivative as a function of it."""
    return lambda b, value, g: [(value.args[0], b.mul(g, derivative(b, _wide(b, value.args[0]))))]


def _of_result(derivative):
    """A rule of one operand, of the derivative as a function of the result."""
    return lambda b, value, g: [(value.args[0], b.mul(g, derivative(b, _wide(b, value))))]


def _reciprocal_times(factor):
    return lambda b, value, g: [(value.args[0], b.mul(b.div(g, value.args[0]), factor))]


def _sigmoid(b, x):
    return b.unary("aten.sigmoid.default", x)


def _silu(b, x):
    s = _sigmoid(b, x)
    return b.mul(s, b.add(b.mul(x, b.sub(1.0, s)), 1.0))


def _gelu(b, value, g):
    x = _wide(b, value.args[0])
    if value.kwargs.get("approximate", "none") == "tanh":
        cubic = b.add(b.mul(b.mul(x, x), 0.044715), 1.0)
        t = b.unary("aten.tanh.default", b.mul(b.mul(x, cubic), _SQRT_2_OVER_PI))
        slope = b.mul(b.add(b.mul(b.mul(x, x), 3 * 0.044715), 1.0), _SQRT_2_OVER_PI)
        flank = b.mul(b.mul(x, slope), b.sub(1.0, b.mul(t, t)))
        derivative = b.mul(b.add(b.add(t, 1.0), flank), 0.5)
    else:
        cdf = b.mul(b.add(b.unary("aten.erf.default", b.mul(x, math.sqrt(0.5))), 1.0), 0.5)
        bell = b.unary("aten.exp.default", b.mul(b.mul(x, x), -0.5))
        derivative = b.add(cdf, b.mul(b.mul(x, bell), 1 / math.sqrt(2 * math.pi)))
    return [(value.args[0], b.mul(g, derivative))]


def _erf(b, x):
    return b.mul(b.unary("aten.exp.default", b.neg(b.mul(x, x))), 2 / math.sqrt(math.pi))


def _chosen(comparison):
    """max and min of two: to the one taken, halves where they are equal."""

    def rule(b, value, g):
        x, y = value.args
        half = b.mul(g, 0.5)
        equal = b.compare("aten.eq.Tensor", x, y)
        found = []
        for p, q in ((x, y), (y, x)):
            if _flows(p):
                taken = b.where(b.compare(comparison, p, q), g, 0.0)
                found.append((p, b.where(equal, half, taken)))
        return found

    return rule


def _limits(b, value, g):
    """clamp and its halves: where the operand is inside."""
    x, target = value.args[0], value.target
    low = high = None
    if target.startswith("aten.clamp_min"):
        low = value.args[1]
    elif target.startswith("aten.clamp_max"):
        high = value.args[1]
    else:
        low = value.args[1] if len(value.args) > 1 else value.kwargs.get("min")
        high = value.args[2] if len(value.args) > 2 else value.kwargs.get("max")
    for limit, comparison in ((low, "aten.ge.Tensor"), (high, "aten.le.Tensor")):
        if isinstance(limit, Value) and limit.target not in (
            "tile.scalar",
            "aten.scalar_tensor.default",
        ):
            return None
        if limit is not None:
            g = b.where(b.compare(comparison, x, limit), g, 0.0)
    return [(x, g)]


def _relu(b, value, g):
    x = value.args[0]
    return [(x, b.where(b.compare("aten.gt.Tensor", x, 0.0), g, 0.0))]


def _abs(b, value, g):
    x = value.args[0]
    return [(x, b.mul(g, b.unary("aten.sign.default", x)))]


def _where(b, value, g):
    condition, x, y = value.args
    found = []
    if _flows(x):
        hidden = number_of(y) == -math.inf and _vanishes(g, value)
        found.append((x, g if hidden else b.where(condition, g, 0.0)))
    if _flows(y):
        found.append((y, b.where(condition, 0.0, g)))
    return found


def _vanishes(g, value):
    """Whether a gradient is 0 in lanes where `value` is -inf: a multiple of an exp of it."""
    if g.target == "aten.mul.Tensor":
        return any(isinstance(x, Value) and _vanishes(x, value) for x in g.args)
    if g.target in ("aten.neg.default", "aten.div.Tensor"):
        return _vanishes(g.args[0], value)
    if g.target in ("aten.exp.default", "aten.exp2.default"):
        shifted = g.args[0]
        return shifted.target == "aten.sub.Tensor" and shifted.args[0] is value
    return False


def _masked_fill(b, value, g):
    x, mask = value.args[:2]
    if isinstance(value.args[2], Value) and number_of(value.args[2]) is None:
        return None
    return [(x, b.where(mask, 0.0, g))]


def _reduced(value):
    """(operand, dims reduced, keepdim) of a sum or mean."""
    x = value.args[0]
    dims = value.args[1] if len(value.args) > 1 else value.kwargs.get("dim")
    keep = value.args[2] if len(value.args) > 2 else value.kwargs.get("keepdim", False)
    dims = [dims] if isinstance(dims, int) else dims
    return x, sorted(d % len(x.shape) for d in dims) if dims else list(range(len(x.shape))), keep


def _sum(b, value, g):
    x, dims, keep = _reduced(value)
    wide = b.expand(g, value.shape)
    return [(x, wide if keep else b.insert(wide, dims))]


def _mean(b, value, g):
    x, dims, _ = _reduced(value)
    count = (
        math.prod(x.shape[d] for d in dims) if all(isinstance(x.shape[d], int) for d in dims) else 0
    )
    if not count:
        return None
    [(x, wide)] = _sum(b, value, g)
    return [(x, b.mul(wide, 1.0 / count))]


def _permute(b, value, g):
    x, order = value.args[0], list(value.args[1])
    wide = b.expand(g, value.shape)
    return [(x, b.permute(wide, [order.index(i) for i in range(len(order))]))]


def _transpose(b, value, g):
    x, rank = value.args[0], len(value.shape)
    one, other = (
        (value.args[1] % rank, value.args[2] % rank)
        if len(value.args) > 2
        else (rank - 2, rank - 1)
    )
    order = list(range(rank))
    order[one], order[other] = other, one
    return [(x, b.permute(b.expand(g, value.shape), order))]


def _subscript(b, value, g):
    x, index = value.args
    if any(i is not None and i != {"slice": [None, None, None]} for i in index):
        return None
    new = [d for d, i in enumerate(index) if i is None]
    wide = b.expand(g, value.shape)
    return [(x, b.drop(wide, new) if new else wide)]


def _unsqueeze(b, value, g):
    x, dim = value.args
    return [(x, b.drop(b.expand(g, value.shape), [dim % len(value.shape)]))]


def _squeeze(b, value, g):
    x, dims = value.args
    dims = [dims] if isinstance(dims, int) else dims
    dims = [d % len(x.shape) for d in dims]
    return [(x, b.insert(b.expand(g, value.shape), [d for d in dims if x.shape[d] == 1]))]


def _view(b, value, g):
    x = value.args[0]
    wide = b.expand(g, value.shape)
    return [(x, b.reshape(wide, x.shape))]


def _through(b, value, g):
    return [(value.args[0], g)]


def _matmul(b, value, g):
    x, y = value.args[:2]
    return _factors(b, x, y, b.expand(g, value.shape))


def _addmm(b, value, g):
    added, x, y = value.args[:3]
    if value.kwargs:
        return None
    return [(added, g), *_factors(b, x, y, b.expand(g, value.shape))]


def _dot(b, value, g):
    x, y = value.args[:2]
    acc = [(value.args[2], g)] if len(value.args) > 2 and isinstance(value.args[2], Value) else []
    return acc + _factors(b, x, y, b.expand(g, value.shape))


def _times_vector(b, value, g):
    x, y = value.args
    column = b.insert(b.expand(g, value.shape), [1])
    found = [(x, b.mul(column, b.insert(y, [0])))] if _flows(x) else []
    return [*found, (y, b.sum(b.mul(column, x), [0], False))]


def _factors(b, x, y, g):
    """Of a product: each factor's gradient is one of the result's with the other, of its dtype."""
    if len(x.shape) != len(y.shape):
        return None
    found = []
    if _flows(x):
        found.append((x, _contracted(b, b.convert(g, y.dtype), b.swap(y))))
    if _flows(y):
        found.append((y, _contracted(b, b.swap(x), b.convert(g, x.dtype))))
    return found


def _contracted(b, x, y):
    """A matmul over lanes that may be outside a range: both factors are made 0 there."""
    if b.symbols & {x.shape[-1]}:
        x, y = b.mask(x), b.mask(y)
    return b.matmul(x, y)


RULES = {
    "aten.add.Tensor": _add,
    "aten.add.Scalar": _add,
    "aten.sub.Tensor": _sub,
    "aten.sub.Scalar": _sub,
    "aten.rsub.Tensor": _rsub,
    "aten.rsub.Scalar": _rsub,
    "aten.mul.Tensor": _mul,
    "aten.mul.Scalar": _mul,
    "aten.div.Tensor": _div,
    "aten.div.Scalar": _div,
    "aten.true_divide.Tensor": _div,
    "aten.pow.Tensor_Scalar": _pow,
    "aten.pow.Tensor_Tensor": _pow,
    "aten.neg.default": lambda b, value, g: [(value.args[0], b.neg(g))],
    "aten.abs.default": _abs,
    "aten.square.default": _of_input(lambda b, x: b.mul(x, 2.0)),
    "aten.exp.default": _of_result(lambda b, y: y),
    "aten.exp2.default": lambda b, value, g: [(value.args[0], b.mul(b.mul(g, value), math.log(2)))],
    "aten.expm1.default": _of_result(lambda b, y: b.add(y, 1.0)),
    "aten.log.default": _reciprocal_times(1.0),
    "aten.log2.default": _reciprocal_times(1 / math.log(2)),
    "aten.log10.default": _reciprocal_times(1 / math.log(10)),
    "aten.log1p.default": lambda b, value, g: [
        (value.args[0], b.div(g, b.add(_wide(b, value.args[0]), 1.0)))
    ],
    "aten.sqrt.default": lambda b, value, g: [(value.args[0], b.mul(b.div(g, value), 0.5))],
    "aten.rsqrt.default": _of_result(lambda b, y: b.mul(b.mul(b.mul(y, y), y), -0.5)),
    "aten.reciprocal.default": _reciprocal,
    "aten.sin.default": _of_input(lambda b, x: b.unary("aten.cos.default", x)),
    "aten.cos.default": _of_input(lambda b, x: b.neg(b.unary("aten.sin.default", x))),
    "aten.tanh.default": _of_result(lambda b, y: b.sub(1.0, b.mul(y, y))),
    "aten.sigmoid.default": _of_result(lambda b, y: b.mul(y, b.sub(1.0, y))),
    "aten.log_sigmoid.default": _of_input(lambda b, x: _sigmoid(b, b.neg(x))),
    "aten.silu.default": _of_input(_silu),
    "aten.gelu.default": _gelu,
    "aten.erf.default": _of_input(_erf),
    "aten.relu.default": _relu,
    "aten.maximum.default": _chosen("aten.gt.Tensor"),
    "aten.max.other": _chosen("aten.gt.Tensor"),
    "aten.minimum.default": _chosen("aten.lt.Tensor"),
    "aten.min.other": _chosen("aten.lt.Tensor"),
    "aten.clamp.default": _limits,
    "aten.clamp_min.default": _limits,
    "aten.clamp_max.default": _limits,
    "aten.where.self": _where,
    "aten.where.ScalarSelf": _where,
    "aten.where.ScalarOther": _where,
    "aten.where.Scalar": _where,
    "aten.masked_fill.Scalar": _masked_fill,
    "aten.masked_fill.Tensor": _masked_fill,
    # Lanes outside count nowhere: every sum of a gradient takes those inside alone.
    "tile.mask_to": _through,
    "prims.convert_element_type.default": _through,
    "aten._to_copy.default": _through,
    "aten.sum.default": _sum,
    "aten.sum.dim_IntList": _sum,
    "aten.mean.default": _mean,
    "aten.mean.dim": _mean,
    "aten.permute.default": _permute,
    "aten.transpose.int": _transpose,
    "aten.t.default": _transpose,
    "aten.mT.default": _transpose,
    "tile.subscript": _subscript,
    "aten.unsqueeze.default": _unsqueeze,
    "aten.squeeze.dim": _squeeze,
    "aten.squeeze.dims": _squeeze,
    "aten.view.default": _view,
    "aten._unsafe_view.default": _view,
    "aten.reshape.default": _view,
    "aten.expand.default": _through,
    "aten.mm.default": _matmul,
    "aten.mm.dtype": _matmul,
    "aten.bmm.default": _matmul,
    "aten.bmm.dtype": _matmul,
    "aten.matmul.default": _matmul,
    "aten.addmm.default": _addmm,
    "aten.addmm.dtype": _addmm,
    "aten.baddbmm.default": _addmm,
    "aten.baddbmm.dtype": _addmm,
    "aten.mv.default": _times_vector,
    "tile.dot": _dot,
    "@sum": _through,
    **CURVES,
    **TRIANGLES,
    **ROWS,
    **VIEWS,
}
# Ops whose rules give gradients of their operands' own shapes; all others are of lanes.
SHAPED = {
    name
    for name, rule in RULES.items()
    if rule in (_sum, _mean, _permute, _transpose, _subscript, _unsqueeze, _squeeze, _view)
    or rule in (_matmul, _addmm, _dot)
} | {*ROWS, *VIEWS, "aten.mv.default", "aten.amax.default", "aten.max.default"}
CONSTANT = (
    "aten.detach.default",
    "aten.full.default",
    "tile.full",
    "aten.scalar_tensor.default",
    "aten.zeros.default",
    "aten.ones.default",
    "tile.scalar",
    "aten.floor.default",
    "aten.ceil.default",
    "aten.round.default",
    "aten.trunc.default",
    "aten.sign.default",
    "aten.sgn.default",
    "aten.floor_divide.default",
    "aten.floor_divide.Scalar",
    "aten.round.decimals",
    "aten.zeros_like.default",
    "aten.ones_like.default",
    "aten.full_like.default",
    "aten.new_full.default",
    "aten.new_zeros.default",
    "aten.new_ones.default",
)
