"""The tables of `make bench`, of the rows in race.py: cells from outcomes, and what is in doubt."""

import dataclasses
import functools
import json

from hand_kernels import parsed
from measure import ROOT, CompileError, Job, binding, chips
from pallasc.profile import floor
from race import CHIPS, CHOICES, LAYER_NORM, LAYER_NORM_LOOP, Run
from sections import Row, Table, known, mib, slot_uses, spills, verdict

# ---- one side of a row


@dataclasses.dataclass
class Fastest:
    """The fastest of some runs: its run, job, outcome and scaled time; `run` None if none ran."""

    run: Run | None = None
    job: Job | None = None
    outcome: object = None
    ms: float | None = None


def fastest(runs, outcomes, chip):
    """The `Fastest` of runs on a chip; where none has a time, one that was measured."""
    found = []
    for run in runs:
        job = run.job(chip)
        if outcome := outcomes.get(job):
            found.append(Fastest(run, job, outcome, scaled(run, job, outcome)))
    return min(found, default=Fastest(), key=lambda f: (f.ms is None, f.ms or 0, not f.outcome.ok))


def scaled(run, job, outcome):
    """The time of a run as if whole, in ms; no shorter than reading its inputs takes; or None."""
    value = known(outcome, "est_ms") if outcome.ok else None
    if value is None:
        return None
    return run.scale * max(value, copy_ms(input_bytes(job.args), job.target))


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
    """The time of a side, `~` where a check does not vouch for it; or why there is none."""
    if side.run is None:
        return "-"
    if side.ms is None:
        return "not estimated" if side.outcome.ok else verdict(side.outcome)[:80]
    return ("~" if doubts_of(side.job, side.outcome) else "") + figure(side.ms)


def rival_cell(side):
    """A rival's time and configuration."""
    return time_cell(side) + ("" if side.ms is None else f" ({label(side.run, side.outcome)})")


# ---- the race


def floor_ms(run, outcome):
    """The floor of a run of ours on its chip, in ms: `profile.floor`; None without a plan."""
    plan = outcome.plan
    if not plan:
        return None
    arrays = {o["tensor"]: o for o in plan["operands"] if o["tensor"]}
    moved = sum(floor.array_bytes(o["dtype"], o["shape"]) for o in arrays.values())
    chip = plan["target"]
    cycles = floor.cycles(chip, moved, {"bfloat16": plan["flops"]})
    return run.scale * chips.CHIPS[chip].milliseconds(cycles)


def ratio_cell(ours, ms):
    """Our time as a multiple of another."""
    return f"{ours.ms / ms:.2f}" if ours.ms and ms else "-"


def peer_cell(ours, peers):
    """Our time as a multiple of the fastest peer's, bold where a peer is faster; whose that is."""
    times = {name: peer.ms for name, peer in peers.items() if peer.ms}
    if not times or ours.ms is None:
        return "-"
    name = min(times, key=times.get)
    text = ratio_cell(ours, times[name])
    return f"{f'**{text}**' if ours.ms > times[name] else text} {name}"


def race_rows(contests):
    """(contest, chip) of every row."""
    return [(contest, chip) for contest in contests for chip in CHIPS]


def contest_jobs(contest, chip):
    """{run: job} of all that a row needs."""
    runs = [run for runs in contest.sides().values() for run in runs]
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
            least = floor_ms(ours.run, ours.outcome) if ours.outcome else None
            shown = [contest.name, chip, label(ours.run) if ours.run else "-", time_cell(ours)]
            shown += [mib(ours.outcome.vmem_bytes) if ours.outcome else "-"]
            shown += [figure(least) if least else "-", ratio_cell(ours, least)]
            shown += [rival_cell(helion), rival_cell(hand)]
            return [*shown, peer_cell(ours, {"Helion": helion, "hand-written, XLA": hand})]

        rows.append(Row(contest_jobs(contest, chip), cells))
    heads = ("kernel", "chip", "ours: configuration", "ours, ms", "VMEM, MiB", "floor, ms")
    heads += ("of the floor", "Helion, ms")
    heads += ("hand-written or XLA, ms", "of the fastest peer")
    return Table(heads, rows)


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


# ---- runs that a check does not vouch for

UNSEEN = "less HBM traffic than the inputs hold"
# (the check's words, what was found)
CAUSES = [
    (
        UNSEEN,
        "XLA brings operands into VMEM before the kernel, beside what runs before it: those copies "
        "are not the kernel's. The time may be too low where HBM is what limits.",
    ),
]


def input_bytes(args):
    """Bytes of the tensors among the arguments."""
    tensors = [parsed(text) for text in args if text.endswith("]")]
    return sum(floor.array_bytes(name, shape) for shape, name in tensors)


def copy_ms(size, chip):
    """The time in which a chip's HBM moves so many bytes, ms."""
    return size / chips.CHIPS[chip].hbm_bytes_per_s * 1e3


def doubts_of(job, outcome):
    """What makes a run's time doubtful: texts of its checks, and of our own of its DMA."""
    static = outcome.static
    if not static:
        return []
    found = [] if static["sim_ok"] else list(static["errors"])
    unseen = copy_ms(input_bytes(job.args) - static["hbm_bytes"], job.target)
    if static["est_ms"] and unseen > 0.02 * static["est_ms"]:
        found.append(f"{UNSEEN}: {unseen * 1e3:.1f} us of copies")
    return found


def doubts(outcomes):
    """A paragraph on each kind of doubt, with the kernels that it befalls."""
    found = {}
    for job, outcome in outcomes.items():
        for text in doubts_of(job, outcome):
            found.setdefault(kind_of(text), []).append((job, text))
    for kind, cases in found.items():
        names = sorted({f"{job.side} {job.kernel.rpartition(':')[2]}" for job, _ in cases})
        chips = "/".join(sorted({job.target for job, _ in cases}))
        first = f"“{cases[0][1][:200]}”"
        finding = dict(CAUSES).get(kind, f"not explained yet: {first}")
        yield f"- “{kind}” ({', '.join(names)}; {chips}): {finding}"


def kind_of(text):
    """Which of CAUSES a text is; else its first words."""
    return next((words for words, _ in CAUSES if words in text), text.partition(": ")[2][:60])
