"""Pointwise ops by their names in kernel text: the reference's functions, with jnp's dtypes.

Each is computed in float32, or in the ints' own width, and rounded once to the dtype that jnp's
promotion gives. `RESULT` says of which class that is: same, float, or bool.
"""

import inspect

import numpy as np

from ..reference import special
from ..reference.registry import OPS
from ..reference.values import BOOL, FLOAT32, is_float
from .errors import ExecuteError
from .values import cast, common_dtype, compute_dtype, literal

# ---- names ---------------------------------------------------------------------------------------

# Whose names are those of the reference's targets.
_SAME_NAME = """mul neg abs sign square maximum minimum fmod remainder floor_divide lerp floor ceil
trunc frac pow sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p logaddexp sin cos tan asin
acos atan atan2 hypot sinh cosh tanh asinh acosh atanh erf erfc erfinv lgamma digamma copysign
nextafter sigmoid relu relu6 silu hardsigmoid hardswish mish eq ne lt le gt ge isnan isinf isfinite
signbit logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor
bitwise_not""".split()
_OTHER_NAME = {
    "log_sigmoid": "log_sigmoid",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
    "wide_maximum": "maximum",
    "wide_minimum": "minimum",
}


def _softplus(x, beta, threshold):
    scaled = x.astype(np.float64) * beta
    return np.where(scaled > threshold, x, np.logaddexp(0.0, scaled) / beta)


def _elu(x, alpha, scale, input_scale):
    below = alpha * np.expm1(np.minimum(x, 0) * input_scale)
    return scale * np.where(x > 0, x, below)


def _gelu_erf(x):
    wide = x.astype(np.float64)
    return 0.5 * wide * (1.0 + special.erf(wide / np.sqrt(2.0)))


def _gelu_tanh(x):
    wide = x.astype(np.float64)
    return 0.5 * wide * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (wide + 0.044715 * wide**3)))


def _clamp(x, low=None, high=None):
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def _round(x, decimals=0):
    return np.round(x, int(decimals)) if x.dtype.kind == "f" else x


def _trunc_divide(x, y):
    wide, by = x.astype(np.int64), y.astype(np.int64)
    return np.sign(wide) * np.sign(by) * (np.abs(wide) // np.abs(by))


def _row(name):
    """A target's function of arrays in the dtype to compute in, and the class of its result."""
    held = inspect.getclosurevars(OPS[f"aten.{name}"]).nonlocals
    return held["function"], held["result"]


# Rows of one text (op_canonical() gives the first): name -> (function, class of the result).
TABLE = {name: _row(name) for name in _SAME_NAME}
TABLE |= {name: _row(target) for name, target in _OTHER_NAME.items()}
TABLE |= {
    "add": (np.add, "same"),
    "sub": (np.subtract, "same"),
    "rsub": (lambda x, y: y - x, "same"),
    "div": (np.divide, "float"),
    "fma": (lambda a, b, c: a * b + c, "same"),
    "round": (_round, "same"),
    "clamp": (_clamp, "same"),
    "addcmul": (lambda x, a, b, value=1: x + value * a * b, "same"),
    "addcdiv": (lambda x, a, b, value=1: x + value * (a / b), "float"),
    "leaky_relu": (lambda x, slope: np.where(x > 0, x, slope * x), "float"),
    "elu": (_elu, "float"),
    "softplus": (_softplus, "float"),
    "gelu_erf": (_gelu_erf, "float"),
    "gelu_tanh": (_gelu_tanh, "float"),
    "trunc_divide": (_trunc_divide, "same"),
    "floored_quotient": (np.floor_divide, "same"),
    "where": (np.where, "same"),
    "masked_fill": (lambda x, mask, value: np.where(mask, value, x), "same"),
    "clone": (lambda x: x, "same"),
}
TABLE |= {name: TABLE["clone"] for name in ("alias", "detach", "lift_fresh_copy", "contiguous")}
_CONDITION = {"where": 0, "masked_fill": 1}
# Ops of a value and of the numbers that are its parameters: these promote nothing.
_PARAMETERS = {"round": 1, "softplus": 1, "elu": 1, "leaky_relu": 1, "addcmul": 3, "addcdiv": 3}


# ---- statements ----------------------------------------------------------------------------------


class Operand:
    """An argument as a statement's builder sees it: a value's dtype, or a number, or neither.

    `integer`: it is an integer expression, which a condition may be too.
    """

    def __init__(self, dtype=None, number=None, integer=False):
        self.dtype, self.number, self.integer = dtype, number, integer


def result_dtype(op, operands, stated):
    """(the dtype of the result, the one to compute in): of numbers alone the one that is stated."""
    place = _CONDITION.get(op)
    counted = [x for i, x in enumerate(operands[: _PARAMETERS.get(op)]) if i != place]
    dtypes = [x.dtype for x in counted if x.dtype is not None]
    numbers = [x.number for x in counted if x.dtype is None and x.number is not None]
    kind = TABLE[op][1]
    promoted = common_dtype(dtypes, numbers) if dtypes or kind == "bool" else stated
    if kind == "float" and not is_float(promoted):
        promoted = FLOAT32
    return (BOOL if kind == "bool" else promoted), compute_dtype(promoted)


def build(op, operands, stated):
    """(function, numbers): the op for operands of these dtypes, numbers as 0-d values in place."""
    function = TABLE[op][0]
    result, compute = result_dtype(op, operands, stated)
    place, numbers, conversions = _CONDITION.get(op), {}, []
    for i, operand in enumerate(operands):
        wanted = BOOL if i == place else compute
        if operand.dtype is None:
            numbers[i] = None if operand.number is None else literal(operand.number, wanted)
        elif i == place and operand.integer:
            conversions.append((i, BOOL))
        elif operand.dtype != wanted:
            conversions.append((i, wanted))
    if place is not None and not _is_condition(operands[place]):
        raise ExecuteError(f"the condition of {op} is {operands[place].dtype.name}, not bool")
    return _converting(function, conversions, result), numbers


def _is_condition(operand):
    return operand.integer or operand.dtype in (None, BOOL)


def _converting(function, conversions, result):
    def rounded(*xs):
        found = function(*xs)
        return found if found.dtype == result else cast(found, result)

    def converted(*xs):
        xs = list(xs)
        for i, wanted in conversions:
            xs[i] = cast(xs[i], wanted)
        found = function(*xs)
        return found if found.dtype == result else cast(found, result)

    return converted if conversions else rounded
