"""Lines of kernel text as tokens, and a cursor over those of one line."""

import functools
import json
import re

from .errors import TextError

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d+)"
    r"|(?P<name>%\d+|[A-Za-z_]\w*)"
    r'|(?P<string>"(?:[^"\\]|\\.)*")'
    r"|(?P<mark>\.\.\.|\+:|\*:|==|<=|>=|[-+*<>&()\[\]{},:=@/])"
    r"|(?P<comment>\#.*))"
)


@functools.lru_cache(maxsize=4096)
def _tokens(text):
    """(tokens of a line, the column that begins none or None): lines of texts are much the same."""
    found, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if not match:
            return found, at + 1 + len(text[at:]) - len(text[at:].lstrip())
        kind = match.lastgroup
        if kind == "comment":
            break
        found.append((kind, match.group(kind), match.start(kind) + 1))
        at = match.end()
    return found, None


class Line:
    """The tokens of one line, (kind, text, column) each, and where reading stands."""

    def __init__(self, text, number):
        self.text, self.number, self.at = text, number, 0
        self.tokens, wrong = _tokens(text)
        if wrong is not None:
            raise TextError(f"unexpected {text[wrong - 1]!r}", number, wrong)

    @property
    def column(self):
        """Where the next token stands."""
        if self.at < len(self.tokens):
            return self.tokens[self.at][2]
        return len(self.text.rstrip()) + 1

    def fail(self, message):
        """Raises a TextError at the next token."""
        raise TextError(message, self.number, self.column)

    def peek(self, ahead=0):
        """The text of a token ahead; None behind the last."""
        at = self.at + ahead
        return self.tokens[at][1] if at < len(self.tokens) else None

    def kind(self, ahead=0):
        """The kind of a token ahead."""
        at = self.at + ahead
        return self.tokens[at][0] if at < len(self.tokens) else None

    def take(self):
        """The next token's text."""
        if self.at == len(self.tokens):
            self.fail("the line ends too early")
        self.at += 1
        return self.tokens[self.at - 1][1]

    def accept(self, text):
        """Takes the next token if it is `text`."""
        found = self.peek() == text
        self.at += found
        return found

    def expect(self, text):
        """Takes `text`."""
        if not self.accept(text):
            self.fail(f"expected {text!r}, found {self.found()}")

    def found(self):
        """The next token, for people."""
        return "the end of the line" if self.peek() is None else repr(self.peek())

    def name(self, what="a name"):
        """Takes a name, which may stand in quotes."""
        if not self.named():
            self.fail(f"expected {what}, found {self.found()}")
        return self.string() if self.kind() == "string" else self.take()

    def named(self):
        """Whether the next token is a name."""
        return self.kind() in ("name", "string")

    def integer(self):
        """Takes an int, which may have a sign."""
        sign = -1 if self.accept("-") else 1
        if self.kind() != "number" or not self.peek().isdigit():
            self.fail(f"expected an int, found {self.found()}")
        return sign * int(self.take())

    def string(self):
        """Takes a string."""
        if self.kind() != "string":
            self.fail(f"expected a string, found {self.found()}")
        return json.loads(self.take())

    def items(self, opening, item, closing):
        """What `item()` takes, separated by commas, between brackets."""
        self.expect(opening)
        found = []
        while not self.accept(closing):
            found.append(item())
            if self.peek() != closing:
                self.expect(",")
        return found

    def ints(self):
        """Takes `[1, 2]`."""
        return tuple(self.items("[", self.integer, "]"))

    def done(self):
        """Nothing may follow."""
        if self.at < len(self.tokens):
            self.fail(f"unexpected {self.found()}")
