"""What each statement of a kernel costs: operations on vector registers, cycles of the schedule.

A kernel is compiled as it is (`run`), and executed (`machine`). Then twice with a scope around each
statement (`scopes`): once without more, whose last Mosaic stage gives the operations (`mosaic`) and
whose schedule must be that of the kernel as it is; once with the scopes' markers as fences, which
tell whose instructions stand where (`placement`). Operation counts are exact; to divide cycles of
bundles among the statements that they mix takes a convention.
"""

import collections
import contextlib
import dataclasses
import hashlib
import inspect
import json
import re
import tempfile
from pathlib import Path

from .. import aot, mesh
from ..chips import TOPOLOGIES
from ..errors import ModuleError, PallascError, UsageError
from ..files import keep, kept_json
from ..module import Module, read_module, read_text
from . import mosaic, placement
from .checks import failures
from .chips import CHIPS
from .machine import execute
from .run import compiled
from .scalars import tables
from .schedule import parse_bundles
from .scopes import put_scopes

_DUMP_LLO = (
    "--xla_jf_dump_llo_text=true",
    f"--xla_jf_dump_llo_pass_label_regex=.*({placement.START}|{placement.SCHEDULE}).*",
)
_NUMBER = re.compile(r"%([a-z]*)\d+")
_LLO_DUMP = re.compile(rf"\d+-(.+)-\d+-({placement.START}|{placement.SCHEDULE})\.txt")

# Lines of the table that are no statement.
NO_STATEMENT = "(of no statement)"
SPILLS = "(spills and fills)"
CONTROL = "(scalar and control)"
COPIES = "(waits for copies)"
QUEUES = "(waits for queues of the matrix units)"
UNKNOWN = "(cycles are not known: {})"


@dataclasses.dataclass
class Statement:
    """What one statement of a kernel costs, in all calls of the function around it.

    Attributes:
      kernel: name of the Pallas kernel.
      line: of the module's text, from 1; None for what is of no statement.
      function: the Python function that it is in.
      code: the statement on one line.
      source: the comment above it: in an emitted module, the line of the graph's source.
      ops: {unit of `mosaic.UNITS`: operations on vector registers}, as they stand in the kernel.
      executed: the same, times the trips of the loops around them, in one call of the kernel.
      opcodes: {operation of Mosaic's last stage: how often it stands there}.
      guarded: whether some are under a branch: `executed` is then the most that it can be.
      unbounded: whether some are in a loop whose bounds are not constants: counted as one trip.
      cycles: of bundles in which it has instructions, its share, in one call of the kernel; None if
        the schedule was not executed to its end.
      waits: cycles for which it waits for a result, its share; None likewise.
    """

    kernel: str
    line: int | None
    function: str = ""
    code: str = NO_STATEMENT
    source: str = ""
    ops: dict = dataclasses.field(default_factory=dict)
    executed: dict = dataclasses.field(default_factory=dict)
    opcodes: dict = dataclasses.field(default_factory=dict)
    guarded: bool = False
    unbounded: bool = False
    cycles: float | None = None
    waits: float | None = None

    def add(self, site):
        """Counts a `mosaic.Site`."""
        self.opcodes[site.opcode] = self.opcodes.get(site.opcode, 0) + site.count
        unit = mosaic.unit_of(site.opcode)
        if unit is None:
            return
        self.ops[unit] = self.ops.get(unit, 0) + site.count
        self.executed[unit] = self.executed.get(unit, 0) + site.count * site.trips
        self.guarded |= site.guarded
        self.unbounded |= site.unbounded


def statements(
    kernel,
    arguments=None,
    target=None,
    timeout=aot.TIMEOUT_S,
    memory_bytes=aot.MEMORY_BYTES,
    cache=True,
):
    """What each statement of each Pallas kernel costs: a list of `Statement`, in order of line.

    For each kernel the list holds its statements, and with line None what is of none of them; where
    the schedule was executed to its end, the cycles and waits of a kernel's entries are all of its
    cycles.

    Args:
      kernel: a `Module` or the path of one; or a function at the top level of a Python file, which
        is read and executed anew, in another process.
      arguments: for a function: what it takes, with `shape` and `dtype`, or (shape, dtype) pairs.
      target: a chip of `pallasc.chips.TOPOLOGIES`; default: the module's own.
      timeout: seconds, for each of three compiles.
      memory_bytes: resident memory of the compiler.
      cache: whether to use and fill the cache.

    Raises PallascError: no such file or target, not Python, or the compiler refuses the kernel.
    """
    module = _module(kernel, arguments)
    if mesh.exchanges(module.info):
        raise UsageError(f"{module.filename}: statements of a module that runs on a mesh")
    target = target or module.info["target"]
    if target not in TOPOLOGIES:
        raise UsageError(f"unknown target {target!r}: one of {', '.join(TOPOLOGIES)}")
    path = _cache_path(module.source, target)
    if cache and (found := _cache_load(path)) is not None:
        return found
    try:
        text, places = put_scopes(module.with_all_vmem().source)
    except SyntaxError as error:
        raise ModuleError(f"{module.filename}:{error.lineno}: not Python: {error.msg}") from None
    scoped = Module(text, module.filename)
    with Compiler((placement.LOCATE,), timeout, memory_bytes) as compiler:
        plain = compiler.compile(scoped, target)
    with Compiler((placement.FENCE,), timeout, memory_bytes) as compiler:
        fenced = compiler.compile(scoped, target)
    bare = {"target": target, "kernels": {}, "scalars": {}}
    if target in CHIPS:
        limits = {"timeout": timeout, "memory_bytes": memory_bytes}
        bare, _ = compiled(module, target, cache=cache, **limits)
    found = [row for kernel in _kernels(plain, fenced) for row in _rows(kernel, places, bare)]
    if cache:
        _cache_store(path, found)
    return found


def _module(kernel, arguments):
    """The `Module` of what `statements` is given."""
    if isinstance(kernel, Module):
        return kernel
    if not callable(kernel):
        return read_module(kernel)
    function = inspect.unwrap(kernel)
    name = getattr(function, "__qualname__", "")
    path = inspect.getsourcefile(function) if inspect.isfunction(function) else None
    if not path or not name.isidentifier():
        raise UsageError(f"{name or kernel!r}: not a function at the top level of a file")
    text = read_text(path)
    if "KERNEL_INFO" in text:
        raise UsageError(f"{path}: a kernel module: give its path in place of {name}")
    info = {
        "name": name,
        "target": "v7x",
        "inputs": [_input(index, entry) for index, entry in enumerate(arguments or ())],
        "outputs": [],
        "config": {},
    }
    return Module(f"{text}\nKERNEL_INFO = {info!r}\n", path)


def _input(index, entry):
    try:
        shape, dtype = (entry.shape, entry.dtype) if hasattr(entry, "shape") else entry
        shape = [int(size) for size in shape]
    except (TypeError, ValueError):
        raise UsageError(f"argument {index}: {entry!r} has no shape and dtype") from None
    return {"name": f"argument_{index}", "dtype": _dtype_name(dtype), "shape": shape}


def _dtype_name(dtype):
    return dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or dtype.__name__


@dataclasses.dataclass
class Dumps:
    """What a compile wrote: texts of Mosaic's last stage; {name: text} of two steps of LLO's."""

    stages: list
    starts: dict
    schedules: dict


class Compiler:
    """A worker process that dumps what it compiles.

    Args:
      flags: of libtpu, beside those that dump.
      timeout: seconds for each job.
      memory_bytes: resident memory of the worker.
    """

    def __init__(self, flags=(), timeout=aot.TIMEOUT_S, memory_bytes=aot.MEMORY_BYTES):
        self._timeout = timeout
        with contextlib.ExitStack() as stack:
            self._folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="pallasc_"))
            dumps = (f"--xla_mosaic_dump_to={self._folder}", f"--xla_jf_dump_to={self._folder}")
            self._worker = aot.Worker(memory_bytes, flags=(*dumps, *_DUMP_LLO, *flags))
            stack.callback(self._worker.close)
            self._stack = stack.pop_all()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()

    def compile(self, module, target):
        """The `Dumps` of a module for a target. Raises PallascError."""
        job = {"source": module.source, "filename": module.filename, "target": target}
        where = f"{module.filename}: {target}"
        try:
            answer = self._worker.request(job, self._timeout)
        except aot.WorkerLost as lost:
            raise PallascError(f"{where}: {lost.kind}: {lost}") from None
        if not answer["ok"]:
            telling = aot.telling_lines(answer["error"])
            raise PallascError(f"{where}: does not compile: {telling}")
        return _read_dumps(Path(self._folder))


def _read_dumps(folder):
    dumps = Dumps([], {}, {})
    for path in sorted(folder.iterdir()):
        if path.name.endswith(f"-{mosaic.STAGE}.txt"):
            dumps.stages.append(path.read_text())
        elif match := _LLO_DUMP.fullmatch(path.name):
            texts = dumps.starts if match[2] == placement.START else dumps.schedules
            texts[match[1]] = path.read_text()
        path.unlink()
    return dumps


@dataclasses.dataclass
class _Kernel:
    """A Pallas kernel: its name, its `mosaic.Kernel`, its dumps of LLO, "" where there is none."""

    name: str
    counted: mosaic.Kernel
    start: str
    schedule: str
    fenced: str


def _kernels(plain, fenced):
    """The `_Kernel`s of a module, as they were compiled.

    LLO may name a kernel after a scope around its call: it is known by the scopes in it, and by its
    name where that leaves a choice.
    """
    markers = {name: placement.read_fenced(text).markers for name, text in fenced.starts.items()}
    names = collections.Counter()
    for text in plain.stages:
        kernel = mosaic.parse_kernel(text)
        same = [name for name, found in markers.items() if found == kernel.markers]
        like = [name for name in same if name.split(".")[0] == kernel.name]
        name = next(iter(like or (same if kernel.markers else ())), "")
        markers.pop(name, None)
        names[kernel.name] += 1
        again = f" ({names[kernel.name]})" if names[kernel.name] > 1 else ""
        dumps = (texts.get(name, "") for texts in (plain.starts, plain.schedules, fenced.starts))
        yield _Kernel(kernel.name + again, kernel, *dumps)


class _Rows(dict):
    """{line: `Statement`} of a kernel; a line that is missing is put in."""

    def __init__(self, kernel, places):
        super().__init__()
        self._kernel, self._places = kernel, places

    def __missing__(self, line):
        place = self._places.get(line)
        about = (place.function, place.code, place.source) if place else ()
        self[line] = Statement(self._kernel, line, *about)
        return self[line]


def _rows(kernel, places, bare):
    """The `Statement`s of a `_Kernel`: by line, then what is of none; `bare`: see `_execute`."""
    rows = _Rows(kernel.name, places)
    for site in kernel.counted.sites:
        rows[site.line].add(site)
    try:
        others = _add_cycles(rows, kernel, bare)
    except ValueError as doubt:
        others = {UNKNOWN.format(doubt): (None, None)}
    return [
        *(rows[line] for line in sorted(rows, key=lambda line: (line is None, line))),
        *(
            Statement(kernel.name, None, code=code, cycles=cycles, waits=waits)
            for code, (cycles, waits) in others.items()
        ),
    ]


def _add_cycles(rows, kernel, bare):
    """Gives the rows their cycles; {what: (cycles, waits)} of those that are of no statement.

    Raises ValueError where the run is doubtful or the two compiles differ.
    """
    run, chip = _execute(kernel.schedule, bare)
    bundles = placement.place(placement.read_fenced(kernel.fenced), kernel.start, kernel.schedule)
    cycles = placement.share(bundles, run.counts, chip.delay_slots)
    stalls = max(0.0, run.cycles - run.wait_cycles - cycles.total)
    spills = cycles.issue.pop(placement.SPILL, 0.0), cycles.wait.pop(placement.SPILL, 0.0)
    for line in {*rows, *cycles.issue}:
        rows[line].cycles = cycles.issue.get(line, 0.0)
        rows[line].waits = cycles.wait.get(line, 0.0)
    return {
        SPILLS: spills,
        CONTROL: (cycles.control, 0.0),
        COPIES: (0.0, run.wait_cycles),
        QUEUES: (0.0, stalls),
    }


def _execute(schedule, bare):
    """(the `machine.Run` of the kernel without scopes, its chip).

    Args:
      schedule: of the kernel with scopes, which says which kernel it is: one with that schedule.
      bare: the dump of the module without scopes.

    Raises ValueError if there is none, or its run is not to be trusted.
    """
    if bare["target"] not in CHIPS:
        raise ValueError(f"there is no model of {bare['target']}")
    chip = CHIPS[bare["target"]]
    name, bundles = _without_scopes(schedule, bare)
    try:
        program, run = execute(bundles, chip, tables(bare["scalars"].get(name)))
    except (ArithmeticError, LookupError, NameError, SyntaxError, TypeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise ValueError(f"the schedule is not understood: {what}") from None
    if doubts := failures(program, run):
        raise ValueError("; ".join(doubts))
    return run, chip


def _without_scopes(schedule, bare):
    """(name, bundles) of the Pallas kernel of a dump that has this schedule. Raises ValueError."""
    scoped = _instructions(parse_bundles(placement.without_locations(schedule)))
    for name, entry in bare["kernels"].items():
        bundles = parse_bundles(entry["schedule"])
        if entry["pallas"] and bundles and _instructions(bundles) == scoped:
            return name, bundles
    raise ValueError("no kernel of the module without scopes has this schedule")


def _instructions(bundles):
    """Texts of all bundles' instructions, with registers but without what differs by name only.

    That are numbers of values (%v12_v3 is %v_v3), which scopes may shift, and the direction of a
    copy, which is a comment's.
    """
    return [
        [_NUMBER.sub(r"%\1", item.text.partition(" @")[0].rstrip()) for item in bundle.instructions]
        for bundle in bundles
    ]


def _cache_path(source, target):
    """Where the result is kept: a name made of all that it depends on."""
    parts = [source, aot.cache_key(source, target)]  # with its lines
    parts += [file.read_text() for file in sorted(Path(__file__).parent.glob("*.py"))]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return aot.cache_directory("statements") / f"{digest}.json"


def _cache_load(path):
    try:
        return [Statement(**fields) for fields in kept_json(path)]
    except TypeError:  # None too
        return None


def _cache_store(path, found):
    """Keeps a result; a cache that cannot be written is no error."""
    keep(path, json.dumps([dataclasses.asdict(statement) for statement in found]))


def report(path, target=None, **options):
    """What each statement of the module `path` costs, as text; options are of `statements`."""
    return statements_table(statements(path, None, target, **options))


def statements_table(found):
    """A list of `Statement` as text: for each kernel a table of executed operations and cycles.

    `<=`: some of the operations are under a branch; `+`: some are in a loop whose trips are not
    known, counted as one.
    """
    lines = []
    for kernel in dict.fromkeys(statement.kernel for statement in found):
        rows = [statement for statement in found if statement.kernel == kernel]
        lines += ["", *_kernel_table(kernel, rows)] if lines else _kernel_table(kernel, rows)
    return "\n".join(lines) or "no Pallas kernel"


def _kernel_table(kernel, rows):
    rows = [row for row in rows if has_costs(row)]
    total = sum((row.cycles or 0) + (row.waits or 0) for row in rows)
    numbers = [("line", *mosaic.UNITS, *(("cycles", "waits", "share") if total else ()))]
    for row in rows:
        operations = (_operations(row, unit) for unit in mosaic.UNITS)
        numbers.append((str(row.line or ""), *operations, *(_times(row, total) if total else ())))
    widths = [max(map(len, column)) for column in zip(*numbers, strict=True)]
    texts = ["statement", *(row.code for row in rows)]
    sources = ["", *(row.source for row in rows)]
    lines, before = [f"{kernel}: operations on vector registers that a call executes"], ""
    for cells, text, source in zip(numbers, texts, sources, strict=True):
        if source and source != before:
            lines.append(f"# {source}")
        before = source
        aligned = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        lines.append("  ".join((*aligned, text)))
    return lines


def _times(row, total):
    """Cycles and waits of a row, and what part of the kernel's cycles they are."""
    cycles, waits = row.cycles or 0, row.waits or 0
    return f"{cycles:.0f}", f"{waits:.0f}", f"{(cycles + waits) / total:.1%}"


def has_costs(row):
    """Whether a row has something to say: half a cycle is shown as one."""
    times = (row.cycles or 0, row.waits or 0)
    return row.ops or max(times) >= 0.5 or row.code.startswith(UNKNOWN[:8])


def _operations(row, unit):
    """Executed operations of a unit as text."""
    count = row.executed.get(unit)
    if not count:
        return ""
    return f"{'<=' if row.guarded else ''}{count}{'+' if row.unbounded else ''}"
