"""What is refused, with the place that stops it."""

from ..errors import PallascError


class GradError(PallascError):
    """A graph that has no derived backward; the message names the node that stops it."""

    def __init__(self, message, origin=None):
        self.origin = origin
        super().__init__(f"{origin}: {message}" if origin else message)
