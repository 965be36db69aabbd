"""Kernel text of every case of the tables, read back: verified, the same text, the same Python.

As a program it prints what is not, of the cases whose names hold MATCH; --all with what the other
tests compile: `PYTHONPATH=python python tests/kernel/kernel_round_trip.py [--all] [MATCH]`.
"""

import concurrent.futures
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
for _path in (HERE.parent, HERE.parents[1] / "python"):
    if str(_path) not in sys.path:
        sys.path.insert(0, str(_path))

from pallasc import binding  # noqa: E402

BOTH = binding.EMIT_SOURCE | binding.EMIT_KERNEL


def first_difference(a, b):
    """The first line of two texts in which they differ, for people."""
    for number, (x, y) in enumerate(zip(a.split("\n"), b.split("\n"), strict=False), 1):
        if x != y:
            return f"line {number}:\n  {x}\n  {y}"
    return "one is longer"


def problem(case):
    """What is wrong with the kernel text of a `printed.Case`, as text; None."""
    made = binding.Graph(case.document).compile(case.config, case.target, (), BOTH)
    if made["status"] != binding.OK:
        return None
    again = binding.Graph(made["kernel"], "kernel").compile(None, None, (), BOTH)
    if again["status"] != binding.OK:
        return binding.format_diagnostics(binding.parse_diagnostics(again["diagnostics"]))
    for what in ("kernel", "source"):
        if made[what] != again[what]:
            return f"the {what} differs, {first_difference(made[what], again[what])}"
    return None


def problems(cases):
    """{name: problem} of those that have one."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as executor:
        found = executor.map(problem, cases)
        return {case.name: text for case, text in zip(cases, found, strict=True) if text}


def main(argv):
    """Prints what is wrong; the exit status says whether anything is."""
    import modules

    some = modules.cases() if "--all" in argv else modules.tabled()
    words = [word for word in argv if not word.startswith("--")]
    some = [case for case in some if all(word in case.name for word in words)]
    found = problems(some)
    for name, text in found.items():
        print(f"{name}\n{text}")
    print(f"{len(some)} cases, {len(found)} with a problem")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
