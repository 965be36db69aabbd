"""`make coverage`: measures what is missing or has changed, then writes docs/coverage.md.

Simulates the small graphs, compiles the production graphs with the real TPU compiler, and asks
Helion, if there is a Python that has it. What was measured of the same kernels is kept.
"""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import proof
import simulate_all
from pallasc import aot

from coverage import floors, helion, page, results
from coverage import row as coverage

TIMEOUT_S = 150
# Rows that are simulated before the file is written again.
AT_ONCE = 8
PARTS = ("numerics", "compiled", "cycles", "helion")


def main():
    """Exit status 1 if a kernel is off, refused or takes more VMEM than predicted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", default="", metavar="TEXT", help="only rows so named")
    parser.add_argument("--part", choices=PARTS, help="only this part")
    parser.add_argument("--known", action="store_true", help="only drop what is out of date")
    parser.add_argument("--helion-python", metavar="PATH", help="a Python with torch and helion")
    options = parser.parse_args()
    found, bad = results.Results(), 0
    rows = [row for row in coverage.rows() if options.row in row.name]
    parts = [options.part] if options.part else PARTS
    parts = [] if options.known else parts
    try:
        for row in rows:
            results.refresh(found, row)
        if "numerics" in parts:
            bad += simulate(rows, found)
        if "compiled" in parts:
            bad += compile_rows(rows, found)
        if "cycles" in parts:
            time_rows(rows, found)
        if "helion" in parts and options.helion_python and os.path.exists(options.helion_python):
            ask_helion(rows, found, options.helion_python)
    finally:
        found.store()
        page.PATH.write_text(page.text(found))
    print(f"{len(rows)} rows, {bad} problems")
    return 1 if bad else 0


def simulate(rows, found):
    """Simulates the rows whose kernels or formulas changed; gives how many are off."""
    stale = [
        (row, None) for row in rows if row.simulated and not results.numerics_are_fresh(found, row)
    ]
    stale += [
        (row, name)
        for row in rows
        for name in row.distributions
        if not results.drawn_are_fresh(found, row, name)
    ]
    bad = 0
    for first in range(0, len(stale), AT_ONCE):
        bad += simulate_some(stale[first : first + AT_ONCE], found)
        found.store()
        print(f"{min(first + AT_ONCE, len(stale))} of {len(stale)} rows simulated", flush=True)
    return bad


def simulate_some(stale, found):
    """Simulates some rows at once, each with data of a distribution or with None mixed."""
    cases = {
        (row, name): row.drawn_cases(name) if name else results.simulated_cases(row)
        for row, name in stale
    }
    everything = [case for group in cases.values() for case in group]
    outcomes, first, bad = simulate_all.run(everything, None), proof.distinct(everything), 0
    for (row, name), group in cases.items():
        ran = [outcomes[first[case]] for case in group]
        entry = {} if any(outcome.failures() for outcome in ran) else errors(row, name, ran)
        bad += not entry
        if name:
            others = found.part(row, "distributions")
            found.put(row, "distributions", others | ({name: entry} if entry else {}))
        else:
            found.put(row, "numerics", entry)
    return bad


def errors(row, distribution, outcomes):
    """The largest errors of a row, in tolerances, and what they are of."""
    of = results.drawn_hash(row, distribution) if distribution else results.numerics_hash(row)
    judged = [item for outcome in outcomes for item in outcome.rows]
    worst = {
        against: helion.finite(max(item.ratio for item in judged if item.against == against))
        for against in ("reference", "formula")
    }
    return {"kernels": of, "cases": len(outcomes)} | worst


def compile_rows(rows, found):
    """Compiles what changed; gives how many are refused or take more than predicted."""
    todo, bad = stale_pairs(rows, found, "compiled"), 0
    for (row, name, case, chip), result in zip(todo, verdicts(todo), strict=True):
        entry = {"kernel": results.kernel_hash(case, chip), "kind": result.kind}
        entry |= {"message": result.message.split("\n")[0]} if result.message else {}
        entry |= {"vmem_bytes": result.vmem_bytes, "predicted_bytes": result.predicted_bytes}
        keep(found, "compiled", row, name, entry)
        low = "more VMEM used than predicted" if results.is_low(entry) else None
        problem = results.problem_of(name, entry) or low
        bad += bool(problem)
        print(f"{row.name} {name}: {problem or 'ok'}", flush=True)
    return bad


def verdicts(todo):
    """An `AotResult` for each, by one worker; pallasc's own refusal is of the kind "diagnostic"."""
    modules = []
    for _, _, case, chip in todo:
        try:
            modules.append(proof.module(case, chip).with_all_vmem())
        except proof.CompileError as error:
            modules.append(aot.AotResult(case.id, chip, kind="diagnostic", message=str(error)))
    jobs = [(item, item.info["target"]) for item in modules if not hasattr(item, "kind")]
    compiled = aot.compile_many(jobs, timeout=TIMEOUT_S)
    for item in modules:
        yield item if hasattr(item, "kind") else next(compiled)


def stale_pairs(rows, found, part):
    """(row, name, case, chip) of what is missing in a part, the default on one chip first."""
    pairs = [
        (row, name, case, chip)
        for row in rows
        for name, (case, chip) in results.compilations(row).items()
        if not results.compiled_is_fresh(found, row, name, part)
    ]
    return sorted(pairs, key=lambda pair: pair[1] != results.LOOP_CHIP)


def keep(found, part, row, name, entry):
    """Puts an entry into a part of a row, drops what is no longer asked, and stores."""
    asked = results.compilations(row)
    entries = {**found.part(row, part), name: entry}
    found.put(row, part, {key: entries[key] for key in asked if key in entries})
    found.store()


def time_rows(rows, found):
    """Estimates the cycles of accepted kernels, on each chip: each in a process of its own."""
    todo = [pair for pair in stale_pairs(rows, found, "cycles") if pair[1] in results.CHIPS]
    for number, (row, name, case, chip) in enumerate(todo, 1):
        verdict = found.part(row, "compiled").get(name, {})
        kernel = results.kernel_hash(case, chip)
        if verdict.get("kernel") != kernel or verdict["kind"] != "ok":
            continue
        request = {"side": "ours", "target": chip, "static": True}
        request["source"] = proof.module(case, chip).source
        if row.steering:
            data = row.steering(proof.document(case.graph), np.random.default_rng(1))
            request["data"] = {
                key: {"dtype": x.dtype.name, "values": x.tolist()} for key, x in data.items()
            }
        answer = helion.measure.answer_of(request, numbers=row.words(case.graph))
        if not answer["ok"]:
            print(f"{number}/{len(todo)} {row.name} {name}: {answer['kind']}", flush=True)
            continue
        static = answer["static"]
        below = static["cycles"] < floors.cycles(row, chip)
        cycles = None if static["cut"] or below else static["cycles"]
        keep(found, "cycles", row, name, {"kernel": kernel, "cycles": cycles})
        print(f"{number}/{len(todo)} {row.name} {name}: {cycles} cycles", flush=True)


def ask_helion(rows, found, python):
    """Asks Helion about the rows whose kernels, arguments or versions changed."""
    stale = [row for row in rows if not results.helion_is_fresh(found, row, timed=True)]
    for number, (row, entry) in enumerate(helion.answers(stale, python)):
        found.put(row, "helion", entry)
        kinds = entry["check"]["kind"], (entry["compile"] or {}).get("kind")
        print(f"{number + 1}/{len(stale)} Helion, {row.name}: {kinds}", flush=True)
        found.store()


if __name__ == "__main__":
    sys.exit(main())
