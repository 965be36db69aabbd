"""Writes what the tables of include/ say into the pages that list it: keys, dtypes, chips.

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
    if row["kind"] == "SWITCH":
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


# ---- chips ---------------------------------------------------------------------------------------

TARGET_FIELD = re.compile(
    rf'^FIELD\((\w+), (\w+), "([^"]*)", ([^,]+), ([^,]+), ([^,]+),\s+({STRING}(?:\s*{STRING})*)\)',
    re.MULTILINE,
)
VALUE = re.compile(r"\.(\w+) =[ \t]*(.*?),?\)?[ \t]*/\* (.*?) \*/")
ABSENT = {"NEEDED": "needed", "MOST": "the most of any chip", "OF_FIRST": "as on v4"}


def target_fields():
    """{name: (kind, unit, lowest, highest, absent, what it is)} of target_fields.def."""
    text = (ROOT / "include" / "target_fields.def").read_text()
    found = {}
    for name, *row, about in TARGET_FIELD.findall(text):
        strings = [json.loads(string) for string in re.findall(STRING, about)]
        found[name] = (*row, "".join(strings))
    if len(found) != len(re.findall("^FIELD", text, re.MULTILINE)):
        sys.exit(f"of include/target_fields.def this could read {', '.join(found)} alone")
    return found


def targets():
    """{chip: {field: (value, where it is from)}} of targets.def: each has each field, once."""
    text = (ROOT / "include" / "targets.def").read_text().split("*/", 1)[1]
    groups, chips = {}, {}
    for kind, name, body in re.findall(
        r"^(#define |TARGET\()(\w+)(.*?)(?=^#|^TARGET|\Z)", text, re.DOTALL | re.MULTILINE
    ):
        values = [(field, (value, said)) for field, value, said in VALUE.findall(body)]
        names = re.findall(r"\b[A-Z][A-Z0-9_]+\b(?=,\s)", body.split(".")[0])
        values += [value for group in names for value in groups[group]]
        (groups if kind == "#define " else chips)[name] = values
    wanted = sorted(target_fields().keys() - {"name"})
    for chip, values in chips.items():
        if sorted(field for field, _ in values) != wanted:
            lines = [field for field, _ in values]
            odd = {field for field in [*wanted, *lines] if lines.count(field) != 1}
            sys.exit(f"{chip} in include/targets.def has not one line with a source for: {odd}")
        for field, (_, said) in values:
            if not said.startswith(target_fields()[field][1]):
                sys.exit(f"{field} of {chip} in include/targets.def does not say its unit first")
    return {chip: dict(values) for chip, values in chips.items()}


def number(text):
    """A bound or a value as the page writes it."""
    text = re.sub(r"INT64_C\((\w+)\)", r"\1", text)
    text = re.sub(r"(\d+) << (\d+)", lambda m: f"2^{m[2]}", text)
    text = re.sub(r" \* ([KM])IB", r" \1iB", text)
    return text.strip('"')


def fields_table():
    """What a field is."""
    lines = ["| field | unit | from, to | absent | what it is |", "| --- | --- | --- | --- | --- |"]
    for name, (kind, unit, low, high, absent, about) in target_fields().items():
        takes = number(low) if low == high else f"{number(low)} to {number(high)}"
        takes += " or null" if kind == "CAP" else ""
        if kind in ("TEXT", "FLAG"):
            takes = "a plain name" if kind == "TEXT" else "true, false"
        if kind == "FLAG" and absent in "01":
            absent = ("false", "true")[int(absent)]
        absent = ABSENT.get(absent, absent)
        lines.append(f"| `{name}` | {unit} | {takes} | {absent} | {about} |")
    return "\n".join(lines) + "\n"


def chips_table():
    """What the chips have."""
    chips, fields = targets(), target_fields()
    lines = [f"| field | unit | {' | '.join(chips)} | source |"]
    lines.append("| --- " * (len(chips) + 3) + "|")
    for name, (kind, unit, *_) in fields.items():
        if name == "name":
            continue
        said = {}
        for chip, values in chips.items():
            source = values[name][1].removeprefix(unit).removeprefix(",").removeprefix(":").strip()
            said.setdefault(source, []).append(chip)
        sources = [
            source if len(said) == 1 else f"{' '.join(of)}: {source}" for source, of in said.items()
        ]
        cells = [number(values[name][0]) for values in chips.values()]
        if kind == "TILES":
            cells = ["[tiling](tiling.md)"] * len(chips)
        elif kind == "CAP":
            cells = ["null" if cell == "0" else cell for cell in cells]
        lines.append(f"| `{name}` | {unit} | {' | '.join(cells)} | {'; '.join(sources)} |")
    return "\n".join(lines) + "\n"


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
    page = ROOT / "docs" / "targets.md"
    yield page, "<!-- target fields -->\n", fields_table(), "<!-- end -->\n\n`tile_rows`"
    yield page, "<!-- chips -->\n", chips_table(), "<!-- end -->\n"
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
