"""Where a node comes from: the statement of the kernel's source at a line."""

import ast
import inspect
import os
import textwrap


class KernelSource:
    """The parsed source of a kernel function; line numbers are those of its file."""

    def __init__(self, fn):
        lines, first = inspect.getsourcelines(fn)
        self.path = inspect.getsourcefile(fn) or fn.__code__.co_filename
        self.file = os.path.basename(self.path)
        self.tree = ast.parse(textwrap.dedent("".join(lines)))
        ast.increment_lineno(self.tree, first - 1)
        self.lines = lines
        self.first = first

    def statement_find(self, line):
        """Return the innermost statement that spans `line`, or None."""
        found = None
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.stmt) or not node.lineno <= line <= node.end_lineno:
                continue
            if found is None or node.lineno >= found.lineno:
                found = node
        return found

    def loc_at(self, line):
        """Return the format's `loc` for `line`: the whole statement, or a block's header."""
        statement = self.statement_find(line)
        if statement is None:
            return None
        last = statement.end_lineno
        if body := getattr(statement, "body", None):
            last = max(statement.lineno, body[0].lineno - 1)
        text = self.lines[statement.lineno - self.first : last - self.first + 1]
        code = " ".join(" ".join(text).split())
        return {"file": self.file, "line": statement.lineno, "code": code}

    def where(self, line):
        """Return `file:line` for a message."""
        return f"{self.file}:{line}"
