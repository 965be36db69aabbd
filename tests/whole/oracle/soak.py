"""`make soak`: draws documents and examines them for as long as told, and makes small what fails.

Each find is written, as small as it could be made, to a directory, once for each way of failing.
Counts are printed at the end, and added to a JSON file if one is named.
"""

import argparse
import collections
import json
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
from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: E402
from pallasc.reduce import reduce  # noqa: E402
from worker import Examiner  # noqa: E402

CHUNK = 25  # documents of one Hypothesis seed
THOROUGH = 10  # one of so many is also simulated in huge memory and with eager DMA


def drawn(number, count):
    """A decorator: the function runs on so many cases, the same for the same number."""

    def decorate(function):
        options = settings(
            max_examples=count,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        return seed(number)(options(given(drawing.cases())(function)))

    return decorate


class Soak:
    """A run: its counts, and what it found."""

    def __init__(self, options):
        self.options, self.examiner = options, Examiner(options.target)
        self.tpu_compiler = properties.TpuCompiler()
        self.counts, self.finds, self.seen = collections.Counter(), {}, set()
        self.began = time.monotonic()
        self.over = self.began + options.seconds
        options.output.mkdir(parents=True, exist_ok=True)

    def run(self):
        number = self.options.seed
        while time.monotonic() < self.over:
            self.counts["seeds"] += 1
            self.chunk(number)
            if not self.counts["seeds"] % 2:
                print("; ".join(self.report()), flush=True)
            number += 1
        self.examiner.close()

    def stop(self):
        """Ends the run after the document at hand."""
        self.over = 0

    def chunk(self, number):
        """The documents of one seed."""

        @drawn(number, CHUNK)
        def each(case):
            new = hash(json.dumps(case["document"])) not in self.seen
            self.seen.add(hash(json.dumps(case["document"])))
            if new and time.monotonic() < self.over:
                self.one(number, case)

        each()

    def one(self, number, case):
        if self.counts["accepted"] % THOROUGH == THOROUGH - 1:
            case["thorough"] = True
        outcome = self.examiner.examine(case)
        self.counts["documents"] += 1
        if outcome["status"] == "refused":
            self.counts["refused"] += 1
            self.counts[f"refused: {outcome['code']}"] += 1
            return
        self.counts["accepted"] += 1
        self.counts["simulated"] += outcome.get("simulated", 0)
        if outcome["status"] == "find":
            self.found(number, case, outcome, self.examiner.examine)
        elif self.options.aot and not self.counts["accepted"] % self.options.aot:
            case["chip"] = properties.CHIPS[self.counts["AOT"] % len(properties.CHIPS)]
            self.counts["AOT"] += 1
            outcome = self.tpu_compiler.examine(case)
            if outcome["status"] == "find":
                self.found(number, case, outcome, self.tpu_compiler.examine)

    def found(self, number, case, outcome, examine):
        """Counts a find; writes it down if it is a new one. `examine` gives a case's outcome."""
        self.counts["failing"] += 1
        rough = signature(outcome)
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
            return
        named = {k: v for k, v in outcome.items() if k != "status"}
        name = f"{outcome.get('kind', 'none')}_{number}_{self.counts['documents']}.json"
        path = self.options.output / name
        path.write_text(text({"found": named, **small}))
        print(f"{path}: {named.get('kind')}: {named.get('message', '')[-300:]}", flush=True)

    def record(self, path):
        """Adds the counts to a JSON list of runs."""
        runs = json.loads(path.read_text()) if path.exists() else []
        codes = {k[9:]: n for k, n in self.counts.items() if k.startswith("refused: ")}
        counts = {k: n for k, n in self.counts.items() if not k.startswith("refused: ")}
        minutes = round((time.monotonic() - self.began) / 60, 1)
        runs.append({"seed": self.options.seed, "minutes": minutes, **counts, "codes": codes})
        lines = ",\n ".join(json.dumps(run) for run in runs)
        path.write_text(f"[\n {lines}\n]\n")

    def report(self):
        """The counts, as lines."""
        minutes = (time.monotonic() - self.began) / 60
        yield f"{minutes:.0f} minutes from seed {self.options.seed}"
        for name, count in sorted(self.counts.items()):
            yield f"{count:6d} {name}"
        yield f"{len(self.finds):6d} ways of failing"


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


def main():
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", default="v6e")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "soak")
    parser.add_argument("--shrink", type=float, default=60, help="seconds for each find")
    parser.add_argument("--each", type=int, default=3, help="finds of one kind to make small")
    parser.add_argument("--aot", type=int, default=25, help="1 of so many goes to libtpu; 0: none")
    parser.add_argument("--log", type=Path, help="a JSON file to add the counts to")
    options = parser.parse_args()
    soak = Soak(options)
    signal.signal(signal.SIGTERM, lambda *_: soak.stop())
    try:
        soak.run()
    except KeyboardInterrupt:
        pass
    finally:
        soak.examiner.close()
        soak.tpu_compiler.close()
        print("\n".join(soak.report()), flush=True)
        if options.log:
            soak.record(options.log)
    return 1 if soak.finds else 0


if __name__ == "__main__":
    sys.exit(main())
