"""The man page, and what bash completes; zsh and fish: python/tests_package/test_make.py."""

import re
import subprocess

import pytest
from kit import ROOT, accepted
from pallasc.__main__ import COMMANDS

PAGE = (ROOT / "packaging" / "pallasc.1").read_text()
BASH = ROOT / "packaging" / "completions" / "pallasc.bash"


def completed(*words):
    """What bash offers for the last of the words of a command line."""
    listed = " ".join(f"'{word}'" for word in words)
    script = f"source {BASH}; COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _pallasc;"
    script += ' printf "%s\\n" "${COMPREPLY[@]}"'
    ran = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert ran.stderr == ""
    return ran.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("pallasc", "--emi"), ["--emit"]),
        (("pallasc", "--target", ""), ["v4", "v5e", "v5p", "v6e", "v7x"]),
        (("pallasc", "--target", "=", "v5"), ["v5e", "v5p"]),
        (("pallasc", "--color", "="), ["auto", "always", "never"]),
        (("pallasc", "tu"), ["tune"]),
        (("pallasc", "check", "--adv"), ["--adversarial"]),
        (("pallasc", "README"), ["README.md"]),
        (("pallasc", "check", "CHANGE"), ["CHANGELOG.md"]),
    ],
)
def test_bash(words, expected):
    assert completed(*words) == expected


def test_all_commands_are_offered():
    assert {"compile", "sweep", *COMMANDS} <= set(completed("pallasc", ""))


def test_the_man_page_has_each_option_command_and_status():
    plain = PAGE.replace("\\-", "-").replace("\\&", "")
    for option in set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", accepted("--help").out)):
        assert option in plain
    for command in COMMANDS:
        assert f"\n.TP\n\\fB{command}\\fR\n" in plain
    for head in ("NAME", "SYNOPSIS", "OPTIONS", "COMMANDS", "EXIT STATUS", "ENVIRONMENT"):
        assert f"\n.SH {head}\n" in PAGE
    assert "3 cannot read or write" in plain
    assert not re.search(r"^[.'](?!TH|SH|TP|nf|fi)", PAGE, re.MULTILINE)
