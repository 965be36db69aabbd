"""docs/config.md: each row of its table holds, and no key or value that is accepted lacks one."""

import json
import re

import kit
import pytest
from kit import ROOT

PAGE = (ROOT / "docs" / "config.md").read_text()
SCHEMA = json.loads((ROOT / "docs" / "fxtile.schema.json").read_text())
SOURCE = (ROOT / "src/config/config.c").read_text()
ABSENT = object()


# ---- what the page says


def section(start):
    """The text under the heading that starts with these words."""
    (found,) = [part for part in re.split(r"^## ", PAGE, flags=re.M) if part.startswith(start)]
    return found


def table(text):
    """The rows of a section's table, without its heading."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def value_of(cell):
    return ABSENT if cell == "absent" else json.loads(cell.strip("`"))


class Row:
    """One line of the table."""

    def __init__(self, cells):
        key, self.graph, start, to, settings, self.effect = cells
        self.key = key.split("`")[1]
        self.start, self.to = value_of(start), value_of(to)
        self.settings = re.findall(r"`([^`]+)`", settings)

    def id(self):
        return f"{self.key}-{self.graph}-{'' if self.start is ABSENT else self.start}-{self.to}"


ROWS = [Row(cells) for cells in table(section("What each value does"))]
DOCUMENTED = [cells[0].strip("`") for cells in table(section("Keys\n"))][:-1]
IGNORED = re.findall(r"`([a-z0-9_]+)`", section("Keys that are ignored").split("were found.")[1])


# ---- what the compiler knows


def words_of(name):
    """The strings of a NULL-terminated array of config.c."""
    body = re.search(rf"\b{name}\[[^]]*\]\s*=\s*\{{([^}}]*)NULL\s*\}}", SOURCE)
    assert body, f"config.c has no list {name}"
    return re.findall(r'"([^"]*)"', body[1])


def words(schema):
    """The values of a key, where they are few."""
    if "maximum" in schema and schema["maximum"] < 10:
        return list(range(schema["minimum"], schema["maximum"] + 1))
    return [word for word in schema.get("enum", []) if word is not None]


KNOWN = SCHEMA["$defs"]["config"]["properties"]
WORDS = {key: words(schema) for key, schema in KNOWN.items() if words(schema)}
LISTS = [key for key, schema in KNOWN.items() if "items" in schema]


# ---- running it


def document(name, without=None):
    """The graph, without a key of its configuration."""
    graph = kit.document(name)
    graph.get("config", {}).pop(without, None)
    return graph


def run(graph, *settings):
    """The plan's JSON, asked of the command."""
    return kit.run("--emit=plan", *(f"--set={setting}" for setting in settings), "-", text=graph)


def refused(graph, setting):
    """Standard error of what is refused under a setting."""
    return kit.refused(1, "--emit=plan", f"--set={setting}", "-", text=graph)


def setting(key, value):
    return [] if value is ABSENT else [f"{key}={json.dumps(value)}"]


def plan(row, value):
    result = run(document(row.graph, row.key), *row.settings, *setting(row.key, value))
    assert result.status == 0, result.err
    return json.loads(result.out)


def at(plan, path):
    for step in path.split("/"):
        plan = plan[int(step) if isinstance(plan, list) else step]
    return plan


def without(plan, *keys):
    return {key: value for key, value in plan.items() if key not in keys}


# Why the configured loop type was chosen is worded differently where it is also the default. The
# estimate counts what could be skewed and is not.
def essence(plan):
    plan = without(plan, "config", "seconds", "time", "estimate")
    for loop in plan["loops"]:
        loop.pop("why")
    return plan


@pytest.mark.parametrize("row", ROWS, ids=Row.id)
def test_row(row):
    if row.effect.startswith("refused"):
        words = re.findall(r"`([^`]+)`", row.effect)
        result = run(document(row.graph, row.key), *row.settings, *setting(row.key, row.to))
        assert (result.status, result.out) == (1, "")
        assert words and all(word in result.err for word in words), result.err
        plan(row, row.start)  # and it is this value that is refused
        return
    before, after = plan(row, row.start), plan(row, row.to)
    if row.effect == "same":
        assert essence(before) == essence(after)
        return
    change = re.fullmatch(r"`([a-z_0-9/]+)`(?:: `(.+)` to `(.+)`| (falls|rises))", row.effect)
    assert change, row.effect
    path, was, now, direction = change.groups()
    found = at(before, path), at(after, path)
    if direction:
        assert found[0] > found[1] if direction == "falls" else found[0] < found[1]
    else:
        assert found == (json.loads(was), json.loads(now))


# ---- nothing is left out


def rows_of(key):
    return [row for row in ROWS if row.key == key]


def has_effect(row):
    return row.effect != "same"


def test_the_keys_of_the_page_are_those_of_the_compiler():
    assert sorted(DOCUMENTED) == sorted(KNOWN)
    assert {row.key for row in ROWS} == {*KNOWN, "rows"}


def test_the_compiler_takes_the_keys_that_its_source_lists():
    graph = document("attention")
    for key in KNOWN:
        assert run(graph, f"{key}=null").status == 0
        error = refused(graph, f"{key}_x=null")
        assert f"unknown configuration key '{key}_x'" in error
        assert f"did you mean '{key}'?" in error


@pytest.mark.parametrize("key", [*KNOWN, "rows"])
def test_each_key_changes_a_plan_or_is_refused(key):
    assert any(has_effect(row) for row in rows_of(key))


def same_value(a, b):
    return a == b and type(a) is type(b)


@pytest.mark.parametrize("key", WORDS)
def test_each_word_has_a_row(key):
    for word in WORDS[key]:
        assert any(
            same_value(value, word) for row in rows_of(key) for value in (row.start, row.to)
        ), word


def means_something(row, word):
    """Does the row show that the word is the default, changes the plan, or is refused?"""
    if has_effect(row):
        return same_value(row.to, word) or same_value(row.start, word)
    return row.start is ABSENT and same_value(row.to, word)


@pytest.mark.parametrize("key", WORDS)
def test_no_word_is_one_too_many(key):
    """true and false may be other spellings of on and off; a word has a meaning of its own."""
    for word in WORDS[key]:
        if not isinstance(word, bool):
            assert any(means_something(row, word) for row in rows_of(key)), word


@pytest.mark.parametrize("key", WORDS)
def test_other_words_are_refused(key):
    for word in ("", "AUTO", "on ", "yes", 7, 1.5, [], {}, ["auto"]):
        refused(document("attention", key), f"{key}={json.dumps(word)}")


@pytest.mark.parametrize("key", LISTS)
def test_lists_of_another_kind_are_refused(key):
    for value in ("auto", 3, {}, True, ["x"], [[]] * 9, [1.5], [-1], [2**31], [2**63]):
        refused(document("attention", key), f"{key}={json.dumps(value)}")


def test_the_configuration_in_force_gives_the_same_plan_again(tmp_path):
    for row in ROWS:
        if row.effect.startswith("refused"):
            continue
        wanted = plan(row, row.to)
        (tmp_path / "config.json").write_text(json.dumps(wanted["config"]))
        given = ("--emit=plan", "--config", tmp_path / "config.json", "-")
        again = kit.accepted(*given, text=document(row.graph, row.key)).out
        assert essence(json.loads(again)) == essence(wanted), row.id()


# ---- keys that are ignored


def test_the_ignored_keys_of_the_page_are_those_of_the_compiler():
    assert sorted(IGNORED) == sorted(words_of("ignored_keys"))


@pytest.mark.parametrize("key", [*words_of("ignored_keys"), "cute_num_warps"])
def test_ignored_with_a_note(key):
    base = run(document("attention"))
    result = run(document("attention"), f"{key}=[4]")
    assert result.status == 0
    assert result.out == base.out
    assert result.err.count(" note: ") == 1
    assert f"are ignored: {key} [config-ignored]" in result.err


def test_one_note_names_all_ignored_keys(tmp_path):
    (tmp_path / "config.json").write_text('{"num_warps": 4, "num_stages": 2, "x_mine": 1}')
    given = ("--emit=none", "--config", tmp_path / "config.json", "-")
    error = kit.accepted(*given, text=document("add")).err
    assert error.count(" note: ") == 1
    assert "are ignored: num_warps, num_stages [config-ignored]" in error
