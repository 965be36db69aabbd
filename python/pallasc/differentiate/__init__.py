"""Derives the backward pass of a graph by transforming it.

In code: `grad(document, wrt=None)`. On the command line:

    pallasc grad GRAPH.json -o BWD.json --wrt x,weight
"""

import json
import sys
from pathlib import Path

from ..binding import built, target_text
from ..binding import compile as compile_graph
from ..command import Parser, add_size_option, read_json
from ..document_text import document_text
from ..errors import UsageError
from ..files import write_file
from ..judge import filled, read_graph, resized
from .derive import derive
from .errors import GradError
from .named_sizes import at_sizes
from .values import FLOATS

__all__ = ["GradError", "grad", "main", "pair"]


def grad(document, wrt=None, residuals=(), target="v6e", sizes=None):
    """The document of the backward pass of `document`, a dict, its path, or a `build.Graph`.

    Its inputs are those of the forward that it needs, outputs of the forward that it needs, and
    `d_<output>`, the gradient of each returned output of floats. Its outputs are `d_<input>` for
    the inputs of floats, or those named in `wrt`. Outputs named in `residuals` are there for the
    backward alone: nothing differentiates them, so they have no `d_<output>`. What is kept and
    what is computed again is decided by estimates for `target`, as in `pallasc.compile`. `sizes`
    are values of named sizes over the document's own; the backward is for these.

    Raises GradError, which names the node that stops it, and CompileError of what is no graph.
    """
    document, path = _document(document)
    asked = {"wrt": wrt, "residuals": residuals, "target": target, "sizes": sizes}
    return _derived(document, path, **asked).backward


def pair(document, returns=(), nondiff=(), target="v6e", sizes=None):
    """(forward, backward, returns, nondiff) of a graph, as `pallasc.vjp` pairs them.

    The forward is the document with outputs for what is sooner kept than computed again, which
    `returns` leaves out. Inputs that are no floats join `nondiff`. Raises what `grad` does.
    """
    document, path = _document(document)
    roles = {t["name"]: t["role"] for t in document.get("tensors", ())}
    listed = [entry["tensor"] for entry in document.get("returns") or ()]
    outputs = listed or [name for name, role in roles.items() if role in ("output", "inout")]
    returned = [name for name in outputs if not returns or name in returns]
    inputs = [t for t in document.get("tensors", ()) if t["role"] in ("input", "inout")]
    inputs += [s for s in document.get("scalars") or () if "value" not in s]
    exact = [x["name"] for x in inputs if "float" not in x["dtype"]]
    wrt = [t["name"] for t in inputs if t["dtype"] in FLOATS and t["name"] in roles]
    asked = {
        "wrt": [name for name in wrt if name not in nondiff],
        "residuals": [x for x in outputs if x not in returned or (x in nondiff and x not in wrt)],
    }
    derived = _derived(document, path, keep=True, target=target, sizes=sizes, **asked)
    return derived.forward, derived.backward, returned, [*nondiff, *exact]


def _document(document):
    """(the JSON object, its name in messages) of a document: a dict, text, path or Graph."""
    document = built(document)
    if isinstance(document, dict):
        return document, "graph"
    if isinstance(document, str) and document.lstrip().startswith("{"):
        return read_graph((document, "graph")), "graph"
    return read_json(str(document), "graph"), str(document)


# What reading a document raises that is no valid graph.
_MALFORMED = (KeyError, TypeError, ValueError, IndexError, AttributeError, StopIteration)


def _derived(document, path, sizes=None, **asked):
    """`derive`; what is no valid graph is refused as the compiler refuses it."""
    document = resized(document, sizes or {})
    try:
        return derive(at_sizes(document), path=path, **asked)
    except _MALFORMED:
        compile_graph(document if sizes or not Path(path).is_file() else path)  # says what is wrong
    try:  # it may be what the document leaves out
        return derive(at_sizes(filled(document)), path=path, **asked)
    except _MALFORMED as error:
        text = f"{type(error).__name__}: {error}"
        raise GradError(f"{path}: the graph cannot be followed ({text})") from error


def main(argv=None):
    """`pallasc grad`."""
    parser = Parser(prog="pallasc grad", description="Write the backward pass of a graph.")
    parser.add_argument("graph", metavar="GRAPH.json", help="the forward; - is standard input")
    parser.add_argument("-o", dest="output", metavar="BWD.json", help="instead of standard output")
    parser.add_argument(
        "--wrt", metavar="NAMES", help="inputs to differentiate, by commas; all of floats"
    )
    about = "outputs that only the backward reads, by commas: no gradient of them comes in"
    parser.add_argument("--residual", metavar="NAMES", default="", help=about)
    about = "write the forward that keeps for the backward what that would compute again for longer"
    parser.add_argument("--forward", metavar="FWD.json", help=about)
    about = "chip that estimates are for, or a .json file; default %(default)s"
    parser.add_argument("-t", "--target", default="v6e", metavar="T", help=about)
    add_size_option(parser)
    about = "print to standard error what is kept in memory and what is summed how, with estimates"
    parser.add_argument("--explain", action="store_true", help=about)
    options = parser.parse_args(argv)
    document, path = _read(options.graph)
    wrt = _names(options.wrt) if options.wrt is not None else None
    asked = {"wrt": wrt, "residuals": _names(options.residual), "keep": bool(options.forward)}
    asked |= {"target": target_text(options.target), "sizes": dict(options.size)}
    derived = _derived(document, path, **asked)
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
