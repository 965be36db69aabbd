"""The section "The oracle" of docs/results.md, from soaks.json and the finds: `make soak-page`."""

import collections
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[2] / "docs" / "results.md"
TITLE = "## The oracle"
TEXT = """Random documents, each drawn from its number alone and examined in one way, as
[properties.py](../tests/whole/oracle/properties.py) says: its kernel's text executed in
NumPy, or its module simulated, both against the reference; or compiled by the TPU
compiler for a chip, which must take it, in no more VMEM than the module's
`vmem_most_bytes`. Some of the first two are examined thoroughly: the reference again
after every single pass, the plan of the reloaded document, the kernel after each rewrite,
or simulated in huge memory and with eager DMA. `make soak` draws; what it finds is made
small, kept in `tests/whole/oracle/finds` and run in CI. A run without ways is from before
documents had numbers: it drew 25 with each seed, simulated all of them in some turns more
than once, and asked the TPU compiler about some of those."""


def section():
    """The section's text."""
    soaks = json.loads((HERE / "soaks.json").read_text())
    lines = [
        TITLE,
        "",
        TEXT,
        "",
        *_counts(soaks),
        "",
        *_chips(soaks),
        *_refusals(soaks),
        "",
        *_finds(),
    ]
    return "\n".join(lines) + "\n"


def _table(head, rows):
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(str(cell) for cell in row)} |"


COLUMNS = (
    "documents",
    "accepted",
    "refused",
    "executed",
    "simulated",
    "thorough",
    "AOT",
    "failing",
)


def _counts(soaks):
    rows = [
        (s["seed"], s.get("seeds", ""), f"{s['minutes']:.0f}", *(s.get(c, 0) for c in COLUMNS))
        for s in soaks
    ]
    sums = [sum(s.get(c, 0) for s in soaks) for c in COLUMNS]
    minutes = sum(s["minutes"] for s in soaks)
    rows.append(("all", "", f"{minutes:.0f}", *sums))
    return _table(("first", "seeds", "minutes", *COLUMNS), rows)


def _chips(soaks):
    chips = collections.Counter()
    for soak in soaks:
        chips.update(soak.get("chips", {}))
    found = ", ".join(f"{chip} {count}" for chip, count in sorted(chips.items()))
    return (
        [f"Compiled by the TPU compiler in runs with ways, by chip: {found}.", ""] if chips else []
    )


def _refusals(soaks):
    codes = collections.Counter()
    for soak in soaks:
        codes.update(soak["codes"])
    found = ", ".join(f"`{code}` {count}" for code, count in codes.most_common())
    return [f"Refused, by the code of the first diagnostic: {found}."]


def _finds():
    finds = [(p.stem, json.loads(p.read_text())) for p in sorted((HERE / "finds").glob("*.json"))]
    rows = [(f"`{name}`", case["found"]["kind"], case["cause"]) for name, case in finds]
    return _table(("find", "failed", "what was wrong"), rows)


def main():
    """Puts the section into the page, in place of what stands there under its title."""
    before, _, after = PAGE.read_text().partition(f"{TITLE}\n")
    _, _, rest = after.partition("\n## ")
    PAGE.write_text(before.rstrip() + "\n\n" + section() + (f"\n## {rest}" if rest else ""))


if __name__ == "__main__":
    sys.exit(main())
