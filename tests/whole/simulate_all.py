"""`make proof`: the whole matrix in interpret mode, on every kind of inputs.

Beside what CI runs: rows and columns that dominate, NaN past every edge, DMAs that move at once,
two cores; and production attention's kernels with one head. What was right is cached by module hash
and by the code that judges. Writes build/proof/numerics.json, from which docs/proof.md is made.
`--quick`: only what CI runs.
"""

import argparse
import concurrent.futures
import dataclasses
import importlib.metadata
import inspect
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import proof
import workers
from pallasc.simulate import huge_memory

# What of proof.py decides how a kernel is run and judged.
JUDGES = (
    *(proof.cut_heads, proof.inputs.__wrapped__, proof.to_edge, proof.simulations),
    *(huge_memory, proof.run_once, proof.simulate_case, proof.judge),
    *(proof.expected_reference.__wrapped__, proof.expected_formula.__wrapped__),
)
KINDS = (*proof.ALL_INPUTS, "huge", "eager", "cores")


def main():
    """Exit status 1 if any output is off or anything races."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only what CI runs")
    parser.add_argument("--match", default="", metavar="TEXT", help="only cases so named")
    options = parser.parse_args()
    kinds = None if options.quick else KINDS
    cases = [*proof.accepted(), *proof.variants(), *(() if options.quick else proof.FULL)]
    cases = [case for case in cases if options.match in case.id]
    outcomes = run(cases, kinds)
    bad = sum(bool(outcome.failures()) for outcome in outcomes.values())
    print(f"{len(cases)} cases, {len(outcomes)} distinct kernels, {bad} bad")
    if not options.match:
        store(cases, outcomes, kinds)
    return 1 if bad else 0


def run(cases, kinds):
    """{case: Outcome} of the first case of each distinct kernel, telling each as it ends."""
    # The large ones first, so that none is left alone at the end.
    first = sorted(set(proof.distinct(cases).values()), key=lambda case: case not in proof.FULL)
    stamp = code_stamp()
    stored = {case: cache_file(case, kinds_of(case, kinds), stamp) for case in first}
    outcomes = {case: load(path) for case, path in stored.items() if path.exists()}
    print(f"{len(outcomes)} of {len(first)} kernels are known from {CACHE}", flush=True)
    with workers.pool() as executor:
        futures = {
            executor.submit(proof.simulate_case, case, kinds_of(case, kinds), 3600): case
            for case in first
            if case not in outcomes
        }
        for future in concurrent.futures.as_completed(futures):
            case, outcome = futures[future], future.result()
            outcomes[case] = outcome
            if not outcome.failures():
                save(stored[case], outcome)
            verdict = "\n  ".join(["BAD", *outcome.failures()]) if outcome.failures() else "ok"
            count = f"{len(outcomes)}/{len(first)}"
            print(f"{count} {case.id}: {verdict}, {outcome.seconds:.1f} s", flush=True)
    return outcomes


CACHE = proof.ROOT / ".cache" / "proof"


def code_stamp():
    """A hash of the Python that runs and judges kernels, and of the versions it stands on."""
    package = proof.ROOT / "python" / "pallasc"
    judges = [package / "simulate.py", package / "compare.py"]
    judges += sorted(package.glob("reference/*.py"))
    texts = [path.read_text() for path in [*judges, Path(proof.formulas.__file__)]]
    texts += [inspect.getsource(function) for function in JUDGES]
    versions = [importlib.metadata.version(name) for name in ("jax", "jaxlib", "numpy")]
    return proof.digest("\0".join([*texts, *versions]))


def cache_file(case, kinds, stamp):
    """Where the outcome of a case is kept: by the module's text and all that judges it."""
    document = json.dumps(proof.document(case.graph), sort_keys=True)
    blocks = case.blocks or proof.default_blocks(case.graph)
    parts = [stamp, proof.kernel_text(proof.module(case).source), document, repr((blocks, kinds))]
    if row := proof.coverage_row(case.graph):
        parts += [proof.formula_text(row.formula), proof.formula_text(row.inputs)]
    return CACHE / f"{proof.digest(chr(0).join(parts))}.json"


def load(path):
    """An Outcome that `save` wrote."""
    fields = json.loads(path.read_text())
    fields["rows"] = [proof.Row(**row) for row in fields["rows"]]
    return proof.Outcome(**fields)


def save(path, outcome):
    """Keeps an Outcome in which nothing is wrong."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(dataclasses.asdict(outcome)))


def kinds_of(case, kinds):
    """The kinds of inputs for a case: few for the large ones, which take minutes."""
    return proof.QUICK_INPUTS if case in proof.FULL else kinds or proof.quick_kinds(case)


def store(cases, outcomes, kinds):
    """Writes what docs/proof.md is made of: a JSON object for each case."""
    first = proof.distinct(cases)
    entries = []
    for case in cases:
        outcome = outcomes[first[case]]
        rows = [dataclasses.asdict(row) for row in outcome.rows]
        facts = {"graph": case.graph, "loop": case.loop, "pre_broadcast": case.pre_broadcast}
        facts |= {"case": case.id, "same_as": first[case].id, "kinds": kinds_of(case, kinds)}
        entries.append({**facts, "problems": outcome.problems, "rows": rows})
    proof.RESULTS_DIRECTORY.mkdir(parents=True, exist_ok=True)
    (proof.RESULTS_DIRECTORY / "numerics.json").write_text(json.dumps(entries, indent=0))


if __name__ == "__main__":
    sys.exit(main())
