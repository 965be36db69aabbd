"""Blocks of operands over a grid: cut when the index changes, put back then and at the end."""

from .memory import cut, inside
from .scopes import DEVICE
from .values import poisoned


class Blocks:
    """Where an operand's blocks come from. `array(e)` is the operand, `index` functions of e."""

    def __init__(self, array, shape, index, slot, output):
        self.array, self.shape, self.index = array, shape, index
        self.slot, self.output = slot, output
        self.at = self.block = None

    def new(self):
        """The same for another walk over the grid."""
        return Blocks(self.array, self.shape, self.index, self.slot, self.output)

    def move(self, e):
        """To the block of the grid's point, which stays if it is the same."""
        at = [i(e) for i in self.index]
        if at == self.at:
            e[self.slot] = self.block
            return
        self.finish(e)
        self.at = at
        array = self.array(e)
        if self.output:
            inside(array, self.start(), self.shape)
            self.block = poisoned(self.shape, array.dtype)
        else:
            start = self.start()
            e[DEVICE].flights.check_read(inside(array, start, self.shape)[0])
            self.block = cut(array, start, self.shape)
            self.block.flags.writeable = False
        e[self.slot] = self.block

    def start(self):
        """Of the block, in elements."""
        return [i * size for i, size in zip(self.at, self.shape, strict=True)]

    def finish(self, e):
        """Puts a result back."""
        if not self.output or self.at is None:
            return
        part, here = inside(self.array(e), self.start(), self.shape)
        e[DEVICE].flights.check_write(part)
        part[...] = self.block[here]
