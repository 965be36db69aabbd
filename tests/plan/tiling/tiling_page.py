"""docs/tiling.md from rules.json: verdicts on what is believed, then a table for each use."""

import json
from pathlib import Path

import tiling_kernels as kernels

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[2] / "docs" / "tiling.md"

HEAD = """# How arrays may be cut

Made by `make probe-tiling` (tests/plan/tiling) from what the real TPU compiler says; nothing here
is written by hand. {versions}; {kernels} kernels, about 0.07 s of one core each: {minutes:.0f}
minutes on two, if none is cached. All answers: `tests/plan/tiling/rules.json`.

The planner asks the target for these rules: `lanes`, and `tile_rows` (include/targets.def), which a
target file may give for elements of 32, 16, 8 and 4 bits:

    {{"base": "v6e", "tile_rows": {{"copy": {{"wide": [8, 16, 32, 64], "powers": [0, 0, 0, 0]}}}}}}

`block`, `copy`, `clipped` (windows of emit_pipeline that reach past the end), `slice`, and the
`copy_out` and `slice_out` of arrays that the kernel makes have each `wide`, what rows are multiples
of; `narrow`, the same where the last dim is no wider than `lanes`; and `powers`, the sum of the
smaller powers of two that are legal from multiples of themselves. `make check` compares the
built-in targets with the rules below, asks the compiler for a sample of them again, and compiles
kernels on both sides of each.

XLA chooses how arrays are tiled in HBM by what is in the module beside the kernel: on v7x those of
16 bits that it makes come in tiles of 16 rows where a dot reads them, or where an array of 8 bits
is made anywhere. What a kernel reads keeps 8 rows, and what it updates in place. The modules that
were asked about make such an array.

A layout names the array: `n` is the dim that is cut, the others are whole; `r` is 32 and `b` 2.
A *traced* start is one that the kernel computes. "8; 1 2 4" means any multiple of 8, and also 1, 2
or 4 from multiples of themselves. A dash: never.
"""

USES = {
    "block": (
        "Blocks of the grid (BlockSpec)",
        "The whole dim is legal whatever its extent; the last block may reach past the "
        "end, also where it is the only one. Buffers of an input: {buffers[block]}.",
    ),
    "pipeline": (
        "Windows of emit_pipeline",
        "Sizes as of copies, below. Buffers of an input: {buffers[pipeline]}.",
    ),
    "copy_in": (
        "Copies from HBM to VMEM (make_async_copy)",
        "Sizes and traced starts. The whole dim is legal whatever its extent, and so is a rest "
        "that runs from a known legal start to the end of the array.",
    ),
    "copy_out": ("Copies from VMEM to HBM", ""),
    "load": (
        "Slices of a block in VMEM: loads (pl.ds)",
        "Traced starts. From a start that is known when the kernel is traced, any size is legal.",
    ),
    "store": ("Slices of a block in VMEM: stores", ""),
    "masked_store": (
        "Stores with a mask (pltpu.store)",
        "Only 32-bit values may be masked.",
    ),
    "update": (
        "Updates: load, add, store",
        "What an atomic add is where grid steps run in order.",
    ),
}
SAME = {"copy_out": "copy_in", "store": "load"}


def needed(rules):
    """What traced starts and sizes are multiples of; None where nothing is taken."""
    parts = [rules.get(key) for key in ("multiple", "steps", "hint")]
    known = [part for part in parts if part]
    return max(known) if known and not rules.get("refused") else None


def cell(rules, question):
    """One answer as text."""
    if question == "ragged":
        return str(rules.get("ragged") or "-")
    if needed(rules) is None:
        return "whole only" if rules.get("whole") else "-"
    small = " ".join(map(str, rules["powers"]))
    return "; ".join(filter(None, [str(needed(rules)), small]))


def by_chip(texts):
    """One text where all chips agree; else each with its chips."""
    groups = {}
    for chip, text in texts.items():
        groups.setdefault(text, []).append(chip)
    if len(groups) == 1:
        return next(iter(groups))
    return ", ".join(f"{text} ({' '.join(chips)})" for text, chips in groups.items())


def table(targets, use, question=""):
    """Layouts down, dtypes across."""
    dtypes = list(next(iter(targets.values()))[use])
    lines = [f"| | {' | '.join(dtypes)} |", f"| --- |{' --- |' * len(dtypes)}"]
    asked = next(iter(next(iter(targets.values()))[use].values()))
    for layout in kernels.LAYOUTS:
        if layout.name not in asked:
            continue
        cells = [
            by_chip({t: cell(rules[use][d][layout.name], question) for t, rules in targets.items()})
            for d in dtypes
        ]
        lines.append(f"| `{layout.name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


# ---- what is believed ---------------------------------------------------------------------------

LAST = ("[r, n]", "[b, r, n]")
WIDE_ROWS = ("[n, 256]", "[b, n, 256]")


def _found(chip, use, layouts, dtypes=None):
    """{multiple: dtypes} of those that are taken at all."""
    found = {}
    for dtype, rules in chip[use].items():
        for layout in layouts:
            multiple = needed(rules[layout])
            if multiple and (dtypes is None or dtype in dtypes):
                found.setdefault(multiple, {})[dtype] = None
    return found


def _say(found):
    return ", ".join(f"{m} for {' '.join(names)}" for m, names in sorted(found.items())) or "none"


def _copy_last(chip):
    found = _found(chip, "copy_in", LAST)
    return set(found) == {128}, _say(found)


def _copy_rows(chip):
    found = _found(chip, "copy_in", WIDE_ROWS)
    return set(found) == {8}, _say(found)


def _copy_rows_float32(chip):
    wide = _found(chip, "copy_in", WIDE_ROWS, ("float32",))
    narrow = _found(chip, "copy_in", ("[n, 128]", "[n, 1]"), ("float32",))
    return set(wide) == {1}, f"{max(wide)}; {max(narrow)} where the last dim is at most 128"


def _copy_1d(chip):
    found = _found(chip, "copy_in", ("[n]",))
    return set(found) == {1024}, _say(found)


def _copy_whole(chip):
    refused = {
        f"{dtype} {name}"
        for dtype, layouts in chip["copy_in"].items()
        for name, rules in layouts.items()
        if not rules.get("whole") and not (dtype == "bool" and "refused" in rules)
    }
    count = sum(len(layouts) for layouts in chip["copy_in"].values())
    text = f"300 lanes or 13 rows, all there are, copied: all but {', '.join(sorted(refused))}"
    return len(refused) == count, text if refused else "300 lanes or 13 rows, all there are: copied"


def _block_1d(chip):
    bits = {"float32": 32, "bfloat16": 16, "int4": 4}
    good = all(
        rules["[n]"].get("multiple") == 128 * 32 // bits.get(dtype, 8)
        for dtype, rules in chip["block"].items()
        if "refused" not in rules["[n]"] and dtype != "bool"
    )
    found = {}
    for dtype, rules in chip["block"].items():
        found.setdefault(cell(rules["[n]"], ""), {})[dtype] = None
    return good, ", ".join(f"{text} for {' '.join(names)}" for text, names in found.items())


def _block_whole(chip):
    refused = [
        f"{dtype} {name}"
        for dtype, layouts in chip["block"].items()
        for name, rules in layouts.items()
        if not rules.get("whole")
    ]
    text = f"all but {', '.join(refused)}" if refused else "yes, and in 1-D"
    return all(name.endswith(" [n]") for name in refused), text


def _hint(chip):
    needing, free = set(), set()
    for use in ("copy_in", "copy_out", "load", "store", "update"):
        for layouts in chip[use].values():
            for name, rules in layouts.items():
                if rules.get("hint"):
                    (needing if rules["hint"] > 1 else free).add(name)
    names = [layout.name for layout in kernels.LAYOUTS]
    always = [name for name in names if name in needing - free]
    never = [name for name in names if name in free - needing]
    both = [name for name in names if name in free & needing]
    parts = [("always", always), ("never", never), ("by dtype", both)]
    return bool(needing), "; ".join(f"{word}: {' '.join(found)}" for word, found in parts if found)


BELIEFS = (
    ("DMA: last dim % 128", _copy_last),
    ("DMA: second-last dim % 8", _copy_rows),
    ("DMA: second-last dim of float32 is free", _copy_rows_float32),
    ("DMA: 1-D % 1024", _copy_1d),
    ("DMA: no exception for all of a dim", _copy_whole),
    ("BlockSpec: 1-D in 128 * (32 / bits)", _block_1d),
    ("BlockSpec: all of a dim is legal from 2-D", _block_whole),
    ("A traced start needs pl.multiple_of", _hint),
)


def beliefs(targets):
    lines = ["| what Helion's authors believe | verdict | measured |", "| --- | --- | --- |"]
    for text, judge in BELIEFS:
        verdicts = {t: judge(chip) for t, chip in targets.items()}
        word = by_chip({t: "confirmed" if v[0] else "refuted" for t, v in verdicts.items()})
        lines.append(f"| {text} | {word} | {by_chip({t: v[1] for t, v in verdicts.items()})} |")
    return "\n".join(lines)


def write(rules):
    """Writes the page from all that was measured."""
    targets = rules["targets"]
    head = HEAD.format(
        versions=", ".join(f"{name} {version}" for name, version in rules["versions"].items()),
        kernels=(kernels := sum(chip["kernels"] for chip in targets.values())),
        minutes=kernels * 0.07 / 2 / 60,
    )
    parts = [head, f"On {', '.join(targets)}:\n", beliefs(targets) + "\n"]
    for use, (title, text) in USES.items():
        buffers = {
            name: by_chip({t: " ".join(map(str, c["buffers"][name])) for t, c in targets.items()})
            for name in ("block", "pipeline")
        }
        parts.append(f"## {title}\n")
        parts += [text.format(buffers=buffers) + "\n"] if text else []
        if table(targets, use) == table(targets, SAME.get(use, "block")) and use in SAME:
            parts += [f"As those above, on every chip: {', '.join(targets)}.\n"]
            continue
        parts.append(table(targets, use) + "\n")
        if use == "pipeline":
            parts += ["Ragged: the same, where the last window reaches past the end.\n"]
            parts.append(table(targets, use, "ragged") + "\n")
    PAGE.write_text("\n".join(parts))


if __name__ == "__main__":
    write(json.loads((HERE / "rules.json").read_text()))
