"""The tables of docs/scaling.md: time on many chips, on paper (`python bench/scaling.py`).

What a device computes is taken from `profile`, an estimate in cycles of the compiler's schedule;
what goes between chips from the rates that are stated here and on the page. Nothing is measured.
"""

import math
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / part) for part in ("python", "python/tests", "tests", "tests/whole")]

import numpy as np  # noqa: E402
import pallasc  # noqa: E402
from kit import document  # noqa: E402
from page_part import write_part  # noqa: E402
from pallasc.profile.run import profile  # noqa: E402
from sized import renamed  # noqa: E402

PAGE = ROOT / "docs" / "scaling.md"
BEGIN, END = "<!-- bench-scaling -->\n", "<!-- end -->\n"
CHIPS = ("v5e", "v6e", "v7x")

# Bytes per second that a link takes in each of its two directions: what Google says of a chip, both
# directions together, over its links (docs/scaling.md has the pages).
LINK = {"v5e": 400e9 / 4 / 2, "v6e": 800e9 / 4 / 2, "v7x": 1200e9 / 6 / 2}
# Of the network between slices, for each chip and direction.
DCN = {"v5e": 6.4e12 / 8 / 256, "v6e": 25.6e12 / 8 / 256, "v7x": 100e9 / 8}
# Seconds that a message takes to a neighbour, beside its bytes: assumed.
HOP_S = 1e-6
# Devices of a chip: the work of one is shared by them.
CORES = {"v5e": 1, "v6e": 1, "v7x": 2}
SLICES = {
    2: {4: (2, 2), 16: (4, 4), 64: (8, 8), 256: (16, 16)},
    3: {4: (2, 2, 1), 16: (2, 2, 4), 64: (4, 4, 4), 256: (4, 8, 8), 1024: (8, 8, 16)},
}
COUNTS = (4, 16, 64, 256, 1024)


# ---- between chips -------------------------------------------------------------------------------


def torus(chip, count):
    """(chips along each dim of a slice, slices) of so many chips."""
    known = SLICES[3 if chip == "v7x" else 2]
    largest = max(known)
    return (known[count], 1) if count <= largest else (known[largest], count // largest)


def is_ring(chip, dims, size):
    """Whether a dim of the slice is closed; else it is a line."""
    return min(dims) >= 4 if chip == "v7x" else size == 16


def gathered_s(chip, dims, size):
    """Seconds to all-gather `size` bytes along dims, or to reduce-scatter them.

    All dims carry a part at once. What comes to a chip comes from both sides of a ring, and from
    one to the end of a line.
    """
    along = [d for d in dims if d > 1]
    rate = sum(LINK[chip] * (2 if is_ring(chip, dims, d) else 1) for d in along)
    hops = sum(d // 2 if is_ring(chip, dims, d) else d - 1 for d in along)
    count = math.prod(dims)
    return size * (count - 1) / count / rate + hops * HOP_S


def added_s(chip, count, size):
    """Seconds to all-reduce `size` bytes over chips, of several slices over their network too."""
    dims, slices = torus(chip, count)
    part = size / math.prod(dims)
    between = 2 * (slices - 1) / slices * part / DCN[chip]
    return 2 * gathered_s(chip, dims, size) + between


def exchanged_s(chip, dims, size):
    """Seconds of an all-to-all in which each chip sends `size` bytes, as much to each other.

    The fullest link counts: of a ring of n chips it carries n/8 of what a chip sends, in each
    direction, of a line n/4; of several dims the longest.
    """
    loads = [d / (8 if is_ring(chip, dims, d) else 4) for d in dims if d > 1]
    hops = sum(d // 2 if is_ring(chip, dims, d) else d - 1 for d in dims)
    return max(loads) * size / LINK[chip] + hops * HOP_S


# ---- on a device ---------------------------------------------------------------------------------


def seconds(graph, chip, arrays=(), **options):
    """What one device takes for a graph, whose configuration is chosen."""
    graph = {key: value for key, value in graph.items() if key != "config"}
    module = pallasc.compile(graph, target=chip, **options)
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / f"{name}.npy" for name in dict(arrays)}
        for name, array in dict(arrays).items():
            np.save(paths[name], array)
        found = profile(module, chip, {name: str(path) for name, path in paths.items()})
    if not found["trusted"]:
        raise SystemExit(f"scaling: {graph['name']} for {chip}: {found['errors']}")
    return found["cycles"] / found["clock_hz"]


def matmul_s(chip, rows):
    """Of [rows, 4096] times [4096, 4096], bfloat16, on a chip."""
    parts = 4096 // rows * CORES[chip]
    split = {"mesh": {"m": parts}, "shard": {"tile_m": "m"}} if parts > 1 else {}
    return seconds(document("matmul_4096"), chip, **split)


def attention_s(chip, length):
    """Of 8 heads of 128, so many queries and keys, bfloat16, on a chip."""
    heads = 8 // CORES[chip]
    names = {8192: length, 32: heads, 256: heads, 8: 1}
    return seconds(renamed(document("attention_b8_h32_s8192_d128"), names), chip)


def experts_s(chip, count):
    """Of 4,096 rows of a chip and `count` experts of each device, 2,048 wide and 768 within."""
    blocks = 16 // CORES[chip]
    names = {16: blocks, 64: count, 65: count + 1, 79: blocks + count - 1}
    offsets = np.arange(count + 1) * 256 * blocks // count
    starts = np.unique([*range(0, 256 * blocks, 256), *offsets[:-1]])
    starts = np.pad(starts, (0, blocks + count - 1 - len(starts)), mode="edge")
    lists = {"blocks": starts // 256, "groups": np.searchsorted(offsets, starts, "right") - 1}
    lists = {name: array.astype(np.int32) for name, array in (lists | {"offsets": offsets}).items()}
    return seconds(renamed(document("experts_worklist_4096_2048"), names), chip, lists)


# ---- tables --------------------------------------------------------------------------------------


def share(part, whole):
    """A part of a whole, in percent."""
    return f"{part / whole:.0%}"


def table(cells):
    """Lines of a table: {chip: cell} of each row, {label: cells}."""
    yield f"| | {' | '.join(CHIPS)} |"
    yield f"| --- |{' ---: |' * len(CHIPS)}"
    for label, row in cells.items():
        yield f"| {label} | {' | '.join(row[chip] for chip in CHIPS)} |"
    yield ""


def data_parallel():
    """Three matmuls of 4,096 tokens a chip, and the sum of float32[4096, 4096] gradients."""
    alone = {chip: 3 * matmul_s(chip, 4096) for chip in CHIPS}
    rows = {"computed, ms": {chip: f"{alone[chip] * 1e3:.3f}" for chip in CHIPS}}
    for count in COUNTS:
        cells = {}
        for chip in CHIPS:
            sent = added_s(chip, count, 4 * 4096**2)
            after, beside = alone[chip] + sent, max(alone[chip], sent)
            cells[chip] = f"{share(alone[chip], after)}, {share(alone[chip], beside)}"
        rows[f"{count:,} chips"] = cells
    return ["### Data-parallel", "", *table(rows)]


def tensor_parallel():
    """1,024 tokens a chip along one dim, [tokens, 4096] times [4096, 4096] of each chip."""
    chunk, row = {chip: matmul_s(chip, 1024) for chip in CHIPS}, 1024 * 4096
    rows = {"computed of a chip's tokens, ms": {c: f"{chunk[c] * 1e3:.4f}" for c in CHIPS}}
    for count in (2, 4, 8, 16):
        for what, width in (("all-gather", 2), ("reduce-scatter of float32", 4)):
            cells = {}
            for chip in CHIPS:
                alone = count * chunk[chip]
                sent = gathered_s(chip, (count,), width * row * count)
                after, beside = alone + sent, max(alone, sent + chunk[chip])
                cells[chip] = f"{share(alone, after)}, {share(alone, beside)}"
            rows[f"{count} chips, {what}"] = cells
    return ["### Tensor-parallel", "", *table(rows)]


def ring_attention():
    """A million tokens: each chip's queries meet the keys of all, which go around."""
    rows = {}
    for count in (64, 256, 1024):
        length, cells = 2**20 // count, {}
        for chip in CHIPS:
            if torus(chip, count)[1] > 1:
                cells[chip] = "-"
                continue
            step = attention_s(chip, length)
            sent = length * 8 * 128 * 2 * 2 / (2 * LINK[chip]) + HOP_S
            total = count * max(step, sent)
            cells[chip] = f"{total * 1e3:.1f} ms, {share(step, max(step, sent))}"
        rows[f"{count:,} chips of {length:,} tokens"] = cells
    return ["### Ring attention over 1,048,576 tokens", "", *table(rows)]


def experts():
    """512 tokens a chip, 8 experts each: rows go there and back."""
    rows, sent_bytes = {}, 4096 * 2048 * 2
    for count in COUNTS:
        cells = {}
        for chip in CHIPS:
            dims, slices = torus(chip, count)
            alone = experts_s(chip, max(1, 64 // (math.prod(dims) * CORES[chip])))
            sent = 2 * exchanged_s(chip, dims, sent_bytes)
            slow = " in slices" if slices > 1 else ""
            cells[chip] = f"{alone * 1e3:.3f} + {sent * 1e3:.3f} ms{slow}"
        rows[f"{count:,} chips"] = cells
    return ["### Experts", "", *table(rows)]


def main():
    """Writes the tables into the page."""
    lines = [*data_parallel(), *tensor_parallel(), *ring_attention(), *experts()]
    write_part(PAGE, BEGIN, END, "\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
