"""What the compiler prints for cases: with whichever pallasc PYTHONPATH finds.

As a program: reads a pickle of cases and writes one of what is printed. So another tree's compiler
is asked, in a process of its own: see modules.py.
"""

import concurrent.futures
import os
import pickle
import sys
import typing
from pathlib import Path

from pallasc import binding


class Case(typing.NamedTuple):
    """What is compiled: texts, so that each tree reads the same."""

    name: str
    document: str
    config: str
    target: str


class Printed(typing.NamedTuple):
    """A module's text, or the message of a refusal."""

    accepted: bool
    text: str


def printed(case):
    """What the compiler prints for one case: `Printed`."""
    answer = binding.Graph(case.document).compile(case.config, case.target, (), binding.EMIT_SOURCE)
    if answer["status"] == binding.OK:
        return Printed(True, answer["source"])
    found = binding.parse_diagnostics(answer["diagnostics"])
    return Printed(False, binding.format_diagnostics(found))


def all_printed(cases):
    """A `Printed` for each, in order; the library is used by several threads."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as executor:
        return list(executor.map(printed, cases))


def main():
    """`printed.py CASES OUTPUT`."""
    cases = [Case(*fields) for fields in pickle.loads(Path(sys.argv[1]).read_bytes())]
    Path(sys.argv[2]).write_bytes(pickle.dumps([tuple(p) for p in all_printed(cases)]))


if __name__ == "__main__":
    main()
