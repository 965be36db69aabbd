"""Writes what commands print into the pages that show it: docs/tour.md, and others of docs.

    <!-- run: COMMAND
    FROM ... TO
    -->

A block like this is followed by what the command prints: all of it, or from a line that holds the
text FROM to the next that holds TO, or one line (FROM alone). Lines that are left out become `...`,
long ones are folded. Commands run in bash at the top of the
checkout, after the page's ```bash block.

With --check it writes nothing: exit status 1 if a page is not what the commands print.
"""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))
WIDTH = 120
SETUP = re.compile(r"^```bash\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"<!-- run: (.*?)\n(.*?)-->\n.*?<!-- end -->\n", re.DOTALL)


def fold(line):
    """A line in pieces of at most WIDTH columns, those after the first further in."""
    if len(line) <= WIDTH:
        return line.rstrip()
    margin = " " * (len(line) - len(line.lstrip(" <>")))
    return textwrap.fill(
        line,
        WIDTH,
        subsequent_indent=margin + "      ",
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )


def find(lines, text, start):
    """The index of the first line from `start` on that holds `text`."""
    for i in range(start, len(lines)):
        if text in lines[i]:
            return i
    sys.exit("\n".join([*lines, f"no line from {start} on holds {text!r}"]))


def excerpt(lines, wanted):
    """The wanted lines, `...` for what is left out between them."""
    shown, at = [], 0
    for want in wanted or [None]:
        if want is None:
            return lines
        first, _, last = want.partition(" ... ")
        begin = find(lines, first, at)
        end = find(lines, last, begin + 1) + 1 if last else begin + 1
        if begin > at or (begin > 0 and not shown):
            shown.append("...")
        shown += lines[begin:end]
        at = end
    return shown if at == len(lines) else [*shown, "..."]


def run(setup, command):
    """The lines that a command prints; errors too, in their place."""
    script = f"{setup}\n{command}"
    result = subprocess.run(
        ["bash", "-c", script],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return result.stdout.splitlines()


def page_text(old):
    """The page with all blocks filled in."""
    setup = "".join(SETUP.findall(old)[:1])

    def block(match):
        command, wanted = match.group(1), match.group(2).splitlines()
        lines = [fold(line) for line in excerpt(run(setup, command), wanted)]
        head = match.group(0).split("-->\n")[0]
        return "\n".join(
            [f"{head}-->", "```console", f"$ {command}", *lines, "```", "<!-- end -->\n"]
        )

    return BLOCK.sub(block, old)


def main():
    """Writes or checks."""
    for page in PAGES:
        old = page.read_text()
        new = page_text(old)
        if sys.argv[1:] != ["--check"]:
            page.write_text(new)
        elif new != old:
            sys.exit(f"{page} is not what the commands print: run make docs")


if __name__ == "__main__":
    main()
