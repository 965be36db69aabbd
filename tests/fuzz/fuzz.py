"""Runs the fuzz targets of tests/fuzz/targets.c under libFuzzer, and keeps their corpus small.

    make fuzz SECONDS=60                 # all targets, a quarter of the time each
    make fuzz TARGET=load RUNS=1000000 SEED=7 LOG=tests/fuzz/campaigns.json
    make fuzz-corpus                     # keeps what adds coverage in tests/fuzz/corpus

What ends a run is written to build/fuzz/found, and the run goes on from the next seed. A target
begins with its corpus, with what earlier runs found in build/fuzz/work, and with seeds made of
testdata. Most executions are of short inputs, since these take a quarter of the time; one in LONG
is of inputs up to LONGEST. RUNS are made in pieces: what the log has of a campaign grows by each as
it ends, so little is lost where one is stopped.
"""

import argparse
import datetime
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("FUZZ_BUILD", ROOT / "build" / "fuzz")).resolve()
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
PAGE = ROOT / "docs" / "fuzzing.md"
LOG = ROOT / "tests" / "fuzz" / "campaigns.json"
TARGETS = ("load", "compile", "kernel", "target")
SECONDS = 300  # on the clock, of one input; those of the processor are counted by targets.c
LONGEST = 65_536  # bytes of an input
SHORT = {"load": 1024, "compile": 1536, "kernel": 2048, "target": 512}  # of most inputs
LONG = 32  # one execution in so many is of long ones; of a campaign by time a quarter of it
PIECE = {"load": 200_000, "compile": 20_000, "kernel": 20_000, "target": 10_000}  # executions
PIECE_SECONDS = 240  # of one process at most, where RUNS says how long all of it is
MOST_FINDS = 20
KEPT = {"load": 4096, "compile": 6144, "kernel": 8192, "target": 2048}  # of one in the corpus
ROOM = 350_000  # bytes of a target's corpus
CHIPS = ("v5e", "v6e", "v7x", "v5p")
OPTIONS = (
    {"adapt": True},
    {"named_scopes": True},
    {"mesh": "data=2", "shard": "tile_m=data"},
    {"mesh": "data=2,model=2"},
    {"set": ["pallas_loop_type=fori_loop"]},
    {"set": ["pallas_loop_type=emit_pipeline"]},
    {"set": ["pallas_loop_type=unroll"]},
    {"debug_print": ["x", "out:all"]},
)


# ---- seeds ---------------------------------------------------------------------------------------


def documents():
    """Every graph of testdata that is small, with those that are refused, as compact texts."""
    folders = ("graphs", "configs", "devices", "coverage/graphs", "bad")
    for folder in folders:
        for path in sorted((ROOT / "testdata" / folder).glob("*.json")):
            try:
                document = json.loads(path.read_bytes())
            except (ValueError, RecursionError):
                yield path.read_bytes(), None
                continue
            text = json.dumps(document, separators=(",", ":")).encode()
            if len(text) < 20_000:
                yield text, document


def slim(document):
    """The same graph in fewer bytes: without lines of programs, nodes called 0, 1, 2."""
    for graph in document["graphs"]:
        names = {node["name"]: str(number) for number, node in enumerate(graph["nodes"])}

        def renamed(value, names=names):
            if isinstance(value, list):
                return [renamed(item) for item in value]
            if not isinstance(value, dict):
                return value
            items = {key: renamed(item) for key, item in value.items() if key != "loc"}
            return items | ({"ref": names.get(value["ref"], "")} if "ref" in value else {})

        graph["nodes"] = [renamed(node) | {"name": names[node["name"]]} for node in graph["nodes"]]
    return document


def all_documents():
    """Documents as they are, and made slim where that can be."""
    for text, document in documents():
        yield text, document
        try:
            made = slim(json.loads(text))
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            continue
        yield json.dumps(made, separators=(",", ":")).encode(), made


def compile_seeds():
    """Documents with options."""
    for number, (text, document) in enumerate(all_documents()):
        if isinstance(document, dict):
            chip = {"target": CHIPS[number % len(CHIPS)]}
            document["x_fuzz"] = chip | OPTIONS[number % len(OPTIONS)]
            text = json.dumps(document, separators=(",", ":")).encode()
        yield text


def kernel_seeds():
    """Kernels as text: those of testdata, and those of its graphs."""
    for path in sorted((ROOT / "testdata" / "kernels").glob("*.kernel")):
        yield path.read_bytes()
    coverage = sorted((ROOT / "testdata" / "coverage" / "graphs").glob("*.json"))
    for path in [*sorted((ROOT / "testdata" / "graphs").glob("*.json")), *coverage[::6]]:
        done = subprocess.run(
            [ROOT / "pallasc", "--emit=kernel", path], capture_output=True, check=False
        )
        if done.returncode == 0 and len(done.stdout) < 20_000:
            yield done.stdout


def target_seeds():
    """Target files whole, and each key of a configuration with values that the schema has."""
    for chip in CHIPS:
        command = [ROOT / "pallasc", "--print-target", f"--target={chip}"]
        done = subprocess.run(command, capture_output=True, check=True)
        yield json.dumps({"target": json.loads(done.stdout), "graph": 1}).encode()
    schema = json.loads((ROOT / "docs" / "fxtile.schema.json").read_text())
    for number, (key, what) in enumerate(schema["$defs"]["config"]["properties"].items()):
        values = [*what.get("enum", []), 1, 2, [128], [[1, 0]], None, True]
        for value in values:
            yield json.dumps({"graph": number % 4, "config": {key: value}}).encode()
        yield json.dumps({"graph": number % 4, "set": [f"{key}={json.dumps(values[0])}"]}).encode()
    for graph in range(4):
        yield json.dumps({"graph": graph, "space": None}).encode()
        yield json.dumps({"graph": graph, "space": {"block_sizes": [[8, 64], [128]]}}).encode()
        config = {"block_sizes": [128, 128], "by_size": [{"when": {}, "config": {}}]}
        yield json.dumps({"graph": graph, "config": config, "size": ["S=64"]}).encode()


SEEDS = {
    "load": lambda: (text for text, _ in all_documents()),
    "compile": compile_seeds,
    "kernel": kernel_seeds,
    "target": target_seeds,
}


def write_all(folder, texts):
    """Texts as files that are called by their hash."""
    folder.mkdir(parents=True, exist_ok=True)
    for text in texts:
        (folder / hashlib.sha1(text).hexdigest()[:16]).write_bytes(text)


def seeds(target):
    """The folder of a target's seeds, made where missing: by one process of several."""
    folder = BUILD / "seeds" / target
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            made = folder.with_suffix(".new")
            write_all(made, SEEDS[target]())
            made.rename(folder)
    return folder


# ---- runs ----------------------------------------------------------------------------------------


def run_once(target, longest, seed, seconds, runs):
    """(executions, whether something was found) of one process; inputs of so many bytes at most."""
    work, found = BUILD / "work" / f"{target}-{longest}", BUILD / "found"
    for folder in (work, found, CORPUS / target):
        folder.mkdir(parents=True, exist_ok=True)
    given = [path for folder in (CORPUS / target, seeds(target)) for path in folder.iterdir()]
    fitting = sorted(str(path) for path in given if path.stat().st_size <= longest)
    (BUILD / f"{target}.inputs").write_text(",".join(fitting))
    command = [
        BUILD / f"fuzz-{target}",
        f"-seed={seed}",
        f"-max_len={longest}",
        f"-timeout={SECONDS}",
        "-rss_limit_mb=2048",
        "-entropic=0",  # it takes a tenth of the time, and comparisons are the mutations' own
        "-use_cmp=0",
        "-print_final_stats=1",
        "-reload=0",
        f"-artifact_prefix={found}/{target}-",
        f"-seed_inputs=@{BUILD / f'{target}.inputs'}",
        *([f"-runs={runs}"] if runs else []),
        f"-max_total_time={max(int(seconds), 1)}",
        work,
    ]
    log = BUILD / f"{target}.log"
    with log.open("wb") as out:
        status = subprocess.run(command, cwd=ROOT, stdout=out, stderr=out, check=False).returncode
    said = log.read_text(errors="replace")
    counts = [*re.findall(r"number_of_executed_units: (\d+)", said)]
    counts = counts or re.findall(r"^#(\d+)\t", said, re.M)
    if status != 0:
        why = re.findall(
            r"^(?:.*(?:ERROR|runtime error|fuzz): .*|SUMMARY.*|.*Test unit.*)$", said, re.M
        )
        print(f"  seed {seed}:", *why[:4], sep="\n    ", flush=True)
    return int(counts[-1]) if counts else 0, status != 0


def parts(target, seconds, runs):
    """(longest, seconds, runs) of the processes of a campaign: short inputs, then long ones."""
    if seconds:
        return [(SHORT[target], seconds * 3 / 4, None), (LONGEST, seconds / 4, None)]
    made = []
    while runs > 0:
        piece = min(runs, PIECE[target])
        made += [(SHORT[target], None, piece - piece // LONG), (LONGEST, None, piece // LONG)]
        runs -= piece
    return [part for part in made if part[2]]


def campaign(target, seed, seconds, runs, log):
    """Runs a target until its time, or its number of executions, is over: the number of finds."""
    began = time.monotonic()
    row = {
        "target": target,
        "seed": seed,
        "executions": 0,
        "seconds": 0,
        "finds": 0,
        "began": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    for longest, part_seconds, part_runs in parts(target, seconds, runs):
        start, executions, count = time.monotonic(), 0, 1
        while row["finds"] <= MOST_FINDS and count:
            left = part_seconds - (time.monotonic() - start) if part_seconds else PIECE_SECONDS
            more = part_runs and part_runs - executions
            if left < 1 or (part_runs and more <= 0):
                break
            count, found = run_once(target, longest, seed, left, more)
            seed += 1
            executions += count
            row["executions"] += count
            row["finds"] += found
            row["seconds"] = round(time.monotonic() - began)
            if log:
                record(log, row)
    print(
        f"{target}: {row['executions']} executions in {row['seconds']} s from seed {row['seed']}, "
        f"{row['finds']} finds",
        flush=True,
    )
    return row["finds"]


# ---- the corpus ----------------------------------------------------------------------------------


def minimize(target):
    """The corpus anew: what adds coverage, the smallest first, as far as there is room."""
    merged, kept = BUILD / "merged" / target, CORPUS / target
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir(parents=True)
    worked = sorted((BUILD / "work").glob(f"{target}-*"))
    given = [folder for folder in (kept, *worked, seeds(target)) if folder.exists()]
    command = [
        BUILD / f"fuzz-{target}",
        "-merge=1",
        f"-max_len={KEPT[target]}",
        f"-timeout={SECONDS}",
        "-rss_limit_mb=2048",
        merged,
        *given,
    ]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    shutil.rmtree(kept, ignore_errors=True)
    total = 0
    for path in sorted(merged.iterdir(), key=lambda p: (p.stat().st_size, p.name)):
        total += path.stat().st_size
        if total <= ROOM:
            write_all(kept, [path.read_bytes()])
    files = list(kept.iterdir())
    print(f"{target}: {len(files)} files, {sum(p.stat().st_size for p in files)} bytes", flush=True)


# ---- the log -------------------------------------------------------------------------------------

BEGIN, END = "<!-- campaigns -->\n", "<!-- end -->\n"


def record(log, row):
    """The row into the log, in place of what the same campaign had there: JSON at any moment."""
    with log.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = json.loads(log.read_text()) if log.exists() else []
        same = [row[key] for key in ("target", "seed", "began")]
        rows = [r for r in rows if [r.get(key) for key in ("target", "seed", "began")] != same]
        rows.append(row)
        made = log.with_suffix(".new")
        made.write_text("".join(["[\n", ",\n".join(map(json.dumps, rows)), "\n]\n"]))
        made.replace(log)
    if log.resolve() == LOG:
        write_page(rows)


def write_page(rows):
    """The table of docs/fuzzing.md: by target, what all rows of the log come to."""
    lines = ["| target | executions | seeds | hours | finds |\n| --- | --- | --- | --- | --- |\n"]
    for target in TARGETS:
        of = [row for row in rows if row["target"] == target]
        if of:
            seeds_of = f"{min(row['seed'] for row in of)} to {max(row['seed'] for row in of)}"
            total, finds = (sum(row[key] for row in of) for key in ("executions", "finds"))
            hours = sum(row["seconds"] for row in of) / 3600
            lines.append(f"| `{target}` | {total:,} | {seeds_of} | {hours:.1f} | {finds} |\n")
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    PAGE.write_text(before + BEGIN + "".join(lines) + END + rest.split(END)[1])


def main():
    """Exit status 1 if something was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", default=TARGETS)
    parser.add_argument("--seconds", type=float, help="of all targets together")
    parser.add_argument("--runs", type=int, help="executions of each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--log", type=Path, help="add to this file; of tests/fuzz/campaigns.json the page tells"
    )
    parser.add_argument("--page", action="store_true", help="write the page's table, run nothing")
    parser.add_argument("--minimize", action="store_true", help="make the corpus anew")
    options = parser.parse_args()
    if options.minimize:
        for target in options.targets:
            minimize(target)
        return 0
    if options.page:
        write_page(json.loads(LOG.read_text()))
        return 0
    finds = 0
    for target in options.targets:
        seconds = options.seconds and options.seconds / len(options.targets)
        finds += campaign(target, options.seed, seconds, options.runs, options.log)
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
