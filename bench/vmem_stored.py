"""How near the VMEM model is to all that is stored of what the TPU compiler uses, in seconds.

    make bench-vmem PART=stored      (or: PYTHONPATH=python .venv/bin/python bench/vmem_stored.py)

Nothing is compiled by libtpu. Kernels and their bytes are those of
tests/whole/coverage/results.json and tests/unit/test_vmem_measured.c; of
tests/vmem/test_vmem_measured.py, of tests/whole/oracle/finds and of the coverage's graphs on the
chips that results.json has not, they are in bench/vmem_pairs.json, by the hash of the kernel; of
what was drawn, in bench/vmem_draws.jsonl. --record adds to the pairs what the cache of libtpu's
verdicts knows.
--save FILE keeps the predictions, --against FILE says which pairs are lower and too low, or over by
more, than what was kept.
"""

import argparse
import collections
import json
import re
import sys
import typing
from pathlib import Path

import vmem_accuracy as accuracy

ROOT = accuracy.ROOT
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "vmem")]

import proof  # noqa: E402
import test_vmem_measured as kinds  # noqa: E402
from coverage import results  # noqa: E402
from coverage import row as coverage  # noqa: E402
from pallasc import aot, binding  # noqa: E402
from pallasc.chips import VMEM_BYTES  # noqa: E402
from pallasc.errors import CompileError  # noqa: E402

PAIRS = Path(__file__).with_name("vmem_pairs.json")
MEASURED = ROOT / "tests" / "unit" / "test_vmem_measured.c"
COVERED = ROOT / "testdata" / "coverage" / "graphs"
OVER = 0.01  # of what is used: a prediction that is over by so much more is told


class Pair(typing.NamedTuple):
    """A kernel as it is printed now, and the bytes that libtpu uses.

    Attributes:
      name, chip: what it is.
      module: the `Module`.
      used: bytes, if the source of the pair says them; else PAIRS or the cache knows, or nobody.
      taken: libtpu takes it; of what it refuses, `used` is the least it can be.
    """

    name: str
    chip: str
    module: typing.Any
    used: int | None = None
    taken: bool = True

    @property
    def kernel(self):
        """The hash of the kernel, whatever is predicted, and whatever the limit."""
        return accuracy.kernel_hash(self.module.source)


def of_coverage():
    """The rows of docs/coverage.md."""
    found = results.Results()
    for row in coverage.rows():
        for name, entry in found.part(row, "compiled").items():
            if entry["kind"] == "ok":
                case, chip = results.compilations(row)[name]
                module = proof.module(case, chip)
                yield Pair(f"{row.name}: {name}", chip, module, entry["vmem_bytes"])


def of_other_chips():
    """Their graphs on the other chips."""
    rows = [row for row in coverage.rows() if row.production and not row.diagnostic]
    for row in rows:
        for chip in accuracy.CHIPS:
            if chip in results.CHIPS:
                continue
            try:
                module = proof.module(proof.Case(row.production), chip)
            except CompileError:
                continue
            yield Pair(f"{row.name}: {chip}", chip, module)


def of_draws():
    """What was drawn before, to fit the model to."""
    for draw, module, same in accuracy.kept_draws(accuracy.KEPT):
        if same:
            name = " ".join(str(draw[key]) for key in ("graph", "changes", "config", "chip"))
            yield Pair(name, draw["chip"], module, draw["used"], draw["taken"])


def of_unit_tests():
    """The rows of the unit test, as it plans them."""
    row = re.compile(r'\{"(\w+)",\s*"(\w+)",\s*\{([^}]*)\},\s*(\d+),')
    for graph, chip, settings, used in row.findall(MEASURED.read_text()):
        document = json.loads((COVERED / f"{graph}.json").read_text())
        given = dict(item.split("=", 1) for item in re.findall(r'"([^"]*)"', settings))
        config = {key: json.loads(v) if v[0] in "[0123456789" else v for key, v in given.items()}
        module = binding.compile(document, {**config, "pallas_wide_blocks": "off"}, chip)
        yield Pair(f"{graph} {settings}: {chip}", chip, module, int(used))


def of_kinds():
    """The kinds of the Python test."""
    for name, (document, _) in kinds.KINDS.items():
        for chip in kinds.CHIPS:
            module = binding.compile(json.loads(document), None, chip)
            yield Pair(f"{name}: {chip}", chip, module)


def of_finds():
    """What the oracle has found."""
    for path in sorted((ROOT / "tests" / "whole" / "oracle" / "finds").glob("*.json")):
        document = json.loads(path.read_text())["document"]
        for chip in accuracy.CHIPS:
            try:
                module = binding.compile(document, None, chip)
            except CompileError:
                continue
            yield Pair(f"{path.stem}: {chip}", chip, module)


SOURCES = {
    "coverage": of_coverage,
    "other chips": of_other_chips,
    "draws": of_draws,
    "unit tests": of_unit_tests,
    "kinds": of_kinds,
    "finds": of_finds,
}


def cached(pair):
    """The bytes that libtpu used or asked for, if the cache has what is printed now; None."""
    result = aot.AotResult("", pair.chip)
    key = aot.cache_key(pair.module.source, pair.chip)
    return result.vmem_bytes if aot.CACHE.load(key, result) else None


class Found(typing.NamedTuple):
    """What is kept of a pair."""

    chip: str
    kernel: str
    used: int
    predicted: int
    taken: bool = True

    @property
    def ratio(self):
        return self.predicted / self.used

    @property
    def low(self):
        """Less is predicted than used; of what libtpu refuses, less than the chip has."""
        limit = self.used if self.taken else VMEM_BYTES[self.chip] + 1
        return self.predicted < limit


def predictions(known):
    """{"SOURCE: NAME": Found}; `known` is of PAIRS, and gets what only the cache knew."""
    found = {}
    for source, pairs in SOURCES.items():
        for pair in pairs():
            name = f"{source}: {pair.name}"
            used, kernel = pair.used, pair.kernel
            if used is None:
                stored = known.get(name, [None, None])
                used = stored[1] if stored[0] == kernel else cached(pair)
                if used:
                    known[name] = [kernel, used]
            if used:
                kernels = pair.module.plan.get("kernels", [pair.module.plan])
                predicted = max(plan["vmem"]["total"] for plan in kernels)
                found[name] = Found(pair.chip, kernel, used, predicted, pair.taken)
    return found


def tables(found):
    """Prints predicted / used by chip and by source, and the MiB that are predicted too much."""
    groups = collections.defaultdict(list)
    for name, item in found.items():
        for group in ("all", *sorted(SOURCES), *sorted(accuracy.CHIPS)):
            if group in ("all", item.chip, name.split(":")[0]):
                groups[group].append(item)
    print(f"{'':12}  pairs     min      5%  median     95%     max  below 1  MiB over")
    for group in ("all", *accuracy.CHIPS, *SOURCES):
        ratios = sorted(item.ratio for item in groups[group] if item.taken)
        at = [ratios[int(q * (len(ratios) - 1))] for q in (0, 0.05, 0.5, 0.95, 1)]
        over = (
            sum(max(item.predicted - item.used, 0) for item in groups[group] if item.taken) / 2**20
        )
        shown = " ".join(f"{ratio:7.3f}" for ratio in at)
        low = sum(item.low for item in groups[group])
        print(f"{group:12}  {len(ratios):5} {shown}  {low:7} {over:9.1f}")


def compare(found, before, show):
    """Prints how predictions differ from those that were kept, the most first."""
    both = {n: (before[n], found[n]) for n in found.keys() & before.keys()}
    lower = {n: new.ratio - old.ratio for n, (old, new) in both.items()}
    lists = {
        "lower, and too low": [n for n, (_, new) in both.items() if lower[n] < 0 and new.low],
        "over by more": [
            n
            for n, (old, new) in both.items()
            if new.taken and new.ratio > max(1, old.ratio) + OVER
        ],
        "another kernel": [n for n, (old, new) in both.items() if old.kernel != new.kernel],
        "gone": [n for n in before if n not in found],
    }
    for what, names in lists.items():
        print(f"{what}: {len(names)}")
        for name in sorted(names, key=lambda n: -abs(lower.get(n, 0)))[:show]:
            ratios = " -> ".join(f"{item.ratio:.3f}" for item in both.get(name, ()))
            print(f"  {ratios}  {name}")


def main():
    """Compiles each pair with pallasc, prints tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--record", action="store_true", help="writes bench/vmem_pairs.json")
    parser.add_argument("--save", type=Path, metavar="FILE")
    parser.add_argument("--against", type=Path, metavar="FILE")
    parser.add_argument("--show", type=int, default=12, help="lines of each list")
    options = parser.parse_args()
    known = json.loads(PAIRS.read_text()) if PAIRS.exists() else {}
    found = predictions(known)
    tables(found)
    if options.against:
        kept = json.loads(options.against.read_text())
        compare(found, {name: Found(*item) for name, item in kept.items()}, options.show)
    if options.save:
        options.save.write_text(json.dumps(found, indent=1) + "\n")
    if options.record:
        kept = sorted((name, pair) for name, pair in known.items() if name in found)
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(pair)}" for name, pair in kept)
        PAIRS.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
