"""The matrix work that a traced function asks for, to verify a run by.

A dot of [m, k] by [k, n] is computed in whole tiles: k and the dim of the operand that stays in the
matrix unit are filled up to the unit's size, the other's rows to what a register holds.
"""

import math

TOLERANCE = 0.25
_REGISTER_ROWS = {4: 8, 2: 16, 1: 32}  # by the bytes of an element


def expected(jaxpr, mxu):
    """What the dots of a jaxpr take.

    Returns a dict: "flops", as asked; "low", "high", in whole tiles with either operand in the
    matrix unit, and all passes of the precision that is asked; "exact": whether every dot's count
    is known (none under a `while` or `cond`, no convolution); "dots"; "xla_dots": those outside
    Pallas kernels, which XLA may compute more than once.
    """
    found = {"flops": 0, "low": 0, "high": 0, "exact": True, "dots": 0, "xla_dots": 0}
    _walk(jaxpr, found, mxu, 1, True, False)
    return found


def _walk(jaxpr, found, mxu, times, known, in_kernel):
    for equation in jaxpr.eqns:
        name, parameters = equation.primitive.name, equation.params
        if name == "dot_general":
            _add_dot(equation, found, mxu, times, in_kernel)
            found["exact"] &= known
            continue
        if name.startswith("conv_general"):
            found["exact"] = False
            found["dots"] += 1
            found["xla_dots"] += 1
            continue
        inner, inner_known = times, known
        if name == "pallas_call":
            grid = parameters["grid_mapping"].grid
            if all(isinstance(size, int) for size in grid):
                inner *= math.prod(grid)
            else:
                inner_known = False
        elif name == "scan":
            inner *= int(parameters["length"])
        elif name in ("while", "cond"):
            inner_known = False
        for value in parameters.values():
            for body in _jaxprs(value):
                kernel = in_kernel or name == "pallas_call"
                _walk(body, found, mxu, inner, inner_known, kernel)


def _jaxprs(value):
    """The jaxprs in a parameter."""
    for item in value if isinstance(value, list | tuple) else [value]:
        while not hasattr(item, "eqns") and hasattr(item, "jaxpr"):
            item = item.jaxpr
        if hasattr(item, "eqns"):
            yield item


def _add_dot(equation, found, mxu, times, in_kernel):
    (left_sum, right_sum), (left_batch, right_batch) = equation.params["dimension_numbers"]
    left, right = (variable.aval for variable in equation.invars[:2])
    batch = math.prod(left.shape[i] for i in left_batch)
    k = math.prod(left.shape[i] for i in left_sum)
    m = _rest(left.shape, (*left_sum, *left_batch))
    n = _rest(right.shape, (*right_sum, *right_batch))
    sizes = [
        _up(rows, _REGISTER_ROWS.get(side.dtype.itemsize, 8)) * _up(k, mxu) * _up(columns, mxu)
        for side, rows, columns in ((left, m, n), (right, n, m))
    ]
    passes = _passes(equation.params.get("precision")) if left.dtype.itemsize == 4 else 1
    found["flops"] += 2 * batch * m * n * k * times
    # Two dots that fill half of a unit's rows each may be one.
    packed = _up(k, mxu // 2) / _up(k, mxu)
    found["low"] += int(2 * batch * min(sizes) * times * packed)
    found["high"] += 2 * batch * max(sizes) * times * passes
    found["dots"] += 1
    found["xla_dots"] += not in_kernel


def _rest(shape, without):
    return math.prod(size for dim, size in enumerate(shape) if dim not in without)


def _up(size, multiple):
    return -(-size // multiple) * multiple


def _passes(precision):
    """Passes of bfloat16 that a float32 dot takes at a precision."""
    text = str(precision).upper()
    return 6 if "HIGHEST" in text else 3 if "HIGH" in text else 1


def check(dots, executed):
    """(errors, warnings): the executed matrix FLOP against those that the dots of a jaxpr need."""
    if not dots or not dots["exact"] or not dots["dots"]:
        return [], []
    low, high = dots["low"] * (1 - TOLERANCE), dots["high"] * (1 + TOLERANCE)
    if low <= executed <= high:
        return [], []
    text = (
        f"MXU work: executed {executed:.4g} flops, the jaxpr's dots need {dots['low']:.4g}.."
        f"{dots['high']:.4g} with tile padding"
    )
    if executed > high and dots["xla_dots"]:
        return [], [f"{text} (or XLA computes a dot more than once)"]
    return [text], []
