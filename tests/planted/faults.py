"""Small faults that a person could make in C: where each can be planted in a file.

A fault replaces a few characters. Comments, strings, preprocessor lines and tables (outside of
functions) have none. What the C compiler takes of them is found out by compiling.
"""

import re
import typing

TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/|^\#(?:\\\n|[^\n])*)"""
    r"""|(?P<quoted>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
    r"|(?P<word>[A-Za-z_]\w*)|(?P<number>(?:0x)?\d[\w.]*)"
    r"|(?P<sign>->|\+\+|--|<<=|>>=|<<|>>|[<>=!+*/%&|^-]=|&&|\|\||.)",
    re.S | re.M | re.X,
)
FUNCTION = re.compile(r"^[a-z][^;{}]*?\b(\w+)\([^;{}]*?\)\s*\{$", re.M)
FLIPPED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
TURNED = {"&&": "||", "||": "&&", "true": "false", "false": "true"}
COMPUTED = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "<<": ">>", "|": "&"}
BESIDE = {"++": "--", "--": "++", "+=": "-=", "-=": "+=", "|=": "&=", "&=": "|="}
SIMPLE = (
    "return",
    "break",
    "continue",
    "goto",
    "else",
    "case",
    "default",
    "do",
    "for",
    "while",
    "if",
    "switch",
)


class Token(typing.NamedTuple):
    """A token: what it is, its text, and where it begins."""

    kind: str
    text: str
    at: int

    @property
    def end(self):
        """Where it ends."""
        return self.at + len(self.text)


class Fault(typing.NamedTuple):
    """`old` at an offset of a file is `new`; `function` holds it."""

    kind: str
    at: int
    old: str
    new: str
    function: str


def tokens(text):
    """Those of C text, without what says nothing to the compiler."""
    found = (Token(m.lastgroup, m.group(), m.start()) for m in TOKEN.finditer(text))
    return [token for token in found if token.kind != "skip"]


def functions(text):
    """(name, where its body begins, where it ends) of each function."""
    for match in FUNCTION.finditer(text):
        end = text.find("\n}", match.end())
        if end > 0:
            yield match.group(1), match.end(), end


def closing(found, i):
    """The index of the token that closes the bracket at `i`; None where there is none."""
    depth = 0
    for j in range(i, len(found)):
        depth += found[j].text in ("(", "[", "{")
        depth -= found[j].text in (")", "]", "}")
        if depth == 0:
            return j
    return None


def is_value(token):
    """Whether a binary operator may stand behind it."""
    return (token.kind in ("word", "number") and token.text not in SIMPLE) or token.text in (
        ")",
        "]",
    )


def faults(text):
    """Every fault that can be planted in the text of a file."""
    whole, result = tokens(text), []
    for name, begin, end in functions(text):
        body = [token for token in whole if begin <= token.at < end]
        for i, token in enumerate(body):
            for kind, last, new in _at(text, body, i):
                old = text[token.at : body[last].end]
                result.append(Fault(kind, token.at, old, new, name))
    return result


def _at(text, body, i):
    """(kind, the last token that it takes, what stands there instead) of faults at a token."""
    token, behind = body[i], body[i - 1] if i else None
    if token.text in FLIPPED:
        yield "comparison", i, FLIPPED[token.text]
    elif token.text in TURNED:
        yield "logic", i, TURNED[token.text]
    elif token.text in BESIDE:
        yield "operator", i, BESIDE[token.text]
    elif token.text in COMPUTED and behind and is_value(behind):
        yield "operator", i, COMPUTED[token.text]
    elif token.kind == "number":
        yield from _number(i, token.text)
    elif token.text in ("if", "while") and body[i + 1].text == "(":
        last = closing(body, i + 1)
        if last:
            inner = text[body[i + 1].end : body[last].at]
            yield "condition", last, f"{token.text} (!({inner}))"
    elif token.kind == "word" and (behind is None or behind.text in (";", "{", "}", ")", "else")):
        yield from _statement(body, i)
    if token.kind == "word" and i + 1 < len(body) and body[i + 1].text == "(":
        yield from _arguments(text, body, i)


def _number(i, text):
    if text.isdigit():
        value = int(text)
        yield "constant", i, str(value + 1)
        if value:
            yield "constant", i, str(value - 1)


def _statement(body, i):
    """A call, an assignment or a change that is left out."""
    if body[i].text in SIMPLE or body[i + 1].text not in (
        "(",
        "=",
        "->",
        ".",
        "[",
        "+=",
        "-=",
        "++",
        "|=",
    ):
        return
    for last in range(i, len(body)):
        if body[last].text == ";":
            yield "statement", last, ";"
            return
        if body[last].text in ("{", "}"):
            return


def _arguments(text, body, i):
    """Two neighbours among the arguments of a call that are exchanged."""
    last = closing(body, i + 1)
    if body[i].text in SIMPLE or body[i].text == "sizeof" or last is None:
        return
    starts, depth = [i + 2], 0
    for j in range(i + 2, last):
        depth += body[j].text in ("(", "[", "{")
        depth -= body[j].text in (")", "]", "}")
        if body[j].text == "," and depth == 0:
            starts.append(j + 1)
    if len(starts) < 2:
        return
    parts = [
        text[body[a].at : body[b - 2].end]
        for a, b in zip(starts, [*starts[1:], last + 1], strict=True)
    ]
    for k in range(len(parts) - 1):
        if parts[k] != parts[k + 1] and '"' not in parts[k] + parts[k + 1]:
            swapped = [*parts[:k], parts[k + 1], parts[k], *parts[k + 2 :]]
            yield "operands", last, f"{body[i].text}({', '.join(swapped)})"
