"""`pallasc explain`: what a code means; the words are those of docs/diagnostics.txt."""

import importlib.util
import shutil
import subprocess

import kit
import pytest

SPEC = importlib.util.spec_from_file_location("page", kit.ROOT / "tools" / "diagnostics.py")
page = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(page)
PAGES = page.pages()


def explain(*arguments, status=0):
    """What it prints, to standard output or error."""
    if status:
        return kit.refused(status, "explain", *arguments)
    return kit.accepted("explain", *arguments).out


def test_every_code_is_listed_with_a_line():
    lines = explain().splitlines()
    assert [line.split()[0] for line in lines[: len(PAGES)]] == [one.code for one in PAGES]
    assert max(map(len, lines)) < 180


@pytest.mark.parametrize("one", PAGES, ids=lambda one: one.code)
def test_each_code_has_cause_example_and_cure(one):
    text = explain(one.code)
    assert text.startswith(f"{one.code}\n\n{one.cause}\n")
    assert one.cure in text
    assert (one.command or one.why_not) in text
    assert "```" not in text


def test_a_code_as_messages_have_it():
    assert explain("[vmem]") == explain("vmem")


def test_an_unknown_code_suggests_the_nearest():
    assert "did you mean 'block-scope'?" in explain("blok-scope", status=2)
    assert "did you mean 'kernel-unknown'?" in explain("kernel-unknwon", status=2)
    assert "pallasc explain lists them" in explain("zzzzzzzzz", status=2)
    assert "takes one code" in explain("vmem", "mesh", status=2)


def test_it_needs_no_checkout(tmp_path):
    """Compiled in: the copy has nothing beside it."""
    program = shutil.copy(kit.PALLASC, tmp_path / "pallasc")
    command = [program, "explain", "vmem"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    assert found.stdout.decode() == explain("vmem")


def test_a_file_of_that_name_is_a_path(tmp_path):
    (tmp_path / "explain").write_text("{}")
    assert "[missing-field]" in kit.refused(1, "./explain", cwd=tmp_path)
