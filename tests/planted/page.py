"""The tables of docs/planted.md, from results.jsonl: `make planted-page`."""

import collections
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = map(str, (HERE, ROOT / "tests", ROOT / "python"))

import planted  # noqa: E402

PAGE = ROOT / "docs" / "planted.md"
TITLE = "## What was planted"
ENDS = ("killed", "survived", "same code")
KINDS = ("comparison", "condition", "constant", "logic", "operands", "operator", "statement")


def cell(text):
    """Text within a table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head, rows):
    """Lines of a table."""
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def room(entry):
    """The room of a fault."""
    return entry["file"].rpartition("/")[0]


def counted(found, name, of):
    """Lines of a table of how faults ended, by what `of` says of each."""
    counts = collections.Counter((of(r), r["ended"]) for r in found)
    argued = collections.Counter(of(r) for r in found if "why" in r)
    rows = []
    for key in sorted({of(r) for r in found}):
        row = [counts[key, ended] for ended in ENDS]
        rows.append((key, sum(row), row[0], row[2], argued[key], row[1] - argued[key]))
    sums = [sum(row[i] for row in rows) for i in range(1, 6)]
    return table(
        (name, "planted", "killed", "change no code", "argued", "survivors"),
        [*rows, ("all", *sums)],
    )


def section():
    """The tables, under their title."""
    found = planted.read_results()
    seeds = ", ".join(map(str, sorted({r["seed"] for r in found})))
    stages = collections.Counter(r["stage"] for r in found if r["ended"] == "killed")
    yield TITLE
    yield ""
    by = ", ".join(f"{stages[stage]} by {stage}" for stage in sorted(stages))
    yield f"Seeds {seeds}. Killed: {by}."
    yield ""
    yield from counted(found, "room", room)
    yield ""
    yield from counted(found, "kind", lambda r: r["kind"])
    left = [r for r in found if r["ended"] == "survived"]
    yield ""
    rows = [
        (
            f"`{r['file']}` {r['function']}",
            f"`{cell(r['old'])[:70]}` is `{cell(r['new'])[:70]}`",
            r.get("why") or "open",
        )
        for r in left
    ]
    yield from table(("survivor", "fault", "why no test sees it"), rows)


def main():
    """Puts the tables into the page, in place of what stands there under their title."""
    before, _, after = PAGE.read_text().partition(f"{TITLE}\n")
    _, _, rest = after.partition("\n## ")
    text = before.rstrip() + "\n\n" + "\n".join(section()) + "\n"
    PAGE.write_text(text + (f"\n## {rest}" if rest else ""))


if __name__ == "__main__":
    sys.exit(main())
