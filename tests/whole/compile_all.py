"""`make aot`: the whole matrix through the real TPU compiler, for every chip; cached.

Writes build/proof/aot.json, from which docs/proof.md is made. `--quick`: only what CI compiles.
"""

import argparse
import dataclasses
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import proof
from pallasc import aot
from pallasc.errors import CompileError


def main():
    """Exit status 1 if anything is refused or uses more VMEM than predicted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only what CI compiles")
    parser.add_argument("--match", default="", metavar="TEXT", help="only cases so named")
    options = parser.parse_args()
    pairs = proof.aot_quick() if options.quick else proof.aot_full()
    pairs = [pair for pair in pairs if options.match in f"{pair[0].id}-{pair[1]}"]
    pairs, bad = compiled_by_pallasc(pairs)
    jobs, rows = [(proof.module(case, chip), chip) for case, chip in pairs], []
    for (case, chip), result in zip(pairs, aot.compile_many(jobs), strict=True):
        problem = problem_of(result)
        bad += bool(problem)
        rows.append(row_of(case, chip, result))
        if problem or not result.cached:
            print(f"{len(rows)}/{len(pairs)} {case.id} {chip}: {problem or 'ok'}", flush=True)
    print(f"{len(rows)} kernels compiled, {bad} bad")
    if not options.match and not options.quick:
        proof.RESULTS_DIRECTORY.mkdir(parents=True, exist_ok=True)
        (proof.RESULTS_DIRECTORY / "aot.json").write_text(json.dumps(rows, indent=0))
    return 1 if bad else 0


def compiled_by_pallasc(pairs):
    """The pairs that pallasc itself accepts, and how many it does not: these must be listed."""
    good = []
    for case, chip in pairs:
        try:
            proof.module(case, chip)
            good.append((case, chip))
        except CompileError as error:
            print(f"{case.id} {chip}: not listed as refused: {error}", flush=True)
    return good, len(pairs) - len(good)


def problem_of(result):
    """What is wrong with a verdict, or None."""
    if not result.ok:
        return f"{result.kind}: {result.message}"
    if result.vmem_bytes > result.predicted_bytes:
        return f"LOW: {result.vmem_bytes} bytes of VMEM used, {result.predicted_bytes} predicted"
    return None


def row_of(case, chip, result):
    """A verdict as JSON holds it."""
    kept = ("kind", "message", "vmem_bytes", "predicted_bytes", "temp_bytes")
    fields = dataclasses.asdict(result)
    return {
        "graph": case.graph,
        "loop": case.loop,
        "case": case.id,
        "kernel": proof.digest(proof.kernel_text(proof.module(case, chip).source)),
        "chip": chip,
        **{key: fields[key] for key in kept},
    }


if __name__ == "__main__":
    sys.exit(main())
