"""Small pieces of a line: integer expressions, types, references, arguments, attributes."""

from ..reference.errors import GraphError
from ..reference.values import dtype_of
from .syntax import Arg, Dim, Ref, Type

_FUNCTIONS = {
    "div": 2,
    "rem": 2,
    "cdiv": 2,
    "min": 2,
    "max": 2,
    "choose": 3,
    "turn": 3,
    "device": 0,
    "first": 1,
    "later": 1,
}
_COMPARISONS = ("==", "<", "<=", ">", ">=")
_NUMBERS = {"inf": float("inf"), "nan": float("nan"), "true": True, "false": False}
_PLAIN = ("int", "flag", "copy", "queue", "semaphore")
_LAYOUTS = ("row", "column", "scalar", "tile")

# ---- integers ------------------------------------------------------------------------------------


def expression(line):
    """An integer expression, which stands in parentheses or between commas."""
    tree = _and(line)
    if line.peek() in _COMPARISONS:
        tree = (line.take(), tree, _and(line))
    return tree


def _and(line):
    tree = _sum(line)
    while line.accept("&"):
        tree = ("&", tree, _sum(line))
    return tree


def _sum(line):
    tree = _product(line)
    while line.peek() in ("+", "-"):
        tree = (line.take(), tree, _product(line))
    return tree


def _product(line):
    tree = _unary(line)
    while line.accept("*"):
        tree = ("*", tree, _unary(line))
    return tree


def _unary(line):
    if line.accept("-"):
        tree = _unary(line)
        return ("int", -tree[1]) if tree[0] == "int" else ("neg", tree)
    if line.accept("("):
        tree = expression(line)
        line.expect(")")
        return tree
    if line.kind() == "number":
        return ("int", line.integer())
    if line.peek() in ("true", "false"):
        return ("int", int(line.take() == "true"))
    name = line.name("an int, a name or '('")
    if line.peek() == "(" and name in _FUNCTIONS:
        return _function(line, name)
    if line.peek() == "[":
        return ("at", name, line.items("[", lambda: expression(line), "]"))
    return ("name", name)


def _function(line, name):
    args = line.items("(", lambda: expression(line), ")")
    if len(args) != _FUNCTIONS[name]:
        line.fail(f"{name} takes {_FUNCTIONS[name]} arguments, not {len(args)}")
    return (name, *args)


def expressions(line):
    """`(a, b)`, a list of them."""
    return line.items("(", lambda: expression(line), ")")


# ---- types ---------------------------------------------------------------------------------------


def dtype(line):
    """A dtype's name."""
    try:
        return dtype_of(line.peek())
    except GraphError:
        line.fail(f"expected a dtype, found {line.found()}")
    finally:
        line.at += 1


def value_type(line):
    """`bfloat16[8, 128] row`, `float32`, `int`."""
    if line.peek() in _PLAIN:
        return Type(line.take())
    found = dtype(line)
    tile = line.peek() == "["
    shape = line.ints() if tile else ()
    layout = line.take() if line.peek() in _LAYOUTS else ""
    if not tile:
        return Type("scalar", found, (), layout)
    last = {"row": shape[-2:-1], "column": shape[-1:]}.get(layout, (1,))
    if last != (1,):
        line.fail(f"a {layout} has a dim of size 1 there")
    return Type("tile", found, shape, layout)


# ---- references, arguments -----------------------------------------------------------------------


def reference(line, name):
    """The brackets behind a buffer's name."""
    if line.peek(1) == "..." and line.peek(2) == "]":
        line.at += 3
        dims = None
    else:
        dims = tuple(line.items("[", lambda: _dim(line), "]"))
    if line.peek() != "at" or line.peek(1) != "(":
        return Ref(name, dims)
    line.take()
    (at,) = expressions(line)
    return Ref(name, dims, at)


def _dim(line):
    if line.accept(":"):
        return Dim("all")
    start = expression(line)
    multiple = line.integer() if line.accept("by") else 0
    if line.accept("*:"):
        size = line.integer()
        line.expect("of")
        return Dim("part", start, size, line.integer())
    if not line.accept("+:"):
        return Dim("at", start, multiple=multiple)
    size = line.integer()
    multiple = line.integer() if line.accept("by") else multiple
    return Dim("range", start, size, multiple=multiple)


def number(line):
    """A number, or None where there is none."""
    minus = line.peek() == "-"
    text = line.peek(minus)
    if text in _NUMBERS and not (minus and text in ("true", "false")):
        value = _NUMBERS[text]
    elif line.kind(minus) == "number":
        value = int(text) if text.isdigit() else float(text)
    else:
        return None
    line.at += 1 + minus
    return -value if minus else value


def argument(line):
    """A value, number, integer expression, reference, or `_`."""
    column = line.column
    if line.accept("_"):
        return Arg("none", column=column)
    if line.accept("("):
        tree = expression(line)
        line.expect(")")
        return Arg("int", tree, column)
    value = number(line)
    if value is not None:
        return Arg("number", value, column)
    name = line.name("an argument")
    if line.peek() == "[":
        return Arg("ref", reference(line, name), column)
    return Arg("name", name, column)


def attribute(line):
    """`name=3`, `name=(1, 2)`, `items=[None, :, 3, 0:5, ...]`: (name, value)."""
    name = line.name()
    line.expect("=")
    if line.peek() == "(":
        return name, tuple(line.items("(", line.integer, ")"))
    if line.peek() == "[":
        return name, line.items("[", lambda: _item(line), "]")
    if line.peek() in ("true", "false"):
        return name, int(_NUMBERS[line.take()])
    return name, line.integer()


def _item(line):
    if line.accept("None"):
        return None
    if line.accept("..."):
        return Ellipsis
    start = None if line.peek() == ":" else line.integer()
    if not line.accept(":"):
        return start
    return slice(start, line.integer() if line.kind() == "number" else None)


def arguments(line):
    """Arguments and attributes up to what is neither: (arguments, attributes)."""
    found, attributes = [], {}
    while line.peek() not in (None, ":", "{", "@"):
        if line.peek(1) == "=":
            name, value = attribute(line)
            attributes[name] = value
        else:
            found.append(argument(line))
        if not line.accept(",") and line.peek(1) != "=":
            break
    return found, attributes
