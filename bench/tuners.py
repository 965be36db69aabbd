"""`make bench-tuners`: our tuner beside Helion's with as many compiles, and kernels by hand.

    make bench-tuners                 all, with its section in docs/results.md
    make bench-tuners ROW=softmax     rows whose name holds this; ARGS="--target v6e --compiles 6"

Helion's tuner takes times on a TPU. Here the profiler is the clock of both, so of Helion's it is
the search that takes no times while it draws: its random search, whose first configuration is
Helion's default. Its other searches begin with such a population, of more than are compiled here.
Outcomes are kept in bench/tuners.json.
"""

import argparse
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import helion_draws
import measure
import race
import tuned
from pallasc.profile import chips
from race_tables import figure
from sections import attention_args, layer_norm_args, matmul_args, split_k_args

KEPT = Path(__file__).with_name("tuners.json")
PAGE = measure.ROOT / "docs" / "results.md"
TITLE = "## Tuners"
TEXT = """Milliseconds, of the fastest of as many compiles for each side: ours by
[`tune`](tune.md), which judges all configurations first; Helion's by its random search, its default
first, with the [profiler](profile.md) for a clock. "n of m" are those that compiled. Beside them
kernels by hand at the best of a short list of blocks, and XLA's. Bold is the fastest. Attention has
two heads here: times of the race are of 256, and its first loads weigh less. Where what Helion
launches holds no Pallas kernel, which it does for whole arrays as one block, the cell says so.

    make bench-tuners
"""
SEED = 1
COMPILES = 6


def kernels():
    """{name: (kernel, arguments, runs by hand)}."""
    hand = {contest.name: contest.hand for contest in race.CONTESTS}
    rows = ("bfloat16[4096,10240]",)
    found = {
        "matmul 4096^3": (race.MATMUL, matmul_args(4096), "matmul 4096^3, fori_loop"),
        "softmax 4096x10240, whole row": (race.SOFTMAX, rows, "softmax 4096x10240, whole row"),
        "layer-norm backward 4096x10240": (
            *(race.LAYER_NORM, layer_norm_args(10240)),
            "layer-norm backward 4096x10240",
        ),
    }
    for width in (128, 256):
        args = attention_args(2, 8192, width)
        found[f"attention D={width}, S=8192, two heads"] = (
            *(race.ATTENTION, args),
            f"attention D={width}, best",
        )
    found["softmax 4096x10240, two-pass"] = (race.SOFTMAX_LOOP, rows, "softmax 4096x10240, two")
    found["split-K, M=512 K=32768 N=64"] = (race.SPLIT_K, split_k_args(512), "split-K 8")
    return {
        name: (kernel, tuple(args), next(hand[key] for key in hand if key.startswith(text)))
        for name, (kernel, args, text) in found.items()
    }


# ---- measuring


def ours(kernel, args, chip, compiles):
    """[what, ms or null] of each compile of ours, the default's first."""
    text = tuned.bare(measure.document(kernel, args))
    found = tuned.measured(kernel, text, chip, compiles)
    clock = chips.CHIPS[chip]
    return [
        [tuned.choice(x), x["cycles"] and clock.milliseconds(x["cycles"])]
        for x in found["outcomes"]
    ]


def outcome_of(side, kernel, args, config, chip):
    """[what, ms or null] of a kernel of Helion's or by hand."""
    job = measure.Job(side, kernel, args, json.dumps(config), chip)
    outcome = measure.measure(job)
    what = " ".join(filter(None, (kernel if side == "hand" else "", words(config))))
    ms = outcome.static["est_ms"] if outcome.static else None
    if side == "helion" and ms and not outcome.static["pallas_ms"]:
        what += ", no Pallas kernel: XLA's"
    print(f"    {side} {what}: {ms or outcome.message[:100]}", flush=True)
    return [what, ms]


def words(config):
    """A configuration in few words."""
    blocks = config.get("block_sizes")
    loop = config.get("pallas_loop_type")
    if blocks:
        return f"{json.dumps(blocks)} {loop or ''}".strip()
    return "/".join(map(str, config.values()))


def measured(name, chip, compiles, sides):
    """A row's outcomes by side."""
    kernel, args, hand = kernels()[name]
    found = {"compiles": compiles}
    if "ours" in sides:
        found["ours"] = ours(kernel, args, chip, compiles)
    if "helion" in sides:
        draws = helion_draws.drawn(kernel, args, compiles, SEED)
        found["helion"] = [outcome_of("helion", kernel, args, draw, chip) for draw in draws]
    if "hand" in sides:
        found["hand"] = [
            outcome_of("hand", run.kernel, run.args, json.loads(run.config), chip) for run in hand
        ]
    return found


def load():
    """{row / chip: outcomes}."""
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def store(kept):
    """Writes the file, whole or not at all."""
    part = KEPT.with_suffix(".part")
    part.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    os.replace(part, KEPT)


# ---- the section


def best(outcomes):
    """(what, ms) of the fastest; None where none has a time."""
    known = [(ms, what) for what, ms in outcomes if ms]
    return min(known)[::-1] if known else None


def side_cell(outcomes, fastest):
    """The fastest of a side."""
    if not (found := best(outcomes)):
        return "-"
    time = f"**{figure(found[1])}**" if found[1] == fastest else figure(found[1])
    return f"{time} ({found[0]})"


def counted(outcomes):
    """How many compiled."""
    return f"{sum(ms is not None for _, ms in outcomes)} of {len(outcomes)}"


def default_cell(outcomes):
    """What holds where nothing is given, which is the first."""
    return figure(outcomes[0][1]) if outcomes[0][1] else "failed"


HEAD = ("kernel", "chip", "ours, nothing given", "ours, tuned", "compiled")
HEAD += ("Helion's default", "Helion's, drawn", "compiled", "by hand, XLA")


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
                lines.append(f"| {' | '.join([*cells, side_cell(hand, fastest)])} |")
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
    options = parser.parse_args()
    kept = load()
    for chip in options.target or tuned.CHIPS:
        for name in kernels():
            if options.known or options.row not in name:
                continue
            print(f"{name} / {chip}", flush=True)
            kept[f"{name} / {chip}"] = measured(
                name, chip, options.compiles, ("ours", "helion", "hand")
            )
            store(kept)
    write_page()


if __name__ == "__main__":
    main()
