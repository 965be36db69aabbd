"""Commands that pages show: each option that stands there is one that the command has."""

import functools
import os
import re
import subprocess
import sys

import pytest
from kit import PALLASC, ROOT

PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES.remove(ROOT / "docs/diagnostics.md")  # what it shows is run: tools/diagnostics.py
# In a block of code or in backticks, up to a comment or the next command.
COMMAND = re.compile(r"(?:^    |^\$ |`|^(?=pallasc ))(?:\./)?pallasc ([^`#|&\n]+)", re.MULTILINE)


@functools.cache
def options_of(command):
    """The options in the help of a command; "" is the compiler itself."""
    asked = [PALLASC, *([command] if command else []), "--help"]
    environment = {**os.environ, "PALLASC_PYTHON": sys.executable, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True)
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", done.stdout + done.stderr))


def commands_of(page):
    """(command, its options) of each that the page shows."""
    for line in COMMAND.findall(page.read_text()):
        words = re.sub(r"'[^']*'", "", line).split()
        known = re.fullmatch(r"[a-z][a-z-]+", words[0])
        options = [re.match(r"--?[a-z][\w-]*", word) for word in words]
        yield (words[0] if known else ""), [option[0] for option in options if option]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_exist(page):
    for command, options in commands_of(page):
        for option in options:
            assert option in options_of(command), f"pallasc {command} has no {option}"


def test_pages_show_commands():
    shown = [command for page in PAGES for command, options in commands_of(page) if options]
    assert len(shown) > 100 and {"", "check", "aot", "profile", "tune", "export"} <= set(shown)
