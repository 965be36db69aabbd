"""How fast pallasc compiles, next to Helion's own code generation for Pallas, in one run.

    make bench-compile      (or: PYTHONPATH=python .venv-export/bin/python bench/compile_speed.py)

For each graph of testdata/kernels/graphs.json: the command pallasc as a process, JSON in to Python
out; a further configuration in one process through libpallasc; Helion's trace, and its code for a
further configuration of the traced kernel. Then graphs of 1k, 10k and 100k nodes.
"""

import argparse
import contextlib
import ctypes
import io
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

from pallasc import binding  # noqa: E402

PROGRAM = ROOT / "pallasc"
MANIFEST = ROOT / "testdata" / "kernels" / "graphs.json"
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


def median_time(function, repeats):
    """The median seconds of a call, after one that does not count."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def spawn(path):
    """Runs pallasc on a file as a shell would, output to /dev/null; the exit status."""
    actions = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    arguments = [str(PROGRAM), str(path)]
    child = os.posix_spawn(arguments[0], arguments, os.environ, file_actions=actions)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def configurations(entry):
    """The manifest's configuration in each loop type."""
    own = entry.get("config", {})
    if len(own.get("block_sizes", [])) < 2 or entry["kernel"].endswith(":add"):
        return [own]  # no loop in it
    return [{**own, "pallas_loop_type": loop_type} for loop_type in LOOP_TYPES]


class Compiler:
    """One graph in libpallasc, without the binding's Python between it and the clock."""

    def __init__(self, path, library):
        self.graph = binding.Graph(path.read_text(), path.name, library)
        self.dll = self.graph._dll

    def compile(self, config, emit=binding.EMIT_SOURCE):
        """Compiles under a configuration (JSON bytes or None); the status."""
        options = binding._Options(
            size=ctypes.sizeof(binding._Options), emit=emit, target=b"v6e", config_json=config
        )
        result = self.dll.pallasc_graph_compile(self.graph._graph, ctypes.byref(options))
        status = self.dll.pallasc_result_status(result)
        self.dll.pallasc_result_free(result)
        return status


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


# ---- synthetic graphs


def chain(count):
    """A document of one root: a load, `count` pointwise ops one after the other, a store."""
    tile = {"dtype": "float32", "shape": ["u0", 256]}
    host = {"dtype": "float32", "shape": [1024, 256]}
    index = [{"sym": "u0"}, {"slice": [None, None, None]}]
    tensors = [{"name": "x", "role": "input", **host}, {"name": "o", "role": "output", **host}]
    nodes = [
        {"name": "x", "target": "tile.host_tensor", "args": ["x"], "meta": host},
        {"name": "v0", "target": "tile.load", "args": [{"ref": "x"}, index], "meta": tile},
    ]
    targets = ("aten.mul.Tensor", "aten.add.Tensor", "aten.sub.Tensor")
    for i in range(count):
        operands = [{"ref": f"v{i}"}, 1.0 + i / 1024]
        node = {"name": f"v{i + 1}", "target": targets[i % 3], "args": operands, "meta": tile}
        nodes.append(node)
    value = {"ref": f"v{count}"}
    nodes += [
        {"name": "o", "target": "tile.host_tensor", "args": ["o"], "meta": host},
        {"name": "store", "target": "tile.store", "args": [{"ref": "o"}, index, value]},
        {"name": "output", "op": "output", "args": [[]]},
    ]
    return {
        "format": "fxtile",
        "version": 1,
        "name": "chain",
        "tensors": tensors,
        "block_sizes": [{"id": 0, "symbol": "u0", "name": "tile", "extent": 1024}],
        "graphs": [{"id": 0, "kind": "root", "grid": [0], "nodes": nodes}],
        "config": {"block_sizes": [8]},
    }


def measure_chains(library):
    """Rows of (nodes, process seconds, seconds in the library)."""
    for count in (1_000, 10_000, 100_000):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "chain.json"
            path.write_text(json.dumps(chain(count)))
            if spawn(path) != 0:
                log = subprocess.run([PROGRAM, path], capture_output=True, text=True).stderr
                yield count, None, None, log[:300]
                continue
            repeats = 9 if count < 100_000 else 3
            process = median_time(lambda p=path: spawn(p), repeats)
            compiler = Compiler(path, library)
            further = median_time(lambda c=compiler: c.compile(None), repeats)
            yield count, process, further, None


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
    lines.append(
        "\nChains of pointwise ops, one root: the cost of a node stays the same.\n\n"
        + row(["nodes", "process", "per node", "further", "per node"])
        + row(["---:"] * 5)
    )
    for count, process, further, log in measure_chains(library):
        if log:
            lines.append(row([f"{count}", f"refused: {log.splitlines()[0]}", "", "", ""]))
            continue
        cells = [unit(process, 1e3, "ms"), unit(process / count, 1e6, "us")]
        cells += [unit(further, 1e3, "ms"), f"{further / count * 1e6:.2f} us"]
        lines.append(row([f"{count}", *cells]))
        print(lines[-1], end="", file=sys.stderr, flush=True)
    return "".join(lines)


def machine():
    """The processor's name."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(": ")[1] for line in lines if line.startswith("model name"))
    return platform.machine()


def main():
    """Measures, prints the page, writes it with -o."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", metavar="FILE", type=Path, help="write the page there")
    parser.add_argument("--no-helion", action="store_true", help="pallasc alone")
    parser.add_argument("--graph", action="append", help="only this graph; repeatable")
    options = parser.parse_args()
    library = binding.Library(ROOT / "build" / "libpallasc.so")
    entries = json.loads(MANIFEST.read_text())
    if options.graph:
        entries = [entry for entry in entries if entry["graph"] in options.graph]
    helion = "(not run)"
    if not options.no_helion:
        import importlib.metadata

        helion = importlib.metadata.version("helion")
    head = HEAD.format(machine=machine(), cpus=os.cpu_count(), helion=helion)
    text = head + page(entries, library, not options.no_helion)
    print(text, end="")
    if options.o:
        options.o.write_text(text)


if __name__ == "__main__":
    main()
