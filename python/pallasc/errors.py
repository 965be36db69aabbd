"""What pallasc raises, and the exit status of the command line for each."""


class PallascError(Exception):
    """Anything that is reported to the user in one line, without a traceback.

    `exit_status` is what the command line ends with: 1 refused or off, 2 wrong usage, 3 cannot
    read, write or load.
    """

    exit_status = 1


class UsageError(PallascError):
    """A command line or argument that cannot be understood."""

    exit_status = 2


class ArgumentError(UsageError, TypeError):
    """Arrays that do not fit the kernel that is called with them."""


class FileError(PallascError):
    """A file, pipe or library that cannot be read, written or loaded."""

    exit_status = 3


class ModuleError(PallascError):
    """A text that is not a kernel module of pallasc, or does not load."""


class KernelError(PallascError):
    """A kernel that failed while it ran."""


class CompileError(PallascError):
    """A graph or configuration that the compiler refuses.

    Attributes:
      diagnostics: list of dicts as `pallasc --diagnostics=json` prints them.
    """

    def __init__(self, message, diagnostics=(), exit_status=1):
        super().__init__(message)
        self.diagnostics = list(diagnostics)
        self.exit_status = exit_status
