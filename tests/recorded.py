"""Which documents, configurations and targets the tests compile, run with nothing simulated.

The library's calls and the command's are looked at. As a program: runs files of tests and writes a
pickle of (document, configuration, target), texts.
"""

import itertools
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# Tests of what is printed under configurations, in two parts of about the same time.
FILES = (
    (
        *("config_keys", "back_and_forth", "bounds", "branches", "buffer_counts"),
        *("computed_ints", "hbm_layout"),
    ),
    (
        *("plan_output", "column_strips", "inloop_loads", "int64", "masked_rows", "orient", "roll"),
        *("roots", "scans", "straight_loops", "tile_cap", "wide_blocks", "windows", "alignment"),
    ),
)
# Options of the command that take a value, in the next word if not after a "=".
VALUED = ("--emit", "--target", "--config", "--set", "--diagnostics", "--color", "-j", "-o")
# In this process, and quickly.
PLAIN = (
    *("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:hypothesispytest"),
    *("--assert=plain", "--tb=no"),
)


class Calls:
    """The calls seen, each once, in order."""

    def __init__(self):
        self.seen = {}

    def add(self, document, config, sets, target):
        """One call; what is no JSON object was asked to be refused, and is left out."""
        try:
            document, config = json.loads(document), json.loads(config or "{}")
            config.update(map(setting, sets))
            found = json.dumps(document), json.dumps(config), target
        except (ValueError, AttributeError, RecursionError):
            return
        if isinstance(document, dict):
            self.seen.setdefault(found)

    def command(self, words, text, directory):
        """A call of the command, if it prints a module or what is said of one."""
        options, paths = read_options(words)
        if len(paths) != 1 or any(name not in VALUED for name in options):
            return
        try:
            base = Path(directory or ".")
            document = text if paths == ["-"] else (base / paths[0]).read_text()
            document = document.decode() if isinstance(document, bytes) else document or ""
            config, target = options.get("--config"), options.get("--target", ["v6e"])[-1]
            config = (base / config[-1]).read_text() if config else None
            target = (base / target).read_text() if target.endswith(".json") else target
        except (OSError, ValueError):
            return
        self.add(document, config, options.get("--set", ()), target)


def setting(text):
    """(key, value) of KEY=VALUE: JSON, or a bare word."""
    key, _, value = text.partition("=")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def read_options(words):
    """({option: values}, paths) of a command's arguments, without what only tells more."""
    options, paths, words = {}, [], iter(map(str, words))
    for word in words:
        name, equals, value = word.partition("=")
        if word in ("--explain", "--verify-each", "-v"):
            continue
        if not word.startswith("-") or word == "-":
            paths.append(word)
        else:
            value = next(words, "") if name in VALUED and not equals else value
            options.setdefault(name, []).append(value)
    return options, paths


def watch(calls):
    """Tells `calls` of what is compiled from now on; nothing is simulated or judged."""
    import pytest
    import verdicts
    from pallasc import aot, binding, simulate

    verdicts.settle = lambda *_, **__: []
    simulate.simulate = aot.compile_many = lambda *_, **__: pytest.skip("not simulated")
    begin, compile_graph, run = binding.Graph.__init__, binding.Graph.compile, subprocess.run

    def begin_and_keep(self, text, *rest, **named):
        self.text = text
        begin(self, text, *rest, **named)

    def compile_and_tell(self, config=None, target="v6e", sets=(), *rest, **named):
        calls.add(self.text, config, sets, target)
        return compile_graph(self, config, target, sets, *rest, **named)

    def run_and_tell(command, *rest, **named):
        if isinstance(command, list) and Path(command[0]).name == "pallasc":
            calls.command(command[1:], named.get("input"), named.get("cwd"))
        return run(command, *rest, **named)

    binding.Graph.__init__, binding.Graph.compile = begin_and_keep, compile_and_tell
    subprocess.run = run_and_tell


def recorded():
    """(document, configuration, target) of each call, texts, sorted: in two processes."""
    (ROOT / "build").mkdir(exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "JAX_PLATFORMS": "cpu"}
    paths, processes = [], []
    for number, names in enumerate(FILES):
        paths.append(ROOT / "build" / f"recorded.{os.getpid()}.{number}")
        files = [path for name in names for path in HERE.glob(f"*/test_{name}.py")]
        command = [sys.executable, __file__, paths[-1], *files]
        out = subprocess.PIPE
        processes.append(subprocess.Popen(command, env=environment, stdout=out, cwd=ROOT))
    said = [process.communicate()[0].decode() for process in processes]
    if any(process.returncode not in (0, 1) for process in processes):
        raise RuntimeError("the tests could not be run:\n" + "\n".join(said))
    if any(process.returncode for process in processes):
        print("some tests failed, and may have compiled less than they would", file=sys.stderr)
        print("".join(said), file=sys.stderr)
    found = [pickle.loads(path.read_bytes()) for path in paths]
    for path in paths:
        path.unlink()
    return sorted(set(itertools.chain.from_iterable(found)))


def main():
    """`recorded.py OUTPUT FILES...`: the exit status is pytest's."""
    import pytest

    calls = Calls()
    watch(calls)
    status = pytest.main([*PLAIN, *sys.argv[2:]])
    Path(sys.argv[1]).write_bytes(pickle.dumps(list(calls.seen)))
    return status


if __name__ == "__main__":
    sys.exit(main())
