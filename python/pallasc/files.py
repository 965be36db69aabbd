"""Files that are written whole or not at all, and what is kept from one run to the next."""

import contextlib
import itertools
import json
import os
import stat
import threading
from pathlib import Path

from .errors import FileError

_numbers = itertools.count()


def write_whole(path, content):
    """A file with this content, text or bytes; whoever reads it sees the old one or the new one.

    It is written beside it and takes its name at the end; whatever comes between, as an interrupt,
    leaves the old one alone. A link stays one. What is no regular file, as a pipe, is written to.
    Raises OSError.
    """
    content = content.encode() if isinstance(content, str) else content
    path = os.path.realpath(path)
    mode = _mode(path)
    if mode is not None and not stat.S_ISREG(mode):
        with open(path, "wb") as file:
            file.write(content)
        return
    if mode is not None and not os.access(path, os.W_OK):
        raise PermissionError(13, os.strerror(13), path)  # a rename would replace it all the same
    name = f".pallasc-{os.getpid()}-{threading.get_native_id()}-{next(_numbers)}.tmp"
    part = os.path.join(os.path.dirname(path), name)
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            file.write(content)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def _mode(path):
    """The mode of what is there; None: nothing is."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def write_file(path, content):
    """`write_whole`. Raises FileError."""
    try:
        write_whole(path, content)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}") from None


# ---- what is kept --------------------------------------------------------------------------------


def keep(path, content):
    """Keeps a file, with its folders; a place that cannot be written is no error."""
    with contextlib.suppress(OSError):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)


def kept_json(path):
    """The value in a file that was kept; None: there is none, or no JSON in it."""
    try:
        return json.loads(Path(path).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def keep_line(path, line):
    """Adds a line to a file; a place that cannot be written is no error.

    It is one write, and begins a line of its own: what another process adds, and what a full disk
    cut short, stay apart from it.
    """
    with contextlib.suppress(OSError):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            os.write(file, f"\n{line}\n".encode())
        finally:
            os.close(file)


def kept_lines(path):
    """The lines of such a file, as far as they are text."""
    try:
        return [line for line in Path(path).read_text(errors="replace").splitlines() if line]
    except OSError:
        return []
