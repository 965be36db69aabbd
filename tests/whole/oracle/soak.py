"""`make soak`: draws documents and examines them for as long as told, and makes small what fails.

Each document is drawn from its number alone and is examined in one way, which its number says:
executed, simulated, or compiled by the TPU compiler for one of the chips. Each find is written, as
small as it could be made, to a directory, once for each way of failing. Counts are printed at the
end, and kept in a JSON file, if one is named, while the run goes on.
"""

import argparse
import collections
import hashlib
import json
import random
import re
import signal
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = map(str, (HERE, HERE.parents[1], ROOT / "python"))

import drawing  # noqa: E402
import properties  # noqa: E402
from pallasc.reduce import reduce  # noqa: E402
from worker import Examiner  # noqa: E402

WAYS = {"executed": 80, "simulated": 1, "AOT": 12}  # of so many documents together
THOROUGH = 50  # one of so many is examined in more ways: see properties.py
TOLD_EACH = 50  # documents


def drawn(number):
    """The case of a number, the same in every program."""
    return drawing.drawn(random.Random(number))


def cases(first, count):
    """The cases of `count` numbers from the first on."""
    return map(drawn, range(first, first + count))


def schedule(shares):
    """The ways in the order in which documents take them, evenly spread.

    Args:
      shares: {way: how many documents}.
    """
    places = [((i + 0.5) / n, way) for way, n in shares.items() for i in range(n)]
    return [way for _, way in sorted(places)]


class Soak:
    """A run: its counts, and what it found."""

    def __init__(self, options):
        self.options, self.examiner = options, Examiner(options.target)
        self.tpu_compiler = properties.TpuCompiler()
        shares = {way: getattr(options, way) for way in WAYS}
        self.ways = schedule(shares)
        self.counts, self.codes, self.finds = collections.Counter(), collections.Counter(), {}
        self.chips, self.seen, self.failed = collections.Counter(), set(), {}
        self.began = time.monotonic()
        self.over = self.began + options.seconds
        options.output.mkdir(parents=True, exist_ok=True)

    def run(self):
        """Examines one document after the other until the time or the count is over."""
        number = self.options.seed
        while time.monotonic() < self.over and self.counts["accepted"] < self.options.count:
            self.one(number, drawn(number))
            number += 1
            if not self.counts["documents"] % TOLD_EACH:
                print("; ".join(self.report()), flush=True)
                self.record()

    def stop(self):
        """Ends the run after the document at hand."""
        self.over = 0

    def close(self):
        """Ends the processes, and keeps the counts."""
        self.examiner.close()
        self.tpu_compiler.close()
        self.record()

    def one(self, number, case):
        """Examines the document of a number; what was seen before only counts as drawn."""
        self.counts["documents"] += 1
        digest = hashlib.sha256(json.dumps(case["document"]).encode()).digest()
        if digest in self.seen:
            self.counts["drawn again"] += 1
            return
        self.seen.add(digest)
        turn, place = divmod(number, len(self.ways))
        way = case["way"] = self.ways[place]
        case["thorough"] = not number % THOROUGH
        examine = self.examiner.examine
        if way == "AOT":
            case["chip"] = properties.CHIPS[turn % len(properties.CHIPS)]
            examine = self.tpu_compiler.examine
        outcome = examine(case)
        if outcome["status"] == "refused":
            self.counts["refused"] += 1
            self.codes[outcome["code"]] += 1
            return
        self.counts["accepted"] += 1
        self.counts[way] += 1
        if way == "AOT":
            self.chips[case["chip"]] += 1
        elif case["thorough"]:
            self.counts["thorough"] += 1
        if outcome["status"] == "find":
            self.found(number, case, outcome, examine)

    def found(self, number, case, outcome, examine):
        """Counts a find; writes it down if it is a new one. `examine` gives a case's outcome."""
        self.counts["failing"] += 1
        rough = signature(outcome)
        self.failed[number] = f"{case.get('chip', case['way'])}: {rough[0]}"
        if rough in self.finds and self.finds[rough] >= self.options.each:
            return
        self.finds[rough] = self.finds.get(rough, 0) + 1

        def fails(smaller):
            again = examine(smaller)
            return again["status"] == "find" and signature(again) == rough

        small = reduce(case, fails, self.options.shrink)
        outcome = examine(small)
        if outcome["status"] != "find":  # a process that was lost, or too slow
            self.counts["not again"] += 1
            print(f"document {number}, not again: {rough[0]}: {rough[1]}", flush=True)
            if rough[0] == "hang":  # as on a loaded machine; all else still fails the run
                self.finds[rough] -= 1
            return
        named = {k: v for k, v in outcome.items() if k != "status"}
        name = f"{outcome.get('kind', 'none')}_{number}_{self.counts['documents']}.json"
        path = self.options.output / name
        path.write_text(text({"found": named, **small}))
        print(f"{path}: {named.get('kind')}: {named.get('message', '')[-300:]}", flush=True)

    def record(self):
        """Puts the counts into the list of runs, in place of those that this run put there."""
        path = self.options.log
        if path is None:
            return
        runs = json.loads(path.read_text()) if path.exists() else []
        named = {
            "seed": self.options.seed,
            "ways": {way: getattr(self.options, way) for way in WAYS},
        }
        minutes = round((time.monotonic() - self.began) / 60, 1)
        told = {"chips": dict(self.chips), "codes": dict(self.codes), "failed": self.failed}
        runs = [run for run in runs if {key: run.get(key) for key in named} != named]
        runs.append({**named, "minutes": minutes, **self.counts, **told})
        lines = ",\n ".join(json.dumps(run) for run in runs)
        beside = path.with_suffix(".part")
        beside.write_text(f"[\n {lines}\n]\n")
        beside.replace(path)

    def report(self):
        """The counts, as lines."""
        minutes = (time.monotonic() - self.began) / 60
        yield f"{minutes:.0f} minutes from seed {self.options.seed}"
        for counts in (self.counts, self.chips, self.codes):
            for name, count in sorted(counts.items()):
                yield f"{count:6d} {name}"
        yield f"{sum(map(bool, self.finds.values())):6d} ways of failing"


def signature(outcome):
    """What two failures that are one have in common."""
    message = re.sub(r"-?\d+(\.\d+)?(e-?\d+)?|nan|inf", "#", outcome["message"])
    if outcome["kind"] in ("numerics", "pass"):
        message = message.split(":")[0]
    return outcome["kind"], message[:120]


def text(case):
    """A case as JSON, a line for each node."""
    nodes, lines = [], json.dumps(case)
    for graph in case["document"]["graphs"]:
        for node in graph["nodes"]:
            nodes.append(json.dumps(node))
    for line in nodes:
        lines = lines.replace(line, f"\n  {line}", 1)
    return lines + "\n"


def main(words=None):
    """Gives 1 if something was found."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0, help="the number of the first document")
    parser.add_argument("--count", type=int, default=1 << 30, help="ends at so many accepted ones")
    for way, share in WAYS.items():
        text = f"how many of the sum of these are {way} (default: {share})"
        parser.add_argument(f"--{way.lower()}", dest=way, type=int, default=share, help=text)
    parser.add_argument("--target", default="v6e")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "soak")
    parser.add_argument("--shrink", type=float, default=60, help="seconds for each find")
    parser.add_argument("--each", type=int, default=3, help="finds of one kind to make small")
    parser.add_argument("--log", type=Path, help="a JSON file to keep the counts in")
    soak = Soak(parser.parse_args(words))
    signal.signal(signal.SIGTERM, lambda *_: soak.stop())
    try:
        soak.run()
    except KeyboardInterrupt:
        pass
    finally:
        soak.close()
        print("\n".join(soak.report()), flush=True)
    return 1 if any(soak.finds.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
