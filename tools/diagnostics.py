"""Writes docs/diagnostics.md: every code that a diagnostic can have, with its messages.

With --check it writes nothing: exit status 1 if the page lacks a code, or names one that is gone.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOC = ROOT / "docs" / "diagnostics.md"
FOLDERS = ("src", "passes", "codegen")
STRING = r'"(?:[^"\\]|\\.)*"'
# Who reports: diag_error(), infer_error(), plan_refuse(), ...: a code, a message behind it.
CALL = re.compile(
    r"\b(?P<name>diag_(?:error|warning|note)|complain|\w*(?:_error|refuse|reject)\w*)\("
)
CODE = re.compile(r'"([a-z][a-z0-9]*(?:-[a-z0-9]+)*)"')
KEBAB = re.compile(r'"([a-z0-9]+(?:-[a-z0-9]+)+)"')

# Where the message stands apart from the code: in a table, or chosen at run time.
APART = {
    "bad-expression": "what is wrong with an expression, such as an unbalanced parenthesis",
    "duplicate-argument": "an argument is given twice, by position and by name",
    "json-depth": "nested deeper than 2048 levels",
    "json-duplicate-key": "the object has this member twice",
    "json-nul": "a string holds the character NUL",
    "json-number": "a number that JSON does not have, or that is too large",
    "json-utf8": "not valid UTF-8",
    "more-errors": "how many errors there are beyond the 20 that are shown",
    "out-of-memory": "there is no memory for it; exit status 3",
    "unknown-argument": "the op has no such argument",
    "unknown-scalar": "there is no such scalar",
    "vmem": "the kernel needs more bytes of VMEM than the chip has: how many for what",
    "usage": "wrong usage of the command line; exit status 2",
}

HEAD = """# Diagnostics

Every error, warning and note has a code that stays as it is while wordings change: in brackets at
the end of its line, and as `code` with `--diagnostics=json`. One about a node says where in the
program the node is from, by its `loc`: `from: FILE:LINE`. Made by `make docs` from the source.

| code | says |
| --- | --- |
"""


def arguments(text, start):
    """The top-level arguments of the call whose parenthesis opens just before `start`."""
    parts, depth, at = [""], 0, start
    while at < len(text) and depth >= 0:
        if match := re.compile(STRING).match(text, at):
            parts[-1] += match.group()
            at = match.end()
            continue
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if text[at] == "," and depth == 0:
            parts.append("")
        elif depth >= 0:
            parts[-1] += text[at]
        at += 1
    return [part.strip() for part in parts]


def message(parts):
    """The message among the arguments behind the code: text pieces joined, conversions as `...`."""
    for part in parts:
        pieces = re.findall(STRING, part)
        joined = "".join(piece[1:-1] for piece in pieces)
        if "?" not in part and " " in joined:
            return re.sub(r"%[-.*0-9]*(?:ll|z)?[a-z]", "...", joined).replace('\\"', '"')
    return None


def scan():
    """{code: [messages]} of the whole source."""
    found = defaultdict(list)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.c")):
            text = path.read_text()
            for code in KEBAB.findall(text):
                found[code] += []
            for call in CALL.finditer(text):
                parts = arguments(text, call.end())
                for i, part in enumerate(parts[1:], 1):
                    if code := CODE.fullmatch(part):
                        words = message(parts[i + 2 :]) or message(parts[i + 1 :])
                        known = found[code.group(1)]
                        if words and words not in known:
                            known.append(words)
                        break
    return found


def document(found):
    """The text of the page."""
    rows = []
    for code in sorted(found):
        words = "; ".join(found[code][:4]) or APART.get(code, "")
        words = words.replace("|", "\\|")
        rows.append(f"| `{code}` | {words} |\n")
    return HEAD + "".join(rows)


def main():
    """Writes or checks."""
    found = scan()
    if sys.argv[1:] != ["--check"]:
        DOC.write_text(document(found))
        return 0
    named = set(re.findall(r"^\| `([^`]+)`", DOC.read_text(), re.M))
    for code in sorted(set(found) - named):
        print(f"docs/diagnostics.md does not name {code}: run make docs")
    for code in sorted(named - set(found)):
        print(f"docs/diagnostics.md names {code}, which nothing reports: run make docs")
    return int(named != set(found))


if __name__ == "__main__":
    sys.exit(main())
