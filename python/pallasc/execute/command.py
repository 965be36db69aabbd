"""`pallasc execute`: runs kernel text on arrays, or on inputs made from a seed."""

import numpy as np

from .. import report
from ..command import Parser, parse_set
from ..errors import FileError, UsageError
from ..inputs import make_scalars, make_tensors
from ..module import read_text
from ..reference.values import DTYPES
from .machine import Machine
from .parse import parse


def main(argv):
    """`execute FILE.kernel [--arg NAME=FILE.npy ...]`: exit status 1 if the kernel fails."""
    parser = Parser(
        prog="pallasc execute",
        description="Execute the text of a kernel (pallasc --emit=kernel) in NumPy.",
    )
    parser.add_argument("kernel", metavar="FILE.kernel", help="text, or - for standard input")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of other inputs")
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an input: a .npy file, or the number that a run-time scalar is; repeatable",
    )
    options = parser.parse_args(argv)
    program = parse(read_text(options.kernel))
    machine = Machine(program)
    given = dict(parse_set(text) for text in options.arg)
    outputs = machine.run(_arrays(program, given, options.seed))
    for declared, output in zip(program.outputs, outputs, strict=True):
        print(f"out {report.signature(declared.name, output)}: {report.summary(output)}")
    return 0


def _arrays(program, given, seed):
    entries = [{"name": a.name, "dtype": a.dtype.name, "shape": a.shape} for a in program.inputs]
    info = {
        "inputs": [entry for entry in entries if entry["shape"] is not None],
        "scalars": [entry for entry in entries if entry["shape"] is None],
    }
    unknown = set(given) - {entry["name"] for entry in entries}
    if unknown:
        raise UsageError(f"unknown input {sorted(unknown)[0]!r}")
    scalars = {e["name"]: given[e["name"]] for e in info["scalars"] if e["name"] in given}
    values = {
        **_named(info["inputs"], make_tensors(info, seed)),
        **_named(info["scalars"], make_scalars(info, scalars)),
    }
    for entry in info["inputs"]:
        if entry["name"] in given:
            values[entry["name"]] = _read(given[entry["name"]], entry)
    return [values[entry["name"]] for entry in entries]


def _named(entries, values):
    return {entry["name"]: value for entry, value in zip(entries, values, strict=True)}


def _read(path, entry):
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, TypeError) as error:
        raise FileError(f"cannot read {path}: {error}") from None
    # NumPy's files know nothing of bfloat16 and its like: they hold them as bytes.
    wanted = DTYPES[entry["dtype"]]
    return array.view(wanted) if array.dtype.kind == "V" else array
