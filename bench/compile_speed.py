"""How fast pallasc compiles, next to Helion's own code generation for Pallas, in one run.

    make bench-compile      (or: PYTHONPATH=python .venv-export/bin/python bench/compile_speed.py)
    make bench-compile PART=cost    what needs no Helion; the rest of the page stays

For each graph of testdata/kernels/graphs.json: the command pallasc as a process, JSON in to Python
out; a further configuration in one process through libpallasc; Helion's trace, and its code for a
further configuration of the traced kernel. Then what it costs (compile_cost.py): instructions,
graphs of 1k, 10k and 100k nodes, what Python adds. Fails if a count of instructions is above its
limit.
"""

import argparse
import contextlib
import io
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

import compile_cost  # noqa: E402
from compile_cost import Compiler, median_time, spawn  # noqa: E402
from pallasc import binding  # noqa: E402

MANIFEST = ROOT / "testdata" / "kernels" / "graphs.json"
COST = "<!-- bench-compile: cost -->"
COST_TEXT = """
## Cost

Of testdata/graphs/attention.json, by `make bench-compile PART=cost` on {machine}.
Instructions are callgrind's, with Debian 12's jansson and glibc; about 0.2 M of a process are the
dynamic linker's. The bench fails above a limit.
"""
PYTHON = """
`pallasc.compile` of its text takes {text:.2f} ms more than the same calls of the library, which
take {bare:.2f} ms (module, plan, report); of a dict, first written as JSON, {document:.2f} ms more.
"""
CHAINS = """
Chains of pointwise ops, one root: the cost of a node stays the same. CPU time.

"""
LOOP_TYPES = ("unroll", "fori_loop", "emit_pipeline")
HEAD = """# Compile speed

Written by `make bench-compile` on {machine}, {cpus} CPUs. Medians.

- process: `pallasc GRAPH.json >/dev/null`, from start to exit.
- further: one more configuration of a loaded graph through `libpallasc`, module text included;
  mean over the configurations.
- Helion trace: binding the kernel, once for each kernel and shape; Helion further: `to_code` for
  one more configuration of the bound kernel, warm. Helion {helion}, Pallas backend, the same
  kernels, shapes and configurations.

"""


def configurations(entry):
    """The manifest's configuration in each loop type."""
    own = entry.get("config", {})
    if len(own.get("block_sizes", [])) < 2 or entry["kernel"].endswith(":add"):
        return [own]  # no loop in it
    return [{**own, "pallas_loop_type": loop_type} for loop_type in LOOP_TYPES]


def measure_pallasc(path, configs, library):
    """(seconds of the process, mean seconds of a further configuration, how many)."""
    process = median_time(lambda: spawn(path), 40)
    compiler = Compiler(path, library)
    texts = [json.dumps(config).encode() for config in configs]
    good = [text for text in texts if compiler.compile(text) == binding.OK]
    times = [median_time(lambda t=text: compiler.compile(t), 200) for text in good]
    return process, statistics.mean(times) if times else None, len(good)


def measure_helion(entry, configs):
    """(seconds of the trace, mean seconds of the code for a configuration, how many)."""
    import helion
    import torch
    from pallasc.export import kernel_load
    from pallasc.exporter.argspec import argument_make, argument_parse
    from pallasc.exporter.trace import kernel_trace

    file, _, name = entry["kernel"].rpartition(":")
    kernel = kernel_load(str(MANIFEST.parent / file), name)
    arguments = tuple(argument_make(argument_parse(text)) for text in entry["args"])
    start = time.perf_counter()
    bound = kernel_trace(kernel, arguments).bound
    trace = time.perf_counter() - start
    times = []
    for config in configs:
        with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
            chosen = helion.Config(**config)
            with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
                times.append(median_time(lambda c=chosen: bound.to_code(c), 5))
    return trace, statistics.mean(times) if times else None, len(times)


# ---- the page


def row(cells):
    """A row of a Markdown table."""
    return "| " + " | ".join(cells) + " |\n"


def unit(seconds, scale, suffix):
    """A time in one unit, or a dash."""
    return "-" if seconds is None else f"{seconds * scale:.{1 if scale < 1e6 else 0}f} {suffix}"


def page(entries, library, with_helion):
    """Measures all; gives the page's tables."""
    lines = [row(["graph", "process", "further", "Helion trace", "Helion further", "ratio"])]
    lines.append(row(["---"] + ["---:"] * 5))
    for entry in entries:
        configs = configurations(entry)
        path = ROOT / "testdata" / "graphs" / f"{entry['graph']}.json"
        process, further, _ = measure_pallasc(path, configs, library)
        trace, code, _ = measure_helion(entry, configs) if with_helion else (None, None, 0)
        ratio = f"{code / further:.0f}x" if code and further else "-"
        times = [unit(process, 1e3, "ms"), unit(further, 1e6, "us")]
        lines.append(
            row([entry["graph"], *times, unit(trace, 1e3, "ms"), unit(code, 1e3, "ms"), ratio])
        )
        print(lines[-1], end="", file=sys.stderr, flush=True)
    return "".join(lines)


def cost_page(counts, library):
    """The part of the page that needs no Helion."""
    lines = [f"{COST}\n{COST_TEXT.format(machine=machine())}\n"]
    lines.append(row(["what", "instructions", "limit"]) + row(["---", "---:", "---:"]))
    for name, what in compile_cost.WHAT.items():
        limit = f"{compile_cost.LIMITS[name] / 1e6:.2f} M"
        lines.append(row([what, f"{counts[name] / 1e6:.2f} M", limit]))
    lines.append(CHAINS + row(["nodes", "process", "per node", "further", "per node"]))
    lines.append(row(["---:"] * 5))
    for count, process, further, log in compile_cost.measure_chains(library):
        if log:
            lines.append(row([f"{count}", f"refused: {log.splitlines()[0]}", "", "", ""]))
            continue
        cells = [unit(process, 1e3, "ms"), f"{process / count * 1e6:.1f} us"]
        cells += [unit(further, 1e3, "ms"), f"{further / count * 1e6:.2f} us"]
        lines.append(row([f"{count}", *cells]))
    bare, text, document = (t * 1e3 for t in compile_cost.measure_python(library))
    lines.append(PYTHON.format(bare=bare, text=text, document=document))
    return "".join(lines)


def machine():
    """The processor's name."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(": ")[1] for line in lines if line.startswith("model name"))
    return platform.machine()


def measured_page(options, library):
    """The page; with --cost, the one that there is, with that part measured anew."""
    old = options.o.read_text() if options.cost and options.o else COST
    head = old.split(COST)[0]
    if not options.cost:
        helion = "(not run)"
        if not options.no_helion:
            import importlib.metadata

            helion = importlib.metadata.version("helion")
        entries = json.loads(MANIFEST.read_text())
        if options.graph:
            entries = [entry for entry in entries if entry["graph"] in options.graph]
        head = HEAD.format(machine=machine(), cpus=os.cpu_count(), helion=helion)
        head += page(entries, library, not options.no_helion) + "\n"
    counts = compile_cost.measure_instructions()
    return head + cost_page(counts, library), compile_cost.over_limits(counts)


def main():
    """Measures, prints the page, writes it with -o; 1 if a count is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", metavar="FILE", type=Path, help="write the page there")
    parser.add_argument("--no-helion", action="store_true", help="pallasc alone")
    parser.add_argument("--cost", action="store_true", help="only what needs no Helion")
    parser.add_argument("--graph", action="append", help="only this graph; repeatable")
    options = parser.parse_args()
    text, over = measured_page(options, binding.Library(ROOT / "build" / "libpallasc.so"))
    print(text, end="")
    if options.o:
        options.o.write_text(text)
    print(*over, sep="\n", end="\n" if over else "", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
