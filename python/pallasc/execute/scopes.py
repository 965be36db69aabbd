"""What a name means where it is read, and integer expressions as closures over the environment.

While a kernel runs, its values, buffers and numbers stand in one list, each at a slot of its own:
no function calls itself. Slot 0 is the Device, slot 1 the point of the innermost grid.
"""

from dataclasses import dataclass

from .errors import ExecuteError
from .syntax import Buffer, Type

DEVICE, POINT = 0, 1


@dataclass(frozen=True)
class Value:
    """A name of a value."""

    slot: int
    type: Type


@dataclass(frozen=True)
class Memory:
    """A name of a buffer, an array in its slot."""

    slot: int
    buffer: Buffer


@dataclass(frozen=True)
class Window(Memory):
    """A loop's window: that of its step in the slot, `view(e, step)` that of any."""

    view: object


class Scope:
    """Names, and those of the regions around."""

    def __init__(self, outer=None):
        self.names = {} if outer is None else dict(outer.names)

    def __getitem__(self, name):
        if name not in self.names:
            raise ExecuteError(f"{name} is not defined here")
        return self.names[name]

    def find(self, name, kind, what):
        """What a name means, which must be of that kind."""
        found = self[name]
        if not isinstance(found, kind):
            raise ExecuteError(f"{name} is no {what}")
        return found


# ---- integers ------------------------------------------------------------------------------------


def _div(a, b):
    if a < 0 or b <= 0:
        raise ExecuteError(f"div({a}, {b}): only what is never negative is divided")
    return a // b


def _rem(a, b):
    if a < 0 or b <= 0:
        raise ExecuteError(f"rem({a}, {b}): only what is never negative is divided")
    return a % b


def _cdiv(a, b):
    if b <= 0:
        raise ExecuteError(f"cdiv({a}, {b}) divides by nothing")
    return -(-a // b)


_APPLY = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "==": lambda a, b: int(a == b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "&": lambda a, b: int(bool(a) and bool(b)),
    "neg": lambda a: -a,
    "div": _div,
    "rem": _rem,
    "cdiv": _cdiv,
    "min": min,
    "max": max,
    "choose": lambda flag, a, b: a if flag else b,
    "turn": lambda row, step, steps: step if row % 2 == 0 else steps - 1 - step,
}


def integer(tree, scope):
    """An expression: an int if it is one wherever it stands, else a function of the environment."""
    kind, *parts = tree
    if kind == "int":
        return parts[0]
    if kind == "name":
        return _name(parts[0], scope)
    if kind == "at":
        return _element(parts[0], [integer(part, scope) for part in parts[1]], scope)
    if kind == "device":
        return lambda e: e[DEVICE].number
    if kind in ("first", "later"):
        dim = integer(parts[0], scope)
        return lambda e: (e[POINT][dim] == 0) == (kind == "first")
    return _applied(_APPLY[kind], [integer(part, scope) for part in parts])


def _name(name, scope):
    value = scope.find(name, Value, "value")
    slot = value.slot
    if value.type.kind in ("int", "flag"):
        return lambda e: e[slot]
    if value.type.kind != "scalar":
        raise ExecuteError(f"{name} is no int")
    return lambda e: int(e[slot])


def _element(name, indices, scope):
    memory = scope.find(name, Memory, "buffer")
    slot, shape = memory.slot, memory.buffer.shape
    if len(indices) != len(shape):
        raise ExecuteError(f"{name}[...] of an integer expression is one element")
    indices = [function(i) for i in indices]

    def run(e):
        at = tuple(i(e) for i in indices)
        if not all(0 <= i < size for i, size in zip(at, shape, strict=True)):
            raise ExecuteError(f"{name}{list(at)} is outside of {list(shape)}")
        return int(e[slot][at])

    return run


def _applied(apply, parts):
    if all(isinstance(part, int) for part in parts):
        return apply(*parts)
    if len(parts) == 2:
        a, b = parts
        if isinstance(b, int):
            return lambda e: apply(a(e), b)
        if isinstance(a, int):
            return lambda e: apply(a, b(e))
        return lambda e: apply(a(e), b(e))
    parts = [function(part) for part in parts]
    return lambda e: apply(*[part(e) for part in parts])


def function(part):
    """What integer() gave as a function."""
    return part if callable(part) else lambda e: part
