"""How near the operations are that the model of the core makes of statements: beside Mosaic's.

    make bench-ops ARGS=--count   (or: PYTHONPATH=python .venv/bin/python bench/op_counts.py)

Compiles production kernels of tests/whole/coverage, reads what Mosaic's last stage has for each
unit (`pallasc.profile.mosaic`), and compares with `estimate.operations` of the plan.
bench/op_counts.json holds Mosaic's counts by row and kernel; a row that is missing, or whose kernel
has changed, takes a compile of some seconds. --count counts every third row of the coverage anew
where it is missing. --row TEXT prints the rows so named. bench/time_accuracy.py writes the table.
"""

import argparse
import collections
import json
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
# Of the rows of the coverage one in so many.
STEP = 3


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


class Counter:
    """Asks a worker that dumps Mosaic's last stage.

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
        """`counted` of a module; a text where it does not compile."""
        flags = (f"--xla_mosaic_dump_to={self._folder.name}",)
        self._worker = self._worker or aot.Worker(aot.MEMORY_BYTES, flags=flags)
        job = {"source": module.source, "filename": module.filename, "target": target}
        try:
            answer = self._worker.request(job, TIMEOUT_S)
        except aot.WorkerLost as lost:
            self.close()
            return lost.kind
        paths = sorted(Path(self._folder.name).iterdir())
        texts = [path.read_text() for path in paths if path.name.endswith(f"-{mosaic.STAGE}.txt")]
        for path in paths:
            path.unlink()
        return counted(texts) if answer["ok"] else "error"


def stored():
    """{row: {"kernel": its hash, "operations": {unit: count}, or None}}."""
    return json.loads(STORED.read_text()) if STORED.exists() else {}


def ours(case):
    """{unit of Mosaic's: operations} of a case's plan."""
    operations = proof.module(case, CHIP).plan["estimate"]["operations"]
    return {unit: operations[name] for name, unit in UNITS.items()}


def cases():
    """{row: its production case}, of those that the chip compiles."""
    return {
        row.name: results.compilations(row)[CHIP][0]
        for row in coverage.rows()
        if CHIP in results.compilations(row)
    }


def sample():
    """Rows that are spread over the coverage."""
    return list(cases())[::STEP]


def count_rows(names):
    """Counts those of the rows that are not stored, and stores them."""
    found, worker, of = stored(), Counter(), cases()
    try:
        for name in names:
            kernel = results.kernel_hash(of[name], CHIP)
            if found.get(name, {}).get("kernel") == kernel:
                continue
            operations = worker.count(proof.module(of[name], CHIP), CHIP)
            print(f"{name}: {operations}", flush=True)
            if isinstance(operations, str):
                continue
            found[name] = {"kernel": kernel, "operations": operations}
            lines = (f"{json.dumps(key)}: {json.dumps(found[key])}" for key in of if key in found)
            STORED.write_text("{\n " + ",\n ".join(lines) + "\n}\n")
    finally:
        worker.close()


def rows():
    """[(row, ours, Mosaic's)], dicts by unit, of what is stored of kernels as they are now."""
    of = cases()
    return [
        (name, ours(of[name]), {unit: entry["operations"].get(unit, 0) for unit in UNITS.values()})
        for name, entry in stored().items()
        if entry["operations"] and entry["kernel"] == results.kernel_hash(of[name], CHIP)
    ]


def apart(mine, theirs):
    """How far a count is from another, as a part of it; 0 of two that are nothing."""
    return abs(mine - theirs) / theirs if theirs else float(mine > 0)


def table():
    """By unit: how many rows have operations of it, equal ones, and near ones."""
    compared = rows()
    lines = []
    for name, unit in UNITS.items():
        offs = [apart(a[unit], b[unit]) for _, a, b in compared if a[unit] or b[unit]]
        equal = sum(off <= 0.0005 for off in offs)
        close = sum(off <= NEAR for off in offs)
        total = sum(a[unit] for _, a, _ in compared) / max(1, sum(b[unit] for _, _, b in compared))
        lines.append(f"| {name} | {len(offs)} | {equal} | {close} | {total:.2f} |")
    head = f"| operations | rows | equal | within {100 * NEAR:.0f}% | all ours over all Mosaic's |"
    return "\n".join([head, "| --- | ---: | ---: | ---: | ---: |", *lines]) + "\n\n"


def main():
    """Counts, and prints the table or rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", action="store_true", help="compile rows that are missing")
    parser.add_argument("--row", metavar="TEXT", help="print the rows so named")
    options = parser.parse_args()
    if options.count:
        count_rows(sample())
    for name, mine, theirs in rows():
        if options.row is not None and options.row in name:
            both = (f"{unit} {mine[unit]:,} {theirs[unit]:,}" for unit in theirs)
            print(f"{name}: {', '.join(both)}")
    print(table())


if __name__ == "__main__":
    main()
