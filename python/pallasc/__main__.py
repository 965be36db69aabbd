"""`pallasc COMMAND ...`, of the commands that Python runs; `python -m pallasc COMMAND ...`."""

import contextlib
import importlib
import os
import signal
import sys

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until main() no interrupt is worth a traceback

from .errors import PallascError
from .limit import ending, exit_status

COMMANDS = {
    "export": "trace a Helion kernel and write its graph",
    "grad": "derive the backward pass of a graph, as a graph",
    "run": "run a kernel module, on a TPU or simulated",
    "check": "compile a graph, simulate the kernel, compare with the reference",
    "aot": "compile a kernel module for a chip, with no TPU present",
    "execute": "execute the text of a kernel in NumPy",
    "profile": "execute the compiler's schedule of a kernel: cycles, slots, bytes, waits",
    "tune": "find the fastest configuration of a graph, with no TPU or on one",
    "reduce": "make a graph that shows a failure small",
    "on-tpu": "run the rows of docs/results.md on a TPU: numbers, times, chip data from them",
    "lint": "look for what an emitted module must not hold",
}
# Commands whose module has another name.
MODULES = {"grad": "differentiate"}

USAGE = """usage: pallasc COMMAND ...

{commands}

pallasc COMMAND --help says more. Exit status: 0 done, 1 refused or off, 2 wrong usage,
3 cannot read or write."""


def usage():
    """The help text."""
    lines = [f"  {name:8}{summary}" for name, summary in COMMANDS.items()]
    return USAGE.format(commands="\n".join(lines))


def main(argv=None):
    """Runs a command; gives the exit status. No traceback reaches the user.

    SIGINT, SIGTERM and SIGHUP end it as `Ended` does: workers and temporary files go with it. But
    what waits for a TPU itself may never look, and is ended by the system.
    """
    argv = sys.argv[1:] if argv is None else argv
    try:
        with contextlib.nullcontext() if argv[:1] == ["on-tpu"] else ending():
            try:
                status = _dispatch(argv)
            except SystemExit as end:  # of --help; of a worker under a time limit
                status = end.code
            sys.stdout.flush()
        return status
    except PallascError as error:
        return _fail(str(error), error.exit_status)
    except KeyboardInterrupt as interrupt:
        return exit_status(interrupt)
    except BrokenPipeError:
        _discard_output()
        return 3
    except OSError as error:
        return _fail(str(error), 3)
    except MemoryError:
        return _fail("out of memory", 3)
    except Exception as error:
        if os.environ.get("PALLASC_DEBUG"):
            raise
        text = " ".join(str(error).split())[:500]
        hint = "PALLASC_DEBUG=1 shows where"
        return _fail(f"internal error: {type(error).__name__}: {text} ({hint})", 3)


def _dispatch(argv):
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(usage(), file=sys.stdout if argv else sys.stderr)
        return 0 if argv else 2
    if argv[0] == "--version":
        from . import __version__

        print(f"pallasc {__version__}")
        return 0
    command, *rest = argv
    if command not in COMMANDS:
        return _fail(f"unknown command {command!r} (see python -m pallasc --help)", 2)
    module = MODULES.get(command, command.replace("-", "_"))
    status = importlib.import_module(f".{module}", __package__).main(rest)
    return 0 if status is None else status


def _fail(message, status):
    print(f"pallasc: error: {message}", file=sys.stderr)
    return status


def _discard_output():
    """Nobody reads standard output any more: keep the interpreter from complaining at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
