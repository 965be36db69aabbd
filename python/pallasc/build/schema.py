"""Parameters of ops, as `include/ops.def` writes them, and arguments matched with them."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Param(NamedTuple):
    """One parameter of an op.

    Attributes:
      letter: what it takes; the letters are explained at the top of `include/ops.def`.
      default: what is left out where it is given; `REQUIRED` has none.
      by_name: it is given by name alone.
    """

    name: str
    letter: str
    default: Any
    by_name: bool


REQUIRED: Any = object()


@functools.cache
def parse(text: str) -> tuple[Param, ...]:
    """The parameters that `self:t dim:I?=[] * dtype:d?=null` tells of."""
    found: list[Param] = []
    by_name = False
    for word in text.split():
        if word == "*":
            by_name = True
            continue
        head, equals, default = word.partition("=")
        name, _, letter = head.partition(":")
        value = json.loads(default) if equals else REQUIRED
        found.append(Param(name, letter.rstrip("?"), value, by_name))
    return tuple(found)


def bind(
    params: Sequence[Param], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]] | str:
    """Arguments by parameter: those by position without the defaults at the end, and the others.

    Returns a text that says what is wrong, where they do not fit.
    """
    positional = [param for param in params if not param.by_name]
    names = [param.name for param in params]
    if len(args) > len(positional):
        return f"takes {len(positional)} by position, and is given {len(args)} arguments"
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            return f"has no argument '{name}'; it has: {', '.join(names)}"
        if name in given:
            return f"is given '{name}' twice"
        given[name] = value
    missing = [p.name for p in params if p.name not in given and p.default is REQUIRED]
    if missing:
        return f"lacks its argument '{missing[0]}'"
    values = [given.get(param.name, param.default) for param in positional]
    while values and _same(values[-1], positional[len(values) - 1].default):
        values.pop()
    named = {
        param.name: given[param.name]
        for param in params
        if param.by_name and param.name in given and not _same(given[param.name], param.default)
    }
    return values, named


def _same(value: Any, default: Any) -> bool:
    plain = value is None or isinstance(value, bool | int | float | str | list)
    return plain and type(value) is type(default) and bool(value == default)
