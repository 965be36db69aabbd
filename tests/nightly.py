"""`make nightly [STEPS="modules oracle"]`: what takes hours; docs/nightly.md says how it ended.

A step is a command. What it prints goes to build/nightly/NAME.log; the page gets what it said at
its end, when, of which commit, and how long it took, as soon as it has ended. A step that is not
run keeps its row.
"""

import datetime
import os
import re
import subprocess
import sys
import time
import typing
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "nightly.md"
LOGS = ROOT / "build" / "nightly"
# Other documents each night.
NIGHT = datetime.date.today().toordinal() * 1000


class Step(typing.NamedTuple):
    """A command; `says` finds what the page tells of its output, `look` is where a failure is."""

    name: str
    about: str
    command: str
    says: str
    look: str = ""


UNITS = """echo "$(grep -c '       OK ' {}/unit.log) unit tests" """.rstrip()
PYTHON = "PYTHONPATH=python JAX_PLATFORMS=cpu .venv/bin/python"
STEPS = (
    Step(
        "modules",
        "every module that is known by its hash, printed",
        "make modules",
        r"^\d+ modules, .*",
    ),
    Step(
        "text",
        "every kernel of the tables and tests as text, read back",
        f"{PYTHON} tests/kernel/kernel_round_trip.py --all",
        r"^\d+ cases, .*",
    ),
    Step(
        "executor",
        "kernels of all tables and drawn ones, executed before and after each rewrite",
        f"{PYTHON} tests/executed.py --coverage --matrix --drawn 1000 --seed {NIGHT}",
        r"^\d+ kernels executed.*",
        "drawn documents that are wrong are in build/executed; make them small by pallasc reduce",
    ),
    Step(
        "sanitizers",
        "unit tests and testdata under ASan and UBSan",
        "make asan && " + UNITS.format("build/asan"),
        r"^(?:corpus: .*|\d+ unit tests)",
    ),
    Step(
        "analyzer",
        "clang's analyzer, as deep as it goes by itself",
        "rm -rf build/tidy && make tidy TIDY_NODES=225000",
        r"^.*error: .*",
    ),
    Step(
        "faults",
        "each allocation of the library failing in turn, under ASan and UBSan",
        "make faults",
        r"^testdata/.*allocations.*",
    ),
    Step(
        "threads",
        "8 threads under ThreadSanitizer; 10,000 compilations in one process",
        "make tsan && make threads",
        r"^\d+ compilations of .*",
    ),
    Step(
        "mutations",
        "mutated graphs under ASan and UBSan",
        f"make mutations COUNT=20000 SEED={NIGHT}",
        r"^\d+ documents: .*",
        "documents that broke it are in build/mutations",
    ),
    Step(
        "fuzzing",
        "files that may hurt, under libFuzzer",
        f"make fuzz SECONDS=3600 SEED={NIGHT}",
        r"^\w+: \d+ executions .*",
    ),
    Step(
        "same",
        "every module by other builds, threads and locales",
        "make same",
        r"^[\w .-]+: \d+ of \d+ modules equal",
    ),
    Step(
        "valgrind",
        "unit tests under valgrind",
        "make valgrind && " + UNITS.format("build"),
        r"^\d+ unit tests",
    ),
    Step(
        "oracle",
        "random documents by all properties",
        f"make soak SECONDS=3600 SEED={NIGHT}",
        r"^ *\d+ (?:documents|accepted|simulated|AOT|failing|ways of failing)$",
        "finds are in build/soak, made small: mend each, and keep it in tests/whole/oracle/finds",
    ),
    Step(
        "configurations",
        "random configurations of the coverage's graphs, through the TPU compiler",
        f"{PYTHON} tests/whole/oracle/configured.py --seconds 600 --seed {NIGHT}",
        r"^\d+ .* taken.*",
        "each is printed with its graph, chip and configuration: mend it, and keep it as a find",
    ),
    Step(
        "planted",
        "small faults planted in the compiler, and whether a test sees each",
        f"make planted COUNT=100 SEED={NIGHT} RESULTS=build/nightly/planted.jsonl",
        r"^\d+ (?:faults planted|survivors).*",
        "survivors are in build/nightly/planted.jsonl: a test for each, or why it is no fault",
    ),
    Step(
        "verdicts",
        "make check, with no kept verdict holding",
        "PALLASC_CHECK_AGAIN=1 make check && make verdicts",
        r"^(?:\d+ passed.*|simulated kernels: .*|tests/verdicts.txt: .*|make check: all.*)",
    ),
    Step(
        "proof",
        "the matrix simulated on every kind of inputs",
        "make proof",
        r"^(?:\d+ of \d+ kernels are known|\d+ cases, .*)",
    ),
    Step("compiler", "the matrix through the TPU compiler", "make aot", r"^\d+ kernels compiled.*"),
    Step(
        "vmem",
        "VMEM predicted and used, of drawn kernels",
        "make bench-vmem",
        r"^[a-z][^:/]*: [^/]*$",
    ),
)

HEAD = """# What ran last night

Written by `make nightly`, which takes hours; `make nightly STEPS="modules executor"` runs some
steps. A row is how a step ended when it last ran; a step without a row has not run since this page
is kept. A `+` behind a commit: with changes that were not committed.

| step | what | command | when | commit | minutes | how it ended |
| --- | --- | --- | --- | --- | --- | --- |
"""


def rows():
    """{step: the cells of its row} of the page."""
    lines = PAGE.read_text().splitlines() if PAGE.exists() else []
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    known = [step.name for step in STEPS]
    return {row[0]: row for row in cells if row[0] in known}


def write(found):
    """The page, its rows in the order of the steps."""
    lines = [f"| {' | '.join(found[step.name])} |\n" for step in STEPS if step.name in found]
    PAGE.write_text(HEAD + "".join(lines))


def commit():
    """The commit that is checked out."""

    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/nightly.md")
    return git("rev-parse", "--short", "HEAD").strip() + ("+" if changed.strip() else "")


def run(step):
    """(exit status, the row) of a step."""
    of, began = commit(), time.monotonic()
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{step.name}.log"
    print(f"== {step.name}: {step.command}", flush=True)
    with log.open("w") as out:
        command = ["bash", "-euo", "pipefail", "-c", step.command]
        status = subprocess.run(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT).returncode
    said = [line.strip() for line in re.findall(step.says, log.read_text(), re.M)]
    ended = "; ".join(said[-6:]).replace("|", "\\|")
    ended = f"**failed**: {ended}".removesuffix(": ") if status else ended or "passed"
    print(f"   {ended} (build/nightly/{log.name})", flush=True)
    minutes = f"{(time.monotonic() - began) / 60:.1f}"
    when = datetime.datetime.now().strftime("%Y-%m-%d")
    return status, [step.name, step.about, f"`{step.command}`", when, of, minutes, ended]


def main():
    """`nightly.py [STEP...]`: exit status 1 if a step failed, 2 if there is none of that name."""
    wanted = sys.argv[1:] or [step.name for step in STEPS]
    if unknown := set(wanted) - {step.name for step in STEPS}:
        print(f"no step {', '.join(sorted(unknown))}: {', '.join(step.name for step in STEPS)}")
        return 2
    os.nice(10)
    failed = []
    for step in STEPS:
        if step.name in wanted:
            status, row = run(step)
            failed += [(step, row[-1])] if status else []
            write(rows() | {step.name: row})
    print("\n".join(to_look_at(failed)), flush=True)
    return 1 if failed else 0


def to_look_at(failed):
    """What to do now, as lines: of each step that failed, a pair of it and how it ended."""
    if not failed:
        yield "nothing to look at"
        return
    yield "look at:"
    for step, ended in failed:
        yield f"  {step.name}: {ended}"
        yield f"    build/nightly/{step.name}.log{f'; {step.look}' if step.look else ''}"
        yield f"    again: {step.command}"


if __name__ == "__main__":
    sys.exit(main())
