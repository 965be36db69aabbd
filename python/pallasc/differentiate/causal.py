"""Loops that end with a grid tile: proofs that what they leave out is 0.

Such a loop runs to the end of the tile of an outer block, as causal attention's does. Everything it
accumulates has to be 0 (a maximum: -inf) in lanes whose index is past the outer one's. Then all
tiles of both blocks may be taken for it, and a backward may run over either.
"""

import math

from .errors import GradError
from .values import LINEAR_VIEWS, Value, number_of, topological

ZERO, LEAST = "0", "-inf"
_FORWARDS = ("aten.ge.Tensor", "aten.gt.Tensor")
_BACKWARDS = ("aten.le.Tensor", "aten.lt.Tensor")
_BOTH = ("aten.logical_and.default", "aten.bitwise_and.Tensor")
_PRODUCTS = ("aten.mul.Tensor", "aten.mm.", "aten.bmm.", "aten.addmm.", "tile.dot")
_KEEPS = (
    "tile.mask_to",
    "prims.convert_element_type.default",
    "aten.amax.default",
    "aten.sum.dim_IntList",
)


def check(program, values):
    """Refuses what a loop that ends with a tile accumulates, unless the rest is proven to be 0."""
    for inner, outer in program.until.items():
        states = {}
        for value in topological(values):
            states[value.number] = _state(value, inner, outer, states)
        for store in program.stores:
            if inner in store.value.space:
                raise GradError(
                    f"stores in a loop that ends with the tile of {outer!r}", store.origin
                )
        for value in topological(values):
            if value.target not in ("@sum", "@max") or not {inner, outer} & set(value.dims):
                continue
            part = value.args[0]
            wanted = LEAST if value.target == "@max" else ZERO
            if {inner, outer} <= part.space and states[part.number] != wanted:
                raise GradError(
                    f"accumulates over a loop that ends with the tile of {outer!r}, and is not "
                    f"proven to be {wanted} past it: select by an index "
                    f"of {outer!r} that is at least that of {inner!r}",
                    value.origin,
                )


def _index_of(value):
    while isinstance(value, Value) and value.target in LINEAR_VIEWS:
        value = value.args[0]
    if isinstance(value, Value) and value.target == "tile.index":
        return value.args[0].get("sym")
    return None


def _hides(condition, inner, outer):
    """Whether a condition is false in all lanes whose inner index is past the outer one."""
    while condition.target in LINEAR_VIEWS:
        condition = condition.args[0]
    if condition.target in _BOTH:
        return any(_hides(x, inner, outer) for x in condition.args if isinstance(x, Value))
    if condition.target in _FORWARDS:
        return [_index_of(x) for x in condition.args] == [outer, inner]
    if condition.target in _BACKWARDS:
        return [_index_of(x) for x in condition.args] == [inner, outer]
    return False


def _constant_state(argument):
    number = number_of(argument)
    return {0.0: ZERO, -math.inf: LEAST}.get(number)


def _state(value, inner, outer, states):
    def of(x):
        return states.get(x.number) if isinstance(x, Value) else _constant_state(x)

    target, args = value.target, value.args
    if target.startswith("aten.where."):
        condition, taken, other = args
        rest = _constant_state(other)
        if rest and isinstance(condition, Value) and _hides(condition, inner, outer):
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
