"""Pointwise targets, one row each: computed in float32 (or the ints' own width), then rounded."""

import ml_dtypes
import numpy as np

from . import special
from .errors import GraphError
from .registry import OPS, register
from .values import FLOAT32, INT32, cast, compute_dtype, is_float, kind_rank, result_type, to_array


def _pointwise(function, result):
    """A target: promotes its operands, computes, rounds to the `result` class of dtype."""

    def run(*operands):
        dtype = result_type(operands)
        if result == "float" and not is_float(dtype):
            dtype = FLOAT32
        compute = compute_dtype(dtype)
        with np.errstate(all="ignore"):
            value = function(*(to_array(x, compute) for x in operands))
        return np.asarray(value, bool) if result == "bool" else cast(value, dtype)

    return run


def _rows(result, rows):
    for names, function in rows.items():
        for name in names.split():
            OPS[f"aten.{name}"] = _pointwise(function, result)


def _wide(function):
    """`function` computed in float64."""
    return lambda *xs: function(*(np.asarray(x, np.float64) for x in xs))


def _sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def _sign(x):
    """The sign; 0 for NaN, as in torch."""
    if x.dtype.kind == "b":
        return x
    return np.sign(x) if x.dtype.kind != "f" else np.nan_to_num(np.sign(x), nan=0.0)


def _softsign(x):
    return x / (1.0 + np.abs(x))


def _mish(x):
    return x * np.tanh(np.logaddexp(0.0, x))


def _power(x, y):
    if x.dtype.kind == "f":
        return np.power(x, y)
    wide = np.power(x.astype(np.int64), np.maximum(y, 0).astype(np.int64))
    return np.where(y < 0, np.where(np.abs(x) == 1, x ** np.abs(y % 2), 0), wide)


def _trunc_div(x, y):
    """The quotient without its fraction: of floats the rounded one, of ints the exact one."""
    if x.dtype.kind == "f":
        return np.trunc(x / y)
    wide, by = x.astype(np.int64), y.astype(np.int64)
    return np.sign(wide) * np.sign(by) * np.floor_divide(np.abs(wide), np.abs(by))


def _remainder(x, y):
    """Of the divisor's sign; a zero has the dividend's."""
    rest = np.remainder(x, y)
    return np.where(rest == 0, np.copysign(rest, x), rest) if x.dtype.kind == "f" else rest


def _lerp(a, b, weight):
    """From the nearer end, so that a weight of 1 gives `b`."""
    near_b = b - (b - a) * (1 - weight)
    return np.where(np.abs(weight) < 0.5, a + weight * (b - a), near_b)


def _same(function):
    """`function` on floats; ints and bools pass unchanged."""
    return lambda x: function(x) if x.dtype.kind == "f" else x


_rows(
    "same",
    {
        "mul": np.multiply,
        "neg": np.negative,
        "abs": np.abs,
        "square": np.square,
        "sign sgn": _sign,
        "relu": lambda x: np.maximum(x, x.dtype.type(0)),
        "relu6": lambda x: np.clip(x, 0, 6),
        "floor": _same(np.floor),
        "ceil": _same(np.ceil),
        "trunc fix": _same(np.trunc),
        "frac": lambda x: x - np.trunc(x),
        "maximum": np.maximum,
        "minimum": np.minimum,
        "fmax": np.fmax,
        "fmin": np.fmin,
        "fmod": np.fmod,
        "remainder": _remainder,
        "floor_divide": np.floor_divide,
        "pow": _power,
        "bitwise_and __and__": np.bitwise_and,
        "bitwise_or __or__": np.bitwise_or,
        "bitwise_xor __xor__": np.bitwise_xor,
        "bitwise_not": np.invert,
        "bitwise_left_shift __lshift__": np.left_shift,
        "bitwise_right_shift __rshift__": np.right_shift,
        "nextafter": np.nextafter,
        "clamp_min": np.maximum,
        "clamp_max": np.minimum,
        "lerp": _lerp,
    },
)
_rows(
    "float",
    {
        "reciprocal": lambda x: 1.0 / x,
        "exp": np.exp,
        "exp2": np.exp2,
        "expm1": np.expm1,
        "log": np.log,
        "log2": np.log2,
        "log10": np.log10,
        "log1p": np.log1p,
        "sqrt": np.sqrt,
        "rsqrt": _wide(lambda x: 1.0 / np.sqrt(x)),
        "sin": np.sin,
        "cos": np.cos,
        "tan": np.tan,
        "asin arcsin": np.arcsin,
        "acos arccos": np.arccos,
        "atan arctan": np.arctan,
        "atan2 arctan2": np.arctan2,
        "sinh": np.sinh,
        "cosh": np.cosh,
        "tanh": np.tanh,
        "asinh": np.arcsinh,
        "acosh": np.arccosh,
        "atanh": np.arctanh,
        "sigmoid": _wide(_sigmoid),
        "silu": _wide(lambda x: x * _sigmoid(x)),
        "log_sigmoid_forward logsigmoid log_sigmoid": _wide(lambda x: -np.logaddexp(0.0, -x)),
        "mish": _wide(_mish),
        "softsign": _softsign,
        "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
        "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
        "erf special_erf": special.erf,
        "erfc special_erfc": special.erfc,
        "erfinv special_erfinv": special.erfinv,
        "lgamma": special.lgamma,
        "digamma": special.digamma,
        "copysign": np.copysign,
        "hypot": np.hypot,
        "deg2rad": np.deg2rad,
        "rad2deg": np.rad2deg,
        "xlogy": lambda x, y: np.where(x == 0, np.where(np.isnan(y), y, 0), x * np.log(y)),
        "logaddexp": np.logaddexp,
    },
)
_rows(
    "bool",
    {
        "eq": np.equal,
        "ne not_equal": np.not_equal,
        "lt less": np.less,
        "le less_equal": np.less_equal,
        "gt greater": np.greater,
        "ge greater_equal": np.greater_equal,
        "logical_and": np.logical_and,
        "logical_or": np.logical_or,
        "logical_xor": np.logical_xor,
        "logical_not": np.logical_not,
        "isnan": lambda x: np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool),
        "isinf": lambda x: np.isinf(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool),
        "isfinite": lambda x: np.isfinite(x) if x.dtype.kind == "f" else np.ones(x.shape, bool),
        "signbit": lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0,
    },
)
OPS["prims.fma"] = _pointwise(_wide(lambda a, b, c: a * b + c), "same")


@register("aten.add")
def _add(x, other, alpha=1):
    return _pointwise(lambda a, b: a + b * a.dtype.type(alpha), "same")(x, other)


@register("aten.sub")
def _sub(x, other, alpha=1):
    return _pointwise(lambda a, b: a - b * a.dtype.type(alpha), "same")(x, other)


@register("aten.rsub")
def _rsub(x, other, alpha=1):
    return _sub(other, x, alpha)


@register("aten.div", "aten.divide", "aten.true_divide")
def _div(x, other, rounding_mode=None):
    if rounding_mode is None:
        return _pointwise(np.divide, "float")(x, other)
    if rounding_mode not in ("floor", "trunc"):
        raise GraphError(f"unknown rounding_mode {rounding_mode!r}")
    return _pointwise(np.floor_divide if rounding_mode == "floor" else _trunc_div, "same")(x, other)


@register("aten.round")
def _round(x, decimals=0):
    return _pointwise(_same(lambda v: np.round(v, decimals)), "same")(x)


@register("aten.clamp", "aten.clip")
def _clamp(x, low=None, high=None, **limits):
    low, high = limits.get("min", low), limits.get("max", high)
    bounds = [v for v in (low, high) if v is not None]
    dtype = result_type([x, *bounds])
    value = to_array(x, compute_dtype(dtype))
    if low is not None:
        value = np.maximum(value, to_array(low, value.dtype))
    if high is not None:
        value = np.minimum(value, to_array(high, value.dtype))
    return cast(value, dtype)


@register("aten.hardtanh")
def _hardtanh(x, min_val=-1, max_val=1):
    return _clamp(x, min_val, max_val)


@register("aten.where")
def _where(condition, x, other):
    select = _pointwise(lambda a, b: np.where(to_array(condition, np.dtype(bool)), a, b), "same")
    return select(x, other)


@register("aten.masked_fill")
def _masked_fill(x, mask, value):
    fill = cast(to_array(value, x.dtype), x.dtype)
    return np.where(mask, fill, x)


@register("aten.gelu")
def _gelu(x, approximate="none"):
    def exact(v):
        return 0.5 * v * (1.0 + special.erf(v / np.sqrt(2.0)))

    def tanh(v):
        return 0.5 * v * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (v + 0.044715 * v**3)))

    return _pointwise(_wide(exact if approximate == "none" else tanh), "float")(x)


@register("aten.softplus")
def _softplus(x, beta=1, threshold=20):
    def soft(v):
        scaled = v * beta
        return np.where(scaled > threshold, v, np.logaddexp(0.0, scaled) / beta)

    return _pointwise(_wide(soft), "float")(x)


@register("aten.leaky_relu")
def _leaky_relu(x, negative_slope=0.01):
    slope = np.float32(negative_slope)
    return _pointwise(lambda v: np.where(v > 0, v, v * slope), "float")(x)


@register("aten.elu")
def _elu(x, alpha=1.0, scale=1.0, input_scale=1.0):
    def elu(v):
        return scale * np.where(v > 0, v, alpha * np.expm1(np.minimum(v, 0) * input_scale))

    return _pointwise(elu, "float")(x)


@register("aten.logit")
def _logit(x, eps=None):
    def logit(v):
        v = v if eps is None else np.clip(v, eps, 1 - eps)
        return np.log(v / (1 - v))

    return _pointwise(logit, "float")(x)


@register("aten.threshold")
def _threshold(x, threshold, value):
    return _pointwise(lambda v: np.where(v <= threshold, v.dtype.type(value), v), "same")(x)


@register("aten.addcmul")
def _addcmul(x, a, b, value=1):
    return _pointwise(lambda v, p, q: v + v.dtype.type(value) * p * q, "same")(x, a, b)


@register("aten.addcdiv")
def _addcdiv(x, a, b, value=1):
    return _pointwise(lambda v, p, q: v + v.dtype.type(value) * p / q, "float")(x, a, b)


@register("aten.ldexp")
def _ldexp(x, other):
    return _pointwise(lambda a, b: a * np.exp2(b), "float")(x, other)


@register("aten.nan_to_num")
def _nan_to_num(x, nan=None, posinf=None, neginf=None):
    if kind_rank(x.dtype) != 2:
        return x
    limit = float(_finite_max(x.dtype))
    return cast(
        np.nan_to_num(
            x.astype(np.float32),
            nan=nan or 0.0,
            posinf=limit if posinf is None else posinf,
            neginf=-limit if neginf is None else neginf,
        ),
        x.dtype,
    )


def _finite_max(dtype):
    return ml_dtypes.finfo(dtype).max


@register("prims.convert_element_type", "aten.to", "prims.device_put")
def _convert(x, dtype=None, **_ignored):
    return x if dtype is None else to_array(x, dtype)


@register("aten._to_copy")
def _to_copy(x, dtype=None, **_ignored):
    return np.array(x) if dtype is None else to_array(x, dtype)


@register("aten.clone", "aten.contiguous", "aten.alias", "aten.detach", "aten.lift_fresh_copy")
def _copy(x, **_ignored):
    return x


@register("aten.bitwise_count")
def _bitwise_count(x):
    return cast(np.bitwise_count(x), INT32)


OPS["prims.abs"] = OPS["aten.abs"]
OPS["aten.max.other"] = OPS["aten.maximum"]
OPS["aten.min.other"] = OPS["aten.minimum"]
