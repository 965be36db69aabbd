"""Export Helion kernels to the graph format.

In code: `from_helion(kernel, args, config=None)`. On the command line:

    pallasc export FILE.py:KERNEL --args 'bf16[8,32,512,128]' 1e-5 -o graph.json
    pallasc export --manifest testdata/kernels/graphs.json -o testdata/graphs

Needs torch and helion, which are imported only when something is exported.
"""

import argparse
import importlib.util
import json
import os
import sys
import traceback

from .errors import FileError, PallascError, UsageError
from .exporter.argspec import argument_make, argument_parse
from .exporter.errors import ExportError
from .files import write_file

__all__ = ["ExportError", "arrays", "from_helion", "main", "text"]


def from_helion(
    kernel, args, config=None, name=None, ranges=None, items=None, named_sizes=None, mesh=None
):
    """Trace a Helion kernel and return its document, a dict of the graph format.

    `kernel` is a function decorated with `@helion.kernel`, `args` what it would be called with.
    Tensors may be fake or on the meta device: only dtype and shape count. Host numbers, such as
    `eps`, become scalars with their value. `config` (a dict or a `helion.Config`) becomes the
    document's; without it the kernel's own first one does, or else Helion's default. `name` is the
    emitted function's, by default the kernel's. `ranges` maps parameters that are tensors of ints
    to (least, greatest): values outside count as the nearest one inside. `items` says what host
    code finds in places of such parameters, where sizes depend on it: {"offsets[-1]": 4096}.
    `named_sizes`: whether sizes of arguments become `sizes` of the document, names with the values
    of `args`; by default those of a kernel with static_shapes=False do. `mesh`: the axis along
    which devices run a kernel that copies between them, and how many: {"ring": 4}.

    Raises ExportError, which names what cannot be expressed and the line of the kernel.
    """
    from .exporter.trace import helion_require, versions_told

    helion_require()
    with versions_told():
        from .exporter.document import kernel_export

        export = kernel_export(kernel, args, config, name, ranges, items, named_sizes, mesh)
        return export.document


def arrays(document, tensors):
    """Return the NumPy arrays that the document's module takes, of tensors in parameters' order.

    int64 is narrowed to int32, but only if every value is of the parameter's range. Raises
    ExportError, which names the first that is not.
    """
    from .exporter.arrays import arrays_make

    return arrays_make(document, tensors)


def text(document):
    """Return a document as JSON text, the same for the same document."""
    from .document_text import document_text

    return document_text(document)


def main(argv=None):
    """Run the command line; return 0, 1 (refused), 2 (wrong usage) or 3 (files)."""
    parser = parser_build()
    options = parser.parse_args(argv)
    try:
        if options.manifest:
            manifest_export(options)
        else:
            file_export(options)
    except PallascError as error:
        return complain(error, error.exit_status)
    except Exception as error:
        if options.verbose:
            traceback.print_exc()
        hint = "-v shows where; please report it"
        return complain(f"internal error: {type(error).__name__}: {error} ({hint})", 1)
    return 0


def complain(error, status):
    """Print an error as one line and return the exit status."""
    print("pallasc: error:", " ".join(str(error).split()), file=sys.stderr)
    return status


def parser_build():
    """Return the parser of `pallasc export`."""
    parser = argparse.ArgumentParser(
        prog="pallasc export", description="Trace a Helion kernel and write the graph format."
    )
    parser.add_argument("kernel", nargs="?", metavar="FILE.py:KERNEL", help="the kernel to trace")
    parser.add_argument(
        "--args",
        nargs="*",
        default=[],
        metavar="ARG",
        help="its arguments: a tensor as bf16[128,64] or float32[128,64], of ints in a range as "
        "i64[128]:0..999, else a Python literal",
    )
    parser.add_argument(
        "--item",
        action="append",
        default=[],
        metavar="NAME[I]=INT",
        help="what host code finds in a place of a tensor of ints, as offsets[-1]=4096: the size "
        "of a tensor may depend on it",
    )
    parser.add_argument(
        "--named-sizes",
        action=argparse.BooleanOptionalAction,
        help="whether sizes of arguments are names in the graph, of which pallasc and pallasc.jit "
        "choose the values (default: of a kernel with static_shapes=False)",
    )
    parser.add_argument(
        "--mesh",
        metavar="AXIS=DEVICES",
        help="on how many devices a kernel runs that copies between them, and the axis's name",
    )
    parser.add_argument("--name", help="the emitted function's name (default: the kernel's)")
    parser.add_argument("--config", metavar="FILE|JSON", help="the configuration to write")
    parser.add_argument("--manifest", metavar="FILE", help="export every graph that FILE lists")
    parser.add_argument(
        "-o", "--output", metavar="PATH", help="file to write (default: standard output); with "
        "--manifest the folder (default: the manifest's)"
    )  # fmt: skip
    parser.add_argument("-v", "--verbose", action="store_true", help="traceback of internal errors")
    return parser


def file_export(options):
    """Export the one kernel that the options name."""
    if not options.kernel:
        raise UsageError("which kernel? FILE.py:KERNEL, or --manifest FILE")
    if options.name is not None and not options.name.isidentifier():
        raise UsageError(f"--name '{options.name}' is no Python identifier")
    path, _, kernel = options.kernel.rpartition(":")
    if not path or not kernel:
        raise UsageError(f"'{options.kernel}' is not like FILE.py:KERNEL")
    config = config_read(options.config) if options.config else None
    items = dict(item_parse(item) for item in options.item)
    mesh = mesh_parse(options.mesh) if options.mesh else None
    given = (options.args, config, options.name, items, options.named_sizes, mesh)
    document = spec_export(path, kernel, *given)
    for tensor in document["tensors"]:
        if "x_captured" in tensor:
            told = f"'{tensor['name']}' is {tensor['x_captured']}, which the kernel captures"
            print("pallasc: note: parameter", told, file=sys.stderr)
    if options.output in (None, "-"):
        sys.stdout.write(text(document))
    else:
        write_file(options.output, text(document))


def manifest_export(options):
    """Export each entry of a manifest.

    It has graph (the file's stem), kernel, args, and may have config, name, named_sizes, mesh.
    """
    if options.kernel or options.args:
        raise UsageError("--manifest takes no kernel and no --args")
    folder = os.path.dirname(options.manifest)
    entries = json_read(options.manifest)
    target = options.output or folder
    if not isinstance(entries, list):
        raise ExportError(f"{options.manifest} holds no list of graphs")
    for entry in entries:
        missing = [key for key in ("graph", "kernel", "args") if key not in entry]
        if missing:
            raise ExportError(f"{options.manifest}: an entry has no '{missing[0]}': {entry}")
        path, _, kernel = entry["kernel"].rpartition(":")
        args = (os.path.join(folder, path), kernel, entry["args"], entry.get("config"))
        named = entry.get("named_sizes")
        mesh = entry.get("mesh")
        document = spec_export(*args, entry.get("name"), named_sizes=named, mesh=mesh)
        write_file(os.path.join(target, entry["graph"] + ".json"), text(document))
        print(entry["graph"], file=sys.stderr)


def item_parse(text):
    """Return (place, int) of `offsets[-1]=4096`."""
    place, equals, number = text.partition("=")
    if not equals or not number.strip().lstrip("-").isdigit():
        raise UsageError(f"--item '{text}' is not like offsets[-1]=4096")
    return place.strip(), int(number)


def mesh_parse(text):
    """Return {axis: devices} of `ring=4`."""
    axis, _, devices = text.partition("=")
    if not axis.isidentifier() or not devices.isdigit():
        raise UsageError(f"--mesh '{text}' is not like ring=4")
    return {axis: int(devices)}


def spec_export(path, kernel, args, config, name, items=None, named_sizes=None, mesh=None):
    """Return the document of a kernel in a file, its arguments as text."""
    from .exporter.trace import helion_require

    parsed = [argument_parse(arg) for arg in args]
    if not os.path.isfile(path):
        raise FileError(f"cannot read {path}: no such file")
    helion_require()
    function = kernel_load(path, kernel)
    ranges = {at: arg[3] for at, arg in enumerate(parsed) if arg[0] == "tensor" and arg[3]}
    made = tuple(argument_make(arg) for arg in parsed)
    return from_helion(function, made, config, name, ranges, items, named_sizes, mesh)


def kernel_load(path, name):
    """Import a file and return one of its kernels."""
    stem = os.path.splitext(os.path.basename(path))[0]
    module_name = f"_pallasc_kernels_{stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None:
        raise FileError(f"cannot read {path} as Python: does its name end in .py?")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        spec.loader.exec_module(module)
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
        line = getattr(error, "lineno", None) or (frames[-1].lineno if frames else 1)
        where = f"{os.path.basename(path)}:{line}"
        raise ExportError(f"{type(error).__name__}: {error}", where) from error
    finally:
        sys.path.pop(0)
    if not hasattr(module, name):
        kernels = [key for key, value in vars(module).items() if type(value).__name__ == "Kernel"]
        found = f"it has {', '.join(kernels)}" if kernels else "it has no Helion kernel"
        raise ExportError(f"{os.path.basename(path)} has no kernel '{name}': {found}")
    return getattr(module, name)


def config_read(given):
    """Return a configuration from JSON text or a JSON file."""
    if given.lstrip().startswith("{"):
        try:
            return json.loads(given)
        except json.JSONDecodeError as error:
            raise UsageError(f"--config is no JSON: {error}") from error
    config = json_read(given)
    if not isinstance(config, dict):
        raise ExportError(f"{given} holds no JSON object")
    return config


def json_read(path):
    """Read a JSON file."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise ExportError(f"{path} is no JSON: {error}") from error


if __name__ == "__main__":
    sys.exit(main())
