"""One row: compiled for the chip, checked, timed. And all of them, into a report.

Nothing that is wrong is timed, and a row that fails does not keep the others from being run.
"""

import hashlib

from .. import judge, timing
from ..binding import compile as compile_graph
from ..compare import Comparison, compare, tolerance_for
from ..errors import CompileError, KernelError, PallascError
from ..profile import chips as profiled
from ..profile.run import code_of, known
from ..reference.errors import GraphError
from . import formulas
from .report import MEASURED, Entry

SEED = 0


def digest(module):
    """What is compiled of a module, as hex digits."""
    return hashlib.sha256(code_of(module.source).encode()).hexdigest()


def compiled(row, target):
    """(document, module) of a row. Raises CompileError."""
    document = row.document()
    return document, compile_graph(document, row.config or None, target)


def run(rows, device, target, report, again=False, say=lambda row, entry, known: None):
    """Measures the rows whose kernels the report does not have; it is written after each.

    Args:
      rows: `Row`s.
      device: see `timing`.
      target: a chip, or the text of a target file.
      report: a `Report`.
      again: those too that it has.
      say: called with each row, its entry, and whether its kernel was known.
    """
    entries = () if again else report.entries.values()
    measured = {(e.graph, e.module): e for e in entries if e.status in ("ok", "wrong")}
    for row in rows:
        entry, was_known = _one(row, device, target, measured)
        if report.entries.get(row.key) != entry:
            report.put(entry)
        if entry.status in ("ok", "wrong"):
            measured.setdefault((entry.graph, entry.module), entry)
        say(row, entry, was_known)


def _one(row, device, target, measured):
    """(the `Entry` of a row, whether its kernel was measured before, under whatever name)."""
    entry = Entry(row.kind, row.name, row.graph, row.config, row.scale, "", "ok")
    try:
        document, module = compiled(row, target)
    except CompileError as error:
        entry.status, entry.message = "refused", str(error).splitlines()[0]
        return entry, False
    entry.module = digest(module)
    estimates(entry, module)
    if same := measured.get((entry.graph, entry.module)):
        for name in MEASURED:
            setattr(entry, name, getattr(same, name))
        return entry, True
    _measure(entry, row, document, module, device, target)
    return entry, False


def _measure(entry, row, document, module, device, target):
    """Runs a kernel, compares its numbers, and takes its time if they are right."""
    try:
        arrays = row.arrays(document, module.info, SEED)
        program = device.compile(module, arrays)
        outputs = device.run(program, 1)
        comparison = check(entry, row, document, module, arrays, outputs, device, target)
        del outputs
        entry.error_ratio = float(comparison.ratio)
        if not comparison.ok:
            entry.status, entry.message = "wrong", str(comparison)
            return
        timed = timing.time_program(device, program)
    except (PallascError, GraphError, MemoryError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        entry.status, entry.message = "failed", lines[0]
        return
    entry.median_s, entry.quartiles_s = timed.median, list(timed.quartiles)
    entry.uncertainty, entry.stable = timed.uncertainty, timed.stable
    entry.repeats, entry.calls = len(timed.samples), timed.calls


def estimates(entry, module):
    """Puts in what the plan, and the profiler if it was asked before, say of a module."""
    plan, target = module.plan, module.info["target"]
    kernels = plan.get("kernels", [plan])
    entry.estimate_s = plan["seconds"]
    entry.parts_s = {part: sum(k["time"][part] for k in kernels) for part in kernels[0]["time"]}
    found = known(module, target) if target in profiled.CHIPS else None
    if found and found["trusted"]:
        entry.profiler_s = profiled.CHIPS[target].milliseconds(found["cycles"]) / 1e3


def check(entry, row, document, module, arrays, outputs, device, target):
    """The worst `Comparison` of a row's outputs, or of those of its small graph."""
    if row.small is None:
        entry.checked = "formula"
        expected = formulas.evaluate(row.formula, arrays)
        return worst(_by_formula(document, module.info["config"], outputs, expected))
    entry.checked, small = "reference", row.small()
    document, module = compiled(small, target)
    arrays = small.arrays(document, module.info, SEED)
    outputs = device.run(device.compile(module, arrays), 1)
    return worst(judge.judge(document, module.info, arrays, _numpy(outputs)).comparisons)


def _by_formula(document, config, outputs, expected):
    """A `Comparison` of each output."""
    import numpy as np

    if len(expected) != len(outputs):
        raise KernelError(f"the kernel gave {len(outputs)} outputs, expected {len(expected)}")
    for index, (actual, wanted) in enumerate(zip(_numpy(outputs), expected, strict=True)):
        tolerance = tolerance_for(document, index, config)
        yield compare(actual, wanted.reshape(actual.shape).astype(np.float64), tolerance)


def _numpy(outputs):
    import numpy as np

    return [np.asarray(output) for output in outputs]


def worst(comparisons) -> Comparison:
    """The one that is off the most."""
    return max(comparisons, key=lambda comparison: (not comparison.ok, comparison.ratio))
