"""What is refused, with the place that stops it."""

from ..errors import PallascError

PAIR = "write the backward as a graph too, and pair both: pallasc FWD.json --backward BWD.json"
RANGE = f"run over the whole range and choose lanes by their index; or {PAIR}"
BRANCH = f"compute both sides and choose with aten.where; or {PAIR}"
ROOTS = (
    "make each root a graph of its own: each is differentiated, and jax calls one after the other"
)
STEPS = "return the array as it is stored, and take the steps in jax around the kernel"
PARTS = f"give each tile a place of its own, in another dim, and sum in jax; or {PAIR}"
WRITTEN = f"read an input, and write an output of its own; or {PAIR}"
NOTHING = "there is nothing to differentiate: floats of 32 and 16 bits have gradients"


class GradError(PallascError):
    """A graph that has no derived backward.

    The message names the node that stops it, with its line of source where the graph says it, and
    in a second line what can be done.
    """

    def __init__(self, message, origin=None, hint=PAIR):
        self.origin = origin
        at = f"{origin}: " if origin else ""
        super().__init__(f"{at}{message}" + (f"\n  hint: {hint}" if hint else ""))
