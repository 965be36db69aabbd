"""The command line of `pallasc profile`."""

import dataclasses
import itertools
import json
import sys

from .. import mesh
from ..command import Parser, add_size_option, positive
from ..errors import UsageError
from ..files import write_file
from ..module import read_module
from . import chips, page, report, run, statements


def main(argv):
    """`profile KERNEL.py [--target T]...`: exit status 1 if a figure is not to be trusted."""
    parser = Parser(
        prog="pallasc profile",
        description="Compile a kernel for a TPU and execute the compiler's schedule: cycles, use of"
        " each slot, bytes and waits, by kernel and by loop. No TPU is needed; figures are"
        " estimates.",
    )
    parser.add_argument("kernel", nargs="?", metavar="KERNEL.py", help="module, or FILE.py:EXPR")
    parser.add_argument(
        *("-t", "--target"),
        action="append",
        metavar="T",
        help=f"{', '.join(chips.CHIPS)} or all; repeatable (default: the module's own, else v6e)",
    )
    add_size_option(parser, "of a module of several sizes only this one; repeatable")
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="data of an argument that steers the kernel; of EXPR NAME may be its position",
    )
    parser.add_argument(
        "--numbers",
        metavar="FILE.npy",
        help="int32 or float32 that the kernel takes from vectors, in order: how far loops run",
    )
    parser.add_argument("--json", action="store_true", help="one JSON line for each target")
    parser.add_argument("--statements", action="store_true", help="by statement of a module")
    parser.add_argument(
        "--page", metavar="F", help="also the module with the cycles of its lines, as HTML"
    )
    parser.add_argument("--simulate", action="store_true", help="libtpu's simulator too (slow)")
    parser.add_argument("--self-test", action="store_true", help="kernels with known figures")
    parser.add_argument("--timeout", type=positive, default=run.TIMEOUT_S, metavar="S")
    parser.add_argument("--memory", type=positive, default=8.0, metavar="GIB", help="memory cap")
    parser.add_argument("--no-cache", action="store_true", help="compile even if known")
    options = parser.parse_args(argv)
    targets = options.target or [None]
    targets = list(chips.CHIPS) if "all" in targets else targets
    if options.self_test:
        return _self_test(options.target or [])
    if not options.kernel:
        raise UsageError("no kernel given (see pallasc profile --help)")
    if options.page and (len(targets) > 1 or ".py:" in options.kernel):
        raise UsageError("--page: of a module of pallasc's, for one target")
    arguments = dict(_named(text) for text in options.arg)
    # A pipe can be read only once.
    sources = [options.kernel]
    if ".py:" not in options.kernel:
        sources = read_module(options.kernel).sized(dict(options.size))
    if options.page and len(sources) > 1:
        raise UsageError("--page: the module has several sizes: choose one by --size")
    limits = {"timeout": options.timeout, "memory_bytes": int(options.memory * (1 << 30))}
    limits["cache"] = not options.no_cache
    good = True
    for source, target in itertools.product(sources, targets):
        print(
            f"{options.kernel}: compiling{_one_of(source)} for {target or 'its target'}",
            file=sys.stderr,
        )
        if options.statements:
            print(_statements(source, target, options.json, limits), flush=True)
            continue
        found = run.profile(
            source, target, arguments, options.simulate, numbers=options.numbers, **limits
        )
        good &= found["trusted"]
        if options.page:
            costs = statements.statements(source, None, target, **limits)
            write_file(options.page, page.page(source, found, costs))
        print(json.dumps(found) if options.json else report.text(found), flush=True)
    return 0 if good else 1


def _one_of(source):
    """Of a module split over a mesh only one device's kernel is profiled, and it is said."""
    if isinstance(source, str) or "sharding" not in source.info:
        return ""
    return f" the kernel of one of {mesh.devices(source.info)} devices"


def _self_test(targets):
    """Runs the kernels of known figures; exit status 1 if one is off."""
    from . import selftest

    if unknown := set(targets) - {*selftest.TARGETS, "all"}:
        known = ", ".join(selftest.TARGETS)
        raise UsageError(f"--self-test: not for {', '.join(sorted(unknown))}: {known} or all")
    return selftest.main([] if "all" in targets else targets)


def _statements(source, target, as_json, limits):
    """What each statement of a module takes, as a table or JSON."""
    if isinstance(source, str):
        raise UsageError("--statements: of a module of pallasc's, not of FILE.py:EXPR")
    found = statements.statements(source, None, target, **limits)
    if as_json:
        return json.dumps([dataclasses.asdict(statement) for statement in found])
    return statements.statements_table(found)


def _named(text):
    """(name, path) of NAME=FILE.npy."""
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise UsageError(f"--arg {text}: expected NAME=FILE.npy")
    return name, path
