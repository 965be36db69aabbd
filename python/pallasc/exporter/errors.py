"""What the exporter raises."""

from ..errors import FileError, PallascError, UsageError

__all__ = ["ExportError", "FileError", "UsageError"]


class ExportError(PallascError):
    """A kernel, argument or configuration that the graph format cannot express.

    The message says what; `where` is `file:line` of the kernel's source, where known.
    """

    def __init__(self, message, where=None):
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.where = where
