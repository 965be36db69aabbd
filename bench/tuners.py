"""`make bench-tuners`: our tuner beside Helion's with as many compiles, and kernels by hand.

    make bench-tuners                 what is missing or has changed; a section of docs/results.md
    make bench-tuners ROW=softmax     rows whose name holds this; ARGS="--target v6e --minutes 40"

Helion's tuner takes times on a TPU. Here the profiler is the clock of both, so of Helion's it is
the search that takes no times while it draws: its random search, whose first configuration is
Helion's default. Its other searches begin with such a population, of more than are compiled here.
Outcomes are kept in bench/tuners.json.
"""

import argparse
import dataclasses
import itertools
import json
import math
import os
import re
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import hand_kernels
import helion_draws
import measure
import ml_dtypes  # noqa: F401 - numpy knows bfloat16 by it
import numpy as np
import race
import tuned
from pallasc.profile import chips
from race_tables import figure
from sections import attention_args, layer_norm_args, matmul_args, split_k_args

KEPT = Path(__file__).with_name("tuners.json")
SERVING = KEPT.with_name("serving.json")
PAGE = measure.ROOT / "docs" / "results.md"
TITLE = "## Tuners"
TEXT = """Milliseconds, of the fastest of as many compiles for each side: ours by [`tune`](tune.md),
which judges all configurations first; Helion's by its random search, its default first, with the
[profiler](profile.md) for a clock. Beside them kernels by hand: jax's and tokamax's at the best of
a short list of blocks, no longer than the number of compiles, and XLA's. "n of m" are those that
compiled, and what befell the others. Bold is the fastest.

All times are static: the schedule that libtpu makes for the chip, executed by the profiler; no TPU
was asked. Of XLA's own kernels the profiler follows not every prefetch to VMEM, so that they may
come out low, and a time below what the inputs take from HBM is none. So few draws of a random
search say little of what hundreds would find; they are as many as ours. Attention has two heads
here: times of the race are of 256, and its first loads weigh less. Backward, jax's kernels take
statistics that are repeated in 128 lanes, and XLA's repeating counts. Where what Helion launches
holds no Pallas kernel, which it does for whole arrays as one block, the cell says so. The grouped
matmul has int8 weights and the data of [the coverage](coverage.md); those by hand are
[measured](serving.md) with the same data. tokamax's cross-entropy has a matmul in it and its layer
norm no kernel for TPUs, so that XLA alone stands beside these two.

    make bench-tuners                                 # what is missing or has changed
    make bench-tuners ROW=softmax ARGS="--compiles 8 --target v7x"
"""
SEED = 1
COMPILES = 4
TIMEOUT_S = 240
GROUPED = "grouped matmul, int8 weights, worklist"
FLASH_BACKWARD = ((1024, 1024), (2048, 512), (512, 2048), (512, 512))


@dataclasses.dataclass(frozen=True)
class Row:
    """A kernel of testdata/kernels that is tuned.

    Attributes:
      kernel, args: FILE.py:KERNEL, and arguments as `pallasc export --args` takes them.
      hand: runs of kernels by hand, of race.py's class.
      serving: the row of docs/serving.md that has its data, and kernels by hand.
    """

    kernel: str
    args: tuple
    hand: tuple = ()
    serving: str = ""


def kernels():
    """{name: Row}."""
    hand = {contest.name: contest.hand for contest in race.CONTESTS}
    rows = ("bfloat16[4096,10240]",)
    found = {
        "matmul 4096^3": (race.MATMUL, matmul_args(4096), "matmul 4096^3, fori_loop"),
        "softmax 4096x10240, whole row": (race.SOFTMAX, rows, "softmax 4096x10240, whole row"),
        "layer-norm backward 4096x10240": (
            *(race.LAYER_NORM, layer_norm_args(10240)),
            "layer-norm backward 4096x10240",
        ),
        "softmax 4096x10240, two-pass": (race.SOFTMAX_LOOP, rows, "softmax 4096x10240, two"),
        "split-K, M=512 K=32768 N=64": (race.SPLIT_K, split_k_args(512), "split-K 8"),
    }
    found = {
        name: Row(
            kernel, tuple(args), next(tuple(hand[key]) for key in hand if key.startswith(text))
        )
        for name, (kernel, args, text) in found.items()
    }
    return found | normalized() | attention() | grouped()


def normalized():
    """Layer norm and cross-entropy, beside XLA's."""
    x, weights = "bfloat16[4096,8192]", ("bfloat16[8192]",) * 2
    logits = ("bfloat16[4096,32000]", "int32[4096,1]")
    norm = race.Run("hand", "xla.layer_norm", (x, *weights), "{}")
    loss = race.Run("hand", "xla.cross_entropy", logits, "{}")
    return {
        "layer-norm 4096x8192": Row("layer_norm.py:layer_norm", (x, *weights, "1e-5"), (norm,)),
        "cross-entropy 4096x32000": Row("losses.py:cross_entropy", logits, (loss,)),
    }


def attention():
    """Attention forward, and its two kernels backward."""
    found = {}
    for width in (128, 256):
        args = attention_args(2, 8192, width)
        runs = race.attention_hand(width)
        chosen = {run.kernel: run for run in reversed(runs)}
        found[f"attention D={width}, S=8192, two heads"] = Row(
            race.ATTENTION, args, tuple(chosen.values())
        )
    args = (
        *attention_args(2, 8192, 128),
        attention_args(2, 8192, 128)[0],
        *("float32[2,8192]",) * 2,
    )
    for part in ("dq", "dkdv"):
        configs = ({"part": part, "block_q": q, "block_k": k} for q, k in FLASH_BACKWARD)
        runs = tuple(
            race.Run("hand", "jax.flash_backward", args, json.dumps(config)) for config in configs
        )
        found[f"attention backward, {part}, D=128, S=8192, two heads"] = Row(
            *(f"attention_backward.py:attention_{part}", (*args, "False"), runs)
        )
    return found


def grouped():
    """The grouped matmul, whose loop counts and blocks are data."""
    shapes = ("bfloat16[16,512,1024]", "int32[47]", "int32[47]", "int32[33]")
    shapes += ("int8[32,1024,1024]", "float32[32,1024]")
    row = Row("worklists.py:grouped_worklist", shapes, serving=GROUPED)
    return {"grouped matmul, 8192 rows, 32 groups, 1024x1024 of int8": row}


# ---- measuring


def ours(row, chip, compiles):
    """[what, ms or null, why it failed] of each compile of ours, the default's first."""
    text = tuned.bare(measure.document(row.kernel, row.args))
    with tempfile.TemporaryDirectory() as folder:
        arguments = steering(row, text, folder)
        found = tuned.measured(row.kernel, text, chip, compiles, TIMEOUT_S, arguments)
    clock = chips.CHIPS[chip]
    return [
        [tuned.choice(x), x["cycles"] and clock.milliseconds(x["cycles"]), x["failure"]]
        for x in found["outcomes"]
    ]


def steering(row, text, folder):
    """((name, path of its data), ...) of what steers a row's kernel, written to a folder."""
    if not row.serving:
        return ()
    import serving

    found = next(x for x in serving.serving_rows() if x.name == row.serving)
    data = found.steering(json.loads(text), np.random.default_rng(1))
    paths = {name: Path(folder) / f"{name}.npy" for name in data}
    for name, path in paths.items():
        np.save(path, data[name])
    return tuple((name, str(path)) for name, path in paths.items())


def helions(row, chip, compiles):
    """The same of Helion's draws."""
    try:
        draws = helion_draws.drawn(row.kernel, row.args, compiles, SEED)
    except RuntimeError as error:
        return [["its search", None, str(error).strip().splitlines()[-1]]]
    return [outcome_of("helion", row.kernel, row.args, draw, chip) for draw in draws]


def by_hand(row, chip):
    """The same of kernels by hand: compiled, or as serving.py measured them."""
    if not row.serving:
        return [
            outcome_of("hand", run.kernel, run.args, json.loads(run.config), chip)
            for run in row.hand
        ]
    entries = json.loads(SERVING.read_text())[row.serving][chip]
    clock = chips.CHIPS[chip]
    return [
        [
            f"{name} {entry.get('options', '')}".strip(),
            clock.milliseconds(entry["cycles"]) if "cycles" in entry else None,
            entry.get("why", ""),
        ]
        for name, entry in entries.items()
        if name != "pallasc"
    ]


def outcome_of(side, kernel, args, config, chip):
    """[what, ms or null, why it failed] of a kernel of Helion's or by hand."""
    job = measure.Job(side, kernel, args, json.dumps(config), chip)
    outcome = measure.measure(job, timeout=TIMEOUT_S)
    what = " ".join(filter(None, (kernel if side == "hand" else "", words(config))))
    ms = outcome.static["est_ms"] if outcome.static else None
    if side == "helion" and ms and not outcome.static["pallas_ms"]:
        what += ", no Pallas kernel: XLA's"
    why = "" if ms else why_not(outcome)
    if ms and ms < (least := inputs_ms(args, chip)):
        # XLA prefetches an input to VMEM by a copy that the profiler does not follow.
        ms, why = None, f"not followed: {figure(ms)}, where its inputs take {figure(least)} of HBM"
    print(f"    {side} {what}: {ms or why}", flush=True)
    return [what, ms, why]


def inputs_ms(args, chip):
    """What reading all inputs from HBM takes; args as `pallasc export --args` takes them."""
    arrays = [hand_kernels.parsed(text) for text in args if "[" in text]
    size = sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in arrays)
    return size / chips.CHIPS[chip].hbm_bytes_per_s * 1e3


def why_not(outcome):
    """Why there is no time, a few words."""
    if outcome.kind == "vmem":
        return "out of VMEM"
    if outcome.ok:
        return "not executed: the run was cut"
    return (outcome.message.strip().splitlines() or [outcome.kind])[0]


def words(config):
    """A configuration in few words."""
    blocks = config.get("block_sizes")
    loop = config.get("pallas_loop_type")
    if blocks:
        return f"{json.dumps(blocks)} {loop or ''}".strip()
    return "/".join(map(str, config.values()))


def measured(row, chip, compiles):
    """A row's outcomes by side."""
    text = tuned.bare(measure.document(row.kernel, row.args))
    return {
        "compiles": compiles,
        "kernel": tuned.kernel_of(text, chip),
        "ours": ours(row, chip, compiles),
        "helion": helions(row, chip, compiles),
        "hand": by_hand(row, chip),
    }


def is_fresh(entry, row, chip, compiles):
    """Whether an entry says what a run would say now."""
    if not entry:
        return False
    return tuned.is_fresh(entry, tuned.bare(measure.document(row.kernel, row.args)), chip, compiles)


def load():
    """{row / chip: outcomes}."""
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def store(key, entry):
    """Puts an entry into the file, whole or not at all."""
    kept = load() | {key: entry}
    part = KEPT.with_suffix(".part")
    part.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    os.replace(part, KEPT)


# ---- the section


def best(outcomes):
    """(what, ms) of the fastest; None where none has a time."""
    known = [(ms, what) for what, ms, _ in outcomes if ms]
    return min(known)[::-1] if known else None


def side_cell(outcomes, fastest):
    """The fastest of a side."""
    if not (found := best(outcomes)):
        return "-"
    time = f"**{figure(found[1])}**" if found[1] == fastest else figure(found[1])
    return f"{time} ({found[0]})"


def counted(outcomes):
    """How many compiled, and what befell the others."""
    failures = {}
    for _, ms, why in outcomes:
        if ms is None:  # of messages that differ in numbers the first stands for all
            failures.setdefault(re.sub(r"[\d., ]+", " ", why), []).append(why)
    text = f"{sum(ms is not None for _, ms, _ in outcomes)} of {len(outcomes)}"
    reasons = [f"{len(texts)} {shortened(texts[0])}" for texts in failures.values()]
    return f"{text} ({'; '.join(reasons)})" if reasons else text


def shortened(why):
    """An error for a cell."""
    return (why if len(why) <= WIDEST else f"{why[:WIDEST]}...").replace("|", "\\|")


def default_cell(outcomes):
    """What holds where nothing is given, which is the first."""
    return figure(outcomes[0][1]) if outcomes[0][1] else "failed"


HEAD = ("kernel", "chip", "ours, nothing given", "ours, tuned", "compiled")
HEAD += ("Helion's default", "Helion's, drawn", "compiled", "by hand, XLA", "compiled")
WIDEST = 80


def section():
    """The section's text."""
    lines = [TITLE, "", TEXT, f"| {' | '.join(HEAD)} |", "| --- " * len(HEAD) + "|"]
    kept = load()
    for name in kernels():
        for chip in tuned.CHIPS:
            if found := kept.get(f"{name} / {chip}"):
                sides = [found[side] for side in ("ours", "helion", "hand")]
                fastest = min((x[1] for x in map(best, sides) if x), default=None)
                mine, drawn, hand = sides
                cells = [name, chip, default_cell(mine), side_cell(mine, fastest), counted(mine)]
                cells += [default_cell(drawn), side_cell(drawn, fastest), counted(drawn)]
                cells += [side_cell(hand, fastest), counted(hand)]
                lines.append(f"| {' | '.join(cells)} |")
    keys = [f"{name} / {chip}" for name in kernels() for chip in tuned.CHIPS]
    missing = [key for key in keys if key not in kept]
    lines += ["", f"Not measured yet: {'; '.join(missing)}."] if missing else []
    return "\n".join(lines) + "\n"


def write_page():
    """The section, in place of what stands in the page under its title."""
    before, _, after = PAGE.read_text().partition(f"{TITLE}\n")
    _, _, rest = after.partition("\n## ")
    PAGE.write_text(before.rstrip() + "\n\n" + section() + (f"\n## {rest}" if rest else ""))


def main():
    """Measures, and writes the section."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", metavar="TEXT", default="", help="only rows whose name holds this")
    parser.add_argument("--target", choices=tuned.CHIPS, action="append", help="only this chip")
    parser.add_argument("--compiles", type=int, default=COMPILES, metavar="N", help="for each side")
    parser.add_argument("--known", action="store_true", help="compile nothing")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no row after so long")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    wanted = {} if options.known else {k: r for k, r in kernels().items() if options.row in k}
    for chip, (name, row) in itertools.product(options.target or tuned.CHIPS, wanted.items()):
        key = f"{name} / {chip}"
        if time.monotonic() > end or is_fresh(load().get(key), row, chip, options.compiles):
            continue
        print(key, flush=True)
        store(key, measured(row, chip, options.compiles))
    write_page()


if __name__ == "__main__":
    main()
