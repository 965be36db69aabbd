"""What is refused, with the place that stops it."""

from ..errors import PallascError

PAIR = "write the backward as a graph too, and pair both: pallasc FWD.json --backward BWD.json"


class GradError(PallascError):
    """A graph that has no derived backward.

    The message names the node that stops it, with its line of source where the graph says it, and
    in a second line what can be done.
    """

    def __init__(self, message, origin=None, hint=PAIR):
        self.origin = origin
        at = f"{origin}: " if origin else ""
        super().__init__(f"{at}{message}" + (f"\n  hint: {hint}" if hint else ""))
