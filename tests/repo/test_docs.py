"""Pages that are made from the source are up to date: `make docs` writes them again."""

import re
import subprocess
import sys

from kit import ROOT


def check(tool):
    command = [sys.executable, ROOT / "tools" / tool, "--check"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_diagnostic_code_is_listed():
    check("diagnostics.py")


def test_the_man_page_and_completions_are_of_the_help():
    check("help_pages.py")


def test_ops_are_listed():
    check("build_ops.py")
    printed = subprocess.run([ROOT / "build/tools/print_ops"], capture_output=True, check=True)
    assert printed.stdout.decode() == (ROOT / "docs/ops.md").read_text()


def test_keys_and_dtypes_are_listed():
    check("tables.py")


def test_the_tour_shows_what_commands_print():
    check("tour.py")


def test_pictures_are_of_these_kernels():
    check("pictures.py")


def test_the_glossary_is_in_order_and_its_files_are_there():
    rows = re.findall(r"^\| (.+?) \| .+ \| (.+) \|$", (ROOT / "docs/glossary.md").read_text(), re.M)
    words = [word.lower() for word, _ in rows[2:]]
    assert len(words) > 50 and words == sorted(words)
    for path in re.findall(r"`([\w/.]+/[\w./]+)`", " ".join(where for _, where in rows)):
        assert (ROOT / path).exists(), path


def test_what_the_design_names_is_where_it_says():
    table = (ROOT / "docs/design.md").read_text().split("## Where is")[1]
    rows = re.findall(r"^\| .+? \| `(.+?)` \| (.+?) \|$", table, re.M)
    assert len(rows) >= 20
    for path, names in rows:
        text = (ROOT / path).read_text()
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"\b{name}\b", text), f"{path} has no {name}"
