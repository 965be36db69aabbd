"""Asks the real TPU compiler and the simulator about every op: `make probe-ops`.

Each case goes through pallasc; what it accepts is given to libtpu in kernels of many cases, which
are divided where the compiler refuses them until each refusal has a name, and to interpret mode,
whose results are compared with the reference.
"""

import argparse
import collections
import importlib.metadata
import json
import os
import sys
import time
import warnings

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import cases as ops
from pallasc import compare, reference
from pallasc.aot import compile_many
from pallasc.binding import compile as compile_graph
from pallasc.errors import CompileError, KernelError
from pallasc.simulate import simulate

TARGETS = ("v4", "v5e", "v5p", "v6e", "v7x")


def refusal(cases, target):
    """None, or (code, message) of pallasc's first error for these cases in one kernel."""
    try:
        compile_graph(ops.document(cases), target=target)
    except CompileError as error:
        first = next((d for d in error.diagnostics if d.get("severity", "error") == "error"), {})
        return first.get("code", "?"), first.get("message", str(error))
    return None


def refusals(cases, target, size=24):
    """{case: (code, message) or None} of what pallasc says of each."""
    verdicts, pending = {}, list(batches(cases, size))
    while pending:
        batch = pending.pop()
        why = refusal(batch, target)
        if why is None or len(batch) == 1:
            verdicts.update(dict.fromkeys(batch, why))
        else:
            pending += _parts(batch)
    return {case: verdicts[case] for case in cases}


def batches(cases, size):
    """Lists of at most `size` cases of one variant."""
    by_variant = collections.defaultdict(list)
    for case in cases:
        by_variant[case.variant].append(case)
    for group in by_variant.values():
        for first in range(0, len(group), size):
            yield group[first : first + size]


def aot_failures(cases, target, size=24, say=lambda text: None):
    """{case: message} of those that the TPU compiler refuses although pallasc took them."""
    failures, pending = {}, list(batches(cases, size))[::-1]
    modules = queue(pending, target, failures)
    for batch, result in modules:
        if result.ok:
            continue
        if len(batch) == 1:
            failures[batch[0]] = result.message
            say(f"{target}: {batch[0]}: {result.kind}: {_first_line(result.message)}")
        else:
            pending += _parts(batch)
    return failures


def queue(pending, target, failures):
    """Takes batches off `pending` until it is empty: yields (batch, AotResult)."""
    taken = []

    def jobs():
        while pending:
            batch = pending.pop()
            for piece, module in _compiled(batch, target, failures):
                taken.append(piece)
                yield module, target

    for result in compile_many(jobs(), timeout=120):
        yield taken[-1], result


def _parts(batch):
    step = max(len(batch) // 4, 1)
    return [batch[i : i + step] for i in range(0, len(batch), step)]


def _first_line(text):
    """The line that names the error."""
    lines = [line for line in text.splitlines() if line.strip()]
    telling = [x for x in lines if "rror" in x or "nsupported" in x or "not implemented" in x]
    return (telling or lines or [""])[0][:300]


def _compiled(batch, target, failures):
    """[(batch, module)] of a batch, or of its halves where the whole is refused."""
    try:
        return [(batch, compile_graph(ops.document(batch), target=target))]
    except CompileError as error:
        if len(batch) == 1:
            failures[batch[0]] = f"pallasc: {error}"
            return []
        half = len(batch) // 2
        return [
            *_compiled(batch[:half], target, failures),
            *_compiled(batch[half:], target, failures),
        ]


def numeric_failures(cases, target="v6e", size=16, say=lambda text: None):
    """{case: message} of those whose simulated result is off."""
    failures = {}
    pending = list(batches(cases, size))
    while pending:
        batch = pending.pop()
        try:
            _judge(batch, target, failures, say)
        except (KernelError, CompileError, TypeError, ValueError) as error:
            if len(batch) == 1:
                failures[batch[0]] = f"{type(error).__name__}: {str(error).splitlines()[-1][:200]}"
                say(f"numerics: {batch[0]}: {failures[batch[0]]}")
            else:
                pending += _parts(batch)
    return failures


def _judge(batch, target, failures, say):
    document, arrays = ops.document(batch), ops.arguments(batch)
    module = compile_graph(document, target=target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = simulate(module.load(), arrays, 1).outputs  # 1: plain interpret mode, fast
        wanted = reference.run(document, arrays, config=module.info["config"])
    for number, case in enumerate(batch):
        tolerance = compare.tolerance_for(document, number)
        result = compare.compare(outputs[number], wanted[number], tolerance)
        if not result.ok:
            failures[case] = str(result)
            say(f"numerics: {case}: {result}")


def main():
    """Probes; exit status 1 if anything that pallasc accepts fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--variants", default=",".join(ops.VARIANTS))
    parser.add_argument("--dtypes", default=",".join((*ops.ALL, "int4")))
    parser.add_argument("--no-aot", action="store_true")
    parser.add_argument("--no-numerics", action="store_true")
    parser.add_argument("--refused", action="store_true", help="list what pallasc refuses")
    parser.add_argument("-o", "--output", help="write the table of results")
    options = parser.parse_args()
    variants, dtypes = options.variants.split(","), options.dtypes.split(",")
    chosen = [
        case
        for case in ops.all_cases()
        if options.only in str(case) and case.variant in variants and case.dtype in dtypes
    ]
    started, bad = time.monotonic(), 0
    failures, verdicts = {}, {}

    def say(text):
        print(f"[{time.monotonic() - started:.0f}] {text}", flush=True)

    accepted = {}
    for target in options.targets.split(","):
        verdicts[target] = refusals(chosen, target)
        accepted[target] = [case for case, why in verdicts[target].items() if why is None]
        reasons = collections.Counter(why[0] for why in verdicts[target].values() if why)
        for case, why in verdicts[target].items() if options.refused else ():
            if why:
                say(f"refused: {target}: {case}: {why[0]}: {why[1]}")
        say(f"{target}: {len(accepted[target])} of {len(chosen)} accepted; {dict(reasons)}")
    if not options.no_numerics:
        for target in ("v6e", "v5e"):
            if target in accepted:
                wrong = numeric_failures(accepted[target], target, say=say)
                say(f"{target}: {len(wrong)} with wrong numerics")
                bad += len(wrong)
    if not options.no_aot:
        for target, cases in accepted.items():
            failures[target] = aot_failures(cases, target, say=say)
            say(f"{target}: {len(failures[target])} refused by the TPU compiler")
            bad += len(failures[target])
    if options.output:
        compiled = {target: len(accepted[target]) for target in failures}
        write_table(verdicts, failures, compiled, options.output)
    return 1 if bad else 0


def write_table(verdicts, failures, compiled, path):
    """Writes {op: {dtypes: verdict}}: "ok", or what is refused, in which shapes, on which targets.

    "ok" is pallasc's verdict; `compiled` says how many of these the TPU compiler was asked about in
    this run. "FAILS" is what it refuses although pallasc does not: it must not stand there.
    """
    found = collections.defaultdict(lambda: collections.defaultdict(set))
    for target, cases in verdicts.items():
        for case, why in cases.items():
            texts = found[case.target][case.dtype]
            if case in failures.get(target, {}):
                texts.add(("FAILS", target, f"{case.variant} {case.what}".strip()))
            elif why:
                texts.add((why[0], target, f"{case.variant} {case.what}".strip()))
    table = {}
    for op, dtypes in found.items():
        totals = collections.Counter((case.dtype) for case in verdicts["v6e"] if case.target == op)
        grouped = collections.defaultdict(list)
        for dtype, texts in dtypes.items():
            grouped[_verdict(texts, totals[dtype], len(verdicts))].append(dtype)
        table[op] = {" ".join(names): verdict for verdict, names in grouped.items()}
    versions = {name: importlib.metadata.version(name) for name in ("jax", "libtpu")}
    head = {"versions": versions, "targets": list(verdicts), "compiled": compiled}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**head, "ops": table}, file, indent=1)
        file.write("\n")


def _verdict(texts, total, targets):
    if not texts:
        return "ok"
    codes = collections.defaultdict(lambda: collections.defaultdict(set))
    for code, target, what in texts:
        codes[code][what].add(target)
    parts = []
    for code, whats in sorted(codes.items()):
        if len(whats) == total and all(len(found) == targets for found in whats.values()):
            parts.append(code)
            continue
        named = {
            what if len(found) == targets else f"{what} ({', '.join(sorted(found))})"
            for what, found in whats.items()
        }
        parts.append(f"{code}: {'; '.join(sorted(named))}")
    return "; ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
