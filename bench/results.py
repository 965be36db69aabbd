"""`make bench`: the race table, ours beside Helion's, hand-written kernels and XLA's, on two chips.

    make bench                          everything, into docs/results.md
    make bench ROW=split-K              rows whose name holds this, on standard output
    make bench ROW=D=256 SIDE=ours      only ours anew; the others as far as they are known

Every outcome is kept (.cache/bench) by the text of the module and all else that it depends on, so
after a change of the compiler only the kernels that changed are compiled again. A first run takes
hours: about 300 compiles, each with a simulated run.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "whole" / "oracle"))

import kernels
import measure
import page as oracle_page
import race
import race_tables
import tuners

SIDES = ("ours", "helion", "hand")
HEAD = """# The race

Written by `make bench`; nothing in it is edited by hand. jax {jax}, libtpu {libtpu}, Helion
{helion}, tokamax {tokamax}. There was no TPU: **every time here is an estimate.** The same TPU
compiler compiles all sides ahead of time, and its schedule is executed with a rough model of DMA
and of the MXU's queues ([profile](profile.md)). It is for ratios in one table, not for absolute
times.

- Time is that of the whole jitted module: views, relayout copies and what XLA does after the kernel
  included.
- Attention is bfloat16, S=8192, with lse for ours and Helion's, without for the others. It is
  measured on eight heads and multiplied by 32, to stand for B=8 H=32: the first load of K and V,
  which nothing hides, would count too much on fewer. Helion raises block_b to 8, or to the number
  of heads if that is less: it is measured on as many heads as block_b has, so that it keeps to the
  configuration. With all 256 heads its [2, 512, 2048] takes block_b 8, which does not fit
  ([kernels.md](kernels.md)).
  "Best of any configuration" has its raised block_b too.
- fori_loop of Helion's has two buffers for each input as ours; its default of one is slower.
- The row of S=131072 has K and V whole and {rows} rows of Q, times {times}; Helion's {helion_rows}.
- Of each side the fastest of a short list counts (bench/race.py). Helion's are its own output,
  compiled as it is; hand-written ones are those that ship with jax, and tokamax's splash attention
  with its experimental scheduler; XLA's are plain jax.numpy.
- Floor: the longer of two times, that of the matmuls at the MXU's bfloat16 peak and that of reading
  every input and writing every output once at full HBM bandwidth. No kernel is faster.
- "of the fastest peer": our time over that of the faster of the two columns before it; bold where
  that peer is faster.
- A `~` marks a run that a check does not vouch for: the instrument's own, or one that compares the
  HBM traffic that was seen with the size of the inputs. The last section says what was found. No
  time is below what reading the inputs once takes at full bandwidth, whatever was counted.
"""
NO_TOKAMAX = """
**tokamax is not installed, so its kernels are left out**: `pip install -r requirements-bench.txt`
in .venv-export.
"""


def chosen_contests(row):
    """The contests whose name holds `row`, or all."""
    found = [contest for contest in race.CONTESTS if row is None or row in contest.name]
    if not found:
        names = "\n  ".join(contest.name for contest in race.CONTESTS)
        sys.exit(f"bench: no row with {row!r}; the rows are:\n  {names}")
    return found


def known_outcomes(jobs, sides, workers):
    """{job: outcome} of the jobs of these sides, and of the others as far as they are known."""
    wanted = [job for job in jobs if job.side in sides]
    outcomes = kernels.measure_all(wanted, workers)
    for job in dict.fromkeys(jobs):
        if job not in outcomes and (found := measure.measure(job, remembered=True)):
            outcomes[job] = found
    return outcomes


def section(title, text, table, outcomes):
    """A table under its title."""
    return f"## {title}\n\n{text}\n\n{kernels.table_text(table, outcomes)}"


def page(contests, choices, outcomes):
    """The sections."""
    yield section("Ours and the others", RACE_TEXT, race_tables.race_table(contests), outcomes)
    yield section("What limits ours", LIMIT_TEXT, race_tables.limit_table(contests), outcomes)
    if choices:
        yield section("What each choice gains", choice_text(), choices, outcomes)
    lines = list(race_tables.doubts(outcomes))
    yield "\n".join(["## Runs with a `~`", "", *(lines or ["None."])]) + "\n"
    yield tuners.section()
    yield oracle_page.section()


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
    tables = [race_tables.race_table(contests), *([choices] if choices else [])]
    jobs = [job for table in tables for row in table.rows for job in row.jobs.values()]
    outcomes = known_outcomes(jobs, sides, options.j)
    versions = dict(zip(NAMES, measure.versions(*NAMES), strict=True))
    head = HEAD.format(
        rows=race.LONG_ROWS,
        helion_rows=race.LONG_ROWS_HELION,
        times=race.LONG // race.LONG_ROWS,
        **versions,
    )
    head += "" if race.has_tokamax() else NO_TOKAMAX
    text = "\n".join([head, *page(contests, choices, outcomes)])
    print(text, end="")
    if options.o:
        options.o.write_text(text)


NAMES = ("jax", "libtpu", "helion", "tokamax")

if __name__ == "__main__":
    main()
