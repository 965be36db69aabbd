"""Sphinx for `make site`: the pages of docs/ with the reference of Python and C, from docstrings and the header."""

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
highlight_language = "text"

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_numpy_docstring = False

hawkmoth_root = str(ROOT / "include/pallasc")
hawkmoth_clang = hawkmoth.util.compiler.get_include_args()
