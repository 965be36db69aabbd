"""Which graphs of testdata `pallasc.grad` derives a backward of, and why it refuses the others.

    python bench/derived_sweep.py [--compile] [--differences] [NAME ...]

Prints tables in markdown. With --compile each backward is compiled for v6e; with --differences each
of at most a million elements an array is compared with finite differences of its forward in
float64 (tests/derived/finite.py), and those that are off by more than 4e-6 are listed.
"""

import argparse
import collections
import json
import math
import re
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests/derived")]

import numpy as np  # noqa: E402
import pallasc  # noqa: E402

FOLDERS = ("testdata/graphs", "testdata/coverage/graphs")
LARGE, LIMIT = 1_000_000, 4e-6


def files(names):
    """The files of the graphs of these names, or of all."""
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.json"))]
    return [path for path in found if not names or path.stem in names]


def reason(error):
    """A refusal without its place and what is named in it."""
    message = str(error).splitlines()[0].removeprefix("graph: ")
    message = re.sub(
        r"^/graphs/\d+/nodes/\d+: node '.*?' \((.*?)\)(, \S+?:\d+)?: ", r"`\1` ", message
    )
    return re.sub(r"'\w+'", "...", message)


def checked(path, backward, options):
    """What is wrong with a backward; None: nothing."""
    if options.compile:
        try:
            pallasc.compile({k: v for k, v in backward.items() if k != "config"}, target="v6e")
        except pallasc.PallascError as error:
            return str(error).splitlines()[0]
    document = json.loads(path.read_text())
    sizes = [math.prod(s for s in t["shape"] if isinstance(s, int)) for t in document["tensors"]]
    if options.differences and max(sizes) <= LARGE:
        import finite

        off = finite.differences(document)
        worst = max(off.values())
        return None if worst < LIMIT else f"{worst:.1e} off: {off}"
    return None


def main():
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--differences", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    derived, refused, wrong = [], collections.defaultdict(list), {}
    for path in files(options.names):
        try:
            backward = pallasc.grad(json.loads(path.read_text()))
        except pallasc.PallascError as error:
            refused[reason(error)].append(path.stem)
            continue
        derived.append(path.stem)
        fault = checked(path, backward, options)
        if fault:
            wrong[path.stem] = fault
            print(f"{path.stem}: {fault}", file=sys.stderr, flush=True)
    print(f"derived {len(derived)}, refused {sum(map(len, refused.values()))}\n")
    print("| refused | graphs | such as |\n| --- | --- | --- |")
    for text, names in sorted(refused.items(), key=lambda item: -len(item[1])):
        print(f"| {text} | {len(names)} | `{names[0]}` |")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
