"""What the commands share: argument parsing, reading options, tables and numbers for people."""

import argparse
import functools
import json
import os
import shutil
import sys
import sysconfig
from pathlib import Path

from .errors import FileError, UsageError
from .module import read_text


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are UsageErrors: one line, exit status 2."""

    def __init__(self, **options):
        super().__init__(allow_abbrev=False, **options)

    def error(self, message):
        """Raises instead of printing the usage."""
        raise UsageError(f"{message} (see {self.prog} --help)")

    def _print_message(self, message, file=None):
        """Argparse's own says nothing of a standard output that is full or closed."""
        (file or sys.stdout).write(message)


def positive(text):
    """A number greater than 0; ValueError, which argparse reports, for anything else."""
    value = float(text)
    if not value > 0:
        raise ValueError(text)
    return value


def at_least_one(text):
    """An int of at least 1; ValueError, which argparse reports, for anything else."""
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


_UNITS = {"": 0, "B": 0, "KiB": 10, "MiB": 20, "GiB": 30}


def size(text):
    """Bytes of a size such as 32MiB; ValueError, which argparse reports, for anything else."""
    digits = text.rstrip("BGKMi")
    if not digits.isascii() or not digits.isdigit() or int(digits) == 0:
        raise ValueError(text)
    if (unit := text[len(digits) :]) not in _UNITS:
        raise ValueError(text)
    return int(digits) << _UNITS[unit]


def percentage(text):
    """A number such as 2.5 or 2.5%; ValueError, which argparse reports, for anything else."""
    return float(text.removesuffix("%"))


def add_vmem_options(parser):
    """--vmem and --vmem-margin, as `pallasc` takes them."""
    parser.add_argument("--vmem", type=size, metavar="SIZE", help="budget, such as 32MiB")
    about = "of it that a kernel must leave free by estimate; -3: may be over by"
    parser.add_argument(
        "--vmem-margin", type=percentage, default=0.0, metavar="PERCENT", help=about
    )


def read_json(path, what):
    """The JSON object in the file `path`. Raises FileError, UsageError."""
    try:
        value = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError(f"{path}: a {what} is a JSON object")
    return value


def find_command():
    """The command `pallasc`: $PALLASC_COMMAND, of the source tree, or where pip puts it.

    Raises FileError.
    """
    tree = Path(__file__).resolve().parent.parent.parent / "pallasc"
    places = [
        os.environ.get("PALLASC_COMMAND"),
        tree,
        Path(sysconfig.get_path("scripts"), "pallasc"),
    ]
    for place in filter(None, places):
        if os.path.isfile(place) and os.access(place, os.X_OK):
            return str(place)
    if found := shutil.which("pallasc"):
        return found
    raise FileError("no command pallasc: run `make`, or set PALLASC_COMMAND")


def parse_set(text):
    """(key, value) of KEY=VALUE; the value is JSON, or else a string."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"--set {text}: expected KEY=VALUE")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def add_size_option(parser, about="a named size over the graph's own; repeatable"):
    """--size, as `pallasc` takes it: {name: int} of all that are given."""
    parser.add_argument(
        "--size", type=_named_size, action="append", default=[], metavar="NAME=SIZE", help=about
    )


def add_mesh_options(parser):
    """--mesh, --shard and what travels, as `pallasc` takes them.

    Of --mesh {axis: devices}, of each other one a list of pairs: (block, axes), (array, axis).
    """
    parser.add_argument(
        "--mesh", type=_axes, metavar="AXIS=N,...", help="split it over a mesh of so many devices"
    )
    for option, what, does in (
        ("--shard", "BLOCK", "what an axis cuts"),
        ("--gather", "ARRAY", "an input whose parts travel round its devices"),
        ("--scatter", "ARRAY", "a sum over its devices that is left in parts"),
    ):
        parser.add_argument(
            option,
            type=functools.partial(_cut, what),
            action="append",
            default=[],
            metavar=f"{what}=AXIS",
            help=f"{does}; repeatable",
        )
    parser.add_argument(
        "--ring",
        metavar="WHAT",
        help="what moves them: wrapper (default), kernel or auto",
    )


def _axes(text):
    """{axis: devices} of data=2,model=4."""
    return dict(_named_size(word, "AXIS=DEVICES") for word in text.split(","))


def _cut(what, text):
    """(block, axes) of BLOCK=AXIS or BLOCK=AXIS+AXIS, or (array, axis)."""
    name, equals, axes = text.partition("=")
    if not equals or not name or not axes:
        raise argparse.ArgumentTypeError(f"expected {what}=AXIS, found '{text}'")
    return name, axes


def _named_size(text, form="NAME=SIZE"):
    name, equals, value = text.partition("=")
    if not equals or not name or not value.isascii() or not value.isdigit() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"expected {form}, found '{text}'")
    return name, int(value)


def parse_scalars(texts):
    """{name: value} of --scalar NAME=VALUE options."""
    return dict(parse_set(text) for text in texts)


def bytes_text(count):
    """A number of bytes for people: 512 B, 4.02 MiB."""
    if count is None:
        return "unknown"
    size, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{int(size)} B" if unit == "B" else f"{size:.2f} {unit}"


def seconds_text(seconds):
    """A time for people: 12.3 us, 4.56 ms, 1.23 s."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def table(rows):
    """Rows of strings as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
