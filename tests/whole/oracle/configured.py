"""Random configurations of the coverage's graphs: what pallasc accepts, the TPU compiler takes.

    PYTHONPATH=python python tests/whole/oracle/configured.py [--seconds S] [--seed N] [--large]

Block sizes from 8 to 1024, odd ones too, the loop type, and up to three switches; each kernel for a
chip of its own, half of them in a program that makes an array of 8 bits, too. Prints what is
refused, and what takes more VMEM than the most predicted; the exit status is of the former.
"""

import argparse
import collections
import json
import random
import re
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
for _path in (HERE, HERE.parents[1], HERE.parents[2] / "python"):
    if str(_path) not in sys.path:
        sys.path.insert(0, str(_path))

import kit  # noqa: E402
import properties  # noqa: E402
from pallasc import aot  # noqa: E402
from pallasc.module import Module  # noqa: E402

SIZES = (8, 16, 24, 32, 40, 64, 72, 96, 100, 128, 200, 256, 320, 384, 512, 1024)
LOOPS = ("unroll", "fori_loop", "emit_pipeline")
SCHEMA = json.loads((kit.ROOT / "docs" / "fxtile.schema.json").read_text())
SWITCHES = {
    key: [word for word in ("on", "off") if word in kind["enum"]]
    for key, kind in SCHEMA["$defs"]["config"]["properties"].items()
    if "off" in kind.get("enum", ())
}
LARGE = re.compile(r"_\d\d\d")  # production sizes are in the names
LONGEST = 120_000  # characters of a module: straight code that takes minutes
TIMEOUT_S = 60


def configuration(document, chance):
    """A random one."""
    chosen = [b for b in document["block_sizes"] if "size" not in b and not b.get("reduction")]
    config = {"block_sizes": [chance.choice(SIZES) for _ in chosen]} if chosen else {}
    if chance.random() < 0.6:
        config["pallas_loop_type"] = chance.choice(LOOPS)
    for key in chance.sample(sorted(SWITCHES), chance.choice((0, 0, 1, 1, 2, 3))):
        config[key] = chance.choice(SWITCHES[key])
    return config


class Run:
    """Draws until its time is over, and counts."""

    def __init__(self, options):
        self.chance, self.end = random.Random(options.seed), time.monotonic() + options.seconds
        self.counts, self.asked = collections.Counter(), []
        paths = sorted(kit.COVERAGE.glob("*.json"))
        self.paths = [p for p in paths if bool(LARGE.search(p.stem)) == options.large]

    def jobs(self):
        """(module, chip) of what pallasc accepts; `asked` says what it is."""
        while time.monotonic() < self.end:
            path, chip = self.chance.choice(self.paths), self.chance.choice(properties.CHIPS)
            document = json.loads(path.read_text())
            document["config"] = configuration(document, self.chance)
            beside = self.chance.random() < 0.5
            try:
                source = properties.compile_text(json.dumps(document), f"--target={chip}")
            except properties.Refused:
                self.counts["refused by pallasc"] += 1
                continue
            if len(source) <= LONGEST:
                module = Module(source, path.stem)
                self.asked.append(f"{chip} {path.stem} {json.dumps(document['config'])}")
                yield properties.beside(module) if beside else module, chip

    def told(self, result):
        """Counts a result, and prints it where something is wrong."""
        what = self.asked.pop(0)
        kind = "taken" if result.ok else result.kind
        if result.ok and result.vmem_bytes > result.most_bytes:
            kind = "taken, VMEM too low"
            what += f": {result.vmem_bytes} bytes of VMEM used, {result.most_bytes} at most"
        elif kind not in ("taken", "timeout", "memory"):
            first = result.message.strip().split("\n")[0]
            what += f": {first[:300]}"
        self.counts[kind] += 1
        if kind != "taken":
            print(f"{kind}: {what}", flush=True)


def main(words=None):
    """Runs; the exit status says whether the TPU compiler refused something."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--large", action="store_true", help="graphs of production sizes")
    run = Run(parser.parse_args(words))
    for result in aot.compile_many(run.jobs(), timeout=TIMEOUT_S):
        run.told(result)
    print(", ".join(f"{count} {kind}" for kind, count in sorted(run.counts.items())))
    return 1 if run.counts["error"] or run.counts["vmem"] else 0


if __name__ == "__main__":
    sys.exit(main())
