"""Serving kernels beside those that people wrote: cycles of both on the same data.

    python bench/serving.py                       the table
    python bench/serving.py --row grouped         rows whose name holds the text
    python bench/serving.py -o docs/serving.md    into the page, where other rows stay

A row is one of docs/coverage.md at its production size, with the lengths and tables by which its
cycles are estimated there. A public kernel is given the same ones, in its own layout; where it has
block sizes to choose, the best of those named here counts. A kernel whose package is not installed
(requirements-bench.txt; tpu-inference is asked for in the folder TPU_INFERENCE) is left out.
"""

import argparse
import dataclasses
import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / part) for part in ("python", "tests", "tests/whole")]

import numpy as np  # noqa: E402
import proof  # noqa: E402
from coverage import row as coverage  # noqa: E402
from pallasc.errors import PallascError  # noqa: E402
from pallasc.profile.run import profile  # noqa: E402

# What a device of a chip calls itself.
CHIPS = {"v6e": "TPU v6 lite", "v7x": "TPU7x"}
BUILT = ROOT / "bench" / "public_kernels.py"


@dataclasses.dataclass(frozen=True)
class Public:
    """A kernel of public_kernels.py.

    Attributes:
      name: how the table calls it.
      kernel: a name of `public_kernels.KERNELS`.
      options: what it is asked with, one of them after the other.
      without: inputs of the row that it is not told of.
    """

    name: str
    kernel: str
    options: tuple = ({},)
    without: tuple = ()


@dataclasses.dataclass(frozen=True, order=True)
class Cycles:
    """What a run takes, and whether its checks vouch for it."""

    count: int
    sure: bool

    def __str__(self):
        return ("" if self.sure else "~") + f"{self.count:,}"


def tilings(*found):
    """Options of grouped matmuls."""
    return tuple({"tiling": tiling} for tiling in found)


def ragged(**more):
    """Public kernels of ragged paged attention."""
    asked = ({"num_kv_pages_per_block": 16, "num_queries_per_block": 64},)
    return (
        Public("jax ragged_paged_attention", "ragged_paged", tuple(o | more for o in asked)),
        Public("tpu-inference ragged_paged_attention v3", "tpu-inference ragged", (more,)),
    )


ROWS = {
    "grouped matmul, int8 weights, worklist": (
        Public(
            "jax megablox, bfloat16 weights",
            "megablox",
            tilings((128, 1024, 1024), (256, 1024, 1024), (512, 1024, 1024)),
        ),
        Public(
            "tokamax ragged_dot, bfloat16 weights",
            "tokamax",
            tilings((128, 1024, 1024), (256, 1024, 1024)),
            without=("scales",),
        ),
        Public(
            "tokamax ragged_dot, int8 weights",
            "tokamax",
            tilings((128, 1024, 1024), (256, 1024, 1024)),
        ),
        Public("tpu-inference gmm_v2, int8 weights", "tpu-inference gmm_v2"),
    ),
    "experts, fused, worklist": (
        Public(
            "jax megablox, twice",
            "megablox experts",
            tuple({"tilings": ((rows, 2048, 1536), (rows, 768, 2048))} for rows in (64, 128, 256)),
        ),
        Public("tpu-inference gmm_v2, twice", "tpu-inference experts"),
    ),
    "ragged paged attention": ragged(),
    "ragged paged attention, sliding window, soft cap": ragged(sliding_window=1024, soft_cap=50.0),
    "ragged paged attention, cache in 8 bits": ragged(cache="int8", k_scale=0.01, v_scale=0.01),
    "paged attention, decode": (
        Public(
            "jax paged_attention",
            "paged",
            tuple({"pages_per_compute_block": count} for count in (8, 16, 32)),
        ),
    ),
}


def main():
    """Prints the table, or writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", default="", metavar="TEXT", help="only rows so named")
    parser.add_argument("--target", choices=list(CHIPS), action="append", help="only this chip")
    parser.add_argument("-o", dest="output", metavar="FILE", help="writes the page")
    options = parser.parse_args()
    rows = [row for row in coverage.rows() if row.name in ROWS]
    page = Path(options.output) if options.output else None
    lines = lines_of(page.read_text()) if page and page.exists() else {}
    for row in rows:
        for chip in options.target or CHIPS:
            if options.row in row.name:
                lines[row.name, chip] = measured(row, chip)
                if page:
                    page.write_text(PAGE.format(table=table(rows, lines)))
    print(table(rows, lines))


def lines_of(text):
    """{(row, chip): lines} of a page."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 2 and cells[2] in CHIPS:
            found.setdefault((cells[1], cells[2]), []).append(line)
    return found


def table(rows, lines):
    """The table of all rows that have lines."""
    head = "| kernel | chip | pallasc | public kernel | cycles | pallasc's share |"
    places = [(row.name, chip) for row in rows for chip in CHIPS]
    found = [line for place in places for line in lines.get(place, ())]
    return "\n".join([head, "| --- | --- | --- | --- | --- | --- |", *found])


def measured(row, chip):
    """The lines of a row on a chip."""
    document = proof.document(row.production)
    data = row.steering(document, np.random.default_rng(1))
    ours, found = cycles_of_ours(row, chip, data), []
    for public in ROWS[row.name]:
        theirs, options = best(public, document, data, chip)
        share = f"{ours.count / theirs.count:.2f}" if isinstance(theirs, Cycles) else "-"
        name = f"{public.name} {options}".strip()
        found.append(f"| {row.name} | {chip} | {ours} | {name} | {theirs} | {share} |")
        print(found[-1], file=sys.stderr, flush=True)
    return found


def cycles_of_ours(row, chip, data):
    """The cycles of a row's kernel, in the first of its loop types."""
    case = row.cases(row.production)[0]
    with tempfile.TemporaryDirectory() as folder:
        given = {name: Path(folder) / f"{name}.npy" for name in data}
        for name, path in given.items():
            np.save(path, data[name])
        return judged(profile(proof.module(case, chip), chip, given))


def best(public, document, data, chip):
    """(cycles, the options they are of) of a public kernel; (why not, "") without any."""
    found, why = [], "none"
    for options in public.options:
        try:
            found.append((cycles_of(public, options, document, data, chip), options))
        except PallascError as error:
            why = str(error).strip().split("\n")[0][-120:]
    if not found:
        return why, ""
    cycles, options = min(found, key=lambda pair: pair[0])
    return cycles, ", ".join(f"{key} {value}" for key, value in options.items())


def cycles_of(public, options, document, data, chip):
    """The cycles of a public kernel under some options."""
    given = [p for p in coverage.parameters(document) if p.name not in public.without]
    job = {"kernel": public.kernel, "options": options, "device": CHIPS[chip]}
    job["shapes"] = {p.name: p.shape for p in given}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.json"
        path.write_text(json.dumps(job))
        np.savez(path.with_suffix(".npz"), **data)
        return judged(profile(f"{BUILT}:built({str(path)!r})", chip))


def judged(found):
    """The `Cycles` of the Pallas kernels of a profile."""
    kernels = [facts for facts in found["kernels"].values() if facts["pallas"]]
    failures = [text for facts in kernels for text in facts["failures"]]
    if not all(facts["complete"] for facts in kernels):
        raise PallascError("; ".join(failures) or "the run was cut")
    if failures:
        print("; ".join(failures), file=sys.stderr)
    return Cycles(sum(facts["cycles"] for facts in kernels), not failures)


PAGE = """\
# Serving kernels beside public ones

    make bench-serving

Written by that command. Cycles of the Pallas kernels, an estimate by [profile](profile.md): the
same lengths, tables and lists are given to both, and the same libtpu compiles both. The rows are
those of [coverage](coverage.md), at their production sizes. A `~` marks a run that a check does not
vouch for.

{table}
"""

if __name__ == "__main__":
    main()
