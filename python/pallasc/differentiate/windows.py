"""Loops whose range moves with a grid tile: proofs that what they leave out is 0.

Causal attention's loop runs to the end of the tile of an outer block, sliding-window attention's
from some rows before its begin. Everything that such a loop accumulates has to be 0 (a maximum:
-inf) in lanes that it leaves out. Then all tiles of both blocks may be taken for it, and a backward
may run over either.
"""

import math
from dataclasses import dataclass

from .errors import GradError
from .values import LINEAR_VIEWS, Value, number_of, topological

ZERO, LEAST = "0", "-inf"
_ORDER = {
    "ge": lambda low: (low, math.inf),
    "gt": lambda low: (low + 1, math.inf),
    "le": lambda high: (-math.inf, high),
    "lt": lambda high: (-math.inf, high - 1),
}
_BOTH = ("aten.logical_and.default", "aten.bitwise_and.Tensor")
_PRODUCTS = ("aten.mul.Tensor", "aten.mm.", "aten.bmm.", "aten.addmm.", "tile.dot")
_KEEPS = (
    "tile.mask_to",
    "prims.convert_element_type.default",
    "aten.amax.default",
    "aten.sum.dim_IntList",
)


@dataclass
class Window:
    """The range of a loop: from `behind` lanes before a tile of `outer` to `ahead` after its end.

    None is no bound: the loop begins at 0, or ends with the block's range.
    """

    outer: str
    behind: int | None
    ahead: int | None


def bound(value, query, end=0):
    """(block, lanes added) of a bound that is `query` (tile.begin, tile.end) and some more.

    None: it is no such bound. Cut off at the range's ends, 0 or `end`, or moved down to a multiple
    of a block, it leaves out no more.
    """
    if not isinstance(value, Value):
        return None
    target, args = value.target, value.args
    if target == query:
        return args[0].get("sym"), 0
    if target in ("add", "sub", "sym_max", "sym_min") and any(isinstance(x, int) for x in args):
        x, number = args if isinstance(args[1], int) else reversed(args)
        found = bound(x, query, end)
        if found is None or (target == "sub" and x is not args[0]):
            return None
        if target in ("add", "sub"):
            return found[0], found[1] + (number if target == "add" else -number)
        begins = query == "tile.begin" and target == "sym_max" and number <= 0
        ends = query == "tile.end" and target == "sym_min" and number >= end
        return found if begins or ends else None
    if target == "mul" and query == "tile.begin" and isinstance(args[0], Value):
        quotient, size = args
        down = quotient.target == "floordiv" and quotient.args[1] == size
        return bound(quotient.args[0], query, end) if down else None
    return None


def _affine(value):
    """({block: factor}, number) of ints that are a sum of indices; None of others."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return {}, value
    if not isinstance(value, Value):
        return None
    target = value.target
    if target in LINEAR_VIEWS or (
        target == "prims.convert_element_type.default" and value.dtype in ("int32", "int64")
    ):
        return _affine(value.args[0])
    if target == "tile.index":
        return {value.args[0].get("sym"): 1}, 0
    name = target.split(".")[1] if target.startswith("aten.") else ""
    if name in ("add", "sub", "rsub") and not value.kwargs and len(value.args) == 2:
        one, other = map(_affine, value.args)
        if one is None or other is None:
            return None
        if name == "rsub":
            one, other = other, one
        return _difference(one, other, 1 if name == "add" else -1)
    return None


def _difference(one, other, sign=-1):
    """one + sign * other, of what _affine gives."""
    factors = {s: one[0].get(s, 0) + sign * other[0].get(s, 0) for s in {*one[0], *other[0]}}
    return {s: f for s, f in factors.items() if f}, one[1] + sign * other[1]


def _interval(condition, inner, outer):
    """(least, most) of outer index - inner index where a condition may hold."""
    while condition.target in LINEAR_VIEWS:
        condition = condition.args[0]
    everywhere = -math.inf, math.inf
    if condition.target in _BOTH:
        found = [_interval(x, inner, outer) for x in condition.args if isinstance(x, Value)]
        return max(low for low, _ in found), min(high for _, high in found)
    name = condition.target.split(".")[1] if condition.target.startswith("aten.") else ""
    sides = [_affine(x) for x in condition.args[:2]] if name in _ORDER else []
    if len(sides) != 2 or None in sides:
        return everywhere
    factors, number = _difference(*sides)  # compared with 0
    if factors == {outer: 1, inner: -1}:
        return _ORDER[name](-number)
    if factors == {outer: -1, inner: 1}:
        return _ORDER[{"g": "l", "l": "g"}[name[0]] + name[1]](number)
    return everywhere


def check(program, values):
    """Refuses what such a loop accumulates, unless what it leaves out is proven to be 0."""
    for inner, window in program.windows.items():
        for store in program.stores:
            if inner in store.value.space:
                raise GradError(
                    f"stores in a loop whose range moves with the tile of {window.outer!r}",
                    store.origin,
                )
        for side in ("past", "before"):
            _check(values, inner, window, side)


def _check(values, inner, window, side):
    outer, states = window.outer, {}
    if (window.ahead if side == "past" else window.behind) is None:
        return

    def hidden(condition):
        low, high = _interval(condition, inner, outer)
        return low >= -window.ahead if side == "past" else high <= window.behind

    order = topological(values)
    for value in order:
        states[value.number] = _state(value, hidden, states)
    for value in order:
        if value.target not in ("@sum", "@max") or not {inner, outer} & set(value.dims):
            continue
        part = value.args[0]
        wanted = LEAST if value.target == "@max" else ZERO
        if {inner, outer} <= part.space and states[part.number] != wanted:
            raise GradError(
                f"accumulates over a loop whose range moves with the tile of {outer!r}, and is "
                f"not proven to be {wanted} {side} it",
                value.origin,
                f"select by comparing an index of {outer!r} with one of {inner!r}, or run over "
                "the whole range",
            )


def _constant_state(argument):
    number = number_of(argument)
    return {0.0: ZERO, -math.inf: LEAST}.get(number)


def _state(value, hidden, states):
    def of(x):
        return states.get(x.number) if isinstance(x, Value) else _constant_state(x)

    target, args = value.target, value.args
    if target.startswith("aten.where."):
        condition, taken, other = args
        rest = _constant_state(other)
        if rest and isinstance(condition, Value) and hidden(condition):
            return rest
        first = of(taken) or _constant_state(taken)
        return first if first == (of(other) or rest) else None
    if target in _KEEPS or target in LINEAR_VIEWS or target == "aten.neg.default":
        state = of(args[0])
        return (
            None
            if state == LEAST and target in ("aten.neg.default", "aten.sum.dim_IntList")
            else state
        )
    if target in ("aten.exp.default", "aten.exp2.default"):
        return ZERO if of(args[0]) == LEAST else None
    if target.startswith(_PRODUCTS):
        if any(of(x) == ZERO for x in args[:2]):
            return ZERO
        factor = number_of(args[1]) if len(args) > 1 else None
        return LEAST if of(args[0]) == LEAST and factor is not None and factor > 0 else None
    if target == "aten.div.Tensor":
        return ZERO if of(args[0]) == ZERO else None
    if target in ("aten.add.Tensor", "aten.sub.Tensor"):
        both = [of(x) for x in args[:2]]
        if both[0] == LEAST and both[1] != LEAST:
            return LEAST
        return ZERO if both == [ZERO, ZERO] else None
    return None
