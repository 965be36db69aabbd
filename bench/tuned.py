"""`make bench-tuned`: kernels with no configuration given, beside the best that `tune` finds.

    make bench-tuned                       what is missing or has changed; the table of docs/tune.md
    make bench-tuned ROW=softmax           rows whose name holds this
    make bench-tuned ARGS="--minutes 40"   begins no row after so long; the next run goes on
    make bench-tuned ARGS="--compiles 20"  as thorough as the command is by default

Rows are the kernels of docs/results.md and twenty of docs/coverage.md, each without its
configuration. What came of each is kept in bench/tuned.json, by the code of the kernel with none
given; what each compile gave also in the tuner's own cache, so that more compiles begin where fewer
ended.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import measure
import race
from page_part import write_part
from pallasc import tune
from pallasc.errors import PallascError
from sections import ATTENTION, attention_args

KEPT = Path(__file__).with_name("tuned.json")
PAGE = measure.ROOT / "docs" / "tune.md"
BEGIN, END = "<!-- measured -->\n", "<!-- end -->"
CHIPS = ("v6e", "v7x")
COMPILES = 6
TIMEOUT_S = 900
# The default may take so many times the best.
ALLOWED = 1.1
HEADS = 8
# Rows of docs/coverage.md and the graphs of their production sizes.
COVERAGE = {
    "add": "add_8192",
    "attention, grouped heads": "gqa_attention_8192",
    "attention, bias": "bias_attention_4096",
    "attention, one query row": "decode_attention_8192",
    "attention backward, delta": "attention_delta_8192",
    "causal attention": "causal_attention_b2_h8_s4096_d128",
    "matmul + bias + GELU": "matmul_bias_gelu_4096",
    "matmul, x.T @ y": "matmul_tn_4096",
    "matmul, K = 300": "matmul_k300_4096",
    "matmul, M = 7": "matmul_m7_4096",
    "matmul, int8, scales of rows and columns": "int8_matmul_4096",
    "matmul + SwiGLU": "matmul_swiglu_production",
    "bmm": "bmm_2048",
    "layer-norm": "layer_norm_4096_8192",
    "RMS-norm backward": "rms_norm_bwd_4096_8192",
    "matmul + layer-norm": "matmul_layer_norm_4096",
    "GEGLU, tanh": "geglu_production",
    "sum": "sum_rows_8192_4096",
    "logsumexp": "logsumexp_rows_8192_4096",
    "rotary embedding, halves loaded": "rotary_production",
}


# ---- the rows


def race_documents():
    """{name: f() -> document} of the kernels of docs/results.md."""
    found = {}
    for contest in race.CONTESTS:
        for run in contest.ours:
            args = run.args
            if run.kernel == ATTENTION and str(race.LONG) not in args[1]:
                args = attention_args(HEADS, *map(int, args[0].rstrip("]").split(",")[2:]))
            name = f"{run.kernel.rpartition(':')[2]} {args[0]}"
            name += f", {args[1]}" if args[1:] and args[1] != args[0] else ""
            found[name] = lambda kernel=run.kernel, args=args: measure.document(kernel, args)
    return found


def coverage_document(graph):
    """The document of a graph of the coverage."""
    folders = (measure.ROOT / "testdata" / name for name in ("coverage/graphs", "graphs"))
    path = next(filter(Path.exists, (folder / f"{graph}.json" for folder in folders)))
    return json.loads(path.read_text())


def rows():
    """[(name, f() -> document)]."""
    coverage = {
        name: lambda graph=graph: coverage_document(graph) for name, graph in COVERAGE.items()
    }
    return [*race_documents().items(), *coverage.items()]


def bare(document):
    """A graph as text, with no configuration."""
    document = json.loads(document) if isinstance(document, str) else document
    return json.dumps({key: value for key, value in document.items() if key != "config"})


# ---- measuring


def measured(name, text, chip, compiles, timeout=TIMEOUT_S, arguments=()):
    """What came of a row, a dict that JSON holds; `arguments`: (name, path) of data that steers."""
    asked = tune.Asked(text, name, chip, {}, arguments=arguments)
    journal = tune.journal_of(asked, "profiler")
    search = tune.tune(asked, compiles, 1, tune.by_profiler, journal, timeout, say)
    outcomes = [
        {
            "config": outcome.config,
            "settled": outcome.settled,
            "cycles": outcome.cost,
            "estimate": outcome.estimate,
            "vmem_bytes": outcome.vmem_bytes,
            "failure": outcome.failure,
        }
        for outcome in search.outcomes
    ]
    return {"kernel": kernel_of(text, chip), "compiles": compiles, "outcomes": outcomes}


def say(search):
    """A line for each compile."""
    last = search.outcomes[-1]
    if not last.known:
        print(f"    {last.cost or last.failure} {last.config}", flush=True)


def kernel_of(text, chip):
    """Digest of the code of the kernel with no configuration given."""
    module = measure.binding.compile(text, None, chip)
    return measure.digest(measure.code_of(module.source))[:16]


def is_fresh(entry, text, chip, compiles):
    """Whether an entry says what a run would say now."""
    if not entry or entry["compiles"] < compiles:
        return False
    return entry["kernel"] == kernel_of(text, chip)


def measure_rows(kept, wanted, targets, compiles, minutes):
    """Fills `kept` and its file."""
    end = time.monotonic() + 60 * minutes
    for chip in targets:
        for name, document in wanted:
            if time.monotonic() > end:
                return
            text, key = bare(document()), f"{name} / {chip}"
            if is_fresh(kept.get(key), text, chip, compiles):
                continue
            print(key, flush=True)
            try:
                kept[key] = measured(name, text, chip, compiles)
            except PallascError as error:
                print(f"    {error}", flush=True)
                continue
            store(kept)


def load():
    """{row / chip: entry}."""
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def store(kept):
    """Writes the file, whole or not at all."""
    part = KEPT.with_suffix(".part")
    lines = [f"{json.dumps(key)}: {json.dumps(kept[key])}" for key in sorted(kept)]
    part.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    os.replace(part, KEPT)


# ---- the table


def default_and_best(entry):
    """(the default's outcome, the fastest), None where there is none."""
    costs = [outcome for outcome in entry["outcomes"] if outcome["cycles"] is not None]
    default = next((outcome for outcome in costs if outcome["config"] is None), None)
    return default, min(costs, key=lambda outcome: outcome["cycles"], default=None)


def ratio(entry):
    """The default's cycles over the best's; None where it did not compile."""
    default, best = default_and_best(entry)
    return default["cycles"] / best["cycles"] if default else None


def choice(outcome):
    """Block sizes and loop type in a few words."""
    config = outcome["settled"]
    shown = {key: config[key] for key in ("block_sizes", "reduction_loops") if config.get(key)}
    if shown.get("reduction_loops") and not any(shown["reduction_loops"]):
        del shown["reduction_loops"]
    words = [json.dumps(value) for value in shown.values()]
    return " ".join([*words, config.get("pallas_loop_type") or ""]).strip()


def cells(name, chip, entry):
    """A row of the table."""
    default, best = default_and_best(entry)
    if default is None:
        failure = next(x["failure"] for x in entry["outcomes"] if x["config"] is None)
        return [name, chip, f"failed: {failure}", "", "", "", "", str(len(entry["outcomes"]))]
    times = default["cycles"] / best["cycles"]
    return [
        name,
        chip,
        choice(default),
        f"{default['cycles'] / 1e3:,.1f}",
        choice(best) if best is not default else "the same",
        f"{best['cycles'] / 1e3:,.1f}",
        f"**{times:.3f}**" if times > ALLOWED else f"{times:.3f}",
        str(len(entry["outcomes"])),
    ]


HEAD = ("kernel", "chip", "nothing given", "kilocycles", "the best found", "kilocycles")
HEAD += ("times the best", "compiles")


def page_part(kept):
    """The lines between the marks."""
    names = [name for name, _ in rows()]
    found = [
        (name, chip, kept[key])
        for name in names
        for chip in CHIPS
        if (key := f"{name} / {chip}") in kept
    ]
    times = [ratio(entry) for _, _, entry in found]
    near = sum(x is not None and x <= ALLOWED for x in times)
    lines = [f"| {' | '.join(HEAD)} |", "| --- " * len(HEAD) + "|"]
    lines += [f"| {' | '.join(cells(*row))} |" for row in found]
    lines += ["", f"Within {ALLOWED - 1:.0%} of the best that was found: {near} of {len(found)}."]
    missing = len(names) * len(CHIPS) - len(found)
    lines += [f"Not measured yet: {missing}."] if missing else []
    return "\n".join(lines) + "\n"


def write_page(kept):
    """The table, into its page."""
    write_part(PAGE, BEGIN, END, page_part(kept))


def main():
    """Measures, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", metavar="TEXT", default="", help="only rows whose name holds this")
    parser.add_argument("--target", choices=CHIPS, action="append", help="only for this chip")
    parser.add_argument("--compiles", type=int, default=COMPILES, metavar="N", help="for each row")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no row after so long")
    parser.add_argument("--known", action="store_true", help="compile nothing")
    options = parser.parse_args()
    kept = load()
    wanted = [row for row in rows() if options.row in row[0]]
    if not options.known:
        measure_rows(kept, wanted, options.target or CHIPS, options.compiles, options.minutes)
    write_page(kept)


if __name__ == "__main__":
    main()
