"""tests/modules.txt: what differs is told to be estimated, renamed or different."""

import json
import re

import kit
import modules
import printed
import pytest
import recorded
import renaming
from pallasc.module import kernel_text

# One in so many of the tables' modules: `make modules` looks at all.
SAMPLE = 4


@pytest.fixture(scope="module")
def tabled():
    return modules.tabled()


def test_a_part_is_as_recorded(tabled):
    some = [case for case in tabled if int(modules.digest(case.name), 16) % SAMPLE == 0]
    old = modules.stored()
    found = modules.entries(some)
    changed = {name: text for name, text in found.items() if old.get(name) != text}
    assert not changed, "make modules says what changed, make modules-record writes it"
    assert len(some) > len(tabled) // (2 * SAMPLE)


def test_the_file_has_the_tables_and_what_tests_compile(tabled):
    names = {name for name in modules.stored() if not re.search(r"-[0-9a-f]{8}@", name)}
    assert names == {case.name for case in tabled}
    lines = modules.PATH.read_text().splitlines()
    assert len(modules.stored()) == len(lines) > len(names) + 900


def test_what_changed_is_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(modules, "PATH", tmp_path / "modules.txt")
    modules.write({"b": "2", "a": "refused 1", "c": "3"})
    assert modules.PATH.read_text() == "a refused 1\nb 2\nc 3\n"
    assert modules.check({"a": "refused 1", "b": "2", "c": "3"}) == 0
    capsys.readouterr()
    assert modules.check({"a": "1", "c": "3", "d": "4"}) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["a: refused 1 -> 1", "b: 2 -> gone", "d: new -> 4"]


def test_this_tree_prints_what_this_tree_prints(capsys):
    text = kit.text("add")
    case = modules.named(text, '{"block_sizes": [64, 128]}', "v7x")
    wrong = modules.named(text, '{"block_sizes": "x"}', "v7x")
    assert re.fullmatch(r"add-block_sizes=\[64,128\]-[0-9a-f]{8}@v7x", case.name)
    good, refused = printed.all_printed([case, wrong])
    assert modules.entry(good) == modules.digest(kernel_text(good.text))
    assert modules.entry(refused) == f"refused {modules.digest(refused.text)}"
    assert "expected a list" in refused.text
    assert modules.compare(kit.ROOT, [case, wrong], 3) == 0
    assert "2 equal, 0 estimated, 0 renamed, 0 different" in capsys.readouterr().out


def test_drawn_documents_compile():
    (first, second) = modules.drawn_cases(2, 5)
    assert all(case.accepted for case in printed.all_printed([first, second]))
    assert first.document != second.document


# ---- estimated, renamed or different


def test_estimated():
    """Equal but for what a module only tells; a hash in the file leaves that out."""
    good = printed.printed(modules.named(kit.text("add"), "{}", "v6e"))
    told = good.text.replace('"windows": ', '"windows": 1').replace("bytes_accessed=", "flops=1")
    both = good, printed.Printed(True, told)
    assert told.count("flops=1") == told.count('"windows": 1') == 1
    assert modules.verdict(both) == "estimated"
    assert modules.entry(both[0]) == modules.entry(both[1])
    other = printed.Printed(True, told.replace("grid=", "grid=1 + "))
    assert modules.verdict((good, other)) == "different"
    assert modules.entry(good) != modules.entry(other)


MODULE = """
import jax.numpy as jnp

INFO = {"name": "k"}

def _kernel(x_ref, out_ref, *, ragged):
    row = x_ref[...]  # a note
    def body(i, carry):
        nonlocal row
        row = row + jnp.sum(carry, axis=1)
        return [i * n for n in carry]
    out_ref[...] = body(0, row) if ragged else body(1, carry=row)

def k(x):
    return call(functools.partial(_kernel, ragged=True), index=lambda i, j: (i, j))(x)
"""


@pytest.mark.parametrize(
    "old, new",
    [
        ("row", "tile"),
        ("x_ref", "in_ref"),
        ("ragged", "tail"),
        ("_kernel", "_body"),
        ("carry", "row_2"),
        ("i, j: (i, j)", "a, b: (a, b)"),
        ("n for n in", "i_2 for i_2 in"),
        ("row = x_ref[...]  # a note", "row = (\n        x_ref[...]\n    )"),
    ],
)
def test_renamed(old, new):
    other = re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", new, MODULE)
    assert other != MODULE
    assert renaming.same_but_names(MODULE, other)
    both = printed.Printed(True, MODULE), printed.Printed(True, other)
    assert modules.verdict(both) == "renamed"


@pytest.mark.parametrize(
    "old, new",
    [
        ("axis=1", "dim=1"),
        ("jnp.sum", "jnp.max"),
        ("INFO", "KEPT"),
        ('"k"', '"l"'),
        ("ragged=True", "tail=True"),
        ("carry=row", "other=row"),
        ("index=", "indices="),
        ("(i, j)", "(j, i)"),
        ("i * n", "n * i"),
        ("row = x_ref[...]", "row = out_ref[...]"),
        ("call(functools", "x(functools"),
    ],
)
def test_different(old, new):
    assert old in MODULE
    other = MODULE.replace(old, new)
    assert not renaming.same_but_names(MODULE, other)
    both = printed.Printed(True, MODULE), printed.Printed(True, other)
    assert modules.verdict(both) == "different"


def test_two_variables_made_one_are_different():
    assert not renaming.same_but_names("def f(a, b):\n  c = a\n", "def f(a, b):\n  a = a\n")


def test_refusals_are_equal_or_different():
    old = printed.Printed(False, "x = 1")
    assert modules.verdict((old, old)) == "equal"
    assert modules.verdict((old, printed.Printed(False, "y = 1"))) == "different"
    assert modules.verdict((old, printed.Printed(True, "y = 1"))) == "different"


# ---- what tests compile


def test_commands_are_read(tmp_path):
    (tmp_path / "g.json").write_text('{"name": "g"}')
    (tmp_path / "c.json").write_text('{"a": 1, "b": 2}')
    calls = recorded.Calls()
    words = ["--emit=plan", "--target", "v4", "--set", "a=[3]", "--set=d=on", "--explain"]
    calls.command([*words, "--config", tmp_path / "c.json", "g.json"], None, tmp_path)
    calls.command(["-"], b'{"name": "h"}', None)
    calls.command(["--passes=cse", "-"], '{"name": "i"}', None)
    calls.command(["missing.json"], None, tmp_path)
    calls.command(["-"], "no JSON", None)
    config = json.dumps({"a": [3], "b": 2, "d": "on"})
    assert list(calls.seen) == [('{"name": "g"}', config, "v4"), ('{"name": "h"}', "{}", "v6e")]
