"""`make proof-page`: writes docs/proof.md from what `make proof` and `make aot` measured."""

import importlib.metadata
import json
import platform
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import proof

OUTPUT = proof.ROOT / "docs" / "proof.md"
MIB = 1 << 20

HEAD = """# Proof: numbers and compilability

Made by `make proof-page` from what `make proof` (simulation) and `make aot` (the real TPU compiler)
measured; nothing here is written by hand. Versions:
{versions}.

CI (`make check`) runs a part of both: every graph x loop type x pre-broadcast x block sizes on
random and edge inputs, ragged ones with huge values past their edges too; and the compiler on
{quick} of the {full} pairs of configuration and chip below.

## What is measured, and what is not

- Errors are measured in jax's TPU interpret mode on a CPU: memory that nothing wrote is NaN, reads
  out of bounds raise, races are detected, a DMA moves when it is waited for (and, in a second run,
  at once). It is not a TPU: it computes float32 dots in full where a TPU at default precision would
  not (the kernels ask for `highest`), and it knows no MXU rounding.
- A number is the worst error as a share of what is allowed (docs of `pallasc.compare`): 1.00 would
  just pass. "reference" rounds where the graph rounds; "formula" is float64 throughout. Half a unit
  in the last place of bfloat16 is 0.06 of 8 ulp and 0.25 of 2 ulp.
- Runs made this time: {kinds}.
- "edge": the answer sits in the last row or column, and a test shows
  that losing it fails by more than ten times the tolerance. "huge": memory that nothing wrote holds
  2^100 instead of NaN, because XLA on a CPU drops NaN in a maximum over a dim. "last_row",
  "last_col": that row or column dominates. "past_edge": NaN in what no valid lane reads. "eager":
  DMAs move when they start. "cores": two cores, shuffled grid order.
- Large attention graphs cannot be simulated whole: their kernels run with one head or eight (`@1`,
  `@8`), all else as it is, on random and edge inputs. The whole ones are compiled below.
- A test plants mistakes (a lost tail, a mask off by one, a wait left out, ...) in a pinned kernel
  and sees that each is found.
- "VMEM used" is what the TPU compiler reports for the kernel; "predicted" is KERNEL_INFO's
  `vmem_bytes`, an estimate from above: a run fails if the compiler uses more.
- "HBM temporaries" is the compiler's own figure for the whole program around the kernel.
- Nothing here was run on a TPU. Speed, as estimated: docs/results.md.
"""


def main():
    """Writes the page; raises FileNotFoundError before `make proof` and `make aot`."""
    numerics = json.loads((proof.RESULTS_DIRECTORY / "numerics.json").read_text())
    compiled = json.loads((proof.RESULTS_DIRECTORY / "aot.json").read_text())
    kinds = ", ".join(dict.fromkeys(kind for entry in numerics for kind in entry["kinds"]))
    counts = {"quick": len(proof.aot_quick()), "full": len(proof.aot_full())}
    head = HEAD.format(versions=versions(), kinds=kinds, **counts)
    parts = [head, numerics_section(numerics), compiler_section(compiled), refusal_section()]
    OUTPUT.write_text("\n".join(parts))
    print(f"{OUTPUT.relative_to(proof.ROOT)} written")


def versions():
    """The versions that matter, in one line."""
    names = ("jax", "jaxlib", "libtpu", "numpy")
    packages = [f"{name} {importlib.metadata.version(name)}" for name in names]
    return ", ".join([*packages, f"Python {platform.python_version()}"])


def table(head, rows):
    """A Markdown table; all columns but the first to the right."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"


def worst(entries, against):
    """The largest share of the tolerance in the entries."""
    ratios = [row["ratio"] for item in entries for row in item["rows"] if row["against"] == against]
    return max(ratios)


def numerics_section(entries):
    """Errors by graph, loop type and pre-broadcast, the worst over block sizes and inputs."""
    groups = {}
    for entry in entries:
        key = (entry["graph"], entry["loop"] or "(no loop)", entry["pre_broadcast"])
        groups.setdefault(key, []).append(entry)
    rows = []
    for (graph, loop, pre_broadcast), group in groups.items():
        shares = [f"{worst(group, against):.2g}" for against in ("reference", "formula")]
        runs = sum(len(item["kinds"]) for item in group)
        switch = {None: "default", True: "on", False: "off"}[pre_broadcast]
        state = "ok" if not any(item["problems"] for item in group) else "BAD"
        rows.append([graph, loop, switch, len(group), runs, *shares, state])
    kernels = len({entry["same_as"] for entry in entries})
    runs = sum(len(entry["kinds"]) for entry in entries if entry["case"] == entry["same_as"])
    head = ["graph", "loop type", "pre-broadcast", "configurations", "runs"]
    head += ["reference", "formula", "races, reads, waits"]
    text = f"{len(entries)} configurations, {kernels} distinct kernels, {runs} simulated runs "
    text += "(equal kernels run once; the column `runs` counts theirs for each).\n"
    return f"\n## Numerics: `make proof`\n\n{text}\n{table(head, rows)}"


def compiler_section(rows):
    """The compiler's verdicts: defaults and production attention in full, the rest summed up."""
    plain = [row for row in rows if row["case"] == row["graph"]]
    production = [
        row
        for row in rows
        if row["graph"] in proof.PRODUCTION and row["loop"] and row["chip"] in ("v6e", "v7x")
    ]
    good = sum(row["kind"] == "ok" for row in rows)
    held = sum(row["kind"] == "ok" and row["vmem_bytes"] <= row["predicted_bytes"] for row in rows)
    kernels = len({(row["kernel"], row["chip"]) for row in rows})
    text = f"{len(rows)} pairs of configuration and chip ({kernels} distinct kernels) compiled: "
    text += f"{good} accepted, {held} within the predicted VMEM.\n"
    parts = ["\n## The TPU compiler: `make aot`\n", text]
    parts += ["### Every graph as it is, for every chip", "", "VMEM in MiB: used / predicted.", ""]
    parts += [by_chip(plain), "HBM temporaries in MiB.", "", temporaries(plain)]
    parts += ["### Attention, B=8 H=32 S=8192, bfloat16", "", in_full(production)]
    parts += ["### All of the matrix, by chip", "", summary(rows)]
    return "\n".join(parts)


def by_chip(rows):
    """VMEM used and predicted of each graph on each chip."""
    cells = {(r["graph"], r["chip"]): f"{mib(r['vmem_bytes'])} / {mib(r['predicted_bytes'])}"
             for r in rows}  # fmt: skip
    return graph_table(cells)


def temporaries(rows):
    """HBM temporaries of each graph on each chip."""
    return graph_table({(r["graph"], r["chip"]): mib(r["temp_bytes"]) for r in rows})


def graph_table(cells):
    """A row for each graph, a column for each chip."""
    rows = [[graph, *(cells[graph, chip] for chip in proof.CHIPS)] for graph in proof.GRAPHS]
    return table(["graph", *proof.CHIPS], rows)


def in_full(rows):
    """Each verdict on a line of its own."""
    head = ["MiB", "chip", "verdict", "VMEM used", "predicted", "HBM temporaries"]
    lines = [
        [
            *(row["case"], row["chip"], row["kind"]),
            *(mib(row[key]) for key in ("vmem_bytes", "predicted_bytes", "temp_bytes")),
        ]
        for row in rows
    ]
    return table(head, lines)


def summary(rows):
    """For each chip: how many, and how close the prediction is."""
    lines = []
    for chip in proof.CHIPS:
        here = [row for row in rows if row["chip"] == chip and row["kind"] == "ok"]
        ratios = sorted(row["predicted_bytes"] / row["vmem_bytes"] for row in here)
        middle, temp = ratios[len(ratios) // 2], max(row["temp_bytes"] for row in here)
        count = f"{len(here)} of {sum(row['chip'] == chip for row in rows)}"
        lines.append(
            [chip, count, f"{ratios[0]:.2f}", f"{middle:.2f}", f"{ratios[-1]:.2f}", mib(temp)]
        )
    head = ["chip", "accepted", "predicted / used: least", "median", "most", "most HBM temporaries"]
    return table(head, lines)


def refusal_section():
    """What is refused, and with which words."""
    rows = [
        [graph, loop, ".".join(map(str, blocks)) if blocks else "any", message]
        for (graph, loop, blocks), message in proof.REFUSALS.items()
    ]
    over = [
        [graph, loop, "its own", f"more VMEM than {chip} has"]
        for chip, pairs in proof.OVER_VMEM.items()
        for graph, loop in sorted(pairs)
    ]
    text = "Each with exactly this reason on every chip (VMEM: on the chip named); tests assert it."
    head = ["graph", "loop type", "block sizes", "why"]
    return f"\n## Refused combinations\n\n{text}\n\n{table(head, [*rows, *over])}"


def mib(count):
    """Bytes in MiB."""
    return "?" if count is None else f"{count / MIB:.2f}"


if __name__ == "__main__":
    main()
