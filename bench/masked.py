"""Masked attention beside full attention (`make bench-masked`): cycles for what a mask leaves.

A score matrix is cut into blocks of 256 x 256. Of each kernel: the estimated cycles for each block
of each head that holds a score that counts, and how many times those of full attention that is, at
[1, 512, 1024]. Prints a line for each kernel, configuration and chip.
"""

import argparse
import dataclasses
import json
import sys
import tempfile
from pathlib import Path

from measure import ROOT, Job, measure

sys.path[:0] = [str(ROOT / part) for part in ("python", "tests")]

import pallasc  # noqa: E402
from kit import document  # noqa: E402
from pallasc.profile.run import profile  # noqa: E402
from race import has_tokamax  # noqa: E402
from race_more import seen_blocks, splash  # noqa: E402
from sized import renamed  # noqa: E402

WINDOW = 1024
CHIPS = ("v6e", "v7x")
LOOPS = (None, "fori_loop", "emit_pipeline")
HAND_HEADS, HAND_ROWS = 16, 8192
HAND_SIZES = ((1024, 1024, 512), (1024, 1024, 1024), (2048, 2048, 512), (512, 1024, 512))


def full(far):
    """Whether a score is seen whose row is so `far` behind its column: all are."""
    return far == far


def causal(far):
    """Those at and below the diagonal."""
    return far >= 0


def window(far):
    """Those of WINDOW columns up to the diagonal."""
    return (far >= 0) & (far < WINDOW)


@dataclasses.dataclass(frozen=True)
class Row:
    """A kernel of ours: its graph, what its rows become, and which scores are seen."""

    name: str
    graph: str
    heads: int
    rows: int
    visible: object
    resized: dict = dataclasses.field(default_factory=dict)
    config: str = "{}"

    def blocks(self):
        """How many blocks count, of all heads."""
        return self.heads * seen_blocks(self.visible, self.rows)


GIVEN = json.dumps({"block_sizes": [1, 512, 1024], "pallas_loop_type": "emit_pipeline"})
FULL = Row("full", "attention_d128_8192", 16, 8192, full, config=GIVEN)
CAUSAL = "causal_attention_b2_h8_s4096_d128"
ROWS = (
    FULL,
    Row("causal, 4096 rows", CAUSAL, 16, 4096, causal),
    Row("causal", CAUSAL, 16, 8192, causal, {4096: 8192}),
    Row("sliding window", "sliding_attention_8192", 32, 8192, window),
    Row("ALiBi", "alibi_attention_8192", 32, 8192, causal),
    Row("segment ids", "segment_attention_4096", 64, 4096, full),
    Row("grouped heads", "gqa_attention_8192", 32, 8192, full),
    Row("causal backward, dq", "causal_attention_dq_8192", 32, 8192, causal),
    Row("causal backward, dk and dv", "causal_attention_dkdv_8192", 32, 8192, causal),
)


def ours(row, chip, loop):
    """(cycles, block sizes) of a row with no configuration but the loop's type; or why not."""
    graph = renamed(document(row.graph), row.resized)
    graph.pop("config", None)
    config = json.loads(row.config) | ({"pallas_loop_type": loop} if loop else {})
    try:
        module = pallasc.compile(graph, config, chip)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kernel.py"
            path.write_text(module.source)
            found = profile(path, chip)
    except pallasc.CompileError as error:
        return None, str(error).splitlines()[0]
    cycles = max(k["cycles"] for k in found["kernels"].values() if k["pallas"])
    return cycles, str(module.info["config"]["block_sizes"])


def by_hand(mask, chip):
    """(cycles, name and sizes) of each kernel by hand under a mask; None where it has no time."""
    names = ["jax.splash_masked", *(["tokamax.splash_masked"] if has_tokamax() else [])]
    args = (f"bfloat16[1,{HAND_HEADS},{HAND_ROWS},128]",) * 3
    for name in names:
        for sizes in HAND_SIZES:
            config = splash(*sizes, mask=mask)
            found = measure(Job("hand", name, args, json.dumps(config), chip))
            cycles = found.static["cycles"] if found.ok and found.static else None
            yield cycles, f"{name} {'/'.join(map(str, sizes))}", found.message


def line(name, chip, what, cycles, blocks, floor):
    """A line of the table; `floor`: cycles of full attention for a block."""
    each = cycles / blocks
    return f"{name:28} {chip} {what:44} {cycles / 1e3:9.1f} {each:7.1f} {each / floor:6.2f}"


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--row", default="", help="only rows whose name holds this")
    parser.add_argument("--chip", choices=CHIPS, help="only this chip")
    parser.add_argument("--hand", action="store_true", help="splash attention, too")
    options = parser.parse_args()
    print(f"{'kernel':28} chip {'configuration':43} kilocycles   block  times full attention's")
    for chip in [options.chip] if options.chip else CHIPS:
        floor = ours(FULL, chip, None)[0] / FULL.blocks()
        for row in (row for row in ROWS if options.row in row.name):
            for loop in LOOPS if row is not FULL else LOOPS[:1]:
                cycles, what = ours(row, chip, loop)
                what = f"{loop or 'default'} {what}"
                if cycles is None:
                    print(f"{row.name:28} {chip} {what}", flush=True)
                    continue
                print(line(row.name, chip, what, cycles, row.blocks(), floor), flush=True)
        for mask, visible in (("causal", causal), ("window", window)) if options.hand else ():
            for cycles, what, why in by_hand(mask, chip):
                blocks = HAND_HEADS * seen_blocks(visible, HAND_ROWS)
                if cycles is None:
                    print(f"{mask:28} {chip} {what} {why}", flush=True)
                    continue
                print(line(mask, chip, what, cycles, blocks, floor), flush=True)


if __name__ == "__main__":
    main()
