"""`pallasc reduce`: a smaller graph for which a shell command still succeeds."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ..command import Parser, find_command, positive, read_json
from ..document_text import document_text
from ..errors import PallascError, UsageError
from ..files import write_file
from . import reduce

DESCRIPTION = """Make a graph that shows a failure small. The shell command of --if is run with the
path of a candidate in place of each {}, or behind it where it has none; a candidate is kept where
the command exits with 0."""
CHECK_SECONDS = 20


def main(argv):
    """`reduce G.json --if 'COMMAND'`: exit status 1 if the command does not succeed on G.json."""
    parser = Parser(prog="pallasc reduce", description=DESCRIPTION)
    parser.add_argument("graph", metavar="GRAPH.json", help="the graph; it is never changed")
    about = "what shows the failure: a shell command that exits with 0 where it is there"
    parser.add_argument("--if", dest="test", metavar="COMMAND", required=True, help=about)
    about = "the smaller graph (GRAPH.reduced.json)"
    parser.add_argument("-o", "--output", metavar="FILE", help=about)
    parser.add_argument(
        "--seconds", type=positive, default=600.0, metavar="S", help="for all of it (600)"
    )
    about = "for each run of the command, which is then ended, as if it had failed (60)"
    parser.add_argument("--timeout", type=positive, default=60.0, metavar="S", help=about)
    options = parser.parse_args(argv)
    output = _output(options)
    document = read_json(options.graph, "graph")
    with tempfile.TemporaryDirectory(prefix="pallasc-reduce-") as folder:
        return _reduce(options, document, Path(folder), output)


def _output(options):
    path = Path(options.graph)
    output = Path(options.output or f"{path.parent / path.stem}.reduced.json")
    if output.exists() and path.exists() and output.samefile(path):
        raise UsageError(f"{output} is the graph that is reduced: name another file by -o")
    return output


def _reduce(options, document, folder, output):
    began, runs = time.monotonic(), _Runs(options, folder)
    progress = _Progress(runs)
    if not all(isinstance(document.get(key), list) for key in ("graphs", "tensors")):
        raise UsageError(f"{options.graph}: not a graph of the format fxtile")
    if ended := runs.ended({"document": document}):
        raise PallascError(f"{options.graph}: the command of --if {ended}: nothing to keep")
    runs.valid = runs.is_valid({"document": document})
    stopped = ""
    try:
        reduce({"document": document}, runs.succeeds, options.seconds, progress.tell)
    except KeyboardInterrupt:
        stopped = ", interrupted"
    progress.close()
    best = runs.best or document
    write_file(output, document_text(best))
    if not stopped and time.monotonic() - began > options.seconds:
        stopped = f", ended by --seconds {options.seconds:g}"
    print(f"{output}: {_counts(document)} -> {_counts(best)}; {runs.count} runs{stopped}")
    return 0


def _counts(document):
    nodes = sum(len(graph["nodes"]) for graph in document["graphs"])
    return f"{nodes} nodes, {len(document['tensors'])} tensors"


class _Runs:
    """Runs of the command on candidates, each a file of its own named as the graph is."""

    def __init__(self, options, folder):
        self.options, self.path = options, folder / Path(options.graph).name
        self.pallasc, self.valid, self.count, self.best = find_command(), False, 0, None

    def succeeds(self, case):
        """Whether a candidate is valid, where the original is, and the command exits with 0."""
        if self.valid and not self.is_valid(case):
            return False
        if self.ended(case):
            return False
        self.best = case["document"]
        return True

    def is_valid(self, case):
        """Whether the graph is read and verified; no pass is run."""
        command = [self.pallasc, "--passes=", "--emit=json", "-"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        text = json.dumps(case["document"])
        try:
            done = subprocess.run(command, input=text, text=True, timeout=CHECK_SECONDS, **quiet)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def ended(self, case):
        """How the command ended if not with 0, for people; "" where it did."""
        self.count += 1
        self.path.write_text(document_text(case["document"]), encoding="utf-8")
        place, command = shlex.quote(str(self.path)), self.options.test
        command = command.replace("{}", place) if "{}" in command else f"{command} {place}"
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        process = subprocess.Popen(
            command, shell=True, start_new_session=True, stderr=subprocess.DEVNULL, **quiet
        )
        try:
            status = process.wait(self.options.timeout)
        except subprocess.TimeoutExpired:
            return f"did not end within {self.options.timeout:g} s (--timeout)"
        finally:
            _end(process)
        return f"exits with {status}" if status else ""


def _end(process):
    """Ends a command with all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class _Progress:
    """A line on a terminal; nothing elsewhere."""

    def __init__(self, runs):
        self.runs, self.began, self.shown = runs, time.monotonic(), sys.stderr.isatty()

    def tell(self, case):
        """Says how small it is."""
        if self.shown:
            seconds = time.monotonic() - self.began
            line = f"{_counts(case['document'])}; {self.runs.count} runs, {seconds:.0f} s"
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)

    def close(self):
        """Leaves an empty line."""
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
