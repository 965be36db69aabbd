"""Where in the user's program a node is built, and errors that say so."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import linecache
import os
import sys
import types
from typing import Any

from ..errors import PallascError
from ..statements import Statements

_PACKAGE = __name__.rpartition(".")[0]


class BuildError(PallascError):
    """What cannot be built; the text begins with the caller's file and line."""


@dataclasses.dataclass(frozen=True)
class Place:
    """A line of the user's program.

    Attributes:
      file: the file's name, without its folder.
      line: counted from 1.
      loc: the format's `loc`: with the statement's text, where the source can be read.
      target: the name that the statement assigns, of `name = ...`; else None.
    """

    file: str
    line: int
    loc: dict[str, Any]
    target: str | None

    def error(self, message: str) -> BuildError:
        """An error that names this line."""
        return BuildError(f"{self.file}:{self.line}: {message}")


def caller() -> Place:
    """The line that called into this package."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and _is_own(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    if frame is None:
        return Place("<unknown>", 0, {}, None)
    return _place(frame.f_code.co_filename, frame.f_lineno)


def error(message: str) -> BuildError:
    """A `BuildError` at the caller's line."""
    return caller().error(message)


def _is_own(module: str) -> bool:
    return module == _PACKAGE or module.startswith(_PACKAGE + ".")


@functools.lru_cache(maxsize=4096)
def _place(filename: str, line: int) -> Place:
    file = os.path.basename(filename)
    statements = _statements(filename)
    loc = statements.loc_at(line) if statements else None
    statement = statements.statement_find(line) if statements else None
    target = None
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        target = statement.targets[0].id
    return Place(file, line, dict(loc or {"file": file, "line": line}), target)


@functools.lru_cache(maxsize=64)
def _statements(filename: str) -> Statements | None:
    """The statements of a file, or None where its text cannot be read."""
    lines = linecache.getlines(filename)
    with contextlib.suppress(SyntaxError, ValueError):
        if lines:
            return Statements(ast.parse("".join(lines)), lines, 1, os.path.basename(filename))
    return None
