"""Size expressions: ints, names, `+ - * // %`, parentheses, `cdiv next_pow2 min max`.

A parser of its own: nothing from a document ever reaches Python's `eval`.
"""

import functools
import re

from .errors import GraphError

_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|(//|[-+*%(),]))")
_DEPTH_MAX = 100


def _cdiv(a, b):
    return -(-a // b)


def _next_pow2(n):
    return 1 if n <= 1 else 1 << (n - 1).bit_length()


def _arity(function, count):
    """Wraps `function` so that it takes exactly `count` arguments."""

    def checked(*args):
        if len(args) != count:
            raise GraphError(f"{function.__name__[1:]} takes {count} arguments, not {len(args)}")
        return function(*args)

    return checked


_FUNCTIONS = {"cdiv": _arity(_cdiv, 2), "next_pow2": _arity(_next_pow2, 1), "min": min, "max": max}
_OPERATORS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}


def _tokens(text):
    """Splits `text` into ("int" | "name" | "op", value) pairs."""
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            raise GraphError(f"expression {text!r}: unexpected {text[at:].strip()[:1]!r}")
        kind = ("int", "name", "op")[match.lastindex - 1]
        found.append((kind, match.group(match.lastindex)))
        at = match.end()
    return found


class _Parser:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, text):
        self.text, self.tokens, self.at, self.depth = text, _tokens(text), 0, 0

    def fail(self, what):
        raise GraphError(f"expression {self.text!r}: {what}")

    def peek(self):
        return self.tokens[self.at][1] if self.at < len(self.tokens) else None

    def take(self, expected=None):
        if self.at == len(self.tokens):
            self.fail("ends too early")
        token = self.tokens[self.at]
        if expected is not None and token[1] != expected:
            self.fail(f"expected {expected!r}, found {token[1]!r}")
        self.at += 1
        return token

    def whole(self):
        tree = self.sum()
        if self.peek() is not None:
            self.fail(f"unexpected {self.peek()!r}")
        return tree

    def sum(self):
        self.depth += 1
        if self.depth > _DEPTH_MAX:
            self.fail("nested too deeply")
        tree = self.product()
        while self.peek() in ("+", "-"):
            tree = ("op", self.take()[1], tree, self.product())
        self.depth -= 1
        return tree

    def product(self):
        tree = self.unary()
        while self.peek() in ("*", "//", "%"):
            tree = ("op", self.take()[1], tree, self.unary())
        return tree

    def unary(self):
        negative = False
        while self.peek() in ("-", "+"):
            negative ^= self.take()[1] == "-"
        tree = self.atom()
        return ("op", "-", ("int", 0), tree) if negative else tree

    def atom(self):
        kind, text = self.take()
        if kind == "int":
            return ("int", int(text))
        if kind == "name":
            return self.call(text) if self.peek() == "(" else ("name", text)
        if text != "(":
            self.fail(f"unexpected {text!r}")
        tree = self.sum()
        self.take(")")
        return tree

    def call(self, name):
        if name not in _FUNCTIONS:
            self.fail(f"unknown function {name!r}")
        self.take("(")
        args = [self.sum()]
        while self.peek() == ",":
            self.take()
            args.append(self.sum())
        self.take(")")
        return ("call", name, tuple(args))


@functools.lru_cache(maxsize=4096)
def parse(text):
    """Parses `text` into a tree of tuples; raises GraphError."""
    return _Parser(text).whole()


def _tree_value(tree, lookup):
    if tree[0] == "int":
        return tree[1]
    if tree[0] == "name":
        return lookup(tree[1])
    if tree[0] == "call":
        return _FUNCTIONS[tree[1]](*(_tree_value(arg, lookup) for arg in tree[2]))
    return _OPERATORS[tree[1]](_tree_value(tree[2], lookup), _tree_value(tree[3], lookup))


def evaluate(size, lookup):
    """The int value of `size`, an int or an expression; `lookup(name)` gives the names' values."""
    if isinstance(size, int) and not isinstance(size, bool):
        return size
    if not isinstance(size, str):
        raise GraphError(f"expected a size (int or expression), found {size!r}")
    try:
        return _tree_value(parse(size), lookup)
    except ZeroDivisionError:
        raise GraphError(f"expression {size!r}: division by zero") from None


def name_of(size):
    """The name if `size` is an expression of just one name, else None."""
    if not isinstance(size, str):
        return None
    tree = parse(size)
    return tree[1] if tree[0] == "name" else None


def names(size):
    """The set of names that the size mentions, an int or an expression."""
    found, pending = set(), [parse(size)] if isinstance(size, str) else []
    while pending:
        tree = pending.pop()
        if tree[0] == "name":
            found.add(tree[1])
        elif tree[0] == "call":
            pending += tree[2]
        elif tree[0] != "int":
            pending += tree[2:]
    return found
