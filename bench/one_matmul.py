"""The table of "One matmul on eight chips" in docs/scaling.md (`python bench/one_matmul.py`).

What a device computes is the compiler's schedule of the kernel, by `profile`; what goes between
chips is bytes over the rates that Google states. Nothing is measured on chips.
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / part) for part in ("python", "tests", "tests/shard")]

import pallasc  # noqa: E402
from kit import document  # noqa: E402
from on_devices import resized  # noqa: E402
from page_part import write_part  # noqa: E402
from pallasc.profile.run import profile  # noqa: E402
from scaling import LINK as LINKS  # noqa: E402

PAGE = ROOT / "docs" / "scaling.md"
BEGIN, END = "<!-- one-matmul -->\n", "<!-- end one-matmul -->\n"
SIZE, CHIPS, DEVICES = 8192, 8, 16
CLOCK = 2.203e9  # of v7x: docs/profile.md
LINK = LINKS["v7x"]
PEAK = 2307e12  # bfloat16 FLOP/s of a chip
TILES = 16  # of a share, of sums


def compiled(way):
    """The kernel of one of 16 devices, and the bytes of an element that travels."""
    shapes = {name: [SIZE, SIZE] for name in ("x", "y", "out")}
    graph = resized(document("matmul_4096"), shapes, [SIZE] * 3, {})
    blocks = {"tile_n": "model"} if way == "gather" else {"tile_k": "model"}
    options = {way: {"x" if way == "gather" else "out": "model"}, "ring": "kernel"}
    return pallasc.shard(graph, {"model": DEVICES}, blocks, target="v7x", **options)


def computed(module):
    """Seconds: of a device's bundles, and with its waits for HBM, links taken as free."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "matmul.py"
        path.write_text(module.source)
        found = profile(path, "v7x")
    (kernel,) = [x for x in found["kernels"].values() if x["pallas"]]
    return (kernel["cycles"] - kernel["wait_cycles"]) / CLOCK, kernel["cycles"] / CLOCK


def by_turns(way, turn_s, share_s):
    """Seconds of the kernel, turn by turn, where a share takes `share_s` on its link.

    All devices do the same at the same time. Gathered: at the start of a turn the next turn's share
    is there, or waited for, and goes on. Sums: a share's tiles leave as they are computed, the last
    one at its turn's end.
    """
    turns = 2 * DEVICES
    now, here = 0.0, [0.0, 0.0]  # by turn, when its share is there
    for turn in range(turns):
        if way == "gather" and 2 <= turn + 1 < turns:
            now = max(now, here[turn + 1])
        now = max(now, here[turn])
        started, now = now, now + turn_s
        if way == "gather" and turn == 0:
            here += [share_s, share_s]
        elif way == "gather":
            here.append(started + share_s)
        else:
            here.append(max(now + share_s / TILES, here[turn] + share_s))
    return now


def row(way):
    """A line of the table."""
    element = 2 if way == "gather" else 4
    bundles, alone = computed(compiled(way))
    whole = element * SIZE * SIZE
    ring = whole * (DEVICES - 1) / DEVICES / 2 / LINK
    ours = by_turns(way, alone / (2 * DEVICES), ring / (DEVICES - 1))
    mesh = whole * (CHIPS - 1) / CHIPS / 3 / LINK
    one_way = 2 * ring
    cells = [bundles, alone, one_way, ring, mesh, mesh / 2, ours]
    exposed = (ours - alone) / ours
    name = "`--gather x`, bfloat16" if way == "gather" else "`--scatter out`, float32"
    return f"| {name} | " + " | ".join(f"{1e6 * s:.0f}" for s in cells) + f" | {exposed:.0%} |"


def from_size(element, seconds_per_byte):
    """From which N (gathered), or K (sums), on a chip computes for as long as its links take."""
    return element * (PEAK * seconds_per_byte) / 2


def main():
    """Writes the table into the page."""
    floors = "1-D ring, one way | 1-D ring, both ways | 2x2x2, 3 links | 2x2x2, 6 links"
    lines = [
        f"| µs | bundles | with HBM | {floors} | the kernel | exposed |",
        "| --- " + "| ---: " * 8 + "|",
        *(row(way) for way in ("gather", "scatter")),
        "",
        f"| hides from | {floors} |",
        "| --- " + "| ---: " * 4 + "|",
    ]
    # Bytes of a whole array take so many seconds each; a chip computes 2 M N K / 8 for it.
    part, chip = (DEVICES - 1) / DEVICES, (CHIPS - 1) / CHIPS
    rates = [part / LINK, part / 2 / LINK, chip / 3 / LINK, chip / 6 / LINK]
    for name, element in (("N, `--gather x`, bfloat16", 2), ("K, `--scatter out`, float32", 4)):
        sizes = [f"{CHIPS * from_size(element, rate):,.0f}" for rate in rates]
        lines.append(f"| {name} | " + " | ".join(sizes) + " |")
    write_part(PAGE, BEGIN, END, "\n" + "\n".join(lines) + "\n\n")


if __name__ == "__main__":
    main()
