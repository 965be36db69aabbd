"""Compiles kernels of this compiler and of Helion for TPUs, and writes what each takes.

    make bench-kernels                      all sections, into docs/kernels.md
    make bench-kernels SECTION=fori_dma     one, on standard output

Each section is a table or more of bench/sections.py. No TPU is needed: VMEM and HBM temporaries are
what the TPU compiler reports, times are estimated from its schedules (see bench/measure.py).
"""

import argparse
import concurrent.futures
import importlib.metadata
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import default_sizes
import measure
import sections

HEAD = """# What kernels take on a TPU

Written by `make bench-kernels`; nothing in it is edited by hand. jax {jax}, libtpu {libtpu}, Helion
{helion}; both sides are compiled by the same libtpu, ahead of time, each for the chip that a row
names. There was no TPU.

- VMEM and HBM temporaries are what the compiler reports of the kernel it compiled. Over the limit,
  VMEM is what it asked for.
- **Times, cycles and slot use are estimates.** The compiler's schedule is executed with a rough
  model of DMA and of the MXU's queues ([profile](profile.md)). They are for comparing rows of one
  table, not absolute. A `~` marks a run that a check does not vouch for.
- Helion's kernel is its own output for the same kernel and configuration: its `_launcher` call is
  caught and rebuilt by its own `_pallas_compile_jit_fn`. What its wrapper does before (the
  transpose of K) is not counted. Keys that only pallasc knows are left out.
"""


def cells_row(cells):
    """A row of a Markdown table."""
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |\n"


def table_text(table, outcomes):
    """A table as Markdown, from {job: outcome}; what is not there, the cells do without."""
    lines = [cells_row(table.heads), cells_row(["---"] * len(table.heads))]
    for row in table.rows:
        found = {name: outcomes[job] for name, job in row.jobs.items() if job in outcomes}
        lines.append(cells_row(row.cells(found)))
    text = f"{table.text}\n\n" if table.text else ""
    return text + "".join(lines) + "".join(f"\n{note}\n" for note in table.notes(outcomes))


def measure_all(jobs, workers):
    """{job: outcome} of distinct jobs, with a line of progress for each."""
    return dict(measured(jobs, workers))


def measured(jobs, workers, **asked):
    """Yields (job, outcome) of distinct jobs as they are done, with a line of progress for each.

    `asked`: as `measure.measure` takes it.
    """
    distinct = list(dict.fromkeys(jobs))
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        waiting = {pool.submit(measure.measure, job, **asked): job for job in distinct}
        for count, done in enumerate(concurrent.futures.as_completed(waiting), 1):
            job, outcome = waiting[done], done.result()
            took = f"{outcome.seconds:.0f} s"
            where = f"{job.side} {job.kernel.rpartition(':')[2]} {job.target} {job.config}"
            print(f"[{count}/{len(distinct)}] {outcome.kind} {took} {where}", file=sys.stderr)
            yield job, outcome


def section_text(section, outcomes):
    """A section as Markdown."""
    command = f"    make bench-kernels SECTION={section.name}\n"
    parts = [f"## {section.title}\n", command, f"{section.text}\n"]
    return "\n".join([*parts, *(table_text(table, outcomes) for table in section.tables)])


def main():
    """Measures the sections asked for; prints them, writes the page with -o."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = [*sections.SECTIONS, default_sizes.DEFAULTS]
    known = [section.name for section in every]
    parser.add_argument("--section", action="append", choices=known, help="only this; repeatable")
    parser.add_argument("-o", metavar="FILE", type=Path, help="write the page there")
    parser.add_argument("-j", metavar="N", type=int, default=1, help="compiles at a time")
    options = parser.parse_args()
    chosen = [s for s in every if s.name in (options.section or known)]
    jobs = [
        job
        for section in chosen
        for table in section.tables
        for row in table.rows
        for job in row.jobs.values()
    ]
    outcomes = measure_all(jobs, options.j)
    names = ("jax", "libtpu", "helion")
    head = HEAD.format(**{name: importlib.metadata.version(name) for name in names})
    text = "\n".join([head, *(section_text(section, outcomes) for section in chosen)])
    print(text, end="")
    if options.o:
        options.o.write_text(text)


if __name__ == "__main__":
    main()
