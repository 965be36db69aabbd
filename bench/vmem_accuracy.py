"""How near the VMEM model is: predicted against what the real TPU compiler uses.

    make bench-vmem      (or: PYTHONPATH=python .venv/bin/python bench/vmem_accuracy.py)
    make bench-vmem ARGS="--draw --seed 60001 --count 1000 --minutes 60"

Draws (graph, configuration, chip) triples by seed, prints each kernel (one that pallasc refuses for
want of VMEM as for a chip that has enough), compiles it with libtpu for the chip, and compares the
verdicts and the bytes. Writes docs/vmem_accuracy.md and docs/vmem_accuracy.svg. The draws and what
libtpu said of them are in bench/vmem_held.jsonl; without --draw these are predicted again, and
only what has become another kernel is compiled.
"""

import argparse
import copy
import dataclasses
import hashlib
import json
import math
import random
import re
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

from pallasc import aot, binding  # noqa: E402
from pallasc.chips import VMEM_BYTES  # noqa: E402
from pallasc.errors import CompileError  # noqa: E402
from pallasc.module import Module, kernel_text, with_all_vmem  # noqa: E402

GRAPHS = ROOT / "testdata" / "graphs"
CHIPS = ("v4", "v5e", "v5p", "v6e", "v7x")
PAGE = ROOT / "docs" / "vmem_accuracy.md"
PLOT = ROOT / "docs" / "vmem_accuracy.svg"
KEPT = Path(__file__).with_name("vmem_draws.jsonl")  # what the model was fitted to
HELD = Path(__file__).with_name("vmem_held.jsonl")  # and what it was not, of docs/vmem_accuracy.md
NEAR = 0.15  # of the limit
FAR = (0.1, 2.5)  # of the limit
TOLD = 0.2  # of what is used: an error that the page tells
SURE = 0.93  # of the limit: what uses less should not be refused
SPANS = ((1 - NEAR, 1), (FAR[0], 1 - NEAR), (1 + NEAR, FAR[1]), (1, 1 + NEAR))
GROUPS = (0, 1, 2, 3, 1, 2)  # of the triples in turn: a third is near
STEPS = 40  # of a walk
LARGE = (
    4 << 20
)  # bytes of intermediates, and a 16th of the limit: libtpu takes minutes for many more
LARGE_EVERY = 20  # triples
TIMEOUT_S = 90.0
SIZES = (64, 96, 128, 200, 256, 300, 384, 512, 768, 1000, 1024, 1536, 2048, 3072, 4096, 8192, 16384)
BLOCKS = (8, 16, 32, 64, 128, 256, 384, 512, 640, 768, 1024, 1280, 1536, 2048, 4096)
BATCHES = (1, 2, 3, 4, 8, 16)
LOOPS = ("unroll", "fori_loop", "emit_pipeline")

HEAD = """# Accuracy of the VMEM model

Written by `make bench-vmem` of the draws in `bench/vmem_held.jsonl`, with libtpu {libtpu}. pallasc
refuses a kernel that would need more VMEM than the chip has, before anything is printed. Here the
real compiler says who was right.

A triple is a graph, a configuration and a chip. How they were drawn: the {kernels} kernels of
`testdata/graphs` with equal shares, one of the kernel's graphs; some of its sizes changed, each to
one of {sizes};
one of seven with float32 in place of bfloat16; block sizes, loop type, DMA off, buffer counts,
pre-broadcast and dot precision at random; the chips in turn. As most such draws are far below the
limit, each then walks, a random size or block up or down, until what pallasc predicts is where it
is wanted: a third of them within {near:.0%} of the limit, half of these below it, a third from
{low:g} times the limit up to there, a third from there to {high:g} times. One of {every} has
predicted intermediates of more than {large} MiB and a 16th of the limit, the others less: libtpu
takes minutes for many of the larger ones. Left out are kernels that libtpu did not finish in
{timeout:g} s (about one of 175) or refused for other reasons than VMEM. The model (`codegen/vmem`,
`include/targets.def`) was fitted to other draws, which are in `bench/vmem_draws.jsonl`; `make
bench-vmem PART=stored` says how it does on all of that. But for four kernels of these draws
that pallasc took and libtpu refused, of which more is counted since: float32 matmuls of 16 products
a step and batches of products in straight code, both on v7x; rows in tiles of their own on v4; and
a chain of sums of 8 lanes in 1024 steps on v5p. Errors are of what libtpu takes: of what it
refuses it says only how far it got.

"""


@dataclasses.dataclass
class Triple:
    """A draw: what pallasc predicts for it, and what libtpu says.

    Attributes:
      graph, config, chip: the draw; `sizes` and `dtypes` are changes of the graph's document.
      source: the kernel, with the chip's limit in its text.
      predicted, most, used, limit: bytes; used None if libtpu gave no size.
      ok: whether libtpu took the kernel.
    """

    graph: str
    config: dict
    chip: str
    sizes: dict
    dtypes: dict
    source: str
    predicted: int
    most: int
    intermediates: int = 0
    used: int | None = None
    ok: bool = False
    kind: str = ""

    @property
    def limit(self):
        """Bytes of the chip."""
        return VMEM_BYTES[self.chip]

    @property
    def accepted(self):
        """Whether pallasc takes it."""
        return self.predicted <= self.limit

    @property
    def near(self):
        """Whether the prediction or the use is within NEAR of the limit."""
        sizes = [self.predicted, self.used or 0]
        return any(abs(size / self.limit - 1) <= NEAR for size in sizes)

    @property
    def name(self):
        """The graph and what was changed in it."""
        changes = [f"{old} to {new}" for old, new in sorted(self.sizes.items())]
        changes += [f"{new} for {old}" for old, new in self.dtypes.items()]
        return f"{self.graph} ({', '.join(changes)})" if changes else self.graph

    def kept(self):
        """A line of KEPT or HELD; of what libtpu refuses `used` is the least it can be."""
        values = {**self.sizes, **self.dtypes}
        return {
            "graph": self.graph,
            "changes": [list(pair) for pair in values.items()],
            "config": self.config,
            "chip": self.chip,
            "kernel": kernel_hash(self.source),
            "used": self.used,
            "taken": self.ok,
            "kind": self.kind,
        }


# ---- drawing -------------------------------------------------------------------------------------


def documents():
    """{kernel name: {graph name: document}} of testdata/graphs."""
    found = {}
    for path in sorted(GRAPHS.glob("*.json")):
        document = json.loads(path.read_text())
        found.setdefault(document["name"], {})[path.stem] = document
    return found


def substituted(item, values):
    """A copy of a JSON value with every int of at least 32 and every string looked up in values."""
    if isinstance(item, dict):
        return {key: substituted(value, values) for key, value in item.items()}
    if isinstance(item, list):
        return [substituted(value, values) for value in item]
    if isinstance(item, bool) or (isinstance(item, int) and item < 32):
        return item
    return values.get(item, item) if isinstance(item, (int, str)) else item


def open_blocks(document):
    """The extents of the blocks that the configuration chooses."""
    blocks = [b for b in document["block_sizes"] if not (b.get("size") or b.get("reduction"))]
    return [block.get("extent") or 512 for block in blocks]


def block_choices(extent):
    """Block sizes for a dim, ascending: the whole dim among them if it is not too large."""
    fitting = [size for size in (BATCHES if extent < 32 else BLOCKS) if size <= extent]
    return sorted({*fitting, *([extent] if extent <= BLOCKS[-1] else [])})


def draw_config(rng, document):
    """A configuration: block sizes, and keys that change what VMEM holds."""
    config = {"block_sizes": [rng.choice(block_choices(e)) for e in open_blocks(document)]}
    if any(graph["kind"] == "for_loop" for graph in document["graphs"]):
        config["pallas_loop_type"] = rng.choice(LOOPS)
        if config["pallas_loop_type"] == "fori_loop" and rng.random() < 0.35:
            config["pallas_fori_dma"] = "off"
        if rng.random() < 0.3:
            config["pallas_pre_broadcast"] = "on"
    inputs = sum(tensor["role"] in ("input", "inout") for tensor in document["tensors"])
    if rng.random() < 0.2:
        config["pallas_load_buffer_count"] = [rng.choice((1, 2)) for _ in range(inputs)]
    if rng.random() < 0.3:
        config["dot_precision"] = "default"
    return config


def neighbour(choices, value, step):
    """The entry of an ascending list after (step 1) or before (-1) `value`."""
    beyond = [item for item in choices if (item - value) * step > 0]
    return (min if step > 0 else max)(beyond, default=value)


class Walk:
    """A random draw that walks, one size or block at a time, until the prediction is in a range."""

    def __init__(self, rng, kernels, chip):
        self.rng, self.chip = rng, chip
        self.graph, self.document = rng.choice(sorted(kernels[rng.choice(sorted(kernels))].items()))
        sizes = [size for tensor in self.document["tensors"] for size in tensor["shape"]]
        self.dims = sorted({size for size in sizes if isinstance(size, int) and size >= 32})
        sizes = SIZES[-8:] if rng.random() < 0.5 else SIZES
        self.sizes = {size: rng.choice(sizes) for size in self.dims if rng.random() < 0.5}
        self.dtypes = {"bfloat16": "float32"} if rng.random() < 0.15 else {}
        self.config = draw_config(rng, self.changed())

    def changed(self):
        """The document under the walk's sizes and dtypes."""
        return substituted(self.document, {**self.sizes, **self.dtypes})

    def move(self, step):
        """Takes one block or one size a step up (1) or down (-1)."""
        extents, blocks = open_blocks(self.changed()), self.config["block_sizes"]
        which = self.rng.randrange(len(blocks) + len(self.dims) // 2 + 1)
        if which < len(blocks):
            blocks[which] = neighbour(block_choices(extents[which]), blocks[which], step)
            return
        dim = self.rng.choice(self.dims)
        self.sizes[dim] = neighbour(SIZES, self.sizes.get(dim, dim), step)
        extents = open_blocks(self.changed())
        self.config["block_sizes"] = [min(*pair) for pair in zip(blocks, extents, strict=True)]

    def triple(self):
        """The `Triple` of where the walk stands; None if pallasc refuses it, VMEM apart."""
        module = compiled(self.changed(), self.config, self.chip)
        if module is None:
            return None
        vmem = module.plan["vmem"]
        source = with_all_vmem(module.source)
        sizes = {old: new for old, new in self.sizes.items() if old != new}
        draw = (self.graph, copy.deepcopy(self.config), self.chip, sizes, self.dtypes, source)
        return Triple(*draw, vmem["total"], vmem["most"], vmem["intermediates"])


def kernel_hash(source):
    """Of a kernel, whatever is predicted, and whatever the limit."""
    return hashlib.sha256(kernel_text(source).encode()).hexdigest()[:16]


def kept_draws(path):
    """(a line of KEPT or HELD, its `Module` with the chip's limit, whether its kernel is the same).

    Those that are refused now, VMEM apart, are left out.
    """
    for line in path.read_text().splitlines():
        draw = json.loads(line)
        chip, document = draw["chip"], json.loads((GRAPHS / f"{draw['graph']}.json").read_text())
        changed = substituted(document, dict(draw["changes"]))
        if module := compiled(changed, draw["config"], chip):
            source = with_all_vmem(module.source)
            same = kernel_hash(source) == draw["kernel"]
            yield draw, Module(source, module.filename, module.plan), same


def held():
    """The triples of HELD: what libtpu said then, if the kernel is the same; else undecided."""
    for draw, module, same in kept_draws(HELD):
        sizes = {old: new for old, new in draw["changes"] if isinstance(old, int)}
        dtypes = {old: new for old, new in draw["changes"] if isinstance(old, str)}
        given = draw["graph"], draw["config"], draw["chip"], sizes, dtypes, module.source
        vmem = module.plan["vmem"]
        triple = Triple(*given, vmem["total"], vmem["most"])
        if same:
            triple.used, triple.ok, triple.kind = draw["used"], draw["taken"], draw["kind"]
        yield triple


def compiled(document, config, chip):
    """The `Module` for a chip; if its VMEM is too small, for one that has just enough; or None.

    What takes more than FAR[1] of the chip's even with half the buffers is not asked for again:
    a refusal is slow, as pallasc then looks for what would fit.
    """
    limit = VMEM_BYTES[chip]
    try:
        roomy = binding.compile(document, config, roomy_target(chip, 1 << 40))
    except CompileError:
        return None
    if not limit < roomy.plan["vmem"]["total"] <= 2 * FAR[1] * limit:
        return roomy
    needed = None
    try:
        return binding.compile(document, config, chip)
    except CompileError as error:
        needed = re.search(r"the kernel needs (\d+) bytes of VMEM", str(error))
    try:
        return needed and binding.compile(document, config, roomy_target(chip, int(needed[1])))
    except CompileError:  # with so much room other buffers are doubled
        return None


def roomy_target(chip, size):
    """A target file's text: the chip with `size` bytes of VMEM."""
    return json.dumps({"base": chip, "vmem_bytes": size})


def seek(rng, kernels, chip, span, large):
    """A triple whose prediction is in `span` of the limit, its intermediates many or not."""
    while True:
        walk = Walk(rng, kernels, chip)
        for _ in range(STEPS):
            triple = walk.triple()
            if triple is None:
                break
            share = triple.predicted / triple.limit
            if span[0] <= share <= span[1]:
                if large != (triple.intermediates > LARGE + triple.limit // 16):
                    break
                return triple
            walk.move(1 if share < span[0] else -1)


def draws(seed, count):
    """`count` triples, the groups and the chips in turn; one of LARGE_EVERY is large."""
    rng, kernels = random.Random(seed), documents()
    for number in range(count):
        low, high = SPANS[GROUPS[number % len(GROUPS)]]
        chip = CHIPS[number // len(GROUPS) % len(CHIPS)]
        if high > 1.5 or low < 0.5:  # wide: anywhere in it
            middle = math.exp(rng.uniform(math.log(low), math.log(high)))
            low, high = max(low, middle / 1.3), min(high, middle * 1.3)
        yield seek(rng, kernels, chip, (low, high), number % LARGE_EVERY == LARGE_EVERY - 1)


# ---- compiling -----------------------------------------------------------------------------------


def measured(triples, deadline):
    """Yields the triples with libtpu's verdict; starts none after the deadline (monotonic)."""
    begun = []

    def jobs():
        for triple in triples:
            if time.monotonic() > deadline:
                return
            begun.append(triple)
            yield Module(triple.source, f"{triple.graph}.py"), triple.chip

    for result in aot.compile_many(jobs(), timeout=TIMEOUT_S):
        triple = begun[-1]
        triple.ok, triple.kind, triple.used = result.ok, result.kind, result.vmem_bytes
        yield triple


# ---- the page ------------------------------------------------------------------------------------


def verdict(triple):
    """'right', 'false accept' or 'false refusal'."""
    if triple.accepted == triple.ok:
        return "right"
    return "false accept" if triple.accepted else "false refusal"


def mib(size):
    """Bytes as MiB with two digits."""
    return f"{size / 2**20:.2f}"


def summary(triples):
    """The lines of the summary table: (what, value) pairs."""
    accepted = [triple for triple in triples if triple.accepted]
    refused = [triple for triple in triples if not triple.accepted]
    wrong = [verdict(triple) for triple in triples]
    low, high = wrong.count("false accept"), wrong.count("false refusal")
    near = sum(triple.near for triple in triples)
    ratios = sorted(triple.predicted / triple.used for triple in triples if triple.ok)
    errors = sorted(abs(ratio - 1) for ratio in ratios)
    clear = [t for t in triples if t.ok and t.used < SURE * t.limit]
    lost = sum(not triple.accepted for triple in clear)
    return [
        ("triples", f"{len(triples)}"),
        (f"within {NEAR:.0%} of the limit, predicted or used", f"{near}"),
        ("accepted by pallasc", f"{len(accepted)}"),
        ("of these refused by libtpu", f"{low} ({low / max(len(accepted), 1):.1%})"),
        ("refused by pallasc", f"{len(refused)}"),
        ("of these taken by libtpu", f"{high} ({high / max(len(refused), 1):.1%})"),
        (f"using less than {SURE:.0%} of the limit", f"{len(clear)}"),
        ("of these refused by pallasc", f"{lost} ({lost / max(len(clear), 1):.1%})"),
        ("taken by libtpu", f"{len(ratios)}"),
        ("error, median", f"{errors[len(errors) // 2]:.1%}"),
        ("95th percentile", f"{errors[-1 - len(errors) // 20]:.1%}"),
        ("largest", f"{errors[-1]:.1%}"),
        ("predicted too low", f"{sum(ratio < 1 for ratio in ratios)}"),
        ("the lowest, predicted / used", f"{ratios[0]:.3f}"),
        ("more used than `vmem_most_bytes`", f"{sum(t.used > t.most for t in triples if t.ok)}"),
    ]


def far(triple):
    """Whether the verdicts differ, or the prediction is off by more than TOLD or too low."""
    off = triple.predicted / triple.used - 1 if triple.ok else 0
    return verdict(triple) != "right" or off > TOLD or off < 0


def table(triples):
    """The triples as a Markdown table, nearest to the limit first."""
    lines = ["| graph | configuration | chip | predicted | used | limit | pallasc | libtpu | |"]
    lines.append("| --- | --- | --- | ---: | ---: | ---: | --- | --- | --- |")
    for triple in sorted(triples, key=lambda t: abs(math.log(t.predicted / t.limit))):
        cells = [triple.name, f"`{json.dumps(triple.config)}`", triple.chip, mib(triple.predicted)]
        cells += [mib(triple.used) if triple.used else "", mib(triple.limit)]
        cells += ["takes" if triple.accepted else "refuses", "takes" if triple.ok else "refuses"]
        cells += ["" if verdict(triple) == "right" else f"**{verdict(triple)}**"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


COLORS = dict(zip(CHIPS, ("#7a5195", "#2f6db5", "#3a9a5b", "#e08a1e", "#c8374c"), strict=True))


def plot(triples):
    """An SVG: used (across) and predicted (up), each as a share of the limit, logarithmic."""
    low, high, size, edge = 0.08, 5.0, 480, 50

    def place(share):
        share = min(max(share, low), high)
        return (math.log(share) - math.log(low)) / (math.log(high) - math.log(low)) * size

    def point(across, up):
        return f"{edge + place(across):.1f}", f"{edge + size - place(up):.1f}"

    def line(start, end, style):
        (x1, y1), (x2, y2) = point(*start), point(*end)
        return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" {style}/>'

    width = size + 2 * edge
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{width}"']
    out[0] += ' font-family="sans-serif" font-size="12">'
    out.append(f'<rect width="{width}" height="{width}" fill="white"/>')
    for share in (0.1, 0.2, 0.5, 1, 2, 4):
        style = 'stroke="#444"' if share == 1 else 'stroke="#ddd"'
        out += [line((share, low), (share, high), style), line((low, share), (high, share), style)]
        (x, _), (_, y) = point(share, low), point(low, share)
        out.append(f'<text x="{x}" y="{edge + size + 16}" text-anchor="middle">{share:g}</text>')
        out.append(f'<text x="{edge - 6}" y="{y}" text-anchor="end" dy="4">{share:g}</text>')
    out.append(line((low, low), (high, high), 'stroke="#444" stroke-dasharray="4 3"'))
    for triple in triples:
        if triple.used:
            x, y = point(triple.used / triple.limit, triple.predicted / triple.limit)
            out.append(f'<circle cx="{x}" cy="{y}" r="2.5" fill="{COLORS[triple.chip]}"/>')
    for number, chip in enumerate(CHIPS):
        y = edge + 16 + 16 * number
        out.append(f'<circle cx="{edge + 14}" cy="{y - 4}" r="4" fill="{COLORS[chip]}"/>')
        out.append(f'<text x="{edge + 24}" y="{y}">{chip}</text>')
    out.append(f'<text x="{width // 2}" y="{width - 12}" text-anchor="middle">used / limit</text>')
    middle = f'x="14" y="{width // 2}" transform="rotate(-90 14 {width // 2})"'
    out.append(f'<text {middle} text-anchor="middle">predicted / limit</text>')
    return "\n".join([*out, "</svg>", ""])


def page(triples):
    """docs/vmem_accuracy.md."""
    head = HEAD.format(
        libtpu=aot._version("libtpu"),
        kernels=len(documents()),
        sizes=", ".join(map(str, SIZES)),
        near=NEAR,
        low=FAR[0],
        high=FAR[1],
        every=LARGE_EVERY,
        large=LARGE >> 20,
        timeout=TIMEOUT_S,
    )
    lines = ["| | |", "| --- | ---: |"]
    lines += [f"| {what} | {value} |" for what, value in summary(triples)]
    lines += ["", "![predicted against used, as shares of the limit](vmem_accuracy.svg)", ""]
    lines += [
        "Above the dashed line the model says too much. A point right of 1 and below 1 would",
        "",
    ]
    lines[-1:] = ["be a kernel that pallasc takes and libtpu refuses.", ""]
    lines += [
        f"Where the verdicts differ, or the error is above {TOLD:.0%} or less than 0, MiB:",
        "",
    ]
    return head + "\n".join(lines + table(list(filter(far, triples)))) + "\n"


def draw_anew(options):
    """Writes HELD; what it held before is what the model is fitted to from now on."""
    deadline = time.monotonic() + 60 * options.minutes
    if HELD.exists():
        with KEPT.open("a") as kept:
            kept.write(HELD.read_text())
    HELD.write_text("")
    for triple in measured(draws(options.seed, options.count), deadline):
        used = mib(triple.used) if triple.used else triple.kind
        text = f"{triple.chip} {triple.name} {json.dumps(triple.config)}: predicted"
        text += f" {mib(triple.predicted)}, used {used} of {mib(triple.limit)}: {verdict(triple)}"
        print(text, flush=True)
        with HELD.open("a") as kept:
            print(json.dumps(triple.kept()), file=kept)


def decided(triples):
    """The triples; libtpu is asked about those whose kernels have changed."""
    list(measured((triple for triple in triples if not triple.kind), math.inf))
    return triples


def main():
    """Draws, compiles, prints and writes the page and the plot."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=60001, help="of the draws")
    parser.add_argument("--count", type=int, default=1000, help="triples")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no compile after these")
    parser.add_argument("--draw", action="store_true", help="draws anew, first")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--plot", type=Path, default=PLOT)
    options = parser.parse_args()
    if options.draw:
        draw_anew(options)
    known = decided(list(held()))
    HELD.write_text("".join(f"{json.dumps(triple.kept())}\n" for triple in known))
    triples = [triple for triple in known if triple.used]
    for what, value in summary(triples):
        print(f"{what}: {value}")
    options.page.write_text(page(triples))
    options.plot.write_text(plot(triples))
    return 0 if not any(verdict(triple) == "false accept" for triple in triples) else 1


if __name__ == "__main__":
    sys.exit(main())
