"""What reading and running kernel text raises."""

from ..errors import KernelError, PallascError


class TextError(PallascError):
    """A text that is no kernel: `line` and `column`, from 1, say where it goes wrong."""

    def __init__(self, message, line, column=1):
        super().__init__(f"{line}:{column}: {message}")
        self.line, self.column = line, column


class ExecuteError(KernelError):
    """A kernel that does what it must not; `line` of the text is the statement, if known."""

    def __init__(self, message, line=None):
        super().__init__(message if line is None else f"line {line}: {message}")
        self.line = line


def located(error, line):
    """`error` as an ExecuteError of that line, unless it names one already."""
    if isinstance(error, (ExecuteError, TextError)) and error.line is not None:
        return error
    if isinstance(error, PallascError):
        return ExecuteError(str(error), line)
    return ExecuteError(f"{type(error).__name__}: {error}" if str(error) else repr(error), line)
