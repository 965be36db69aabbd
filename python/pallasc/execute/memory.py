"""References to parts of buffers, and blocks cut from arrays and put back."""

from dataclasses import dataclass

import numpy as np

from .errors import ExecuteError
from .scopes import Memory, Window, function, integer
from .syntax import Ref
from .values import poisoned

# ---- blocks --------------------------------------------------------------------------------------


def cut(array, start, shape):
    """The block that starts there, poison where it reaches beyond the array."""
    if all(0 <= s <= n - b for s, b, n in zip(start, shape, array.shape, strict=True)):
        return array[tuple(slice(s, s + b) for s, b in zip(start, shape, strict=True))].copy()
    inside, here = _parts(array, start, shape)
    block = poisoned(shape, array.dtype)
    block[here] = array[inside]
    return block


def inside(array, start, shape):
    """The part of the array that a block covers, and where it stands in the block."""
    whole, here = _parts(array, start, shape)
    return array[whole], here


def _parts(array, start, shape):
    for s, n in zip(start, array.shape, strict=True):
        if not 0 <= s < max(n, 1):
            raise ExecuteError(f"a block at {list(start)} is outside of {list(array.shape)}")
    ends = [min(s + b, n) for s, b, n in zip(start, shape, array.shape, strict=True)]
    whole = tuple(slice(s, end) for s, end in zip(start, ends, strict=True))
    return whole, tuple(slice(0, end - s) for s, end in zip(start, ends, strict=True))


# ---- references ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A resolved reference: `view(e)` is a NumPy view, of this shape, into the memory."""

    memory: Memory
    shape: tuple
    view: object

    @property
    def dtype(self):
        """Of the buffer; None: semaphores."""
        return self.memory.buffer.dtype

    @property
    def space(self):
        """Of the buffer."""
        return self.memory.buffer.space


def place(ref, scope):
    """The Place of a Ref."""
    memory = scope.find(ref.name, Memory, "buffer")
    slot, shape = memory.slot, memory.buffer.shape
    dims = ref.dims or ()
    if ref.at is not None:
        if dims or not isinstance(memory, Window):
            raise ExecuteError(f"{ref.name} is no window of a loop, or not all of it")
        step, window = function(integer(ref.at, scope)), memory.view
        return Place(memory, shape, lambda e: window(e, step(e)))
    if len(dims) > len(shape):
        raise ExecuteError(f"{ref.name} has {len(shape)} dims, not {len(dims)}")
    if all(dim.kind == "all" for dim in dims):
        return Place(memory, shape, lambda e: e[slot])
    items = [
        _item(ref.name, dim, size, integer(dim.start, scope))
        for dim, size in zip(dims, shape, strict=False)
    ]
    kept = [
        size if dim.kind == "all" else dim.size
        for dim, size in zip(dims, shape, strict=False)
        if dim.kind != "at"
    ]
    return Place(memory, (*kept, *shape[len(dims) :]), _view(slot, items))


def _item(name, dim, size, start):
    """One dim's index: a constant, or a function of the environment."""
    if dim.kind == "all":
        return slice(None)

    def at(number):
        if dim.multiple and number % dim.multiple:
            raise ExecuteError(f"{name}: {number} is no multiple of {dim.multiple}")
        if dim.kind == "part" and not 0 <= number < dim.parts:
            raise ExecuteError(f"{name}: part {number} is none of {dim.parts}")
        first = number * dim.size if dim.kind == "part" else number
        if not 0 <= first <= size - dim.size:
            what = first if dim.kind == "at" else f"{first} +: {dim.size}"
            raise ExecuteError(f"{name}[{what}] is outside of {size}")
        return first if dim.kind == "at" else slice(first, first + dim.size)

    return (lambda e: at(start(e))) if callable(start) else at(start)


def _view(slot, items):
    if not any(callable(item) for item in items):
        index = (*items, Ellipsis)
        return lambda e: e[slot][index]
    if len(items) == 1:
        only = items[0]
        return lambda e: e[slot][only(e), ...]

    def view(e):
        return e[slot][(*[item(e) if callable(item) else item for item in items], ...)]

    return view


def whole(name):
    """All of a buffer."""
    return Ref(name, None)


def overlap(a, b):
    """Whether two views share an element."""
    return bool(np.may_share_memory(a, b) and np.shares_memory(a, b))
