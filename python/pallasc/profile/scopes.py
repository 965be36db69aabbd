"""Names the statements of a Python text for the compiler, by `jax.named_scope`.

Each statement in a function becomes the body of a scope on its own line, so that the text keeps its
line numbers, and what the compiler says of it stays right:

    x = jnp.exp(y)    ->    with __import__("jax").named_scope("statement_12"): x = jnp.exp(y)

Mosaic carries a scope as the markers `trace_start`, `trace_stop` through all of its stages. The TPU
compiler drops them before it schedules, so that they make no instruction.
"""

import ast
import dataclasses
import re

_NAME = re.compile(r"statement_(\d+)$")
_PREFIX = 'with __import__("jax").named_scope("statement_{}"): '
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)
_CODE_WIDTH = 100


@dataclasses.dataclass(frozen=True)
class Place:
    """A statement in a text.

    Attributes:
      line: of its first character, from 1.
      function: the innermost function around it.
      code: the statement on one line, cut to 100 characters.
      source: the comment lines right above it or above a statement before it in its block, which in
        an emitted module are the lines of the graph's source; "" if there are none.
    """

    line: int
    function: str
    code: str
    source: str


def scope_line(name):
    """The line in the name of a scope of ours, or None for any other scope."""
    match = _NAME.match(name)
    return int(match[1]) if match else None


def put_scopes(text):
    """(the text with a scope around each statement in a function, {line: `Place`}).

    Left as they are: what takes part of a line only (`if x: y = 1`), what yields, docstrings.
    Raises SyntaxError for what is not Python.
    """
    lines = text.split("\n")
    places = {}
    for statement, function, source in _statements(ast.parse(text).body, lines):
        row, column = statement.lineno - 1, statement.col_offset
        code = lines[row].encode()
        if code[:column].strip() or row + 1 in places:
            continue
        scoped = code[:column] + _PREFIX.format(row + 1).encode() + code[column:]
        lines[row] = scoped.decode()
        places[row + 1] = Place(row + 1, function, _one_line(text, statement), source)
    return "\n".join(lines), places


def _statements(block, lines, function=None, source=""):
    """(statement, function, source) of the simple statements of a block and of those in it."""
    for node in block:
        source = _comment_above(lines, getattr(node, "lineno", 1)) or source
        if isinstance(node, ast.FunctionDef):
            yield from _statements(node.body, lines, node.name, source)
        elif isinstance(node, _SIMPLE):
            if function and not _is_text(node) and not _yields(node):
                yield node, function, source
        else:
            for inner in ("body", "orelse", "handlers", "cases", "finalbody"):
                yield from _statements(getattr(node, inner, ()), lines, function, source)


def _comment_above(lines, line):
    """The text of the comment lines right above a line; several are joined by "; "."""
    found = []
    for above in reversed(lines[: line - 1]):
        if not above.strip().startswith("#"):
            break
        found.append(above.strip().lstrip("#").strip())
    return "; ".join(reversed(found))


def _is_text(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _yields(node):
    return any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in ast.walk(node))


def _one_line(text, node):
    code = " ".join((ast.get_source_segment(text, node) or "").split())
    return code if len(code) <= _CODE_WIDTH else f"{code[: _CODE_WIDTH - 3]}..."
