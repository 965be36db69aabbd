"""Writes what include/keys.def and include/dtypes.def say into the pages that list it.

With --check it writes nothing: exit status 1 if a page is out of date.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(
    r'^KEY\(\w+, "(\w+)", (\w+),(.*?)\)(?: /\*.*?\*/)?\n(?=KEY|\Z)', re.DOTALL | re.MULTILINE
)
STRING = r'"(?:[^"\\]|\\.)*"'
FIELD = re.compile(rf"\.(\w+) = (WORDS\([^)]*\)|[-\w]+|{STRING}(?:\s*{STRING})*)")
DIM = {"type": "integer", "minimum": 0, "maximum": 7}
# The lists: in words, and the schema of an entry.
LISTS = {
    "SIZES": ("ints", {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}),
    "FLAGS": ("true or false", {"type": "boolean"}),
    "ORDERS": ("permutations", {"type": "array", "items": DIM, "uniqueItems": True}),
}


def rows():
    """{name: {field: its text, or the strings in it}} of keys.def, with the kind."""
    found = {}
    text = (ROOT / "include" / "keys.def").read_text()
    for name, kind, rest in ROW.findall(text):
        row = found[name] = {"kind": kind}
        for field, value in FIELD.findall(rest):
            strings = [json.loads(string) for string in re.findall(STRING, value)]
            row[field] = strings if field == "words" else "".join(strings) or value
    if len(found) != len(re.findall("^KEY", text, re.MULTILINE)):
        sys.exit(f"of include/keys.def this could read {', '.join(found)} alone")
    return found


def words(row):
    """The values of a key that takes words, its default first; else nothing."""
    if row["kind"] == "CHOICE":
        return ["auto", "off", False] if "never_on" in row else ["auto", "on", "off", True, False]
    if "or_auto" in row:
        return ["auto", *range(int(row["low"]), int(row["high"]) + 1)]
    return row.get("words", [])


def schema(row):
    """The JSON Schema of a key's values. Null is as if the key were absent."""
    about = {"description": re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", row["about"])}
    if words(row):
        return about | {"enum": [*words(row), None]}
    if row["kind"] == "NUMBER":
        low, high = int(row["low"]), int(row["high"])
        return about | {"type": ["integer", "null"], "minimum": low, "maximum": high}
    item = LISTS[row["kind"]][1]
    if "or_null" in row:
        item = item | {"type": ["integer", "null"]}
    return about | {"type": ["array", "null"], "items": item}


def literal(value):
    """A value as the table writes it: strings in quotes, which are code."""
    return f"`{json.dumps(value)}`" if isinstance(value, str) else json.dumps(value)


def table_row(name, row):
    """A line of the page's table."""
    values, default = ", ".join(map(literal, words(row))), row.get("fallback")
    if row["kind"] in LISTS:
        values = f"list of {LISTS[row['kind']][0]}{' or null' if 'or_null' in row else ''}"
    elif row["kind"] == "NUMBER" and not values:
        values = f"{row['low']} to {row['high']}"
    else:
        default = literal(words(row)[0]) if default != "-1" else None
    absent = ": ".join(filter(None, [default, row.get("absent")]))
    return f"| `{name}` | {values}: {row['about']} | {absent} |\n"


def keys_table(keys):
    """The table of docs/config.md."""
    head = "| key | value | absent |\n| --- | --- | --- |\n"
    last = "| a tunable's name | int, one of its `choices` | its `default` |\n"
    return head + "".join(table_row(name, row) for name, row in keys.items()) + last


def keys_schema(keys):
    """The members of a configuration, a line each."""
    members = [f"    {json.dumps(name)}: {json.dumps(schema(row))}" for name, row in keys.items()]
    return '   "properties": {\n' + ",\n".join(members) + "\n"


def places():
    """(page, what stands before, what is written, what stands after) for each."""
    keys, text = rows(), (ROOT / "include" / "dtypes.def").read_text()
    of_values = re.findall(r'^DTYPE\(\w+, "(\w+)"', text, re.MULTILINE)
    of_arrays = of_values[:-1]
    page = ROOT / "docs" / "fxtile.schema.json"
    yield page, '"$comment": "keys.def",\n', keys_schema(keys), '   }},\n  "graph": {\n'
    yield page, '"of an array in memory",\n   "enum": ', json.dumps(of_arrays), '},\n  "value_d'
    yield page, 'provably hold it",\n   "enum": ', json.dumps(of_values), '},\n  "number"'
    page = ROOT / "docs" / "config.md"
    yield page, "<!-- keys -->\n", keys_table(keys), "<!-- end -->\n"
    page = ROOT / "docs" / "graph-format.md"
    yield page, "\ndtypes: `", " ".join(of_arrays), "`. int64 and"


def main():
    """Writes or checks."""
    for page, before, text, after in places():
        old = page.read_text()
        head, rest = old.split(before)
        new = head + before + text + rest[rest.index(after) :]
        if sys.argv[1:] != ["--check"]:
            page.write_text(new)
        elif new != old:
            sys.exit(f"{page} is not what include/*.def say: run make docs")


if __name__ == "__main__":
    main()
