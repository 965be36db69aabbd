"""Which kernels of Helion's own tests and examples are accepted, and why not the others.

    python bench/helion_census.py HELION [test_examples.py ...] -o FOLDER

HELION is a checkout of Helion. Its tests run on a CPU, with this file as a pytest plugin: each
call of a kernel is exported with the arguments and the configuration that the test gives, compiled
for v6e by the nearest configuration that is accepted, and answered with what the reference
interpreter computes of the graph, so that the test's own comparison judges the numbers. Where the
reference takes longer than LONGEST seconds, or the kernel is refused, Helion's eager mode answers.
A kernel that is refused for what its int64 tensors may hold is exported once more with the ranges
of the test's data, and one that takes a size from a place of a tensor with what is there.

Each call is a line of FOLDER/rows.jsonl; the table of them is printed. Needs torch, helion and
pytest (.venv-export), and expecttest for the tests of the examples.
"""

import argparse
import collections
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import unittest
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 20
# How an export begins that Helion itself refuses: such kernels are not counted.
NO_KERNEL = "Helion: "


class LateError(Exception):
    """Something took too long."""


@contextlib.contextmanager
def seconds(count):
    """Raise LateError after so many seconds."""

    def late(*_):
        raise LateError(f"more than {count} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(count)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# ---- the plugin ----------------------------------------------------------------------------------


class Census:
    """The calls of one pytest process: the first of each kernel with such arguments is recorded."""

    def __init__(self, folder):
        import helion

        self.helion = helion
        self.folder = folder
        self.inside = False  # an export or an eager run is under way, which binds kernels itself
        self.seen = {}  # what a call is known by -> its document, None: refused
        self.test = ""
        self.bind, self.call = helion.Kernel.bind, helion.Kernel.__call__

    def note(self, row):
        """Append a line to the rows."""
        with open(self.folder / "rows.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"test": self.test, **row}, default=str) + "\n")

    @contextlib.contextmanager
    def ourselves(self):
        """Kernels are Helion's own for a while."""
        self.inside = True
        try:
            yield
        finally:
            self.inside = False

    def run(self, kernel, args, config=None):
        """Record a call and answer it."""
        config = dict(config or (kernel.configs[0] if kernel.configs else {}))
        source = kernel.fn.__code__
        name = f"{Path(source.co_filename).name}:{source.co_firstlineno}:{kernel.fn.__name__}"
        functions = [id(a) for a in args if callable(a)]
        key = zlib.crc32(repr([name, [told(a) for a in args], functions, config]).encode())
        row = {
            "kernel": name,
            "args": [told(a) for a in args],
            "config": config,
            "id": f"{key:08x}",
        }
        if key not in self.seen:
            with self.ourselves():
                self.seen[key] = self.exported(kernel, args, config or None, row)
        document = self.seen[key]
        answer = self.reference(kernel, document, args, row) if document else None
        result = self.eager(kernel, args, row)
        if "export" in row:
            self.note(row)
        return result if answer is None else shaped(answer, result)

    def exported(self, kernel, args, config, row):
        """Return the document of an accepted call, or None; note what became of it."""
        from pallasc.export import ExportError, from_helion, text

        path = self.folder / f"{row['id']}.json"
        try:
            with seconds(100):
                document = from_helion(kernel, args, config, items=row.get("items"))
                path.write_text(text(document), encoding="utf-8")
                told_by = compiled(path)
                if "[int64-range]" in told_by:
                    row["ranges"] = ranges_of(kernel, args)
                    document = from_helion(
                        kernel, args, config, ranges=row["ranges"], items=row.get("items")
                    )
                    path.write_text(text(document), encoding="utf-8")
                    told_by = compiled(path)
        except ExportError as error:
            from pallasc.helion.calls import item_asked

            asked = item_asked(error, tensors_by_name(kernel, args))
            if asked and "items" not in row:
                row["items"] = dict([asked])
                return self.exported(kernel, args, config, row)
            row.update(export="refused", why=str(error))
            return None
        except Exception as error:  # what must not be: it is counted
            row.update(export="crash", why=f"{type(error).__name__}: {error}")
            return None
        row.update(export="refused" if told_by else "accepted", why=told_by)
        return document if not told_by else None

    def reference(self, kernel, document, args, row):
        """Return what the reference interpreter gives, tensors, or None where it is not asked."""
        import numpy as np
        from pallasc import reference
        from pallasc.export import arrays

        sys.path.insert(0, str(ROOT / "python" / "tests_export"))
        import oracle

        given = tensors_by_name(kernel, args)
        wanted = [t for t in document["tensors"] if t["role"] in ("input", "inout")]
        if any(t["name"] not in given for t in wanted):  # captured tensors, seeds
            return None
        try:
            with seconds(LONGEST), np.errstate(all="ignore"):
                found = reference.run(
                    document, arrays(document, [given[t["name"]] for t in wanted])
                )
        except Exception as error:
            row["reference"] = f"{type(error).__name__}: {error}"[:200]
            return None
        row["reference"] = "asked"
        made = [oracle.to_torch(np.asarray(x)).reshape(np.shape(x)) for x in found]
        return list(
            zip((entry["tensor"] for entry in document["returns"]), made, strict=True)
        ), given

    def eager(self, kernel, args, row):
        """Return what Helion's eager mode gives; without it the test ends here."""
        import torch

        settings = self.helion.Settings(ref_mode=self.helion.RefMode.EAGER, backend="triton")
        backend = os.environ.pop("HELION_BACKEND")
        try:
            with self.ourselves(), seconds(LONGEST), torch.no_grad():
                return self.call(
                    self.helion.Kernel(kernel.fn, configs=[], settings=settings), *args
                )
        except Exception as error:
            row["eager"] = f"{type(error).__name__}: {error}"[:200]
            raise unittest.SkipTest("Helion's eager mode fails") from error
        finally:
            os.environ["HELION_BACKEND"] = backend
            if "export" in row and "eager" in row:
                self.note(row)


def compiled(path):
    """Return the first error of compiling a graph, '' if it is accepted."""
    command = [ROOT / "pallasc", "--adapt", "--target=v6e", path, "-o", path.with_suffix(".py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode in (0, 1):
        return next((line for line in done.stderr.splitlines() if " error: " in line), "")
    return f"pallasc ends with {done.returncode}"


def told(value):
    """Return an argument as a line has it."""
    shape = getattr(value, "shape", None)
    if shape is None:
        return repr(value)[:60]
    strides = "" if value.is_contiguous() else f" by {list(value.stride())}"
    return f"{value.dtype}{list(shape)}{strides}"


def tensors_by_name(kernel, args):
    """Return the tensors among the arguments by the names that the exporter gives them."""
    from pallasc.helion import calls

    return calls.tensors_by_name(calls.arguments_by_name(kernel, args))


def ranges_of(kernel, args):
    """Return the ranges of the ints that tensors hold."""
    ints = {n: t for n, t in tensors_by_name(kernel, args).items() if "int" in str(t.dtype)}
    return {n: (int(t.min()), int(t.max())) for n, t in ints.items() if t.numel()}


def shaped(answer, result):
    """Return the reference's tensors as the kernel's result; what it writes, written."""
    import torch
    from torch.utils import _pytree

    outputs, given = answer
    leaves, spec = _pytree.tree_flatten(result)
    if sum(isinstance(leaf, torch.Tensor) for leaf in leaves) not in (0, len(outputs)):
        return result
    with torch.no_grad():
        for name, made in outputs:
            if name in given and given[name].shape == made.shape and not given[name].requires_grad:
                given[name].copy_(made)
    made = iter(made for _name, made in outputs)
    leaves = [next(made).to(x.dtype) if isinstance(x, torch.Tensor) else x for x in leaves]
    return _pytree.tree_unflatten(leaves, spec)


class Bound:
    """Stands for a bound kernel."""

    def __init__(self, census, kernel, args):
        self.census, self.kernel, self.args, self.config = census, kernel, args, None

    def __call__(self, *args):
        return self.census.run(self.kernel, args, self.config)

    def __getattr__(self, name):
        with self.census.ourselves():
            return getattr(self.census.bind(self.kernel, self.args), name)

    def compile_config(self, config=None, **_):
        """Return what runs the kernel with a configuration."""
        return lambda *args: self.census.run(self.kernel, args, config)

    def set_config(self, config):
        """Note a configuration."""
        self.config = config

    def to_code(self, *_, **__):
        """Return no code."""
        return Code()

    to_triton_code = to_code


class Code(str):
    """The code that tests look into: there is none, and it has all that they look for."""

    def __contains__(self, text):
        return True


def pytest_configure(config):
    """Put the census into Helion, and run every test whatever it is marked for."""
    if "PALLASC_CENSUS" not in os.environ:
        return
    unmarked = lambda *_, **__: lambda item: item  # noqa: E731
    unittest.skip = unittest.skipIf = unittest.skipUnless = unmarked
    unittest.expectedFailure = lambda item: item
    import helion
    import helion._testing as testing

    for name in dir(testing):
        if name.startswith(("skipIf", "skipUnless", "xfailIf", "onlyBackends")):
            setattr(testing, name, unmarked)
    census = config.census = Census(Path(os.environ["PALLASC_CENSUS"]))
    testing.EXAMPLES_DIR = Path(os.environ["PALLASC_HELION"]) / "examples"
    testing.PRETUNED_KERNELS_DIR = Path(os.environ["PALLASC_HELION"]) / "pretuned_kernels"

    def code_and_output(kernel, args, **options):
        return Code(), census.run(kernel, args, options)

    testing.code_and_output = code_and_output
    testing.output_only = lambda kernel, args, **options: census.run(kernel, args, options)

    def bind(kernel, args):
        return census.bind(kernel, args) if census.inside else Bound(census, kernel, tuple(args))

    def call(kernel, *args, **named):
        if census.inside:
            return census.call(kernel, *args, **named)
        return census.run(kernel, kernel.normalize_args(*args, **named))

    helion.Kernel.bind, helion.Kernel.__call__ = bind, call


def pytest_collection_modifyitems(config, items):
    """Drop marks that skip."""
    for item in items if hasattr(config, "census") else ():
        for node in item.listchain():
            marks = [m for m in node.own_markers if m.name not in ("skip", "skipif", "xfail")]
            node.own_markers[:] = marks


def pytest_runtest_setup(item):
    """Note which test runs."""
    if hasattr(item.config, "census"):
        item.config.census.test = item.nodeid.rpartition("/")[2]


def pytest_runtest_logreport(report):
    """Note comparisons of tensors that fail."""
    wrong = report.when == "call" and report.failed and "Tensor-likes" in str(report.longrepr)
    folder = os.environ.get("PALLASC_CENSUS")
    if wrong and folder:
        with open(Path(folder) / "rows.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"test": report.nodeid, "wrong": True}) + "\n")


# ---- the table -----------------------------------------------------------------------------------


def table(rows):
    """Return the census as lines: how many kernels are accepted, and what refuses the others."""
    kernels = collections.defaultdict(list)
    for row in rows:
        if "kernel" in row and not row["why"].partition(": ")[2].startswith(NO_KERNEL):
            kernels[row["kernel"]].append(row)
    good = [k for k, calls in kernels.items() if any(c["export"] == "accepted" for c in calls)]
    asked = [k for k in good if any(c.get("reference") == "asked" for c in kernels[k])]
    wrong = sorted({row["test"] for row in rows if "wrong" in row})
    lines = [
        f"{len(good)} of {len(kernels)} kernels accepted; the reference answered for {len(asked)}",
        f"{len(wrong)} tests whose comparison of tensors fails: {', '.join(wrong) or 'none'}",
    ]
    reasons = collections.defaultdict(set)
    for kernel in kernels.keys() - set(good):
        reasons[re.sub(r"\d+", "N", kernels[kernel][0]["why"].partition(": ")[2])].add(kernel)
    for reason, found in sorted(reasons.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        lines.append(f"{len(found):4} {reason} ({', '.join(sorted(found)[:3])})")
    return lines


def main():
    """Run the tests, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("helion", metavar="HELION", help="a checkout of Helion")
    parser.add_argument("tests", nargs="*", metavar="FILE", help="files of its tests (all)")
    parser.add_argument("-o", "--output", default="build/census", metavar="FOLDER")
    options = parser.parse_args()
    folder, helion = Path(options.output).resolve(), Path(options.helion).resolve()
    if not (helion / "test").is_dir():
        parser.error(f"{options.helion} is no checkout of Helion: it has no folder test")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.jsonl").write_text("", encoding="utf-8")
    paths = [
        str(ROOT / "bench"),
        str(ROOT / "python"),
        str(helion),
        os.environ.get("PYTHONPATH", ""),
    ]
    environment = os.environ | {
        "HELION_BACKEND": "pallas",
        "HELION_PALLAS_INTERPRET": "1",
        "PALLASC_CENSUS": str(folder),
        "PALLASC_HELION": str(helion),
        "PYTHONPATH": os.pathsep.join(paths),
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "helion_census",
        "-p",
        "no:cacheprovider",
    ]
    command += ["--tb=no", "--show-capture=no", "-W", "ignore", *options.tests]
    done = subprocess.run(command, cwd=helion / "test", env=environment, check=False)
    if done.returncode not in (0, 1):  # 1: tests that fail, as those do whose kernels are refused
        sys.exit(f"pytest ends with {done.returncode}: are expecttest and the tests' files there?")
    with open(folder / "rows.jsonl", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
