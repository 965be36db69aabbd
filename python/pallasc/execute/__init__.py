"""Kernel text executed in NumPy: what docs/kernel.md says a kernel does, statement by statement.

`run(text, *arrays)` gives the arrays that the program returns; `compare(before, after, arrays)`
runs two texts, which must give the same. Every statement's result is checked against its stated
type. Memory that nothing has written holds poison, and a copy's data is there only once it is
waited for, so that what depends on luck shows.
"""

from .errors import ExecuteError, TextError
from .machine import Machine
from .parse import parse
from .same import check_same, compare

__all__ = ["ExecuteError", "Machine", "TextError", "check_same", "compare", "load", "run"]


def load(text):
    """A Machine of a text: its run(arrays) may be called again and again."""
    return Machine(parse(text))


def run(text, *arrays):
    """A tuple of the arrays that a program returns.

    A program whose kernels run on a mesh takes and gives arrays with a leading dim, of devices.
    Raises TextError for a text that is no kernel, ExecuteError for one that does what it must not.
    """
    return load(text).run(arrays)


def main(argv):
    """The command `execute`."""
    from .command import main

    return main(argv)
