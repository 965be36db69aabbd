"""How near the estimate of a kernel's time is: the model of the core beside the profiler.

    make bench-time      (or: PYTHONPATH=python .venv/bin/python bench/time_accuracy.py)

Compiles every production kernel of tests/whole/coverage for the chips whose cycles
tests/whole/coverage/results.json holds, reads `estimate` of its plan, and compares. Nothing is
compiled by libtpu. Writes docs/time_accuracy.md. --row TEXT prints the rows so named, each part
of the estimate, and writes nothing.

bench/time_ranks.json holds the profiler's cycles of configurations that a sweep draws: how well
estimates order them. --ranks draws and profiles those that are missing, some seconds each.
"""

import argparse
import functools
import hashlib
import importlib
import json
import pkgutil
import random
import statistics
import subprocess
import sys
import typing
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests"), str(ROOT / "tests" / "whole")]

import op_counts  # noqa: E402
import proof  # noqa: E402
from coverage import results  # noqa: E402
from coverage import row as coverage  # noqa: E402
from coverage import rows as families  # noqa: E402
from pallasc.errors import CompileError, PallascError  # noqa: E402
from pallasc.profile import chips, mosaic, run  # noqa: E402

RANKS = Path(__file__).with_name("time_ranks.json")
# Graphs, how many configurations of each are profiled, and for which chip.
RANKED = (
    "matmul_1024",
    "attention",
    "causal_attention",
    "bmm",
    "matmul_bias_gelu",
    "matmul_split_k_4096",
    "softmax_two_pass_4096_32768",
    "rms_norm_4096_8192",
    "swiglu_production",
    "welford_8192_8192",
)
RANKED_COUNT, RANKED_TARGET = 40, "v6e"
# Whether the best is among so many first ones, and how near, is told.
FIRST = 5
# Configurations that are compared with the fastest by no more than this are drawn.
RANKED_SPAN = 12

PAGE = ROOT / "docs" / "time_accuracy.md"
WORST = 12

HEAD = """# Accuracy of the estimate of a kernel's time

Written by `make bench-time` in seconds, without a TPU and without the TPU compiler. `estimate` of
[the plan](plan.md#the-estimate) says how many cycles a kernel takes, by a model of the TensorCore
over the built kernel (`codegen/core`). Here it stands beside [the profiler](profile.md), which
executes the schedule that libtpu {libtpu} makes, for the {kernels} kernels of
[the coverage](coverage.md) at production sizes, {pairs} pairs of a kernel and a chip. `compared` is
the estimate by which the search compares plans of one kernel (`plan_seconds()`): it counts the
matrix unit at its peak, HBM, and one register read in a cycle.

An error is |estimate / profiler - 1|. The profiler is an estimate itself: this page says nothing of
hardware, but how much is known without a compile of what its schedule tells.

**Two halves.** The numbers of the model are counted in schedules of single ops
(`include/units.def`, `include/expansions.def`); the rest was fitted to the rows of one half alone,
drawn by a hash of their names. The rows of the other half were seen in sums only, of all and of
each family on each chip, of which some have one row; those sums did say which ops were counted next
and which counts were kept, so that half is not untouched.

**Steered rows.** Of some kernels data say how often loops run: lengths, tables, lists of work. The
profiler follows data drawn for the row, and is given what the kernel takes from vectors: the
longest of a tile's rows, the change that ends an iteration. A plan has no data. The model takes a
table as rising evenly to the most that a clamp behind it lets through, so numbers that stand alone,
a flag as set in half of all cases, a list as two fifths full, half of the steps of a list of work
as repeating the last entry. How often a `while` runs nobody can know: of {whiles} rows both sides
are told the mean of the data (`pallas_expected_steps` of [the configuration](config.md)). All these
rows are told apart below.

"""


OPS_HEAD = """## Operations

What the model makes of statements beside what Mosaic makes of them, in {rows} kernels for {chip}
(`make bench-ops`). Equal is a count that is off by at most 0.05%.

**Vector registers.** `pallasc --emit=operations` beside Mosaic's stage
`{stage}`, in which each operation works on one register and an exponential,
a quotient or a conversion is one operation. All runs of grids and loops are counted, of all
branches, and of a loop that data bound one step. {equal} rows are equal in every class, to the
operation. `function` is what takes a chip more than one instruction, `pack` puts narrow elements
into registers or takes them out, `permute` puts lanes or rows elsewhere or spreads them. What only
renames registers (bitcasts, constants, layouts) is in no class. Rows of 16 bits that lie apart in
VMEM are loaded, but what brings them together is not counted, nor what cuts or stacks tiles at rows
within registers: that is nearly all that `select`, `pack`, `rotate`, `permute` and `mask` lack.

"""

UNITS_HEAD = """**Units.** `estimate.operations` of the plan beside Mosaic's last stage,
without rows whose loops or branches depend on data. The compiler goes on behind that stage: it
takes `pow`, `sin` and their like apart, spills, and drops packing, unpacking and additions of
nothing around matmuls. The model counts in its schedules, so those differ. A product of float32
enters half as many rows, and counts as half of one.

"""

RANKS_HEAD = """## The order of configurations

[Sweeps](sweep.md) and [the tuner](tune.md) order configurations by the estimate. Below is
Spearman's correlation with the profiler's cycles, of configurations that a sweep draws for {target}
among those that are compared as at most {span} times the fastest (`bench/time_accuracy.py --ranks`
profiles them), and by how much the best of the first {first} by the estimate is slower than the
best of all. Configurations that the compiler takes long for, some 12 s, are left out. Of
swiglu_production 26 take what HBM takes, within two thousandths of each other. Single
configurations of swiglu_production, softmax_two_pass and welford were looked at to find what the
model lacked, and that two registers go across lanes out of turn was chosen by them; the other
graphs were seen in this table only. Of 11 further ones of swiglu_production, drawn once all was
chosen, the correlation is 0.92: seven take what HBM takes.

"""


FURTHEST_HEAD = """## The furthest

Of the fitted half, not steered, the furthest pair of each row. The model knows no spills: of the
long chain of ints that dropout computes the compiler spills half, for as long as it takes to
compute it. Pairs of rows of a bfloat16 table in HBM lie four times as dense in registers as the
model takes them.

"""


class Pair(typing.NamedTuple):
    """A kernel on a chip.

    Attributes:
      row: its row of the coverage.
      chip: the chip's name.
      cycles: the profiler's.
      estimate: of the plan.
    """

    row: coverage.Row
    chip: str
    cycles: int
    estimate: dict

    @property
    def fitted(self):
        """Whether it is of the half to which the model was fitted."""
        return hashlib.sha256(self.row.name.encode()).digest()[0] % 2 == 0

    @property
    def steered(self):
        """Whether data say how often its loops run."""
        return self.row.follows_data

    @property
    def family(self):
        """The file of its row."""
        return family_of()[self.row.name]

    def off(self, compared=False):
        """The estimate over the profiler's cycles, less 1."""
        if compared:
            clock = chips.CHIPS[self.chip].clock_hz
            return self.estimate["compared_seconds"] * clock / self.cycles - 1
        return self.estimate["cycles"] / self.cycles - 1


@functools.cache
def family_of():
    """{row: the file that it stands in}."""
    names = sorted(item.name for item in pkgutil.iter_modules(families.__path__))
    modules = {name: importlib.import_module(f"coverage.rows.{name}") for name in names}
    return {row.name: name for name, module in modules.items() for row in module.ROWS}


def pairs(named=""):
    """A `Pair` of each kernel whose cycles are stored, in the order of the coverage."""
    stored, found = results.Results(), []
    for row in coverage.rows():
        cycles = stored.part(row, "cycles") if named in row.name else {}
        for name, (case, chip) in results.compilations(row).items():
            entry = cycles.get(name) or {}
            if entry.get("cycles") and entry["kernel"] == results.kernel_hash(case, chip):
                plan = proof.module(results.expecting(row, case), chip).plan
                found.append(Pair(row, chip, entry["cycles"], plan["estimate"]))
    return found


def share(values, part):
    """The value below which that part of them is."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def errors(group, compared=False):
    """(median, 90th percentile) of the errors of some pairs."""
    found = [abs(pair.off(compared)) for pair in group]
    return share(found, 0.5), share(found, 0.9)


def line(name, group):
    """A row of a table: pairs, errors of the model and of what plans are compared by."""
    numbers = [f"{100 * x:.1f}%" for x in (*errors(group), *errors(group, compared=True))]
    return f"| {name} | {len(group)} | {' | '.join(numbers)} |"


def table(first, groups):
    """A table of named groups of pairs."""
    head = f"| {first} | pairs | median | 90th percentile | compared: median | 90th percentile |"
    lines = [line(name, group) for name, group in groups if group]
    return "\n".join([head, "| --- | ---: | ---: | ---: | ---: | ---: |", *lines]) + "\n\n"


def groups_of(found):
    """The named groups of the first table."""
    groups = []
    for half, fitted in (("held back", False), ("fitted", True)):
        own = [pair for pair in found if pair.fitted == fitted]
        groups.append((f"{half}, all", own))
        groups += [
            (f"{half}, {chip}", [pair for pair in own if pair.chip == chip])
            for chip in results.CHIPS
        ]
        plain = [pair for pair in own if not pair.steered]
        groups.append((f"{half}, not steered", plain))
        groups += [
            (f"{half}, not steered, {chip}", [pair for pair in plain if pair.chip == chip])
            for chip in results.CHIPS
        ]
        groups.append((f"{half}, steered", [pair for pair in own if pair.steered]))
    return groups


def worst_table(found):
    """The furthest pairs of the fitted half, the furthest of each row."""
    ordered = sorted((p for p in found if p.fitted and not p.steered), key=lambda p: -abs(p.off()))
    seen, lines = set(), []
    for pair in ordered:
        if pair.row.name not in seen and len(lines) < WORST:
            seen.add(pair.row.name)
            numbers = f"{pair.estimate['cycles']:,} | {pair.cycles:,} | {100 * pair.off():+.0f}%"
            lines.append(f"| {pair.row.name} | {pair.chip} | {numbers} |")
    head = "| kernel | chip | estimate | profiler | off by |\n| --- | --- | ---: | ---: | ---: |\n"
    return head + "\n".join(lines) + "\n"


def ranked():
    """{graph: [(profiler's cycles, estimate, compared)]} of the configurations that are stored.

    Left out are those whose arrays are more than HBM, which the profiler does not look at.
    """
    found = {}
    clock = chips.CHIPS[RANKED_TARGET].clock_hz
    for entry in json.loads(RANKS.read_text()):
        document = proof.document(entry["graph"])
        try:
            plan = proof.compile_graph(document, entry["config"], entry["target"]).plan
        except CompileError as refused:
            if [said["code"] for said in refused.diagnostics] != ["hbm"]:
                raise
            continue
        estimate = plan["estimate"]
        numbers = entry["cycles"], estimate["cycles"], estimate["compared_seconds"] * clock
        found.setdefault(entry["graph"], []).append(numbers)
    return found


def spearman(first, second):
    """The rank correlation of two lists; equals share the mean of their ranks."""
    return statistics.correlation(
        *([rank(x, values) for x in values] for values in (first, second))
    )


def rank(x, values):
    """The place of x among them, in order."""
    return sum(y < x for y in values) + sum(y == x for y in values) / 2


def behind(cycles, estimates):
    """By what part the best of the `FIRST` by estimate is slower than the best of all."""
    first = sorted(range(len(cycles)), key=lambda index: estimates[index])[:FIRST]
    return min(cycles[index] for index in first) / min(cycles) - 1


def rank_table():
    """How well the configurations of a graph are ordered."""
    lines = []
    for graph, rows in ranked().items():
        cycles, model, compared = zip(*rows, strict=True)
        numbers = [
            f"{spearman(cycles, x):.3f} | {100 * behind(cycles, x):.1f}%" for x in (model, compared)
        ]
        lines.append(f"| {graph} | {len(rows)} | {' | '.join(numbers)} |")
    head = "| graph | configurations | estimate | slower | compared | slower |\n"
    return head + "| --- | ---: | ---: | ---: | ---: | ---: |\n" + "\n".join(lines) + "\n\n"


def near(graph):
    """[(module, configuration)] of a sweep, compared as not much slower than the best.

    Of configurations that give the same kernel the first.
    """
    names = (
        directory / f"{graph}.json"
        for directory in (proof.GRAPH_DIRECTORY, proof.COVERAGE_DIRECTORY)
    )
    path = next(path for path in names if path.exists())
    sweep = [ROOT / "pallasc", "sweep", "--target", RANKED_TARGET, "--sample", "1500", path]
    lines = subprocess.run(sweep, check=True, capture_output=True, text=True).stdout
    items = [item for item in map(json.loads, lines.splitlines()) if item["verdict"] == "accepted"]
    document = proof.document(graph)
    modules = [proof.compile_graph(document, item["config"], RANKED_TARGET) for item in items]
    seconds = [module.plan["estimate"]["compared_seconds"] for module in modules]
    kernels = {}
    for module, item, second in zip(modules, items, seconds, strict=True):
        if second < RANKED_SPAN * min(seconds):
            kernels.setdefault(run.code_of(module.source), (module, item["config"]))
    return list(kernels.values())


def draw_ranks():
    """Profiles as many configurations that a sweep draws as are missing."""
    stored = json.loads(RANKS.read_text())
    for graph in RANKED:
        own = [entry["config"] for entry in stored if entry["graph"] == graph]
        drawn = near(graph)
        random.Random(graph).shuffle(drawn)
        for module, config in drawn:
            if len(own) >= RANKED_COUNT:
                break
            if config in own:
                continue
            try:
                cycles = run.profile(module, timeout=60)["pallas_cycles"]
            except PallascError as error:
                print(f"{graph} {config}: {error}")
                continue
            own.append(config)
            stored.append(
                {"graph": graph, "target": RANKED_TARGET, "config": config, "cycles": cycles}
            )
            stored.sort(key=lambda entry: RANKED.index(entry["graph"]))
            RANKS.write_text("[\n " + ",\n ".join(map(json.dumps, stored)) + "\n]\n")


def text(found):
    """docs/time_accuracy.md."""
    kernels = len({pair.row.name for pair in found})
    head = HEAD.format(
        libtpu=results.versions()["libtpu"],
        kernels=kernels,
        pairs=f"{len(found):,}",
        whiles=sum(bool(row.steps) for row in {pair.row for pair in found}),
    )
    families = sorted({pair.family for pair in found})
    by_family = [(name, [pair for pair in found if pair.family == name]) for name in families]
    return (
        head
        + table("rows", groups_of(found))
        + OPS_HEAD.format(
            rows=len(op_counts.register_rows()),
            chip=op_counts.CHIP,
            stage=mosaic.REGISTER_STAGE,
            equal=len(op_counts.equal_rows()),
        )
        + op_counts.register_table()
        + UNITS_HEAD
        + op_counts.table()
        + RANKS_HEAD.format(target=RANKED_TARGET, span=RANKED_SPAN, first=FIRST)
        + rank_table()
        + "## By family\n\nBoth halves, steered or not.\n\n"
        + table("family", by_family)
        + FURTHEST_HEAD
        + worst_table(found)
    )


def show(found):
    """Prints each pair, with the parts of its estimate."""
    for pair in found:
        print(f"{pair.row.name}, {pair.chip}: {pair.cycles:,} cycles, {100 * pair.off():+.1f}%")
        parts = {key: x for key, x in pair.estimate.items() if key != "operations"}
        for part in (parts, pair.estimate["operations"]):
            print("  " + ", ".join(f"{key} {value:,}" for key, value in part.items()))


def main():
    """Writes the page, or shows rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", metavar="TEXT", help="only rows so named, and no page")
    parser.add_argument("--ranks", action="store_true", help="profile more configurations")
    options = parser.parse_args()
    if options.ranks:
        draw_ranks()
    found = pairs(options.row or "")
    if options.row:
        show(found)
        return
    PAGE.write_text(text(found))
    for name, group in groups_of(found):
        print(line(name, group))


if __name__ == "__main__":
    main()
