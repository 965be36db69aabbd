"""Writes docs/diagnostics.md: a section for every code that a diagnostic can have.

The words are those of docs/diagnostics.txt, a block for each code in the order of the alphabet:

    CODE
    What is wrong: the first sentence stands alone in lists.
    > What to do.
    $ COMMAND

What the command prints is put behind it. `$ testdata/bad/NAME.json` compiles that file; `- WHY`
stands where there is no example. `pallasc explain` has the page compiled in.

With --check it writes nothing: exit status 1 if a code of the source has no block, if a block is of
no code, if an example does not give its code, or if the page is not up to date.
"""

import difflib
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORDS = ROOT / "docs" / "diagnostics.txt"
DOC = ROOT / "docs" / "diagnostics.md"
FOLDERS = ("src", "passes", "codegen")
STRING = r'"(?:[^"\\]|\\.)*"'
# Who reports: diag_error(), infer_error(), plan_refuse(), ...: a code, a message behind it.
CALL = re.compile(
    r"\b(?P<name>diag_(?:error|warning|note)|complain|\w*(?:_error|refuse|reject)\w*)\("
)
CODE = re.compile(r'"([a-z][a-z0-9]*(?:-[a-z0-9]+)*)"')
KEBAB = re.compile(r'"([a-z0-9]+(?:-[a-z0-9]+)+)"')
# Reported where the pattern finds no call.
APART = ("more-errors", "out-of-memory", "usage", "vmem")
SHOWN = 12  # lines of what an example prints

HEAD = """# Diagnostics

Every error, warning and note has a code that stays as it is while wordings change: in brackets
at the end of its first line, and as `code` with `--diagnostics=json`. `pallasc explain CODE`
shows its section of this page; `pallasc explain` lists them.

Where the graph says from which line of a program a node is (`loc`, which `pallasc export` and
`pallasc.build` write), that line comes first: file, line, code; then, behind `-->`, the place
in the graph. Notes below name the other places that it is about.

@EXAMPLE@
With `--diagnostics=json` each is an object on a line: `severity`, `code`, `message`, `hint`;
`file`, `line`, `column` and `pointer` of the graph; where it is known `node`, and `loc` with
`file`, `line` and `code` of the program; and `related`, the notes: objects with the same
members for their places and a `message`.

Made by `make docs` from `docs/diagnostics.txt`; what is shown is what the commands print.

"""


# What the page begins with.
FIRST = (
    """sed '/"scores", "target"/s/"u1", "u2"/"u2", "u1"/' """
    "testdata/graphs/attention.json | pallasc -"
)


@dataclass
class Page:
    """One block of WORDS."""

    code: str
    cause: str
    cure: str
    command: str = ""
    why_not: str = ""

    @property
    def summary(self):
        """Its first sentence."""
        return re.split(r"(?<=[.:]) (?=[A-Z]|the |a )", self.cause)[0].rstrip(".:")


def pages():
    """Of all codes, in the file's order."""
    found = []
    for block in WORDS.read_text().strip().split("\n\n"):
        code, cause, cure, last = block.split("\n")
        page = Page(code, cause, cure.removeprefix("> "))
        if last.startswith("- "):
            page.why_not = last[2:]
        else:
            command = last.removeprefix("$ ")
            page.command = f"pallasc {command}" if command.startswith("testdata/") else command
        found.append(page)
    return found


def printed(command):
    """What an example prints, as lines."""
    (ROOT / "build").mkdir(exist_ok=True)
    run = subprocess.run(
        ["bash", "-c", f'PATH="$PWD:$PATH"; {command}'],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return run.stderr.splitlines()


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


def scan():
    """{code} of the whole source."""
    found = set(APART)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.c")):
            text = path.read_text()
            found.update(KEBAB.findall(text))
            for call in CALL.finditer(text):
                for part in arguments(text, call.end())[1:]:
                    if code := CODE.fullmatch(part):
                        found.add(code.group(1))
                        break
    return found


def console(command, lines):
    """A command and what it prints, its first lines, as a block of the page."""
    if len(lines) > SHOWN + 1:
        lines = [*lines[:SHOWN], f"... {len(lines) - SHOWN} lines more"]
    return "\n".join(["```console", f"$ {command}", *(line.rstrip() for line in lines), "```\n"])


def section(page, lines):
    """The section of a code: cause, example, cure."""
    example = console(page.command, lines) if page.command else f"(No example: {page.why_not}.)\n"
    return f"## {page.code}\n\n{page.cause}\n\n{example}\nWhat to do: {page.cure}\n"


def document():
    """The text of the page."""
    found = pages()
    with ThreadPoolExecutor() as pool:
        lines = list(pool.map(lambda page: printed(page.command) if page.command else [], found))
    rows = [f"| [`{page.code}`](#{page.code}) | {page.summary} |\n" for page in found]
    table = "| code | says |\n| --- | --- |\n" + "".join(rows) + "\n"
    sections = [section(page, said) for page, said in zip(found, lines, strict=True)]
    head = HEAD.replace("@EXAMPLE@", console(FIRST, printed(FIRST)))
    return head + table + "\n".join(sections)


def complaints():
    """What is wrong with WORDS, a line each."""
    found, codes = scan(), [page.code for page in pages()]
    for code in sorted(found - set(codes)):
        yield f"{WORDS.name} has no block for {code}"
    for code in sorted(set(codes) - found):
        near = difflib.get_close_matches(code, found, 1)
        yield f"{WORDS.name} has {code}, which nothing reports; is it {near}?"
    if codes != sorted(codes):
        yield f"{WORDS.name} is not in the order of the alphabet"
    for page in pages():
        if page.command and not any(f"[{page.code}]" in line for line in printed(page.command)):
            yield f"the example of {page.code} does not give it: {page.command}"
    if DOC.read_text() != document():
        yield f"docs/{DOC.name} is not what the words and the commands make: run make docs"


def main():
    """Writes or checks."""
    if sys.argv[1:] != ["--check"]:
        DOC.write_text(document())
        return 0
    wrong = list(complaints())
    print("\n".join(wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
