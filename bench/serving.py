"""docs/serving.md: serving kernels beside those that people wrote, cycles of both on the same data.

    python bench/serving.py                 what is missing or has changed, and the page
    python bench/serving.py --row grouped   only of rows whose name holds the text
    python bench/serving.py --known         measures nothing

A row is one of docs/coverage.md at its production size, with the lengths and tables by which its
cycles are estimated there, in the fastest of its loop types. A public kernel is given the same
ones, in its own layout; where it has block sizes to choose, the best of those named here counts.
What was measured is kept in serving.json, by all that it depends on; what failed is tried again.
tpu-inference is asked for in the folder TPU_INFERENCE, other packages are those of
requirements-bench.txt.
"""

import argparse
import contextlib
import dataclasses
import fcntl
import hashlib
import importlib.metadata
import inspect
import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / part) for part in ("bench", "python", "tests", "tests/whole")]

import numpy as np  # noqa: E402
import proof  # noqa: E402
import public_kernels  # noqa: E402
from coverage import results  # noqa: E402
from coverage import row as coverage  # noqa: E402
from pallasc.errors import CompileError, PallascError  # noqa: E402
from pallasc.profile.estimate import INSTRUMENT  # noqa: E402
from pallasc.profile.run import profile  # noqa: E402

# What a device of a chip calls itself.
CHIPS = {"v6e": "TPU v6 lite", "v7x": "TPU7x"}
BUILT = ROOT / "bench" / "public_kernels.py"
DATA = ROOT / "bench" / "serving.json"
PAGE = ROOT / "docs" / "serving.md"
OURS = "pallasc"
TIMEOUT_S = 1800
PACKAGES = ("jax", "jaxlib", "libtpu")


@dataclasses.dataclass(frozen=True)
class Public:
    """A kernel of public_kernels.py.

    Attributes:
      name: how the table calls it.
      kernel: a name of `public_kernels.KERNELS`.
      options: what it is asked with, one of them after the other.
      without: inputs of the row that it is not told of.
      counted: of its Pallas kernels those whose name holds it.
    """

    name: str
    kernel: str
    options: tuple = ({},)
    without: tuple = ()
    counted: str = ""


def tilings(*found):
    """Options of grouped matmuls."""
    return tuple({"tiling": tiling} for tiling in found)


def ragged(**more):
    """Public kernels of ragged paged attention."""
    asked = ({"num_kv_pages_per_block": 16, "num_queries_per_block": 64},)
    floats = {"cache": "float8_e4m3fn"} if "cache" in more else {}  # it takes no ints
    # Its own blocks on v6e; those that it takes on v7x need more VMEM than there is.
    third = {"m_block_sizes": (256, 1024, 128, 512)} | more | floats
    return (
        Public("jax ragged_paged_attention", "ragged_paged", tuple(o | more for o in asked)),
        Public("tpu-inference ragged_paged_attention v3", "tpu-inference ragged", (third,)),
    )


def narrow(weights):
    """Public kernels of grouped matmuls with weights of a dtype."""
    asked = {"weights": weights}
    tiled = tilings((128, 1024, 1024), (256, 1024, 1024))
    return (
        Public("tokamax ragged_dot", "tokamax", tuple(o | asked for o in tiled)),
        Public("tpu-inference gmm_v2", "tpu-inference gmm_v2", (asked,)),
    )


ROWS = {
    "grouped matmul, int8 weights, worklist": (
        Public(
            "jax megablox, bfloat16 weights",
            "megablox",
            tilings((128, 1024, 1024), (256, 1024, 1024), (512, 1024, 1024)),
        ),
        Public(
            "tokamax ragged_dot, bfloat16 weights",
            "tokamax",
            tilings((128, 1024, 1024), (256, 1024, 1024)),
            without=("scales",),
        ),
        Public(
            "tokamax ragged_dot, int8 weights",
            "tokamax",
            tilings((128, 1024, 1024), (256, 1024, 1024)),
        ),
        Public("tpu-inference gmm_v2, int8 weights", "tpu-inference gmm_v2"),
    ),
    "grouped matmul, int4 weights, worklist": narrow("int4"),
    "grouped matmul, float8 weights, worklist": narrow("float8_e4m3fn"),
    "experts, fused, worklist": (
        Public(
            "jax megablox, twice",
            "megablox experts",
            tuple({"tilings": ((rows, 2048, 1536), (rows, 768, 2048))} for rows in (64, 128, 256)),
        ),
        Public("tpu-inference gmm_v2, twice", "tpu-inference experts"),
    ),
    "ragged paged attention": ragged(),
    "ragged paged attention, sliding window, soft cap": ragged(sliding_window=1024, soft_cap=50.0),
    "ragged paged attention, cache in 8 bits": ragged(cache="int8", k_scale=0.01, v_scale=0.01),
    "paged attention, decode": (
        Public(
            "jax paged_attention",
            "paged",
            tuple({"pages_per_compute_block": count} for count in (8, 16, 32)),
        ),
    ),
    "latent attention, decode": (
        Public(
            "tpu-inference mla v2",
            "tpu-inference latent",
            tuple({"decode_batch_size": 4, "num_kv_pages_per_block": pages} for pages in (8, 16)),
            counted="MLA",
        ),
    ),
    "causal convolution over time, SiLU": (
        Public(
            "tpu-inference ragged_causal_conv1d",
            "tpu-inference conv1d",
            tuple({"tile_size": size} for size in (64, 128)),
        ),
    ),
}


def main():
    """Measures, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", default="", metavar="TEXT", help="only rows so named")
    parser.add_argument("--target", choices=list(CHIPS), action="append", help="only this chip")
    parser.add_argument("--known", action="store_true", help="measure nothing")
    options = parser.parse_args()
    for row in serving_rows():
        for chip in options.target or CHIPS:
            if options.row in row.name and not options.known:
                measure(row, chip)
    PAGE.write_text(page(stored()))


def serving_rows():
    """The rows of the coverage that public kernels stand beside."""
    return [row for row in coverage.rows() if row.name in ROWS]


# ---- what is known -------------------------------------------------------------------------------


def stored():
    """{row: {chip: {kernel: entry}}}; an entry is "cycles", "sure", "options", "key", or "why"."""
    return json.loads(DATA.read_text()) if DATA.exists() else {}


def store(row, chip, name, entry):
    """Puts an entry into the file, of which others may write other ones; writes the page."""
    with open(DATA, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = json.loads(DATA.read_text() or "{}")
        found.setdefault(row.name, {}).setdefault(chip, {})[name] = entry
        DATA.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        PAGE.write_text(page(found))


def key(*parts):
    """A digest of what a result depends on."""
    versions = [importlib.metadata.version(name) for name in PACKAGES]
    text = json.dumps([INSTRUMENT, versions, *parts])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digest(data):
    """The same of arrays by name."""
    return {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in data.items()}


# ---- measuring -----------------------------------------------------------------------------------


def measure(row, chip):
    """Measures what of a row on a chip is not known."""
    document = proof.document(row.production)
    data = steering_of(row)
    known = stored().get(row.name, {}).get(chip, {})
    ways = ways_of(row, chip)
    jobs = {OURS: (key_of_ours(ways, data), cycles_of_ours, ways)}
    for public in ROWS[row.name]:
        source = inspect.getsource(public_kernels.KERNELS[public.kernel])
        asked = key(dataclasses.asdict(public), source, shapes_of(public, document), digest(data))
        jobs[public.name] = (asked, best, public, document)
    for name, (asked, cycles, *what) in jobs.items():
        if known.get(name, {}).get("key") == asked:
            continue
        entry = cycles(*what, data, chip)
        if "cycles" in entry:
            entry["key"] = asked
        store(row, chip, name, entry)
        print(row.name, chip, name, entry, file=sys.stderr, flush=True)


def steering_of(row):
    """The arrays of a row that say what is done, by name."""
    document = proof.document(row.production)
    return row.steering(document, np.random.default_rng(1)) if row.steering else {}


def key_of_ours(ways, data):
    """What the cycles of ours, of these ways, depend on."""
    texts = [proof.kernel_text(module.source) for module in ways.values()]
    return key(*texts, digest(data))


def ways_of(row, chip):
    """{loop type: module} of a row: "" is its own configuration, whose cycles the coverage has."""
    found = {}
    for name, (case, of) in results.compilations(row).items():
        if of == results.LOOP_CHIP:
            with contextlib.suppress(CompileError):  # one that needs more VMEM than there is
                found[name.partition(" ")[2]] = proof.module(case, chip)
    return found


def cycles_of_ours(ways, data, chip):
    """The entry of the fastest way of a row."""
    with tempfile.TemporaryDirectory() as folder:
        given = {name: Path(folder) / f"{name}.npy" for name in data}
        for name, path in given.items():
            np.save(path, data[name])
        found = [
            judged(profile(module, chip, given)) | ({"options": loop} if loop else {})
            for loop, module in ways.items()
        ]
    return min(found, key=lambda entry: entry["cycles"])


def best(public, document, data, chip):
    """The entry of a public kernel under the best of its options."""
    found, why = [], "none"
    for options in public.options:
        try:
            entry = cycles_of(public, options, document, data, chip)
        except PallascError as error:
            why = str(error).strip().split("\n")[0].removeprefix(f"{BUILT}: {chip}: ")[:120]
            continue
        text = ", ".join(f"{name} {value}" for name, value in options.items())
        found.append(entry | {"options": text})
    return min(found, key=lambda entry: entry["cycles"]) if found else {"why": why}


def shapes_of(public, document):
    """The shapes of a row's inputs, as a public kernel is told of them."""
    given = [p for p in coverage.parameters(document) if p.name not in public.without]
    return {p.name: list(p.shape) for p in given}


def cycles_of(public, options, document, data, chip):
    """The entry of a public kernel under some options."""
    job = {"kernel": public.kernel, "options": options, "device": CHIPS[chip]}
    job["shapes"] = shapes_of(public, document)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.json"
        path.write_text(json.dumps(job))
        np.savez(path.with_suffix(".npz"), **data)
        found = profile(f"{BUILT}:built({str(path)!r})", chip, timeout=TIMEOUT_S)
        return judged(found, public.counted)


def judged(found, counted=""):
    """The entry of the Pallas kernels of a profile, those whose name holds a text."""
    named = {n: facts for n, facts in found["kernels"].items() if counted in n and facts["pallas"]}
    failures = [text for facts in named.values() for text in facts["failures"]]
    if not named or not all(facts["complete"] for facts in named.values()):
        raise PallascError("; ".join(failures) or "the run was cut")
    return {"cycles": sum(facts["cycles"] for facts in named.values()), "sure": not failures}


# ---- the page ------------------------------------------------------------------------------------


def page(known):
    """docs/serving.md of all entries."""
    lines = [
        line(row.name, chip, known[row.name][chip], public.name)
        for row in serving_rows()
        for chip in CHIPS
        for public in ROWS[row.name]
        if {OURS, public.name} <= known.get(row.name, {}).get(chip, {}).keys()
    ]
    return TEXT.format(table="\n".join(lines))


def line(row, chip, entries, public):
    """A line of the table."""
    ours, theirs = entries[OURS], entries[public]
    share = f"{ours['cycles'] / theirs['cycles']:.2f}" if "cycles" in theirs else "-"
    name = f"{public} {theirs.get('options', '')}".strip()
    way = f" {ours['options']}" if "options" in ours else ""
    return f"| {row} | {chip} | {shown(ours)}{way} | {name} | {shown(theirs)} | {share} |"


def shown(entry):
    """Cycles, and whether their checks vouch for them; why there are none."""
    if "why" in entry:
        return entry["why"].replace("|", "\\|")
    return ("" if entry["sure"] else "~") + f"{entry['cycles']:,}"


TEXT = """\
# Serving kernels beside public ones

    make bench-serving

Written by that command, of what it measured (`bench/serving.json`). Cycles of the Pallas kernels,
an estimate by [profile](profile.md): the same lengths, tables and lists are given to both, and the
same libtpu compiles both. The rows are those of [coverage](coverage.md), at their production sizes.
Of a public kernel with block sizes to choose the best of a short list counts. Of ours the fastest
of the graph's own configuration, whose cycles [coverage](coverage.md) has, and of the same with
another loop type, which is then named; `fori_loop` copies its windows itself where it can. A `~`
marks a run that a check does not vouch for.

On v5e, v5p and v6e the public kernels give float8_e4m3fn weights to the matrix unit as they are,
which has another float8: NaN counts as 480 there (`f8e4m3b11` in the schedule). pallasc looks for
NaN in the weights' bits and adds them to the product: see [kernel](kernel.md#ops).

| kernel | chip | pallasc | public kernel | cycles | pallasc's share |
| --- | --- | --- | --- | --- | --- |
{table}
"""

if __name__ == "__main__":
    main()
