"""Verdicts on kernels that were run, kept in two files by hashes of what they depend on.

A line of tests/verdicts.txt says that one kernel was simulated and found right, one of
tests/executed.txt that its text was executed (tests/executed.py), before and after each rewrite:

    NAME KEY JUDGES ARRAYS RATIOS

KEY is a hash of the kernel's code, its graph, the kinds of inputs and of runs, the code that
runs it and compares, and the versions of what that stands on. JUDGES is a hash of the code that
makes the inputs and what is expected of them, ARRAYS one of these arrays themselves. A line holds
where KEY and JUDGES are those of now; or KEY and ARRAYS: then the code was changed, and what it
gives was not. RATIOS are the largest errors, in tolerances, for people. Each line stands alone, so
that files may be merged line by line. A kernel that is off has no line.

Only the tests ask (tests/conftest.py opens a session): everything else simulates. What they find is
appended to build/verdicts.txt, which holds as the others do, on this machine. As a program, this
writes into the files what the last `make check` and `make check-full` asked for: `make verdicts`.
"""

import datetime
import functools
import hashlib
import importlib.metadata
import os
import platform
import sys
import typing
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "tests" / "verdicts.txt"
KEPT_EXECUTED = ROOT / "tests" / "executed.txt"
LOCAL = ROOT / "build" / "verdicts.txt"
PACKAGES = ("jax", "jaxlib", "numpy", "ml_dtypes")
# Each kernel is simulated again, whatever is kept, on one day of so many.
DAYS = 30

EXECUTED = "executed/"  # begins the names of kernels that are executed as text

# The environment of a session; processes that it starts are of it too.
LOG = "PALLASC_VERDICTS_LOG"  # a file: what was asked and how it was answered
AGAIN = "PALLASC_CHECK_AGAIN"  # 1: no kept verdict holds
DATE = "PALLASC_CHECK_DATE"  # YYYY-MM-DD: the day whose part is simulated again


class Verdict(typing.NamedTuple):
    """A line of the file: a kernel that is right."""

    name: str
    key: str
    judges: str
    arrays: str
    ratios: str


class Question:
    """Whether a kernel is right, as far as its verdict may be known.

    Args:
      name: of the kernel and its configuration, for people; its hash says which day is its turn.
      kernel: the text of the module.
      runs: texts that say what else decides: the graph, the inputs, how it is run and judged.
      judges: texts of the code that makes the inputs and what is expected.
      arrays: a function that gives them: arrays, or texts.
    """

    def __init__(self, name, kernel, runs, judges, arrays):
        self.name = "_".join(name.split()) or "-"
        self.key = digest(stands_on(), kernel_code(kernel), *runs)
        self.judges = digest(package_code("reference"), *judges)
        self._arrays = arrays

    @functools.cached_property
    def arrays(self):
        """The hash of the arrays, which are made for it."""
        return arrays_digest(self._arrays())

    def verdict(self, ratios):
        """The `Verdict` of a simulation whose largest errors these are, in tolerances."""
        text = ",".join(f"{ratio:.2g}" for ratio in ratios) or "-"
        return Verdict(self.name, self.key, self.judges, self.arrays, text)


def settle(question, simulate, remember=True):
    """What is wrong with a kernel, a list of lines: none where a kept verdict says so.

    Args:
      simulate: a function that gives (lines, largest errors in tolerances).
      remember: whether a verdict is to be kept in tests/verdicts.txt.
    """
    if not in_session():
        return simulate()[0]
    again = is_due(question.name)
    if not again and (verdict := holding(question)):
        log("kept", verdict)
        return []
    lines, ratios = simulate()
    if not lines:
        verdict = question.verdict(ratios)
        if verdict not in known().setdefault(question.key, []):
            known()[question.key].append(verdict)
            append(LOCAL, " ".join(verdict))
        log("again" if again else "new" if remember else "passing", verdict)
    return lines


def is_settled(question):
    """Whether `settle` would simulate nothing and make no array."""
    found = [] if not in_session() or is_due(question.name) else known().get(question.key, [])
    return any(verdict.judges == question.judges for verdict in found)


def holding(question):
    """A kept verdict that answers the question, as it would be written now; or None."""
    found = known().get(question.key, [])
    for verdict in found:
        if verdict.judges == question.judges:
            return verdict
    for verdict in found:
        if verdict.arrays == question.arrays:
            return verdict._replace(judges=question.judges)
    return None


def is_due(name):
    """Whether a kernel is to be simulated again, whatever is kept."""
    return os.environ.get(AGAIN) == "1" or is_todays(name)


def is_todays(name):
    """Whether a kernel is of the day's part, as it is on one day of `DAYS`."""
    return int(digest(name), 16) % DAYS == day().toordinal() % DAYS


def day():
    """The date of the session. Raises ValueError if it is none."""
    return datetime.date.fromisoformat(os.environ[DATE])


# ---- what a verdict depends on -------------------------------------------------------------------


def digest(*texts):
    """The first digits of a hash of texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def arrays_digest(items):
    """The first digits of a hash of arrays, and texts among them."""
    found = hashlib.sha256()
    for item in items:
        array = np.frombuffer(item.encode(), np.uint8) if isinstance(item, str) else item
        array = np.asarray(array)
        found.update(f"{array.dtype} {array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()[:16]


def kernel_code(text):
    """A module's text without comments, and without what it only tells."""
    from pallasc.module import kernel_text

    lines = kernel_text(text).splitlines()
    left_out = ("#", '"compiler":')
    return "\n".join(
        line for line in lines if line.strip() and not line.lstrip().startswith(left_out)
    )


@functools.cache
def stands_on():
    """A text of what runs and compares any kernel: code of ours, versions, flags, the machine."""
    from pallasc import module

    versions = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
    ours = [package_code("simulate.py"), package_code("compare.py"), source(module._execute)]
    flags = os.environ.get("XLA_FLAGS", "")
    return "\0".join([*versions, platform.machine(), flags, *ours])


def source(function):
    """The code of a function of ours."""
    import inspect

    return code("".join(inspect.getsourcelines(function)[0]))


@functools.cache
def package_code(name):
    """The code of a file, or of all files of a directory, of python/pallasc."""
    path = ROOT / "python" / "pallasc" / name
    return "\0".join(code(file.read_text()) for file in sorted(path.glob("*.py")) or [path])


def code(text):
    """A Python text without empty lines and lines of comment."""
    lines = (line.rstrip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


# ---- files and sessions --------------------------------------------------------------------------


def read(path):
    """{key: [verdicts]} of a file, {} if there is none. Raises ValueError for another line."""
    found = {}
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else (), 1):
        fields = line.split()
        if len(fields) != len(Verdict._fields):
            raise ValueError(f"{path.name}:{number}: no verdict: {line!r}: delete the line")
        found.setdefault(fields[1], []).append(Verdict(*fields))
    return found


@functools.cache
def known():
    """{key: [verdicts]} of all files as they are when first asked for, and of this process."""
    found = {}
    for path in (KEPT, KEPT_EXECUTED, LOCAL):
        for key, verdicts in read(path).items():
            found.setdefault(key, []).extend(verdicts)
    return found


def in_session():
    """Whether kept verdicts hold, and are kept."""
    return LOG in os.environ


def compiler_log(path):
    """Where the session of a log tells what it asked the TPU compiler (compiled.py)."""
    return Path(f"{path}.aot")


def begin(path, today):
    """Opens a session: its log is written to `path`; `today` unless the environment says a day."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for each in (path, compiler_log(path)):
        each.write_text("")
    os.environ[LOG] = str(path.resolve())
    os.environ.setdefault(DATE, today.isoformat())
    day()


def log(how, verdict):
    """Tells the session of an answer."""
    append(Path(os.environ[LOG]), " ".join([how, *verdict]))


def append(path, line):
    """Appends a line at once: several processes may."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


def answers(path):
    """(how, Verdict) of each kernel that a session asked about, once."""
    rows = [line.split() for line in path.read_text().splitlines()]
    found = {fields[2]: (fields[0], Verdict(*fields[1:])) for fields in rows}
    return list(found.values())


def summary(path):
    """What a session asked and simulated, a line; one more where there is something to record."""
    hows = [how for how, _ in answers(path)]
    new, again = hows.count("new"), hows.count("again")
    if os.environ.get(AGAIN) == "1":
        return [f"simulated kernels: all {again} again"]
    simulated = new + again + hows.count("passing")
    lines = [
        f"kernels to simulate or execute: {len(hows)}; {hows.count('kept')} have a kept verdict "
        f"that holds, {simulated} were run ({again} of them again: {DATE}={day()})"
    ]
    if count := unrecorded(path):
        lines.append(f"{count} verdicts are not in tests/verdicts.txt: `make verdicts` writes them")
    return lines


def unrecorded(path):
    """How many answers of a session are not in tests/verdicts.txt as they would be written."""
    kept = read(KEPT)
    return sum(
        all(verdict[2:4] != other[2:4] for other in kept.get(verdict.key, ()))
        for verdict in to_keep(path)
    )


def to_keep(path, executed=False):
    """The verdicts of a session on kernels that were simulated, or on those executed as text."""
    return [
        verdict
        for how, verdict in answers(path)
        if how != "passing" and verdict.name.startswith(EXECUTED) == executed
    ]


def record(path, executed=False):
    """Writes a file anew: what a session asked for, sorted. Gives (lines, new ones, dropped)."""
    kept = KEPT_EXECUTED if executed else KEPT
    before = read(kept)
    asked = {verdict.key: verdict for verdict in to_keep(path, executed)}
    for key, verdict in asked.items():  # what holds stays as it was written, errors and all
        same = [old for old in before.get(key, ()) if old[2:4] == verdict[2:4]]
        asked[key] = same[0] if same else verdict
    old = {verdict for verdicts in before.values() for verdict in verdicts}
    new = set(asked.values())
    kept.write_text("".join(" ".join(verdict) + "\n" for verdict in sorted(new)))
    return len(new), len(new - old), len(old - new)


def main():
    """Records the sessions whose logs are named: of `make check`, and of tests/executed.py.

    Exit status 1 if there is none of `make check` that passed; the other may be missing.
    """
    path, executed = map(Path, sys.argv[1:])
    if executed.exists():
        count, new, dropped = record(executed, executed=True)
        print(f"tests/executed.txt: {count} verdicts, {new} new, {dropped} dropped")
    if not path.exists():
        print(f"{path}: no `make check` has passed since `make clean`: it is what is recorded")
        return 1
    count, new, dropped = record(path)
    print(f"tests/verdicts.txt: {count} verdicts, {new} new, {dropped} dropped")
    import compiled

    count, new, dropped = compiled.record(path)
    print(f"tests/compiled.txt: {count} modules, {new} new, {dropped} dropped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
