"""Two texts that must compute the same."""

import numpy as np

from .errors import ExecuteError
from .machine import Machine
from .parse import parse
from .values import same_bits


def compare(before, after, arrays, rtol=None, atol=0.0):
    """Runs both texts on the arrays; raises ExecuteError where they differ, as check_same() does.

    Gives the arrays of `after`.
    """
    old, new = (Machine(parse(text)).run(arrays) for text in (before, after))
    check_same(old, new, rtol, atol)
    return new


def check_same(old, new, rtol=None, atol=0.0):
    """Raises ExecuteError where arrays differ from what they were.

    Equal bit for bit, NaNs being equal; with `rtol`, as for sums that are taken in another order,
    |a - b| <= atol + rtol * |b|.
    """
    if len(old) != len(new):
        raise ExecuteError(f"{len(new)} arrays are returned, {len(old)} were")
    for number, (a, b) in enumerate(zip(old, new, strict=True)):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            raise ExecuteError(
                f"array {number} is {b.dtype.name}{list(b.shape)}, "
                f"it was {a.dtype.name}{list(a.shape)}"
            )
        same = same_bits(a, b)
        if rtol is not None and a.dtype != bool:
            same |= _close(a.astype(np.float64), b.astype(np.float64), rtol, atol)
        if not same.all():
            at = tuple(int(i) for i in np.argwhere(~same)[0])
            raise ExecuteError(
                f"array {number} differs in {int((~same).sum())} of {same.size} elements, "
                f"first at {list(at)}: {b[at]!r}, it was {a[at]!r}"
            )


def _close(a, b, rtol, atol):
    with np.errstate(invalid="ignore"):
        return np.abs(a - b) <= atol + rtol * np.abs(b)
