"""Writes what the rows of include/keys.def say into two pages.

They are the table of docs/config.md, and docs/fxtile.schema.json. With --check it writes nothing:
exit status 1 if a page is out of date.
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
# Each page, and what stands before and after the keys.
PAGE = ROOT / "docs" / "config.md", "<!-- keys -->\n", "<!-- end -->\n"
SCHEMA = ROOT / "docs" / "fxtile.schema.json", '"$comment": "keys.def",\n', '   }},\n  "graph": {\n'


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


def main():
    """Writes or checks."""
    table = "| key | value | absent |\n| --- | --- | --- |\n"
    table += "".join(table_row(name, row) for name, row in rows().items())
    table += "| a tunable's name | int, one of its `choices` | its `default` |\n"
    members = [f"    {json.dumps(name)}: {json.dumps(schema(row))}" for name, row in rows().items()]
    properties = '   "properties": {\n' + ",\n".join(members) + "\n"
    for (path, before, after), text in ((PAGE, table), (SCHEMA, properties)):
        old = path.read_text()
        head, rest = old.split(before)
        new = head + before + text + rest[rest.index(after) :]
        if sys.argv[1:] != ["--check"]:
            path.write_text(new)
        elif new != old:
            sys.exit(f"{path} is not what include/keys.def says: run make docs")


if __name__ == "__main__":
    main()
