"""Special functions that numpy lacks, in float64: erf and erfc (the fdlibm rationals), lgamma."""

import math

import numpy as np

_ERX = 8.45062911510467529297e-01
_PP = (
    1.28379167095512558561e-01,
    -3.25042107247001499370e-01,
    -2.84817495755985104766e-02,
    -5.77027029648944159157e-03,
    -2.37630166566501626084e-05,
)
_QQ = (
    1.0,
    3.97917223959155352819e-01,
    6.50222499887672944485e-02,
    5.08130628187576562776e-03,
    1.32494738004321644526e-04,
    -3.96022827877536812320e-06,
)
_PA = (
    -2.36211856075265944077e-03,
    4.14856118683748331666e-01,
    -3.72207876035701323847e-01,
    3.18346619901161753674e-01,
    -1.10894694282396677476e-01,
    3.54783043256182359371e-02,
    -2.16637559486879084300e-03,
)
_QA = (
    1.0,
    1.06420880400844228286e-01,
    5.40397917702171048937e-01,
    7.18286544141962662868e-02,
    1.26171219808761642112e-01,
    1.36370839120290507362e-02,
    1.19844998467991074170e-02,
)
_RA = (
    -9.86494403484714822705e-03,
    -6.93858572707181764372e-01,
    -1.05586262253232909814e01,
    -6.23753324503260060396e01,
    -1.62396669462573470355e02,
    -1.84605092906711035994e02,
    -8.12874355063065934246e01,
    -9.81432934416914548592e00,
)
_SA = (
    1.0,
    1.96512716674392571292e01,
    1.37657754143519042600e02,
    4.34565877475229228821e02,
    6.45387271733267880336e02,
    4.29008140027567833386e02,
    1.08635005541779435134e02,
    6.57024977031928170135e00,
    -6.04244152148580987438e-02,
)
_RB = (
    -9.86494292470009928597e-03,
    -7.99283237680523006574e-01,
    -1.77579549177547519889e01,
    -1.60636384855821916062e02,
    -6.37566443368389627722e02,
    -1.02509513161107724954e03,
    -4.83519191608651397019e02,
)
_SB = (
    1.0,
    3.03380607434824582924e01,
    3.25792512996573918826e02,
    1.53672958608443695994e03,
    3.19985821950859553908e03,
    2.55305040643316442583e03,
    4.74528541206955367215e02,
    -2.24409524465858183362e01,
)


def _ratio(x, top, bottom):
    return np.polyval(top[::-1], x) / np.polyval(bottom[::-1], x)


def _tail(x):
    """The erfc for x >= 1.25."""
    inverse = 1.0 / (x * x)
    ratio = np.where(x < 1 / 0.35, _ratio(inverse, _RA, _SA), _ratio(inverse, _RB, _SB))
    high = x.astype(np.float32).astype(np.float64)
    return np.exp(-high * high - 0.5625) * np.exp((high - x) * (high + x) + ratio) / x


def erf(x):
    """The error function of a float array, in float64."""
    x = np.asarray(x, np.float64)
    size = np.abs(x)
    with np.errstate(all="ignore"):
        small = x + x * _ratio(np.minimum(size, 1) ** 2, _PP, _QQ)
        middle = _ERX + _ratio(np.clip(size, 0.8, 1.3) - 1.0, _PA, _QA)
        large = 1.0 - _tail(np.clip(size, 1.25, 6.0))
        outer = np.copysign(np.where(size < 1.25, middle, large), x)
    return np.where(np.isnan(x), x, np.where(size < 0.84375, small, outer))


def erfc(x):
    """1 - erf(x) of a float array, in float64, accurate where it is small."""
    x = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        middle = 1.0 - _ERX - _ratio(np.clip(x, 0.8, 1.3) - 1.0, _PA, _QA)
        large = _tail(np.clip(x, 1.25, 30.0))
        outer = np.where(x < 1.25, middle, large)
    return np.where(np.isnan(x) | (x < 0.84375), 1.0 - erf(x), outer)


def lgamma(x):
    """The log |gamma(x)| of a float array, element by element, in float64."""

    def one(value):
        if math.isinf(value) or (value <= 0 and value == math.floor(value)):
            return math.inf
        return value if math.isnan(value) else math.lgamma(value)

    x = np.asarray(x, np.float64)
    return np.vectorize(one, otypes=[np.float64])(x) if x.size else x


def erfinv(x):
    """The inverse of erf on [-1, 1], in float64: a first guess, then Newton's steps."""
    x = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        log = np.log1p(-x * x)
        half = 2.0 / (np.pi * 0.147) + log / 2.0
        y = np.copysign(np.sqrt(np.sqrt(half * half - log / 0.147) - half), x)
        for _ in range(4):
            miss = np.where(x > 0.5, (1.0 - x) - erfc(y), erf(y) - x)
            y = y - miss * np.sqrt(np.pi) / 2.0 * np.exp(y * y)
    return np.where(np.abs(x) == 1, np.copysign(np.inf, x), y)


def digamma(x):
    """The derivative of log gamma, in float64: recurrence, reflection, asymptotic series."""
    x = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        reflected = np.where(x < 0.5, 1.0 - x, x)
        shift = np.zeros_like(reflected)
        for _ in range(8):
            small = reflected < 8
            shift = shift - np.where(small, 1.0 / reflected, 0.0)
            reflected = reflected + small
        inverse = 1.0 / (reflected * reflected)
        series = inverse * (1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse / 240)))
        value = shift + np.log(reflected) - 0.5 / reflected - series
        return np.where(x < 0.5, value - np.pi / np.tan(np.pi * x), value)
