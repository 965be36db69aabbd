"""`make bench`: the race table, ours beside Helion's, hand-written kernels and XLA's, on two chips.

    make bench                          everything, into docs/results.md
    make bench ROW=split-K              measures rows whose name holds this; prints them
    make bench ROW=D=256 SIDE=ours      only ours anew; the others as far as they are known
    make bench KNOWN=1                  the page of what is known, nothing measured

Every outcome is kept (.cache/bench) by the text of the module and all else that it depends on, so
after a change of the compiler only the kernels that changed are compiled again; what was measured
last stands in bench/race.jsonl, of which the page is written. A first run takes many hours: about
700 compiles, each with a simulated run. The first run of each side of every row comes first, then
each second one.
"""

import argparse
import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "whole" / "oracle"))

import kernels
import measure
import page as oracle_page
import race
import race_floor
import race_kept
import race_more
import race_tables
import tuners
from pallasc.profile import chips

SIDES = ("ours", "helion", "hand")
HEAD = """# The race

Written by `make bench`; nothing in it is edited by hand. jax {jax}, libtpu {libtpu}, Helion
{helion}, tokamax {tokamax}. There was no TPU: **every time here is an estimate.** The same TPU
compiler compiles all sides ahead of time, and its schedule is executed with a rough model of DMA
and of the MXU's queues ([profile](profile.md)). It is for ratios in one table, not for absolute
times.

- Time is that of the whole jitted module: views, relayout copies, what XLA does after the kernel,
  and operands that it brings into VMEM before it. It may begin such a copy before the module, in
  what another program leaves of HBM's bandwidth (`cross_program_prefetch_index`); here nothing runs
  before.
- Attention is bfloat16, S=8192, with lse for ours and Helion's, without for the others. It is
  measured on eight heads and multiplied by 32, to stand for B=8 H=32: the first load of K and V,
  which nothing hides, would count too much on fewer. Helion raises block_b to 8, or to the number
  of heads if that is less: it is measured on as many heads as block_b has, so that it keeps to the
  configuration. With all 256 heads its [2, 512, 2048] takes block_b 8, which does not fit
  ([kernels.md](kernels.md)).
  "Best of any configuration" has its raised block_b too.
- fori_loop of Helion's has two buffers for each input as ours; its default of one is slower.
- The row of S=131072 has K and V whole and {rows} rows of Q, times {times}; Helion's {helion_rows}.
- Of each side the fastest of a short list counts (bench/race.py, bench/race_more.py). Helion's are
  its own output, compiled as it is; XLA's are plain jax.numpy.
- Rows of [serving](serving.md) have the cycles that stand there: of the Pallas kernels alone, all
  with the same data. XLA has no op for most of them, or one that data steer.
- "of the fastest peer": our time over that of the fastest of the columns before it; bold where that
  peer is faster. "-": not measured, or there is no such kernel. "Not followed": the time would be
  that of a part, because the instrument lost a loop of XLA's, or because SparseCores do the
  work, as that of a gather of rows.
- Kernels by hand: those that ship with jax; tokamax's splash attention with its experimental
  scheduler, its backward, which adds up dq behind its kernel and takes delta from `out`, and its
  linear softmax cross-entropy, which gives the sum of the losses.
- A `~` marks a run that a check does not vouch for: the instrument's own, or one that compares the
  HBM traffic that was seen with the size of the inputs. A section below says what was found. No
  time is below what reading the inputs once takes at full bandwidth, whatever was counted.
"""
NO_TOKAMAX = """
**tokamax is not installed, so its kernels are left out**: `pip install -r requirements-bench.txt`
in .venv-export.
"""


def chosen_contests(row):
    """The contests whose name holds `row`, or all."""
    every = [*race.CONTESTS, *race_more.MORE]
    found = [contest for contest in every if row is None or row in contest.name]
    if not found:
        names = "\n  ".join(contest.name for contest in every)
        sys.exit(f"bench: no row with {row!r}; the rows are:\n  {names}")
    return found


def in_rounds(contests):
    """Jobs of contests: the first run of each side and chip, then each second one, and so on."""
    sides = [
        [run.job(chip) for run in runs]
        for contest in contests
        for chip in race.CHIPS
        for runs in contest.sides().values()
    ]
    return [job for found in itertools.zip_longest(*sides) for job in found if job]


def known_outcomes(jobs, sides, workers):
    """{job: outcome} of the jobs of these sides, and of the others as far as they are known.

    What the file says of a kernel that is the same now is not asked for again.
    """
    kept = race_kept.outcomes()
    wanted, keys = [], {}
    for job in dict.fromkeys(job for job in jobs if job.side in sides):
        keys[job] = measure.job_key(job)
        if job not in kept or kept[job].key != keys[job]:
            wanted.append(job)
    outcomes = {job: found.outcome for job, found in kept.items()}
    for job, found in kernels.measured(wanted, workers, compiles=True):
        outcomes[job] = found
        race_kept.store(job, found, "" if found.kind in ("crash", "timeout") else keys[job])
    for job in dict.fromkeys(jobs):
        if job not in outcomes and (found := measure.measure(job, remembered=True)):
            outcomes[job] = found
            race_kept.store(job, found, measure.job_key(job))
    return outcomes


def missing(jobs, outcomes):
    """Lines that name the jobs that nobody has measured: the fastest may be among them."""
    return [
        f"not measured: {job.side} {job.kernel} {', '.join(job.args)} {job.config} on {job.target}"
        for job in dict.fromkeys(jobs)
        if job not in outcomes
    ]


def outdated(contests, choices):
    """Names of rows of which a kept time of ours is of a kernel that is printed otherwise now."""
    jobs = {c.name: [run.job(chip) for run in c.ours for chip in race.CHIPS] for c in contests}
    if choices:
        jobs["what each choice gains"] = [job for row in choices.rows for job in row.jobs.values()]
    kept = race_kept.outcomes()

    def is_old(job):
        return job in kept and kept[job].key != measure.job_key(job)

    return [name for name, found in jobs.items() if any(map(is_old, found))]


def known_needs(contests, ask):
    """{row: what it needs}; those that are not known are counted if `ask` says so."""
    found = race_kept.needs()
    for contest in contests if ask else ():
        now = race_floor.needs_of(contest)
        if found.get(contest.name) != now:
            race_kept.store_needs(contest.name, now)
            found[contest.name] = now
    return found


def section(title, text, table, outcomes):
    """A table under its title."""
    return f"## {title}\n\n{text}\n\n{kernels.table_text(table, outcomes)}"


def page(contests, choices, outcomes, needs):
    """The sections."""

    def of(title, text, table):
        return section(title, text, table, outcomes) if table.rows else ""

    yield of("The floor", FLOOR_TEXT, race_tables.floor_table(contests, needs))
    slower = race_tables.behind(contests, outcomes)
    yield "\n".join([BEHIND_TEXT, "", *(slower or ["None."])]) + "\n"
    yield of("Ours and the others", RACE_TEXT, race_tables.race_table(contests))
    yield of("More around a matmul", AROUND_TEXT, race_tables.around_table(contests))
    yield of("Masks", MASKED_TEXT, race_tables.masked_table(contests, needs))
    yield of("What limits ours", LIMIT_TEXT, race_tables.limit_table(contests))
    yield of("How long the compiler takes", COMPILE_TEXT, race_tables.compile_table(contests))
    slow = list(race_tables.slow_compiles(contests, outcomes))
    yield "\n".join([SLOW_TEXT, "", *(slow or ["None."])]) + "\n"
    if choices:
        yield of("What each choice gains", choice_text(), choices)
    asked = set(in_rounds(contests))
    old = outdated(contests, choices)
    yield OLD_TEXT + "\n\n" + (f"{'; '.join(old)}." if old else "None.") + "\n"
    lines = list(race_tables.doubts({job: o for job, o in outcomes.items() if job in asked}))
    yield "\n".join(["## Runs with a `~`", "", *(lines or ["None."])]) + "\n"
    yield tuners.section()
    yield oracle_page.section()


CYCLES = " and ".join(f"{chips.CHIPS[chip].dma_latency} on {chip}" for chip in race.CHIPS)
FLOOR_TEXT = f"""No kernel is faster than the floor. It is the longest of three ways through a
kernel, each with the latency of the last store behind it, by the model of [profile](profile.md):
HBM moves one copy at a time, and a copy is there, or is done, so many cycles after its last byte:
{CYCLES}.

- Every input read and every output written once, at full HBM bandwidth.
- Every input read, the latency of the last, and the smallest store: a vector register of 4 KiB.
- What the first matmul needs, which is the weights of a matrix unit (256 x 256, or all that there
  are) and the rows that one `vmatmul` enters, and its latency; all matmuls at the peak of the
  matrix units; and the smallest store.

Peaks, of a TensorCore: bfloat16 920 TFLOP/s on v6e and 1155 on v7x, HBM 1.64 and 3.70 TB/s. int8
has twice the rate on v6e and float8 on v7x; int8 on v7x and float8 on v6e have that of bfloat16:
jax/_src/tpu_info.py says so, or knows no rate, and schedules agree, which have int8 on v7x widened
to bfloat16 before its matmuls. The latency is `dma_latency` of python/pallasc/profile/chips.py:
rough, and chosen once for all kernels. What vector and scalar units do is not in the floor:
attention's exponentials or one query row for each head keep every kernel above it. Masks count
what is seen, data what they name ([coverage](coverage.md)).

A side's share is the floor over its time. The last column says how much of the best peer's time
above the floor ours does without: 100% would be the floor; bold and negative, ours is slower.

    make bench KNOWN=1          # this page, of bench/race.jsonl and bench/serving.json
"""
AROUND_TEXT = """Milliseconds, and in brackets over the same side's plain matmul of 4096^3 in
bfloat16 (twice that where there are two products): 1.00 would be all of it hidden."""
MASKED_TEXT = """Cycles for each FLOP of the sub-blocks of 256 x 256 scores that hold one that is
seen, over those of full attention (D=128, best of any configuration) of the same side. 1.00: what
is masked costs nothing, and no more is computed than such sub-blocks. Ids of segments are data that
no run here knows: they are all alike."""
COMPILE_TEXT = """Seconds of a CPU that libtpu takes for the fastest of each side, its dumps
included where that is at most 20, without them where it is more: nobody but the instrument asks for
them. And bundles of its kernels' schedules."""
BEHIND_TEXT = """## Where a peer is faster

Our time over that of the fastest peer, and both:"""
OLD_TEXT = """## Times of an earlier compiler

Rows with a time of ours, not always its fastest, of a kernel that is printed otherwise now, or
whose text was not kept:"""
SLOW_TEXT = f"Of ours, those that take more than {race_tables.SLOW_S} s where a peer's takes less:"
RACE_TEXT = "Milliseconds; the configuration of the fastest stands beside its time."
LIMIT_TEXT = """Of the fastest of ours. MXU busy: the share of the cycles in which the MXU has work.
Slots: how full the slots of the schedule's bundles are, in the kernel that takes longest. Spills
and fills as they stand in the schedule."""


def choice_text():
    """What stands above the table of choices."""
    keys = dict.fromkeys(choice.key for choice in race.CHOICES)
    unknown = [f"`{key}`" for key in keys if not race_tables.key_is_known(key)]
    text = "One key of the configuration off and on, all else being equal."
    return f"{text} Not known to this compiler: {', '.join(unknown)}." if unknown else text


def main():
    """Measures, prints; writes the page with -o."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", metavar="TEXT", help="only rows whose name holds this")
    parser.add_argument("--side", choices=SIDES, help="measure only this side")
    parser.add_argument("-o", metavar="FILE", type=Path, help="write the page there")
    parser.add_argument("-j", metavar="N", type=int, default=1, help="compiles at a time")
    parser.add_argument("--known", action="store_true", help="compile nothing: what is known")
    options = parser.parse_args()
    sides = () if options.known else (options.side,) if options.side else SIDES
    contests = chosen_contests(options.row)
    choices = None if options.row else race_tables.choice_table()
    jobs = in_rounds(contests)
    jobs += [job for row in (choices.rows if choices else ()) for job in row.jobs.values()]
    needs = known_needs(contests, not options.known)
    outcomes = known_outcomes(jobs, sides, options.j)
    for line in missing(jobs, outcomes):
        print(line, file=sys.stderr)
    versions = dict(zip(NAMES, measure.versions(*NAMES), strict=True))
    head = HEAD.format(
        rows=race.LONG_ROWS,
        helion_rows=race.LONG_ROWS_HELION,
        times=race.LONG // race.LONG_ROWS,
        **versions,
    )
    head += "" if race.has_tokamax() else NO_TOKAMAX
    text = "\n".join([head, *page(contests, choices, outcomes, needs)])
    print(text, end="")
    if options.o:
        options.o.write_text(text)


NAMES = ("jax", "libtpu", "helion", "tokamax")

if __name__ == "__main__":
    main()
