"""The tables of `make bench`, of the rows in race.py: cells from outcomes, and what is in doubt."""

import dataclasses
import functools
import json

import race_floor
import race_kept
from hand_kernels import parsed
from measure import ROOT, CompileError, Job, binding, chips
from pallasc.profile import floor
from race import CHIPS, CHOICES, CONTESTS, LAYER_NORM, LAYER_NORM_LOOP, PEERS, Run
from race_more import FULL, MORE
from sections import Row, Table, known, mib, slot_uses, spills, verdict

SIDES = ("ours", *PEERS)

# ---- one side of a row


@dataclasses.dataclass
class Fastest:
    """The fastest of some runs: its run, job, outcome and scaled time; `run` None if none ran.

    Of a row of docs/serving.md, and of a sum of kernels, `name` and `ms` alone; `sure` says whether
    checks vouch for it.
    """

    run: Run | None = None
    job: Job | None = None
    outcome: object = None
    ms: float | None = None
    name: str = ""
    sure: bool = True


def fastest(runs, outcomes, chip):
    """The `Fastest` of runs on a chip; where none has a time, one that was measured."""
    found = []
    for run in runs:
        job = run.job(chip)
        if outcome := outcomes.get(job):
            doubted = bool(doubts_of(job, outcome))
            ms = scaled(run, job, outcome)
            found.append(Fastest(run, job, outcome, ms, label(run, outcome), not doubted))
    return min(found, default=Fastest(), key=lambda f: (f.ms is None, f.ms or 0, not f.outcome.ok))


def sides_of(contest, chip, outcomes):
    """{"ours" or one of PEERS: its `Fastest`} of a row."""
    found = {side: fastest(contest.runs(side), outcomes, chip) for side in SIDES}
    if contest.serving:
        found |= serving_sides(contest.serving, chip)
    parts = [sides_of(part, chip, outcomes) for part in contest.parts]
    for side in SIDES if parts else ():
        several = [part[side] for part in parts]
        if found[side].run is None and all(part.ms for part in several):
            total = sum(part.ms for part in several)
            names = " + ".join(part.name for part in several)
            sure = all(part.sure for part in several)
            found[side] = Fastest(ms=total, name=names, sure=sure)
    return {side: followed(contest, chip, fast) for side, fast in found.items()}


# A time below so much of the floor is none: the instrument lost loops of XLA's, or SparseCores.
BELIEVED = 0.9


def followed(contest, chip, side):
    """A side; without its time where no kernel can be so fast."""
    least = floor_ms(contest, chip, race_kept.needs())
    if not least or not side.ms or side.ms > BELIEVED * least:
        return side
    return dataclasses.replace(side, ms=None, name=f"not followed: {figure(side.ms)}")


def serving_sides(name, chip):
    """The same of a row of docs/serving.md, of those that it has: of the Pallas kernels alone."""
    found = {}
    clock = chips.CHIPS[chip]
    for kernel, entry in serving_entries().get(name, {}).get(chip, {}).items():
        side = "ours" if kernel == "pallasc" else kernel.partition(" ")[0]
        if "cycles" in entry:
            ms = clock.milliseconds(entry["cycles"])
            what = kernel.partition(" ")[2]
            if side not in found or ms < found[side].ms:
                found[side] = Fastest(ms=ms, name=what, sure=entry["sure"])
    return found


@functools.cache
def serving_entries():
    """bench/serving.json: {row: {chip: {kernel: entry}}}."""
    return json.loads((ROOT / "bench" / "serving.json").read_text())


# What the instrument says of a time that is not that of the whole module.
PARTIAL = "each kernel is counted once"


def scaled(run, job, outcome):
    """The time of a run as if whole, in ms; no shorter than reading its inputs takes; or None."""
    value = known(outcome, "est_ms") if outcome.ok else None
    partial = any(PARTIAL in text for text in known(outcome, "warnings") or ())
    if value is None or partial:
        return None
    return run.scale * max(value, copy_ms(input_bytes(job.args), job.target))


def label(run, outcome=None):
    """The configuration of a run in a few words; with the blocks that were taken."""
    config = json.loads(run.config)
    if run.side == "hand":
        name = run.kernel.partition(".")[2]
        return " ".join([name, "/".join(map(str, config.values()))]).strip()
    if not config:
        return "nothing given"
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


def mark(side):
    """A `~` where a check does not vouch for the time of a side."""
    return "" if side.sure or side.ms is None else "~"


def time_cell(side):
    """The time of a side, marked; or why there is none."""
    if side.ms is not None:
        return mark(side) + figure(side.ms)
    if side.run is None or side.name.startswith("not followed"):
        return side.name or "-"
    return "not followed" if side.outcome.ok else why_not(side.outcome)


def why_not(outcome):
    """Why there is no time, in few words."""
    kinds = {"vmem": "out of VMEM", "timeout": "no result in time"}
    return kinds.get(outcome.kind) or verdict(outcome)[:60]


def rival_cell(side):
    """A rival's time and configuration."""
    return time_cell(side) + ("" if side.ms is None or not side.name else f" ({side.name})")


# ---- the race


def best_peer(sides):
    """(name, `Fastest`) of the fastest peer that has a time; None where none has."""
    times = [(sides[name].ms, name) for name in PEERS if sides[name].ms]
    if not times:
        return None
    _, name = min(times)
    return name, sides[name]


def ratio_cell(side, ms):
    """A side's time as a multiple of another."""
    return f"{side.ms / ms:.2f}" if side.ms and ms else "-"


def peer_cell(sides):
    """Our time as a multiple of the fastest peer's, bold where a peer is faster; whose that is."""
    peer, ours = best_peer(sides), sides["ours"]
    if not peer or ours.ms is None:
        return "-"
    text = ratio_cell(ours, peer[1].ms)
    return f"{f'**{text}**' if ours.ms > peer[1].ms else text} {peer[0]}"


def race_rows(contests):
    """(contest, chip) of every row."""
    return [(contest, chip) for contest in contests for chip in CHIPS]


def contest_jobs(contest, chip):
    """{run: job} of all that a row needs."""
    runs = [run for runs in contest.sides().values() for run in runs]
    found = {run: run.job(chip) for run in runs}
    for part in contest.parts:
        found |= contest_jobs(part, chip)
    return found


def by_job(jobs, named):
    """{job: outcome} from {run: outcome}."""
    return {jobs[run]: outcome for run, outcome in named.items()}


def table_of(contests, heads, cells_of):
    """A table with a row for each contest and chip, of cells_of(contest, chip, sides)."""
    rows = []
    for contest, chip in race_rows(contests):
        jobs = contest_jobs(contest, chip)

        def cells(named, contest=contest, chip=chip, jobs=jobs):
            sides = sides_of(contest, chip, by_job(jobs, named))
            return [contest.name, chip, *cells_of(contest, chip, sides)]

        rows.append(Row(jobs, cells))
    return Table(("kernel", "chip", *heads), rows)


def floor_ms(contest, chip, needs):
    """The floor of a row, ms; None where it is not known what it needs."""
    found = needs.get(contest.name)
    return chips.CHIPS[chip].milliseconds(race_floor.cycles(chip, found)) if found else None


def percent(part, whole):
    """A share in percent, or "-"."""
    return f"{100 * part / whole:.0f}%" if part is not None and whole else "-"


def floor_table(contests, needs):
    """Each side's share of the floor, and of the best peer's gap what ours closes."""

    def cells(contest, chip, sides):
        least = floor_ms(contest, chip, needs)
        if least is None:
            return ["-"] * (len(SIDES) + 4)
        cycles = least * chips.CHIPS[chip].clock_hz / 1e6
        shares = [mark(sides[side]) + percent(least, sides[side].ms) for side in SIDES]
        return [f"{cycles:,.1f}", figure(least), *shares, *gap_cells(sides, least)]

    heads = ("floor, kcycles", "floor, ms", *SIDES, "best peer", "of its gap, ours closes")
    return table_of(contests, heads, cells)


def gap_cells(sides, least):
    """The fastest peer, and how much of its time above the floor ours does without."""
    peer, ours = best_peer(sides), sides["ours"]
    if not peer:
        return ["-", "-"]
    gap = peer[1].ms - least
    if ours.ms is None or gap <= 0:
        return [peer[0], "-"]
    closed = percent(peer[1].ms - ours.ms, gap)
    return [peer[0], f"**{closed}**" if ours.ms > peer[1].ms else closed]


def race_table(contests):
    """Ours beside the rivals."""

    def cells(_contest, _chip, sides):
        ours = sides["ours"]
        memory = mib(ours.outcome.vmem_bytes) if ours.outcome else "-"
        rivals = [rival_cell(sides[name]) for name in PEERS]
        return [ours.name or "-", time_cell(ours), memory, *rivals, peer_cell(sides)]

    rivals = (f"{name}, ms" for name in PEERS)
    heads = ("ours: configuration", "ours, ms", "VMEM, MiB", *rivals, "of the fastest peer")
    return table_of(contests, heads, cells)


def behind(contests, outcomes):
    """A line for each row in which a peer is faster, the farthest behind first."""
    found = []
    for contest, chip in race_rows(contests):
        sides = sides_of(contest, chip, outcomes)
        peer, ours = best_peer(sides), sides["ours"]
        if peer and ours.ms and ours.ms > peer[1].ms:
            name, fast = peer
            text = f"{time_cell(ours)} ms ({ours.name}), {name} {rival_cell(fast)}"
            found.append((ours.ms / fast.ms, f"{contest.name}, {chip}: {text}"))
    return [f"- {ratio:.2f}: {text}" for ratio, text in sorted(found, reverse=True)]


# Who has kernels of a matmul with more around it.
AROUND = ("ours", "Helion", "XLA")


def around_table(contests):
    """What a matmul takes with more around it, over the plain one, for as many FLOP."""
    plain = {contest.name: contest for contest in CONTESTS}
    rows = []
    for contest, chip in race_rows([contest for contest in contests if contest.over]):
        jobs = contest_jobs(contest, chip) | contest_jobs(plain[contest.over], chip)

        def cells(named, contest=contest, chip=chip, jobs=jobs):
            outcomes = by_job(jobs, named)
            sides = sides_of(contest, chip, outcomes)
            base = sides_of(plain[contest.over], chip, outcomes)
            matmuls = 2 if "SwiGLU" in contest.name else 1
            shown = []
            for side in AROUND:
                ratio = ratio_cell(sides[side], matmuls * (base[side].ms or 0))
                shown.append(f"{time_cell(sides[side])} ({ratio})")
            return [contest.name, chip, *shown]

        rows.append(Row(jobs, cells))
    return Table(
        ("kernel", "chip", *(f"{side}, ms (over its plain matmul)" for side in AROUND)), rows
    )


def masked_table(contests, needs):
    """Cycles for each FLOP of the sub-blocks that a mask leaves, over those of full attention."""
    full = next(contest for contest in CONTESTS if contest.name == FULL)
    rows = []
    for contest, chip in race_rows([contest for contest in contests if contest.sub_flops]):
        jobs = contest_jobs(contest, chip) | contest_jobs(full, chip)

        def cells(named, contest=contest, chip=chip, jobs=jobs):
            outcomes = by_job(jobs, named)
            sides, base = (sides_of(c, chip, outcomes) for c in (contest, full))
            flops = contest.sub_flops * contest.scale
            whole = sum(needs[FULL]["flops"].values()) if FULL in needs else 0
            shown = []
            for side in SIDES:
                known = sides[side].ms and base[side].ms and whole
                ratio = sides[side].ms / flops / (base[side].ms / whole) if known else None
                shown.append(f"{ratio:.2f}" if ratio else "-")
            return [contest.name, chip, f"{flops / 1e12:.2f}", *shown]

        rows.append(Row(jobs, cells))
    return Table(("kernel", "chip", "TFLOP of sub-blocks", *SIDES), rows)


# ---- how long the compiler takes

SLOW_S = 20


def compile_cell(side):
    """Seconds of the compiler for a side's fastest, and bundles of its kernels."""
    if side.outcome is None or not side.outcome.ok:
        return "-"
    seconds, bundles = side.outcome.compile_s, known(side.outcome, "bundles")
    text = "-" if seconds is None else f"{seconds:.1f}"
    return f"{text}, {bundles:,.0f}" if bundles else text


def compile_table(contests):
    """Seconds that libtpu takes, and how long the schedules are."""

    def cells(_contest, _chip, sides):
        return [compile_cell(sides[side]) for side in SIDES]

    return table_of([c for c in contests if not c.serving], SIDES, cells)


def slow_compiles(contests, outcomes):
    """A line for each of ours that takes longer than SLOW_S where a peer's does not."""
    for contest, chip in race_rows(contests):
        sides = sides_of(contest, chip, outcomes)
        times = {
            name: side.outcome.compile_s
            for name, side in sides.items()
            if side.outcome and side.outcome.compile_s is not None
        }
        ours = times.pop("ours", 0)
        less = {name: seconds for name, seconds in times.items() if seconds < SLOW_S}
        if ours > SLOW_S and less:
            text = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in less.items())
            yield f"- {contest.name}, {chip}: ours {ours:.1f} s; {text}"


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

    def cells(_contest, _chip, sides):
        o = sides["ours"].outcome
        if sides["ours"].ms is None or o is None:
            return ["-"] * 6
        shown = [share(o, "mxu_busy_cycles"), slot_uses(o), spills(o)]
        return [*shown, share(o, "dma_wait_cycles"), around(o), mib(o.temp_bytes)]

    heads = ("MXU busy", "fullest slots", "spills/fills", "waits for DMA")
    heads += ("XLA around it", "HBM temporaries, MiB")
    return table_of([c for c in contests if c.ours], heads, cells)


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
SPARSE = "runs on SparseCores"
# (the check's words, what was found)
CAUSES = [
    (
        SPARSE,
        "XLA gives gathers to SparseCores, which the instrument does not know: the time is that of "
        "what the TensorCore does, at least.",
    ),
    (
        UNSEEN,
        "XLA brings operands into VMEM before the kernel, beside what runs before it, or a table "
        "names blocks that are not read. The time may be too low where HBM is what limits.",
    ),
    (
        "the jaxpr's dots need",
        "XLA computes products of one or a few rows on the vector units, where there is no matmul "
        "to count.",
    ),
]


def input_bytes(args):
    """Bytes of the tensors among the arguments, or those of them that a row says are read."""
    if args in (named := {row.ours[0].args: row.moved["read"] for row in MORE if row.moved}):
        return named[args]
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
    found += [text for text in static.get("warnings", ()) if SPARSE in text]
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
