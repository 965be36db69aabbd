"""What compiling costs, without Helion beside it: instructions, a node, what Python adds.

Counts of instructions are callgrind's: the same wherever the same libraries run on the same kind
of processor, so that they have limits, and `make bench-compile` fails above one.
"""

import ctypes
import json
import os
import re
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import pallasc
from pallasc import binding

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "pallasc"
RECOMPILE = ROOT / "build" / "tools" / "recompile"
GRAPH = ROOT / "testdata" / "graphs" / "attention.json"
COLLECTED = re.compile(r"Collected\s*:\s*(\d+)")
NODES = (1_000, 10_000, 100_000)

# What a count may be: a little more than it is.
LIMITS = {
    "process": 4_700_000,
    "parser": 2_800_000,
    "front": 4_420_000,
    "bare": 11_700_000,
    "further": 1_120_000,
}
WHAT = {
    "process": "`pallasc attention.json`",
    "parser": "of which jansson parses",
    "front": "the same, up to the graph after the passes: `--emit=json`",
    "bare": "`pallasc` of the graph with no configuration: sizes are chosen, what is near compared",
    "further": "one more configuration of the loaded graph, through the library",
}


def cpu_seconds():
    """CPU time of this process and of those that it waited for."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in both)


def median_time(function, repeats, clock=time.perf_counter):
    """The median seconds of a call, after one that does not count."""
    function()
    times = []
    for _ in range(repeats):
        start = clock()
        function()
        times.append(clock() - start)
    return statistics.median(times)


def spawn(path):
    """Runs pallasc on a file as a shell would, output to /dev/null; the exit status."""
    actions = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    arguments = [str(PROGRAM), str(path)]
    child = os.posix_spawn(arguments[0], arguments, os.environ, file_actions=actions)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


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


# ---- instructions


def instructions(*command, within=None):
    """How many a command executes; `within`: in that function and what it calls."""
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    if within:
        valgrind.append(f"--toggle-collect={within}")
    ran = subprocess.run([*valgrind, *map(str, command)], capture_output=True, text=True)
    if ran.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {ran.returncode}: {ran.stderr}")
    return int(COLLECTED.search(ran.stderr)[1])


def bare_instructions():
    """Of the graph without its configuration."""
    document = json.loads(GRAPH.read_text())
    del document["config"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / GRAPH.name
        path.write_text(json.dumps(document))
        return instructions(PROGRAM, path)


def measure_instructions():
    """{name of LIMITS: instructions}."""
    return {
        "process": instructions(PROGRAM, GRAPH),
        "parser": instructions(PROGRAM, GRAPH, within="json_read"),
        "front": instructions(PROGRAM, GRAPH, "--emit=json"),
        "bare": bare_instructions(),
        "further": instructions(RECOMPILE, GRAPH, 3) - instructions(RECOMPILE, GRAPH, 2),
    }


def over_limits(counts):
    """A line for each count that is above its limit."""
    return [
        f"{name}: {count} instructions, the limit is {LIMITS[name]}"
        for name, count in counts.items()
        if count > LIMITS[name]
    ]


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
    """Rows of (nodes, CPU seconds of a process, of the library, what refused it)."""
    for count in NODES:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "chain.json"
            path.write_text(json.dumps(chain(count)))
            if spawn(path) != 0:
                log = subprocess.run([PROGRAM, path], capture_output=True, text=True).stderr
                yield count, None, None, log[:300]
                continue
            repeats = 9 if count < 100_000 else 5
            process = median_time(lambda p=path: spawn(p), repeats, cpu_seconds)
            compiler = Compiler(path, library)
            further = median_time(lambda c=compiler: c.compile(None), repeats, cpu_seconds)
            yield count, process, further, None


# ---- Python


def measure_python(library, repeats=300):
    """(seconds in the library, more with `pallasc.compile`, more from a dict): medians.

    The three take turns, so that what else the machine does meets all of them.
    """
    text = GRAPH.read_text()
    data, document, dll = text.encode(), json.loads(text), library._dll
    emit = binding.EMIT_SOURCE | binding.EMIT_PLAN | binding.EMIT_REPORT
    options = binding._Options(size=ctypes.sizeof(binding._Options), emit=emit, target=b"v6e")

    def bare():
        context = dll.pallasc_context_new()
        graph = dll.pallasc_graph_load(context, data, len(data), b"<graph>")
        dll.pallasc_result_free(dll.pallasc_graph_compile(graph, ctypes.byref(options)))
        dll.pallasc_graph_free(graph)
        dll.pallasc_context_free(context)

    ways = (
        bare,
        lambda: pallasc.compile(text, library=library),
        lambda: pallasc.compile(document, library=library),
    )
    times = [[], [], []]
    for _ in range(repeats):
        for way, seconds in zip(ways, times, strict=True):
            start = time.perf_counter()
            way()
            seconds.append(time.perf_counter() - start)
    library_time, from_text, from_dict = map(statistics.median, times)
    return library_time, from_text - library_time, from_dict - library_time
