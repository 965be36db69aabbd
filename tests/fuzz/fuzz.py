"""Runs the fuzz targets of tests/fuzz/targets.c under libFuzzer, and keeps their corpus small.

    make fuzz SECONDS=60                 # all targets, a quarter of the time each
    make fuzz TARGET=load RUNS=1000000 SEED=7 LOG=tests/fuzz/campaigns.json
    make fuzz-corpus                     # keeps what adds coverage in tests/fuzz/corpus

What ends a run is written to build/fuzz/found, and the run goes on from the next seed. A target
begins with its corpus, with what earlier runs found in build/fuzz/work, and with seeds made of
testdata, these only where RUNS says how long: the corpus has the most of what they reach.
"""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build" / "fuzz"
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
PAGE = ROOT / "docs" / "fuzzing.md"
TARGETS = ("load", "compile", "kernel", "target")
SECONDS = 10  # of one input, under the sanitizers, which take ten times the time
LONGEST = 65_536  # bytes of an input
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


def compile_seeds():
    """Documents with options."""
    for number, (text, document) in enumerate(documents()):
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
    "load": lambda: (text for text, _ in documents()),
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
    """The folder of a target's seeds, made where it is missing."""
    folder = BUILD / "seeds" / target
    if not folder.exists():
        write_all(folder, SEEDS[target]())
    return folder


# ---- runs ----------------------------------------------------------------------------------------


def run_once(target, seed, seconds, runs):
    """(executions, whether something was found) of one process."""
    work, found = BUILD / "work" / target, BUILD / "found"
    for folder in (work, found, CORPUS / target):
        folder.mkdir(parents=True, exist_ok=True)
    command = [
        BUILD / f"fuzz-{target}",
        f"-seed={seed}",
        f"-max_len={LONGEST}",
        f"-timeout={SECONDS}",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        "-reload=0",
        f"-artifact_prefix={found}/{target}-",
        *([f"-runs={runs}"] if runs else []),
        *([f"-max_total_time={max(int(seconds), 1)}"] if seconds else []),
        work,
        CORPUS / target,
        *([seeds(target)] if runs else []),
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


def campaign(target, seed, seconds, runs):
    """Runs a target until its time, or its number of executions, is over: the row of the log."""
    began, executions, finds = time.monotonic(), 0, 0
    while True:
        left = seconds and seconds - (time.monotonic() - began)
        more = runs and runs - executions
        if (seconds and left < 1) or (runs and more <= 0) or finds > 20:
            break
        count, found = run_once(target, seed + finds, left, more)
        executions += count
        finds += found
        if not found:
            break
    took = round(time.monotonic() - began)
    print(
        f"{target}: {executions} executions in {took} s from seed {seed}, {finds} finds", flush=True
    )
    return {
        "target": target,
        "seed": seed,
        "executions": executions,
        "seconds": took,
        "finds": finds,
    }


# ---- the corpus ----------------------------------------------------------------------------------


def minimize(target):
    """The corpus anew: what adds coverage, the smallest first, as far as there is room."""
    merged, kept = BUILD / "merged" / target, CORPUS / target
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir(parents=True)
    given = [folder for folder in (kept, BUILD / "work" / target, seeds(target)) if folder.exists()]
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
    parser.add_argument("--log", type=Path, help="add to this file and to docs/fuzzing.md")
    parser.add_argument("--minimize", action="store_true", help="make the corpus anew")
    options = parser.parse_args()
    if options.minimize:
        for target in options.targets:
            minimize(target)
        return 0
    finds = 0
    for target in options.targets:
        seconds = options.seconds and options.seconds / len(options.targets)
        row = campaign(target, options.seed, seconds, options.runs)
        finds += row["finds"]
        if options.log:
            rows = json.loads(options.log.read_text()) if options.log.exists() else []
            rows.append(row)
            options.log.write_text("".join(["[\n", ",\n".join(map(json.dumps, rows)), "\n]\n"]))
            write_page(rows)
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
