"""Derives the backward pass of a graph by transforming it.

In code: `grad(document, wrt=None)`. On the command line:

    python -m pallasc grad GRAPH.json -o BWD.json --wrt x,weight
"""

import json
import sys
from pathlib import Path

from ..binding import built
from ..binding import compile as compile_graph
from ..command import Parser, read_json, write_file
from ..document_text import document_text
from ..errors import UsageError
from .derive import derive
from .errors import GradError

__all__ = ["GradError", "grad", "main"]


def grad(document, wrt=None, residuals=()):
    """The document of the backward pass of `document`: a dict, its path, or a `build.Graph`.

    Its inputs are those of the forward that it needs, outputs of the forward that it needs, and
    `d_<output>`, the gradient of each returned output of floats. Its outputs are `d_<input>` for
    the inputs of floats, or those named in `wrt`. Outputs named in `residuals` are there for the
    backward alone: nothing differentiates them, so they have no `d_<output>`.

    Raises GradError, which names the node that stops it, and CompileError of what is no graph.
    """
    document = built(document)
    if isinstance(document, (str, Path)):
        path = str(document)
        return _derived(read_json(path, "graph"), wrt, residuals, False, path).backward
    return _derived(document, wrt, residuals, False, "graph").backward


# What reading a document raises that is no valid graph.
_MALFORMED = (KeyError, TypeError, ValueError, IndexError, AttributeError, StopIteration)


def _derived(document, wrt, residuals, keep, path):
    """`derive`; what is no valid graph is refused as the compiler refuses it."""
    try:
        return derive(document, wrt, residuals, keep, path)
    except _MALFORMED as error:
        compile_graph(document if not Path(path).is_file() else path)  # says what is wrong, mostly
        text = f"{type(error).__name__}: {error}"
        raise GradError(f"{path}: the graph cannot be followed ({text})") from error


def main(argv=None):
    """`python -m pallasc grad`."""
    parser = Parser(
        prog="python -m pallasc grad", description="Write the backward pass of a graph."
    )
    parser.add_argument("graph", metavar="GRAPH.json", help="the forward; - is standard input")
    parser.add_argument("-o", dest="output", metavar="BWD.json", help="instead of standard output")
    parser.add_argument(
        "--wrt", metavar="NAMES", help="inputs to differentiate, by commas; all of floats"
    )
    about = "outputs that only the backward reads, by commas: no gradient of them comes in"
    parser.add_argument("--residual", metavar="NAMES", default="", help=about)
    about = "write the forward that keeps for the backward what that would compute again for longer"
    parser.add_argument("--forward", metavar="FWD.json", help=about)
    about = "print to standard error what is kept in memory and what is summed how, with estimates"
    parser.add_argument("--explain", action="store_true", help=about)
    options = parser.parse_args(argv)
    document, path = _read(options.graph)
    wrt = _names(options.wrt) if options.wrt is not None else None
    derived = _derived(document, wrt, _names(options.residual), bool(options.forward), path)
    if options.explain:
        print("\n".join(derived.lines), file=sys.stderr)
    if options.forward:
        write_file(options.forward, document_text(derived.forward))
    text = document_text(derived.backward)
    if options.output:
        write_file(options.output, text)
    else:
        sys.stdout.write(text)
    return 0


def _names(text):
    return [name for name in text.split(",") if name]


def _read(path):
    if path != "-":
        return read_json(path, "graph"), path
    try:
        document = json.load(sys.stdin)
    except ValueError as error:
        raise UsageError(f"standard input: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise UsageError("standard input: a graph is a JSON object")
    return document, "standard input"
