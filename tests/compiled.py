"""What the TPU compiler said of modules that it took, kept in tests/compiled.txt.

A line of the file says that one module was compiled for one chip:

    KEY VMEM TEMP KERNELS

KEY is a hash of all that decides it (`aot.cache_key`: the kernel's text, the limits of VMEM, the
chip, the versions of jax and libtpu, the code that asks), VMEM and KERNELS the bytes of scoped VMEM
that the compiler reports, of the largest kernel and of each, TEMP those of HBM temporaries. Modules
that it refuses have no line.

It holds in the tests alone, as tests/verdicts.txt does: on one day of so many each module is
compiled again, and what is found then must be what is kept. `make verdicts` writes the file.
"""

import os

import verdicts
from pallasc import aot

KEPT = verdicts.ROOT / "tests" / "compiled.txt"
DIGITS = 16  # of a key


def line_of(key, result):
    """What is kept of a module that was taken."""
    kernels = ",".join(map(str, result.kernels)) or "-"
    return f"{key[:DIGITS]} {result.vmem_bytes} {result.temp_bytes} {kernels}"


def read(path):
    """{key: line} of a file. Raises ValueError for another line."""
    lines = path.read_text().splitlines() if path.exists() else []
    for number, line in enumerate(lines, 1):
        if len(line.split()) != 4:
            raise ValueError(f"{path.name}:{number}: not what is kept: {line!r}: delete the line")
    return {line.split()[0]: line for line in lines}


def filled(line, result):
    """Sets what a line says of the module."""
    _, vmem, temp, kernels = line.split()
    result.ok, result.kind, result.cached = True, "ok", True
    result.vmem_bytes, result.temp_bytes = (None if n == "None" else int(n) for n in (vmem, temp))
    result.kernels = [] if kernels == "-" else [int(n) for n in kernels.split(",")]


def log(how, line):
    """Tells the session of an answer: "kept", or "compiled" here and now or by a run before."""
    verdicts.append(verdicts.compiler_log(os.environ[verdicts.LOG]), f"{how} {line}")


class Answers(aot.Cache):
    """What is kept answers first; whatever is answered goes to the session's log."""

    def __init__(self):
        self._kept = read(KEPT)

    def load(self, key, result):
        line = self._kept.get(key[:DIGITS])
        if line and not verdicts.is_due(key):
            filled(line, result)
            log("kept", line)
            return True
        found = super().load(key, result)
        if found and result.ok:
            log("compiled", line_of(key, result))
        return found

    def store(self, key, result):
        line = self._kept.get(key[:DIGITS])
        now = line_of(key, result) if result.ok else f"{key[:DIGITS]} {result.message}"
        if line and now != line:
            raise AssertionError(f"the TPU compiler says {now}, tests/compiled.txt {line}")
        if result.ok:
            log("compiled", now)
        super().store(key, result)


def begin():
    """Answers of this process, and of those that it forks, come from the file where it has one."""
    aot.CACHE = Answers()


def asked(path):
    """{line: how} of what a session asked of the compiler and it took."""
    told = verdicts.compiler_log(path).read_text()
    answers = (line.split(maxsplit=1) for line in told.splitlines())
    return {line: how for how, line in sorted(answers, reverse=True)}


def summary(path):
    """What a session asked, a line; none where it asked nothing."""
    found = asked(path)
    new = len(found.keys() - read(KEPT).values())
    count = list(found.values()).count("kept")
    lines = [
        f"modules to compile for a TPU: {len(found)} were taken, {count} of them as it is kept"
    ]
    lines += [f"{new} are not in tests/compiled.txt: `make verdicts` writes them"] if new else []
    return lines if found else []


def record(path, kept=None):
    """Writes the file anew: what a session asked for. Gives (lines, new ones, dropped)."""
    kept = kept or KEPT
    before, lines = set(read(kept).values()), sorted(asked(path))
    kept.write_text("".join(f"{line}\n" for line in lines))
    return len(lines), len(set(lines) - before), len(before - set(lines))
