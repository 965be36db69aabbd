"""Documents with named sizes, with numbers in place of the names."""

import re

from ..reference import expr
from ..reference.document import Document

_EXPRESSIONS = ("shape", "extent", "begin", "size", "slice", "sym", "args", "ops")
_PLAIN = ("name", "target", "loc", "config")
_NAME = re.compile(r"[A-Za-z_]\w*")


def at_sizes(document):
    """The document with numbers in place of its named sizes."""
    if not document.get("sizes"):
        return document
    read = Document(document)
    found = _numbered({k: v for k, v in document.items() if k != "sizes"}, read.sizes)
    return found | {"config": dict(read.config)}


def _numbered(value, sizes, key=None):
    if isinstance(value, dict) and key not in _PLAIN:
        found = {k: _numbered(v, sizes, k) for k, v in value.items()}
        argument = set(found) == {"sym"} and isinstance(found["sym"], int) and key != "meta"
        return found["sym"] if argument else found
    if isinstance(value, list):
        return [_numbered(item, sizes, key) for item in value]
    if isinstance(value, str) and key in _EXPRESSIONS and _NAME.search(value):
        return _expression(value, sizes)
    return value


def _expression(text, sizes):
    known = set(_NAME.findall(text)) & set(sizes)
    if not known:
        return text
    text = _NAME.sub(lambda name: str(sizes.get(name[0], name[0])), text)
    return text if expr.names(text) else expr.evaluate(text, sizes.__getitem__)
