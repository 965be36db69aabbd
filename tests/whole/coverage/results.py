"""tests/whole/coverage/results.json: what was measured of each row, by the hashes of its kernels.

An entry is valid for the hash that it names, under the versions that the file names; cycles for the
version of the instrument. `run.py` measures what is missing and drops what has another hash;
test_results.py asserts that nothing has.
"""

import dataclasses
import fcntl
import functools
import importlib.metadata
import json
import random
import subprocess
from pathlib import Path

import numpy as np
import proof
import verdicts
from pallasc.errors import CompileError
from pallasc.profile.estimate import INSTRUMENT

from coverage import helion
from coverage.row import goldens, rows

PATH = Path(__file__).with_name("results.json")
CHIPS = ("v5e", "v6e", "v7x")
LOOP_CHIP = "v7x"
PACKAGES = ("jax", "jaxlib", "libtpu")


class Results:
    """The file: versions, instrument, and {row: {"numerics", "distributions", "compiled",
    "cycles", "helion"}}.

    Several processes may measure parts of it at once: each writes only what it put.
    """

    def __init__(self):
        self.versions = versions()
        self.rows = self._read()
        self._changed = set()

    def _read(self):
        """The rows of the file; none under other versions, no cycles of another instrument."""
        text = PATH.read_text() if PATH.exists() else ""
        found = json.loads(text) if text else {}
        if found.get("versions") != self.versions:
            return {}
        if found.get("instrument") != INSTRUMENT:
            for parts in found["rows"].values():
                parts.pop("cycles", None)
                ((parts.get("helion") or {}).get("compile") or {}).pop("cycles", None)
        return found["rows"]

    def part(self, row, name):
        """One of the parts of a row, {} if it is not there."""
        return self.rows.get(row.name, {}).get(name, {})

    def put(self, row, name, entry):
        """Replaces a part of a row."""
        self.rows.setdefault(row.name, {})[name] = entry
        self._changed.add((row.name, name))

    def store(self):
        """Writes the file: the rows that there are, in their order."""
        with open(PATH, "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            stored = self._read()
            for row, name in self._changed:
                stored.setdefault(row, {})[name] = self.rows[row][name]
            self._changed.clear()
            self.rows = {
                row.name: {k: v for k, v in sorted(stored.get(row.name, {}).items()) if v}
                for row in rows()
            }
            kept = {name: parts for name, parts in self.rows.items() if parts}
            head = {"versions": self.versions, "instrument": INSTRUMENT}
            text = json.dumps({**head, "rows": kept}, indent=1)
            PATH.write_text(text + "\n")


def versions():
    """The versions that verdicts depend on."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}


def kernel_hash(case, target="v6e"):
    """What a case's kernel is known by; a refusal by its message."""
    try:
        return proof.short(proof.kernel_text(proof.module(case, target).source))
    except CompileError as error:
        return proof.short(str(error))


@functools.cache
def numerics_hash(row):
    """What a row's errors are known by: all its simulated kernels, and what judges them."""
    kernels = [kernel_hash(case) for case in simulated_cases(row)]
    return proof.short("".join([*kernels, proof.formula_text(row.formula)]))


@functools.cache
def drawn_hash(row, distribution):
    """What a row's errors under a distribution are known by: kernels, inputs, and the formula."""
    kernels = [kernel_hash(case) for case in row.drawn_cases(distribution)]
    judges = [proof.formula_text(function) for function in (row.inputs, row.formula)]
    return proof.short("".join([*kernels, distribution, *judges]))


def simulated_cases(row):
    """The cases of a row that are simulated."""
    return [case for case in row.cases(*row.simulated) if not row.refusal(case)]


def compilations(row):
    """{name: (case, chip)} of what the TPU compiler is asked about a row's production graph."""
    graph = row.production
    if not graph or row.diagnostic:
        return {}
    own, default = proof.document(graph)["config"].get("pallas_loop_type"), proof.Case(graph)
    pairs = {chip: (default, chip) for chip in CHIPS}
    for case in row.cases(graph):
        first = case.extra == () and case.blocks is None
        if first and case.loop not in (None, own) and not row.refusal(case):
            pairs[f"{LOOP_CHIP} {case.loop}"] = (case, LOOP_CHIP)
    return pairs


def expecting(row, case):
    """The case of a row, told how often its whiles run."""
    if not row.steps:
        return case
    steps = round(row.steps(proof.document(case.graph), np.random.default_rng(1)))
    return dataclasses.replace(case, extra=(*case.extra, ("pallas_expected_steps", str(steps))))


def numerics_are_fresh(found, row):
    """Whether the recorded errors are those of the kernels as they are printed now."""
    return found.part(row, "numerics").get("kernels") == numerics_hash(row)


def drawn_are_fresh(found, row, distribution):
    """Whether the recorded errors under a distribution are those of the row as it is now."""
    entry = found.part(row, "distributions").get(distribution, {})
    return entry.get("kernels") == drawn_hash(row, distribution)


def compiled_is_fresh(found, row, name, part="compiled"):
    """Whether a recorded verdict, or the cycles, are those of the kernel as it is printed now."""
    kernel = found.part(row, part).get(name, {}).get("kernel")
    return kernel == kernel_hash(*compilations(row)[name])


def predicted(case, chip):
    """The VMEM that pallasc predicts: no part of a kernel's text, so it may change under a hash."""
    try:
        return proof.module(case, chip).info["vmem_bytes"]
    except CompileError:
        return None


def helion_is_fresh(found, row, timed=False):
    """Whether Helion's recorded result is that of the kernel and the arguments as they are."""
    if not helion.job(row):
        return True
    entry = found.part(row, "helion")
    if entry.get("key") != helion.key(row):
        return False
    made = entry["compile"]
    return not timed or not made or made["kind"] != "ok" or "cycles" in made


def refresh(found, row):
    """Drops what was measured of other kernels than those printed now; VMEM is predicted anew."""
    if not row.simulated or not numerics_are_fresh(found, row):
        found.put(row, "numerics", {})
    drawn = {
        name: found.part(row, "distributions")[name]
        for name in row.distributions
        if drawn_are_fresh(found, row, name)
    }
    found.put(row, "distributions", drawn)
    pairs = compilations(row)
    for part in ("compiled", "cycles"):
        fresh = {
            name: found.part(row, part)[name]
            for name in pairs
            if name in found.part(row, part) and compiled_is_fresh(found, row, name, part)
        }
        found.put(row, part, fresh)
    for name, entry in found.part(row, "compiled").items():
        entry["predicted_bytes"] = predicted(*pairs[name])
    if not helion_is_fresh(found, row):
        found.put(row, "helion", {})


def problem_of(name, entry):
    """Why a recorded verdict is no acceptance, or None.

    A loop type beside the default one may be refused by pallasc because VMEM is too small for it.
    """
    if name not in CHIPS and entry["kind"] == "diagnostic" and "bytes of VMEM" in entry["message"]:
        return None
    return None if entry["kind"] == "ok" else f"{entry['kind']}: {entry.get('message', '')}"


def is_low(entry):
    """Whether the compiler uses more VMEM than was predicted."""
    return entry["kind"] == "ok" and entry["vmem_bytes"] > entry["predicted_bytes"]


@functools.cache
def quick():
    """What CI simulates of each small graph: as it is, in one loop type, in turn; and goldens."""
    chosen = []
    for number, row in enumerate(rows()):
        for shift, graph in enumerate(row.simulated):
            own = [case for case in row.cases(graph) if not (case.blocks or case.extra)]
            own = [case for case in own if not row.refusal(case)]
            chosen += own[(number + shift) % len(own) :][:1] if own else []
    return tuple(dict.fromkeys([*chosen, *goldens().values()]))


@functools.cache
def todays():
    """Of what else `make coverage` has simulated and found right, the day's part."""
    found = Results()
    recorded = [row for row in rows() if found.part(row, "numerics")]
    known = dict.fromkeys(case for row in recorded for case in simulated_cases(row))
    drawn = [
        case
        for row in recorded
        for name in found.part(row, "distributions")
        for case in row.drawn_cases(name)
    ]
    others = [case for case in dict.fromkeys([*known, *drawn]) if case not in set(quick())]
    return tuple(case for case in others if verdicts.is_todays(case.id))


def rotating(items, count):
    """Some of a list, other ones for each commit."""
    asked = ["git", "-C", proof.ROOT, "rev-parse", "HEAD"]
    done = subprocess.run(asked, capture_output=True, text=True)
    return random.Random(done.stdout.strip()).sample(items, min(count, len(items)))
