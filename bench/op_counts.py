"""How near the operations are that the model of the core makes of statements: beside Mosaic's.

    make bench-ops ARGS=--count   (or: PYTHONPATH=python .venv/bin/python bench/op_counts.py)

Compiles production kernels of tests/whole/coverage and reads two of Mosaic's stages
(`pallasc.profile.mosaic`). That in which each operation works on one vector register is compared
with `pallasc --emit=operations` of the kernel, by class; the last one, which knows units, with
`estimate.operations` of the plan. bench/op_counts.json holds Mosaic's counts by row and kernel; a
row that is missing, or whose kernel has changed, takes a compile of some seconds. --count counts
what is missing. --row TEXT prints the rows so named. bench/time_accuracy.py writes the tables.
"""

import argparse
import collections
import functools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests"), str(ROOT / "tests" / "whole")]

import proof  # noqa: E402
from coverage import results  # noqa: E402
from coverage import row as coverage  # noqa: E402
from pallasc import aot  # noqa: E402
from pallasc.profile import mosaic  # noqa: E402

STORED = Path(__file__).with_name("op_counts.json")
CHIP = "v6e"
TIMEOUT_S = 60
# Units of `estimate.operations`, and what each is called of Mosaic's.
UNITS = {
    "load": "load",
    "store": "store",
    "mxu": "mxu",
    "weights": "push",
    "vector": "valu",
    "eup": "eup",
    "xlu": "xlu",
}
NEAR = 0.05


def counted(texts):
    """{unit: operations} of a module's Pallas kernels; None if loops' steps are not in the text."""
    found = collections.Counter()
    for text in texts:
        for site in mosaic.parse_kernel(text).sites:
            unit = mosaic.unit_of(site.opcode)
            if unit and (site.unbounded or site.guarded):
                return None
            if unit:
                found[unit] += site.count * site.trips
    return dict(found)


def counted_registers(texts):
    """{class: operations} of a module's kernels; of a loop that data bound those of one step."""
    found = collections.Counter()
    for text in texts:
        for site in mosaic.parse_kernel(text, mosaic.register_class).sites:
            found[site.opcode] += site.count * site.trips
    return dict(found)


class Counter:
    """Asks a worker that dumps Mosaic's stages.

    One at a time; a new one after a loss.
    """

    def __init__(self):
        self._folder, self._worker = tempfile.TemporaryDirectory(prefix="pallasc_"), None

    def close(self):
        """Ends the worker."""
        if self._worker:
            self._worker.close()
        self._worker = None

    def count(self, module, target):
        """{"registers", "operations"} of a module; a text where it does not compile."""
        flags = (f"--xla_mosaic_dump_to={self._folder.name}",)
        self._worker = self._worker or aot.Worker(aot.MEMORY_BYTES, flags=flags)
        job = {"source": module.source, "filename": module.filename, "target": target}
        try:
            answer = self._worker.request(job, TIMEOUT_S)
        except aot.WorkerLost as lost:
            self.close()
            return lost.kind
        paths = sorted(Path(self._folder.name).iterdir())
        last, registers = (
            [path.read_text() for path in paths if path.name.endswith(f"-{stage}.txt")]
            for stage in (mosaic.STAGE, mosaic.REGISTER_STAGE)
        )
        for path in paths:
            path.unlink()
        if not answer["ok"]:
            return "error"
        return {"registers": counted_registers(registers), "operations": counted(last)}


def stored():
    """{row: {"kernel": its hash, "registers": {class: count}, "operations": {unit: count}}}.

    Of operations None where loops or branches depend on data.
    """
    return json.loads(STORED.read_text()) if STORED.exists() else {}


def ours(case):
    """{unit of Mosaic's: operations} of a case's plan."""
    operations = proof.module(case, CHIP).plan["estimate"]["operations"]
    return {unit: operations[name] for name, unit in UNITS.items()}


def our_registers(case):
    """{class: operations} of a case's kernels."""
    command = [ROOT / "pallasc", "--emit=operations", "--target", CHIP, "-"]
    text = proof.module(case, CHIP).kernel
    done = subprocess.run(command, input=text, check=True, capture_output=True, text=True)
    found = collections.Counter()
    for kernel in json.loads(done.stdout)["kernels"]:
        found.update(kernel["operations"])
    return {kind: found[kind] for kind in mosaic.CLASSES}


@functools.cache
def cases():
    """{row: its production case}, of those that the chip compiles."""
    return {
        row.name: results.compilations(row)[CHIP][0]
        for row in coverage.rows()
        if CHIP in results.compilations(row)
    }


def count_rows():
    """Counts the rows that are not stored, and stores them."""
    found, worker, of = stored(), Counter(), cases()
    try:
        for name, case in of.items():
            kernel = results.kernel_hash(case, CHIP)
            if found.get(name, {}).get("kernel") == kernel:
                continue
            counts = worker.count(proof.module(case, CHIP), CHIP)
            print(f"{name}: {counts}", flush=True)
            if isinstance(counts, str):
                continue
            found[name] = {"kernel": kernel, **counts}
            lines = (f"{json.dumps(key)}: {json.dumps(found[key])}" for key in of if key in found)
            STORED.write_text("{\n " + ",\n ".join(lines) + "\n}\n")
    finally:
        worker.close()


@functools.cache
def current():
    """[(row, case, what is stored)] of kernels as they are now."""
    found = stored()
    return [
        (name, case, found[name])
        for name, case in cases().items()
        if found.get(name, {}).get("kernel") == results.kernel_hash(case, CHIP)
    ]


def rows():
    """[(row, ours, Mosaic's)], dicts by unit, of rows without data in their loops and branches."""
    return [
        (name, ours(case), {unit: entry["operations"].get(unit, 0) for unit in UNITS.values()})
        for name, case, entry in current()
        if entry["operations"]
    ]


@functools.cache
def register_rows():
    """[(row, ours, Mosaic's)], dicts by class."""
    return [
        (
            name,
            our_registers(case),
            {kind: entry["registers"].get(kind, 0) for kind in mosaic.CLASSES},
        )
        for name, case, entry in current()
    ]


def apart(mine, theirs):
    """How far a count is from another, as a part of it; 0 of two that are nothing."""
    return abs(mine - theirs) / theirs if theirs else float(mine > 0)


def compared(kinds, found):
    """A table: how many rows have operations of each kind, equal ones, and near ones.

    Args:
      kinds: {what it is called: its key}.
      found: [(row, ours, Mosaic's)].
    """
    lines = []
    for name, key in kinds.items():
        offs = [apart(a[key], b[key]) for _, a, b in found if a[key] or b[key]]
        equal = sum(off <= 0.0005 for off in offs)
        close = sum(off <= NEAR for off in offs)
        total = sum(a[key] for _, a, _ in found) / max(1, sum(b[key] for _, _, b in found))
        lines.append(f"| {name} | {len(offs)} | {equal} | {close} | {total:.2f} |")
    head = f"| operations | rows | equal | within {100 * NEAR:.0f}% | all ours over all Mosaic's |"
    return "\n".join([head, "| --- | ---: | ---: | ---: | ---: |", *lines]) + "\n\n"


def equal_rows():
    """Names of the rows of which every class is equal, to the operation."""
    return [name for name, mine, theirs in register_rows() if mine == theirs]


def register_table():
    """Of registers, by class."""
    return compared(dict(zip(mosaic.CLASSES, mosaic.CLASSES, strict=True)), register_rows())


def table():
    """Of the last stage, by unit."""
    return compared(UNITS, rows())


def main():
    """Counts, and prints the tables or rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", action="store_true", help="compile rows that are missing")
    parser.add_argument("--row", metavar="TEXT", help="print the rows so named")
    options = parser.parse_args()
    if options.count:
        count_rows()
    for name, mine, theirs in [*register_rows(), *rows()]:
        if options.row is not None and options.row in name:
            both = (f"{kind} {mine[kind]:,} {theirs[kind]:,}" for kind in theirs)
            print(f"{name}: {', '.join(both)}")
    print(f"{len(equal_rows())} of {len(register_rows())} rows are equal in every class\n")
    print(register_table())
    print(table())


if __name__ == "__main__":
    main()
