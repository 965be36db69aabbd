"""The rows of `make bench`: which kernels race, in which configurations, and what is told of them.

A `Contest` is a row: runs of ours, of Helion's and of kernels that people wrote, of each side the
fastest counts. A new row is a new entry of CONTESTS, a new switch whose gain is to be shown a new
line of CHOICES; nothing else needs to change.
"""

import dataclasses
import functools
import importlib.util
import json
import re

from measure import ROOT, CompileError, Job, binding
from sections import (
    ATTENTION,
    LOOPS,
    Row,
    Table,
    attention_args,
    known,
    layer_norm_args,
    matmul_args,
    mib,
    slot_uses,
    spills,
    split_k_args,
    verdict,
)

CHIPS = ("v7x", "v6e")
HEADS = 256  # B=8 H=32
MATMUL = "matmul.py:matmul"
LAYER_NORM = "layer_norm.py:layer_norm_bwd"
LAYER_NORM_LOOP = "layer_norm.py:layer_norm_bwd_two_level"
SOFTMAX = "softmax.py:softmax"
SOFTMAX_LOOP = "softmax.py:softmax_two_pass"
SPLIT_K = "split_k.py:matmul_split_k"


@dataclasses.dataclass(frozen=True)
class Run:
    """A kernel on arguments under a configuration; its time counts `scale` times."""

    side: str
    kernel: str
    args: tuple
    config: str
    scale: int = 1

    def job(self, chip):
        """Its `Job` for a chip."""
        return Job(self.side, self.kernel, self.args, self.config, chip)


@dataclasses.dataclass
class Contest:
    """A row of the table.

    Attributes:
      name: what is computed, and how the loop is lowered.
      ours, helion, hand: runs; the fastest of each counts.
      stated: what the issue says of Helion's and of the best other on v7x, in ms, or None each.
      goal_ms, goal_mib: what the issue wants on v7x, or None.
      per_flop: (name of another contest, FLOPs of this one for one of that one): the goal is its
        time in proportion, plus 5%.
    """

    name: str
    ours: list
    helion: list
    hand: list
    stated: tuple = (None, None)
    goal_ms: float | None = None
    goal_mib: float | None = None
    per_flop: tuple | None = None

    def sides(self):
        """{side: runs}."""
        return {"ours": self.ours, "helion": self.helion, "hand": self.hand}


def config_text(blocks=None, loop=None, **keys):
    """A configuration as JSON."""
    config = {"block_sizes": list(blocks)} if blocks else {}
    config |= {"pallas_loop_type": loop} if loop else {}
    return json.dumps(config | keys)


# ---- attention: two heads, or one where Helion would raise block_b to two


def attention_run(side, width, blocks, loop, heads=2, **keys):
    """Attention with S=8192 on one or two heads, as if on all."""
    args = attention_args(heads, 8192, width)
    return Run(side, ATTENTION, args, config_text(blocks, loop, **keys), HEADS // heads)


def attention_helion(width, blocks, loop):
    """Helion's: on two heads, and on one so that block_b stays 1; fori_loop with two buffers."""
    keys = {"pallas_load_buffer_count": [2, 2, 2]} if loop == "fori_loop" else {}
    heads = (2, 1) if blocks[0] == 1 else (2,)
    return [attention_run("helion", width, blocks, loop, count, **keys) for count in heads]


@functools.cache
def has_tokamax():
    """Whether tokamax is installed (requirements-bench.txt)."""
    return importlib.util.find_spec("tokamax") is not None


TOKAMAX_SIZES = ((2048, 4096, 512), (2048, 2048, 1024), (2048, 4096, 1024), (2048, 2048, 512))
SPLASH_SIZES = ((1024, 2048, 1024), (2048, 2048, 512))
FLASH_SIZES = ((2048, 2048, 512),)
SPLASH_NAMES = ("block_q", "block_kv", "block_kv_compute")
FLASH_NAMES = ("block_q", "block_k_major", "block_k")


def attention_hand(width):
    """Every hand-written attention at its best block sizes (found by trying; see the issue)."""
    kernels = [("jax.splash_attention", SPLASH_NAMES, SPLASH_SIZES)]
    kernels.append(("jax.flash_attention", FLASH_NAMES, FLASH_SIZES))
    if has_tokamax():
        kernels.append(("tokamax.splash_attention", SPLASH_NAMES, TOKAMAX_SIZES))
    args = attention_args(2, 8192, width)
    return [
        Run("hand", kernel, args, json.dumps(dict(zip(names, sizes, strict=True))), HEADS // 2)
        for kernel, names, table in kernels
        for sizes in table
    ]


def attention_contest(width, blocks, loop, stated, goal_ms=None, goal_mib=None):
    """One configuration of attention."""
    return Contest(
        f"attention D={width}, {loop} {list(blocks)}",
        [attention_run("ours", width, blocks, loop)],
        attention_helion(width, blocks, loop),
        attention_hand(width),
        stated,
        goal_ms,
        goal_mib,
    )


# What is tried for "best of any configuration"; add here what a new choice makes fast.
BEST = (
    ((1, 512, 1024), "unroll"),
    ((2, 512, 2048), "unroll"),
    ((1, 1024, 1024), "unroll"),
    ((1, 512, 2048), "unroll"),
    ((1, 1024, 1024), "fori_loop"),
    ((1, 2048, 1024), "fori_loop"),
    ((1, 1024, 1024), "emit_pipeline"),
)
BEST_HELION = (((1, 512, 1024), "unroll"), ((2, 512, 2048), "unroll"), ((1, 1024, 1024), "unroll"))


def best_contest(width, stated, goal_ms):
    """The fastest of several configurations."""
    return Contest(
        f"attention D={width}, best of any configuration",
        [attention_run("ours", width, blocks, loop) for blocks, loop in BEST],
        [attention_run("helion", width, blocks, loop) for blocks, loop in BEST_HELION],
        attention_hand(width),
        stated,
        goal_ms,
    )


LONG, LONG_ROWS = 131072, 1024


def long_contest(loop):
    """One head of 131072 rows of K and V; a part of the rows of Q, as if all of them."""
    args = (f"bfloat16[1,1,{LONG_ROWS},128]", *(f"bfloat16[1,1,{LONG},128]",) * 2)

    buffers = {"pallas_load_buffer_count": [2, 2, 2]} if loop == "fori_loop" else {}

    def run(side, **keys):
        text = config_text((1, 512, 1024), loop, **keys)
        return Run(side, ATTENTION, args, text, LONG // LONG_ROWS)

    flops = LONG * LONG / (HEADS * 8192 * 8192)
    other = f"attention D=128, {loop} [1, 512, 1024]"
    name = f"attention B=1 H=1 S=131072 D=128, {loop} [1, 512, 1024]"
    helion = [run("helion", **buffers)]
    return Contest(name, [run("ours")], helion, [], per_flop=(other, flops))


# (head width, block sizes, loop type): (Helion's and the best other as the issue has them, goal)
ATTENTION_ROWS = {
    (256, (2, 512, 2048), "unroll"): ((18.8, 20.0), 17.3, 48),
    (256, (1, 512, 1024), "unroll"): ((20.5, 20.0), 17.8),
    (256, (1, 512, 1024), "emit_pipeline"): ((38.9, 20.0), 21.0, 16),
    (256, (1, 512, 1024), "fori_loop"): ((69.0, 20.0), 21.0, 16),
    (128, (1, 512, 1024), "unroll"): ((20.2, 20.4), 17.0),
    (128, (1, 512, 1024), "emit_pipeline"): ((30.9, 20.4), 19.5),
    (128, (1, 512, 1024), "fori_loop"): ((None, 20.4),),
    (64, (1, 512, 1024), "unroll"): ((20.8, None), 17.5),
    (64, (1, 512, 1024), "emit_pipeline"): ((20.8, None), 17.5),
    (64, (1, 512, 1024), "fori_loop"): ((20.8, None), 17.5),
}


def attention_contests():
    """All rows of attention."""
    for configuration, figures in ATTENTION_ROWS.items():
        yield attention_contest(*configuration, *figures)
    yield best_contest(256, (18.8, 20.0), 16.5)
    yield best_contest(128, (20.2, 20.4), 14.5)
    for loop in ("emit_pipeline", "fori_loop"):
        yield long_contest(loop)


# ---- the rest


def both(kernel, args, texts):
    """(ours, Helion's) runs of a kernel in each configuration."""
    return [[Run(side, kernel, args, text) for text in texts] for side in ("ours", "helion")]


def matmul_contests():
    """4096^3 in blocks of 1024."""
    args = matmul_args(4096)
    sizes = ((1024, 1024, 1024), (1024, 1024, 512), (2048, 1024, 512))
    names = ("block_m", "block_n", "block_k")
    hand = [
        Run("hand", "jax.matmul", args, json.dumps(dict(zip(names, blocks, strict=True))))
        for blocks in sizes
    ]
    hand.append(Run("hand", "xla.matmul", args, "{}"))
    for loop, helions, goal in (("emit_pipeline", 0.155, 0.124), ("fori_loop", 0.250, 0.127)):
        blocks = (1024, 1024, 1024)
        texts = [config_text(blocks, loop)]
        if loop == "fori_loop":  # which Helion runs with one buffer if not asked
            texts.append(config_text(blocks, loop, pallas_load_buffer_count=[2, 2]))
        runs = both(MATMUL, args, texts)
        yield Contest(f"matmul 4096^3, {loop} {list(blocks)}", *runs, hand, (helions, 0.124), goal)


def layer_norm_contest():
    """Both forms of the kernel: blocks of whole rows, and a loop over a block's rows."""
    args = layer_norm_args(10240)
    runs = [
        both(LAYER_NORM, args, [config_text((rows,)) for rows in (64, 128)]),
        both(LAYER_NORM_LOOP, args, [config_text((512, 128), loop) for loop in LOOPS[1:]]),
    ]
    ours, helion = (a + b for a, b in zip(*runs, strict=True))
    hand = [Run("hand", "xla.layer_norm_bwd", args, "{}")]
    return Contest("layer-norm backward 4096x10240", ours, helion, hand, (0.190, 0.227), 0.095)


def softmax_contests():
    """A whole row at once, and two passes over it."""
    args = ("bfloat16[4096,10240]",)
    hand = [Run("hand", "xla.softmax", args, "{}")]
    runs = both(SOFTMAX, args, [config_text((rows,)) for rows in (64, 128, 256)])
    yield Contest("softmax 4096x10240, whole row", *runs, hand, (0.062, None), 0.048)
    texts = [config_text((512, 1024), loop) for loop in LOOPS]
    runs = both(SOFTMAX_LOOP, args, texts)
    yield Contest("softmax 4096x10240, two-pass", *runs, hand, (0.385, None), 0.052)


def split_k_contest():
    """M=512 K=32768 N=64 in eight parts; two buffers, which is less than Helion's own default."""
    args = split_k_args(512)
    texts = [
        config_text((rows, 64, 1024), loop, split_k=8, pallas_load_buffer_count=[2, 2])
        for rows in (128, 512)
        for loop in LOOPS
    ]
    hand = [Run("hand", "xla.matmul", args, "{}")]
    hand.append(Run("hand", "xla.split_k", args, json.dumps({"parts": 8})))
    return Contest(
        "split-K 8, M=512 K=32768 N=64", *both(SPLIT_K, args, texts), hand, (0.039, None), 0.013
    )


CONTESTS = [
    *attention_contests(),
    *matmul_contests(),
    layer_norm_contest(),
    *softmax_contests(),
    split_k_contest(),
]


# ---- one side of a row


@dataclasses.dataclass
class Fastest:
    """The fastest of some runs: its run, outcome and scaled time; `run` None where none ran."""

    run: Run | None = None
    outcome: object = None
    ms: float | None = None


def fastest(runs, outcomes, chip):
    """The `Fastest` of runs on a chip; where none has a time, one that was measured."""
    found = []
    for run in runs:
        if outcome := outcomes.get(run.job(chip)):
            value = known(outcome, "est_ms") if outcome.ok else None
            found.append(Fastest(run, outcome, None if value is None else value * run.scale))
    return min(found, default=Fastest(), key=lambda f: (f.ms is None, f.ms or 0, not f.outcome.ok))


def label(run, outcome=None):
    """The configuration of a run in a few words; with the blocks that were taken."""
    config = json.loads(run.config)
    if run.side == "hand":
        return " ".join([run.kernel, "/".join(map(str, config.values()))]).strip()
    blocks = config.pop("block_sizes", [])
    loop = config.pop("pallas_loop_type", "")
    if outcome is not None:
        blocks = [outcome.blocks.get(f"_BLOCK_SIZE_{i}", size) for i, size in enumerate(blocks)]
    rest = [f"{key.removeprefix('pallas_')}={json.dumps(v)}" for key, v in config.items()]
    name = run.kernel.rpartition(":")[2] if run.kernel in (LAYER_NORM, LAYER_NORM_LOOP) else ""
    return " ".join(part for part in (name, loop, str(blocks), *rest) if part)


def figure(ms):
    """A time with four digits that count."""
    return f"{ms:.1f}" if ms >= 10 else f"{ms:.3f}" if ms >= 1 else f"{ms:.4f}"


def time_cell(side):
    """The time of a side, `~` where the tool does not vouch for it; or why there is none."""
    if side.run is None:
        return "-"
    if side.ms is None:
        return "not estimated" if side.outcome.ok else verdict(side.outcome)[:80]
    return ("" if side.outcome.static["sim_ok"] else "~") + figure(side.ms)


def rival_cell(side):
    """A rival's time and configuration."""
    return time_cell(side) + ("" if side.ms is None else f" ({label(side.run, side.outcome)})")


# ---- the race


def goal_of(contest, outcomes, chip):
    """The goal in ms on a chip, or None."""
    if not contest.per_flop:
        return contest.goal_ms if chip == "v7x" else None
    name, flops = contest.per_flop
    (other,) = (c for c in CONTESTS if c.name == name)
    ms = fastest(other.ours, outcomes, chip).ms
    return ms and 1.05 * ms * flops


def must_cell(ours, rivals, stated):
    """Whether ours beats the rivals ({name: Fastest}) and the issue's figures ({name: ms})."""
    if ours.ms is None:
        return "no" if ours.run else "-"
    times = [(name, rival.ms) for name, rival in rivals.items()] + list(stated.items())
    lost = [f"{ours.ms / ms:.2f}x of {name}" for name, ms in times if ms and ours.ms >= ms]
    if lost:
        return f"**no**: {', '.join(lost)}"
    unknown = [name for name, rival in rivals.items() if rival.run is None]
    return f"yes, but for {', '.join(unknown)}: not measured" if unknown else "yes"


def goal_cells(contest, ours, goal):
    """The goal, and whether it is met."""
    if goal is None:
        return ["-", "-"]
    room = f" in {contest.goal_mib} MiB" if contest.goal_mib else ""
    shown = f"{figure(goal)}{room}"
    if ours.ms is None:
        return [shown, "no" if ours.run else "-"]
    fits = not contest.goal_mib or ours.outcome.vmem_bytes <= contest.goal_mib << 20
    return [shown, "yes" if fits and ours.ms <= goal else f"no: {ours.ms / goal:.2f}x"]


def race_rows(contests):
    """(contest, chip) of every row."""
    return [(contest, chip) for contest in contests for chip in CHIPS]


def contest_jobs(contest, chip):
    """{run: job} of all that a row needs."""
    runs = [run for runs in contest.sides().values() for run in runs]
    if contest.per_flop:
        runs += next(c.ours for c in CONTESTS if c.name == contest.per_flop[0])
    return {run: run.job(chip) for run in runs}


def by_job(contest, chip, named):
    """{job: outcome} from {run: outcome}."""
    return {run.job(chip): outcome for run, outcome in named.items()}


def race_table(contests):
    """Ours beside the rivals."""
    rows = []
    for contest, chip in race_rows(contests):

        def cells(named, contest=contest, chip=chip):
            outcomes = by_job(contest, chip, named)
            ours, helion, hand = (
                fastest(runs, outcomes, chip) for runs in contest.sides().values()
            )
            issue = contest.stated if chip == "v7x" else (None, None)
            rivals = {"Helion": helion} | ({"the others": hand} if contest.hand else {})
            names = ("the issue's Helion", "the issue's others")
            must = must_cell(ours, rivals, dict(zip(names, issue, strict=True)))
            shown = [contest.name, chip, label(ours.run) if ours.run else "-", time_cell(ours)]
            shown += [mib(ours.outcome.vmem_bytes) if ours.outcome else "-"]
            goals = goal_cells(contest, ours, goal_of(contest, outcomes, chip))
            told = " / ".join(figure(ms) if ms else "-" for ms in issue)
            return [*shown, rival_cell(helion), rival_cell(hand), told, must, *goals]

        rows.append(Row(contest_jobs(contest, chip), cells))
    heads = ("kernel", "chip", "ours: configuration", "ours, ms", "VMEM, MiB", "Helion, ms")
    heads += ("hand-written or XLA, ms", "the issue's: Helion / other", "must", "goal, ms")
    return Table((*heads, "goal met"), rows)


def share(outcome, part, whole="cycles"):
    """One count of the estimate as a share of another."""
    a, b = known(outcome, part), known(outcome, whole)
    return f"{100 * a / b:.0f}%" if a is not None and b else "-"


def around(outcome):
    """The share of the time that XLA's own ops around the kernel take."""
    inside, total = known(outcome, "pallas_ms"), known(outcome, "est_ms")
    return f"{100 * (1 - inside / total):.0f}%" if total and inside is not None else "-"


def limit_table(contests):
    """What limits ours."""
    rows = []
    for contest, chip in race_rows(contests):

        def cells(named, contest=contest, chip=chip):
            ours = fastest(contest.ours, by_job(contest, chip, named), chip)
            if ours.ms is None:
                return [contest.name, chip, *["-"] * 6]
            o = ours.outcome
            shown = [contest.name, chip, share(o, "mxu_busy_cycles"), slot_uses(o), spills(o)]
            return [*shown, share(o, "dma_wait_cycles"), around(o), mib(o.temp_bytes)]

        rows.append(Row(contest_jobs(contest, chip), cells))
    heads = ("kernel", "chip", "MXU busy", "fullest slots", "spills/fills", "waits for DMA")
    return Table((*heads, "XLA around it", "HBM temporaries, MiB"), rows)


# ---- what each choice gains


@dataclasses.dataclass(frozen=True)
class Choice:
    """A key of the configuration, two of its values, and a kernel on which they are compared."""

    key: str
    off: object
    on: object
    what: str
    run: Run


def attention_choice(key, off, on, width, blocks, loop):
    """A choice on attention with two heads."""
    what = f"attention D={width}, {loop} {list(blocks)}"
    return Choice(key, off, on, what, attention_run("ours", width, blocks, loop))


def plain_choice(key, off, on, kernel, args, blocks, loop=None, **tunables):
    """A choice on another kernel."""
    name = f"{kernel.rpartition(':')[2]} {loop or ''} {list(blocks)}"
    run = Run("ours", kernel, tuple(args), config_text(blocks, loop, **tunables))
    return Choice(key, off, on, re.sub(" +", " ", name), run)


SMALL = (1, 512, 1024)
# One line each: key, off, on, kernel. A key that this compiler does not know is left out.
CHOICES = [
    attention_choice("pallas_pre_broadcast", "off", "on", 256, SMALL, "emit_pipeline"),
    attention_choice("pallas_pre_broadcast", "off", "on", 128, SMALL, "fori_loop"),
    attention_choice("pallas_inloop_loads", "off", "auto", 128, SMALL, "fori_loop"),
    attention_choice("pallas_inloop_loads", "off", "auto", 256, SMALL, "emit_pipeline"),
    attention_choice("pallas_fori_dma", "on", "off", 256, SMALL, "fori_loop"),
    plain_choice(
        *("pallas_fori_dma", "on", "off", MATMUL, matmul_args(4096)),
        *((1024, 1024, 1024), "fori_loop"),
    ),
    plain_choice("pallas_row_split", "off", "on", SOFTMAX, ("bfloat16[4096,10240]",), (128,)),
    plain_choice("pallas_row_split", "off", "on", LAYER_NORM, layer_norm_args(10240), (128,)),
    attention_choice("pallas_loop_group", 1, 4, 256, SMALL, "emit_pipeline"),
    attention_choice("pallas_loop_group", 1, 4, 256, SMALL, "fori_loop"),
]


@functools.cache
def key_is_known(key):
    """Whether pallasc has a key of this name."""
    graph = json.loads((ROOT / "testdata" / "graphs" / "add.json").read_text())
    try:
        binding.compile(graph, {key: None}, "v7x")
    except CompileError as error:
        return all(d["code"] != "unknown-config-key" for d in error.diagnostics)
    return True


def choice_table():
    """Time with a choice off and on."""
    rows = []
    for choice in CHOICES:
        if not key_is_known(choice.key):
            continue
        for chip in CHIPS:
            jobs = {}
            for way in (choice.off, choice.on):
                config = {**json.loads(choice.run.config), choice.key: way}
                run = dataclasses.replace(choice.run, config=json.dumps(config))
                jobs[str(way)] = run.job(chip)

            def cells(named, choice=choice, chip=chip):
                pair = [named.get(str(way)) for way in (choice.off, choice.on)]
                times = [o and known(o, "est_ms") for o in pair]
                shown = [
                    figure(ms * choice.run.scale) if ms else ("-" if o is None else verdict(o)[:80])
                    for o, ms in zip(pair, times, strict=True)
                ]
                gain = f"{100 * (times[1] / times[0] - 1):+.1f}%" if all(times) else "-"
                values = f"`{choice.key}` {choice.off} / {choice.on}"
                sizes = " / ".join(mib(o.vmem_bytes) if o else "-" for o in pair)
                return [values, choice.what, chip, *shown, gain, sizes]

            rows.append(Row(jobs, cells))
    heads = ("choice: off / on", "kernel", "chip", "off, ms", "on, ms", "time", "VMEM, MiB")
    return Table(heads, rows)


# ---- runs that the tool does not vouch for

# (in the tool's words, what was found)
CAUSES = []


def doubts(outcomes):
    """Paragraphs on every run with a `~`, by what the tool says."""
    found = {}
    for job, outcome in outcomes.items():
        if outcome.static and not outcome.static["sim_ok"]:
            for error in outcome.static["errors"]:
                found.setdefault(kind_of(error), []).append((job, error))
    for cause, cases in found.items():
        names = sorted({f"{job.side} {job.kernel.rpartition(':')[2]}" for job, _ in cases})
        chips = "/".join(sorted({job.target for job, _ in cases}))
        known_text = next((text for words, text in CAUSES if words == cause), None)
        first = f"“{cases[0][1][:200]}”"
        yield f"- {', '.join(names)} ({chips}): {known_text or f'not explained yet: {first}'}"


def kind_of(error):
    """Which of CAUSES an error of the tool is; else its text."""
    return next((words for words, _ in CAUSES if words in error), error.partition(": ")[2][:60])
