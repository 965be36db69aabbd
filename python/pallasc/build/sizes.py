"""Sizes: expressions of named sizes, of blocks and of tunables, as the format writes them."""

from __future__ import annotations

import numbers
import re
from typing import TypeAlias

from .source import error


class Size:
    """A size that is known when the graph is compiled: `S`, `cdiv(S, 128)`, a block's size.

    `+ - * // %` with ints and other sizes give further ones. Two are equal if they are written
    alike.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __add__(self, other: Dim) -> Size:
        return _binary(self, "+", other)

    def __radd__(self, other: Dim) -> Size:
        return _binary(other, "+", self)

    def __sub__(self, other: Dim) -> Size:
        return _binary(self, "-", other)

    def __rsub__(self, other: Dim) -> Size:
        return _binary(other, "-", self)

    def __mul__(self, other: Dim) -> Size:
        return _binary(self, "*", other)

    def __rmul__(self, other: Dim) -> Size:
        return _binary(other, "*", self)

    def __floordiv__(self, other: Dim) -> Size:
        return _binary(self, "//", other)

    def __rfloordiv__(self, other: Dim) -> Size:
        return _binary(other, "//", self)

    def __mod__(self, other: Dim) -> Size:
        return _binary(self, "%", other)

    def __rmod__(self, other: Dim) -> Size:
        return _binary(other, "%", self)


Dim: TypeAlias = int | Size


def cdiv(a: Dim, b: Dim) -> Size:
    """`a / b`, rounded up."""
    return Size(f"cdiv({a}, {b})")


def next_pow2(a: Dim) -> Size:
    """The least power of two that is not below `a`."""
    return Size(f"next_pow2({a})")


def min_size(*sizes: Dim) -> Size:
    """The least of them."""
    return Size(f"min({', '.join(map(str, sizes))})")


def max_size(*sizes: Dim) -> Size:
    """The greatest of them."""
    return Size(f"max({', '.join(map(str, sizes))})")


def dim_json(dim: Dim) -> int | str:
    """A dim as a shape has it."""
    if isinstance(dim, Size):
        return dim.text
    if not isinstance(dim, numbers.Integral) or isinstance(dim, bool):
        raise error(f"a dim is an int or a size (Graph.size), not {dim!r}")
    return int(dim)


def dim_of(json: int | str) -> Dim:
    """The dim that a shape has."""
    return json if isinstance(json, int) else Size(json)


def _binary(a: Dim, sign: str, b: Dim) -> Size:
    if not all(isinstance(x, Size | int) and not isinstance(x, bool) for x in (a, b)):
        return NotImplemented  # type: ignore[no-any-return]
    return Size(f"{_atom(a)} {sign} {_atom(b)}")


def _atom(dim: Dim) -> str:
    text = str(dim)
    return text if re.fullmatch(r"\w+|\w+\([^()]*\)", text) else f"({text})"
