"""The statements of a Python source: where a node of a graph comes from."""

import ast
from collections.abc import Sequence
from typing import Any


class Statements:
    """Statements of a parsed source, and what the format's `loc` is of each line.

    Args:
      tree: an `ast` tree, whose line numbers are those of the file.
      lines: the file's lines from `first` on.
      file: what `loc` calls the file.
    """

    def __init__(self, tree: ast.AST, lines: Sequence[str], first: int, file: str) -> None:
        self.file, self.lines, self.first = file, lines, first
        self.statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
        self.locs: dict[
            int, dict[str, Any] | None
        ] = {}  # line -> its `loc`, asked for once for each node

    def statement_find(self, line: int) -> ast.stmt | None:
        """Return the innermost statement that spans `line`, or None."""
        found = None
        for node in self.statements:
            if not node.lineno <= line <= (node.end_lineno or node.lineno):
                continue
            if found is None or node.lineno >= found.lineno:
                found = node
        return found

    def loc_at(self, line: int) -> dict[str, Any] | None:
        """Return the format's `loc` for `line`: the whole statement, or a block's header."""
        if line not in self.locs:
            self.locs[line] = self.loc_make(line)
        return self.locs[line]

    def loc_make(self, line: int) -> dict[str, Any] | None:
        """Return the `loc` of a line, or None."""
        statement = self.statement_find(line)
        if statement is None:
            return None
        last = statement.end_lineno or statement.lineno
        if body := getattr(statement, "body", None):
            last = max(statement.lineno, body[0].lineno - 1)
        text = self.lines[statement.lineno - self.first : last - self.first + 1]
        code = " ".join(" ".join(text).split())
        return {"file": self.file, "line": statement.lineno, "code": code}
