"""Sphinx for `make site`: the pages of docs/, and a reference of docstrings and of the C header."""

import re
from pathlib import Path

import hawkmoth.util.compiler

ROOT = Path(__file__).resolve().parents[2]
VERSION = (ROOT / "include/version.h").read_text()

project = "pallasc"
author = "The pallasc developers"
release = VERSION.split('PALLASC_VERSION "')[1].split('"')[0]

# The folder of sources is the checkout, so that pages may name files outside docs/.
root_doc = "docs/site/index"
include_patterns = ["*.md", "docs/**.md"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "hawkmoth"]
html_theme = "furo"
html_title = f"pallasc {release}"
html_show_sourcelink = False
html_copy_source = False

# Markdown: anchors as a code host makes them.
myst_heading_anchors = 4
# Docstrings and the header write code in single backticks.
default_role = "code"
smartquotes = False
highlight_language = "text"

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_numpy_docstring = False
napoleon_use_ivar = True


def doc_comments(header):
    """The header with each comment a doc comment, and those behind fields before them."""
    header = re.sub(r"^\t(\S[^/\n]*?) */\*(.*?)\*/$", r"\t/*\2*/\n\t\1", header, flags=re.M | re.S)
    return re.sub(r"^(\t?)/\* ", r"\1/** ", header, flags=re.M)


HEADERS = ROOT / "build" / "site-header"
HEADERS.mkdir(parents=True, exist_ok=True)
HEADER = (ROOT / "include/pallasc/pallasc.h").read_text()
(HEADERS / "pallasc.h").write_text(doc_comments(HEADER))
hawkmoth_root = str(HEADERS)
hawkmoth_clang = hawkmoth.util.compiler.get_include_args()


def code_after(lines, i):
    """How far the code behind line `i` is indented: 4 or more, behind an empty line; or None."""
    if not lines[i].strip() or len(lines) < i + 3 or lines[i + 1].strip():
        return None
    margins = [len(line) - len(line.lstrip()) for line in (lines[i], lines[i + 2])]
    return margins[1] if margins[1] >= margins[0] + 4 else None


def as_rst(lines):
    """Turns plain text into reStructuredText, in place: what is special there means itself."""
    code = None  # how far the block of code is indented, if the line is of one
    for i, line in enumerate(lines):
        if code is not None and line.strip() and len(line) - len(line.lstrip()) < code:
            code = None
        if code is not None:
            continue
        parts = re.split(r"(`[^`]+`)", line)
        parts[::2] = [re.sub(r"\*|_(?!\w)|`", r"\\\g<0>", part) for part in parts[::2]]
        parts[2::2] = [re.sub(r"^(?=\w)", r"\\ ", part) for part in parts[2::2]]
        code = code_after(lines, i)
        lines[i] = "".join(parts) + ("" if code is None else ":" if line.endswith(":") else " ::")


def comment_as_rst(app, lines, *_):
    """A comment of the header: its lines begin anywhere, but for code; a macro's have stars."""
    lines[:] = [re.sub(r"^ ?\* ?", "", line) for line in lines]
    if not any(code_after(lines, i) for i in range(len(lines))):
        lines[:] = [line.lstrip() for line in lines]
    as_rst(lines)


def setup(app):
    """Connects both readers."""
    app.connect("autodoc-process-docstring", lambda *given: as_rst(given[-1]), priority=100)
    app.connect("hawkmoth-process-docstring", comment_as_rst)
