"""The compiler and its graphs, as the tests use them.

    kit.plan("attention", "v7x", block_sizes=[1, 128, 128])["grid"]   # the library
    kit.emitted("report", document).out                               # the command

A graph is the name of one in testdata, the `Path` of a file, a document or its text. Documents are
made by `builder.Doc` (python/tests/builder.py); small ones for tests of tilings are in tiles.py.
"""

import json
import os
import subprocess
import typing
from pathlib import Path

import pallasc

ROOT = Path(__file__).resolve().parent.parent
PALLASC = Path(os.environ.get("PALLASC", ROOT / "pallasc")).resolve()
GRAPHS = ROOT / "testdata" / "graphs"
COVERAGE = ROOT / "testdata" / "coverage" / "graphs"
CONFIGS = ROOT / "testdata" / "configs"
KERNELS = ROOT / "testdata" / "kernels"


# ---- graphs --------------------------------------------------------------------------------------


def path(name):
    """The file of a graph of testdata."""
    places = [folder / f"{name}.json" for folder in (GRAPHS, COVERAGE, CONFIGS)]
    return next(filter(Path.exists, places), places[0])


def text(name):
    """The text of a graph of testdata."""
    return path(name).read_text()


def document(name):
    """A graph of testdata, a dict of its own for each caller."""
    return json.loads(text(name))


def is_name(graph):
    """Whether a graph is given by its name."""
    return isinstance(graph, str) and not set("{\n/") & set(graph)


def nodes(found, graph=None):
    """The nodes of a document's graphs, in order, or of the first graph of one kind."""
    graphs = [g for g in found["graphs"] if graph in (None, g["kind"])]
    return [node for g in graphs[: 1 if graph else None] for node in g["nodes"]]


def targets(found):
    """The targets of all nodes of a document, in order; None of what has none."""
    return [node.get("target") for node in nodes(found)]


# ---- the command ---------------------------------------------------------------------------------


class Ran(typing.NamedTuple):
    """How the command ended: its exit status, standard output and standard error."""

    status: int
    out: str
    err: str


def run(*arguments, text=None, encoding="utf-8", **options):
    """Runs pallasc: a `Ran`, of bytes if `encoding` is None.

    Args:
      text: standard input: text, a document, or bytes if `encoding` is None; nothing by default.
      options: of `subprocess.run`.

    """
    command = [str(PALLASC), *map(str, arguments)]
    text = json.dumps(text) if isinstance(text, dict) else text
    options |= {"stdin": subprocess.DEVNULL} if text is None else {"input": text}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 60, **options}
    done = subprocess.run(command, encoding=encoding, check=False, **options)
    return Ran(done.returncode, done.stdout, done.stderr)


def accepted(*arguments, **options):
    """The same of what must succeed."""
    found = run(*arguments, **options)
    assert found.status == 0, found.err
    return found


def refused(status, *arguments, **options):
    """Standard error of what must end so; nothing may be on standard output."""
    found = run(*arguments, **options)
    assert found.status == status, found.err
    assert not found.out
    assert found.err
    return found.err


def settings(config):
    """The arguments for a configuration."""
    return [f"--set={key}={json.dumps(value)}" for key, value in config.items()]


def emitted(what, graph, *options, target="v6e", **config):
    """`Ran` of --emit=WHAT of a graph that is accepted; the remarks are on standard error."""
    place = path(graph) if is_name(graph) else graph
    words = (f"--emit={what}", f"--target={target}", "--explain", *settings(config), *options)
    if isinstance(place, Path):
        return accepted(*words, place)
    return accepted(*words, "-", text=graph)


def after(passes, graph, **config):
    """The document that some passes, "cse,dce", make of a graph; it is verified after each."""
    made = emitted("json", graph, f"--passes={passes}", "--verify-each", **config)
    return json.loads(made.out)


# ---- the library ---------------------------------------------------------------------------------


def compiled(graph, target="v6e", **config):
    """The `pallasc.Module`. Raises CompileError."""
    return pallasc.compile(path(graph) if is_name(graph) else graph, config, target)


def plan(graph, target="v6e", **config):
    """The Plan, a dict. Raises CompileError."""
    return compiled(graph, target, **config).plan


def refusal(graph, target="v6e", **config):
    """The diagnostics with which a graph is refused, dicts."""
    try:
        compiled(graph, target, **config)
    except pallasc.CompileError as error:
        return error.diagnostics
    raise AssertionError("it is accepted")


def by_ref(items):
    """{ref: item} of operands, windows or scratch of a Plan, which have a ref each."""
    found = {item["ref"]: item for item in items}
    assert len(found) == len(items)
    return found


# ---- chips ---------------------------------------------------------------------------------------


def chip(folder, **fields):
    """The file of a target of its own: kit.chip(tmp_path, base="v7x", vmem_bytes=1 << 20)."""
    file = folder / f"{fields.get('name', 'chip')}.json"
    file.write_text(json.dumps(fields))
    return file
