"""Asks the real TPU compiler how arrays may be cut: `make probe-tiling`.

For each chip, dtype and layout (which dim of what array) it finds the smallest power of two whose
odd multiples are taken, by bisection, for blocks of the grid and of emit_pipeline, for copies
between HBM and VMEM, and for slices of a block in VMEM. It writes tests/plan/tiling/rules.json, one
table per chip, and docs/tiling.md from it.
"""

import argparse
import concurrent.futures
import dataclasses
import importlib.metadata
import json
import re
import sys
import time
from collections import deque
from pathlib import Path

import tiling_kernels as kernels
import tiling_page as page
from pallasc.aot import compile_many
from pallasc.chips import TOPOLOGIES

HERE = Path(__file__).resolve().parent
RULES = HERE / "rules.json"
DTYPES = ("float32", "bfloat16", "int8", "float8_e4m3fn", "bool", "int4")
BUFFERS = (1, 2, 3)


class Asker:
    """Asks the compiler for one chip, one kernel after the other in one worker."""

    def __init__(self, target):
        self.target = target
        self.count, self.seconds = 0, 0.0
        self.refusal = ""
        self.scope = ()  # of what `smallest` is asked, for guesses
        self._waiting = deque()
        self._results = compile_many(self._jobs(), timeout=60)

    def _jobs(self):
        while True:
            yield self._waiting.popleft(), self.target

    def __call__(self, module):
        """Whether the compiler takes `module`; `refusal` then has its last words."""
        self._waiting.append(module)
        result = next(self._results)
        self.count += 1
        self.seconds += result.seconds
        if not result.ok:
            self.refusal = result.message.split("\n")[0][:120]
        return result.ok

    def smallest(self, question, largest, taken):
        """`smallest`, starting from what another chip or use answered to this question."""
        found = _guesses.get((question, *self.scope)) or _guesses.get((question, *self.scope[1:]))
        found = smallest(largest, taken, found)
        _guesses[(question, *self.scope)] = _guesses[(question, *self.scope[1:])] = found
        return found

    def close(self):
        self._results.close()


_guesses = {}


def smallest(largest, taken, guess=None):
    """The smallest power of two, at most `largest`, for which `taken` holds; None if for none.

    `taken` holds for all powers above one for which it holds, so that it is found by bisection; two
    questions are enough to see that a guess is right.
    """
    if guess and guess <= largest and taken(guess) and (guess == 1 or not taken(guess // 2)):
        return guess
    if taken(1):
        return 1
    low, high = 0, largest.bit_length() - 1
    if high == 0 or not taken(largest):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if taken(1 << middle) else (middle, high)
    return 1 << high


def powers(multiple, taken):
    """The smaller powers of two that are taken: asked down to a refusal, and 1."""
    found, power = [], multiple // 2
    while power and taken(power):
        found.append(power)
        power //= 2
    if power > 1 and taken(1):
        found.append(1)
    return found[::-1]


def probe_blocks(ask, make, layout, dtype):
    """What blocks a pipeline takes; {"refused": why} for a dtype that it does not.

    multiple: any multiple of this (asked of three times it). powers: smaller powers of two that
    are. whole: a block of the whole dim, of any extent. ragged: as multiple, where the last block
    reaches past the end. larger: whether the only one may.
    """

    def taken(extent, block):
        return ask(make(layout, dtype, extent, block))

    multiple = ask.smallest("multiple", layout.largest, lambda m: taken(layout.extent, 3 * m))
    rules = {"multiple": multiple, "whole": taken(layout.odd, layout.odd)}
    if multiple is None and not rules["whole"]:
        return {"refused": ask.refusal}
    if multiple is not None:
        rules["powers"] = powers(multiple, lambda m: taken(layout.extent, m))
        largest, odd = layout.largest, layout.extent + 1
        rules["ragged"] = ask.smallest("ragged", largest, lambda m: taken(odd, 3 * m))
        larger = 3 * (rules["ragged"] or multiple)
        rules["larger"] = taken(larger - 1, larger)
    return rules


def probe_slices(ask, make, layout, dtype, static=True):
    """What slices are taken, by size and by what is known of the start.

    steps: j times a multiple of this, and that size. powers: smaller powers of two, that size from
    j times it. hint: an unknown start said to be a multiple of this; 1: nothing need be said. any:
    three elements, at an unknown start. And, if `static`, of starts known when the kernel is
    traced, whole: all of a dim, of any extent; size: any multiple of this, from 0; start: any
    multiple of this; rest: from a legal start to an end at none.
    """

    def taken(start, size, extent=layout.extent):
        return ask(make(layout, dtype, extent, start, size))

    def hinted(multiple):
        start = f"pl.multiple_of(begin, {multiple})" if multiple > 1 else "begin"
        return taken(start, legal)

    rules, largest = {}, layout.largest
    rules["steps"] = legal = ask.smallest("steps", largest, lambda m: taken(f"j * {3 * m}", 3 * m))
    if static or legal is None:
        rules["whole"] = taken("0", layout.odd, layout.odd)
    if legal is None:
        return rules if rules["whole"] else {"refused": ask.refusal}
    rules["powers"] = powers(rules["steps"], lambda m: taken(f"j * {m}", m))
    rules["hint"] = ask.smallest("hint", largest, hinted)
    if rules["hint"] == 1:
        rules["any"] = taken("begin", 3)
    if static:
        rules["size"] = ask.smallest("size", largest, lambda m: taken("0", 3 * m))
        rules["start"] = ask.smallest("start", largest, lambda m: taken(f"{3 * m}", legal))
        rules["rest"] = taken(f"{3 * legal}", 5, 3 * legal + 5)
    return rules


def probe_traced_slices(*arguments):
    return probe_slices(*arguments, static=False)


def _copies(out):
    return lambda layout, dtype, extent, start, size: kernels.copy(
        layout, dtype, extent, start, size, out
    )


def _views(what):
    return lambda layout, dtype, extent, start, size: kernels.view(
        layout, dtype, extent, start, size, what
    )


@dataclasses.dataclass(frozen=True)
class Use:
    """One way to cut: what asks, with which kernels, in which layouts and dtypes ((): all)."""

    probe: object
    make: object
    layouts: tuple = ()
    dtypes: tuple = ()


MOST = ("[n]", "[r, n]", "[n, 256]", "[n, 128]", "[b, r, n]", "[b, n, 256]", "[n, r, 256]")
FEW = ("[r, n]", "[n, 256]", "[n, 128]", "[n, r, 256]")
USES = {
    "block": Use(probe_blocks, kernels.grid_block),
    "pipeline": Use(probe_blocks, kernels.pipeline_block),
    "copy_in": Use(probe_slices, _copies(False)),
    "copy_out": Use(probe_traced_slices, _copies(True), MOST),
    "load": Use(probe_slices, _views(kernels.LOAD)),
    "store": Use(probe_traced_slices, _views(kernels.STORE), MOST),
    "masked_store": Use(probe_traced_slices, _views(kernels.MASKED), FEW, ("float32", "bfloat16")),
    "update": Use(
        probe_traced_slices, _views(kernels.UPDATE), FEW, ("float32", "bfloat16", "int8")
    ),
}


def probe_buffers(ask):
    """Which numbers of windows each pipeline keeps of an input."""
    layout = next(layout for layout in kernels.LAYOUTS if layout.name == "[n, 256]")
    return {
        use: [n for n in BUFFERS if ask(make(layout, "float32", layout.extent, 192, n))]
        for use, make in (("block", kernels.grid_block), ("pipeline", kernels.pipeline_block))
    }


def probe_target(target, dtypes=DTYPES, uses=tuple(USES), layouts=kernels.LAYOUTS, say=print):
    """One chip's table: {"buffers", use: {dtype: {layout: rules}}}."""
    ask = Asker(target)
    table = {"buffers": probe_buffers(ask)}
    for use in uses:
        asked = USES[use]
        table[use] = {dtype: {} for dtype in dtypes if dtype in (asked.dtypes or dtypes)}
        for dtype in table[use]:
            for layout in layouts:
                if asked.layouts and layout.name not in asked.layouts:
                    continue
                ask.scope = (use, asked.probe is probe_blocks, layout.name, dtype)
                table[use][dtype][layout.name] = asked.probe(ask, asked.make, layout, dtype)
        say(
            f"{target}: {use}: {ask.count} kernels, {ask.seconds:.0f} s in the compiler", flush=True
        )
    ask.close()
    table["kernels"] = ask.count
    return table


def main():
    """Probes all chips, two at a time; writes the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", default=",".join(TOPOLOGIES))
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--uses", default=",".join(USES))
    parser.add_argument("-j", "--jobs", type=int, default=2, help="workers")
    parser.add_argument("-o", "--output", default=str(RULES))
    options = parser.parse_args()
    targets, started = options.targets.split(","), time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        tables = pool.map(
            lambda t: probe_target(t, options.dtypes.split(","), options.uses.split(",")), targets
        )
        targets = dict(zip(targets, tables, strict=True))
    versions = {name: importlib.metadata.version(name) for name in ("jax", "libtpu")}
    rules = {"versions": versions, "targets": targets}
    Path(options.output).write_text(rules_text(rules))
    if options.output == str(RULES):
        page.write(rules)
    print(f"{(time.monotonic() - started) / 60:.1f} minutes")


def rules_text(rules):
    """JSON with a line for each layout."""
    text = json.dumps(rules, indent=1)
    return re.sub(r"\{[^{}]*\}", lambda m: re.sub(r"\s+", " ", m[0]), text) + "\n"


if __name__ == "__main__":
    sys.exit(main())
