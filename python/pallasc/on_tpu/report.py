"""Reports: what rows took on one chip with one set of versions, a JSON file that is whole.

{"format": "pallasc-on-tpu", "version": 1, "machine": {...}, "rows": [{...}, ...]}; docs/on_tpu.md
has the fields.
"""

import contextlib
import dataclasses
import json
import math
import os

from .. import aot
from ..errors import UsageError
from ..files import write_file
from ..module import read_text

FORMAT, VERSION = "pallasc-on-tpu", 1
STATUSES = ("ok", "wrong", "failed", "refused")


@dataclasses.dataclass(frozen=True)
class Machine:
    """What a time depends on beside the kernel.

    Attributes:
      kind: as jax calls the device.
      devices: how many there are.
      target: the chip, or the name of the target file that kernels are made for.
      pallasc, jax, jaxlib, libtpu: versions, or "none".
    """

    kind: str
    devices: int
    target: str
    pallasc: str
    jax: str
    jaxlib: str
    libtpu: str


def machine_of(kinds, target):
    """The `Machine` whose devices are of these kinds."""
    from .. import __version__

    packages = [aot._version(name) for name in ("jax", "jaxlib", "libtpu")]
    return Machine(kinds[0], len(kinds), target, __version__, *packages)


@dataclasses.dataclass
class Entry:
    """What came of one row.

    Attributes:
      kind, row, graph, config, scale: the row.
      module: digest of the kernel's code: what was compiled.
      status: one of STATUSES: timed; its numbers are off; it did not compile or run; the compiler
        refuses it for this chip.
      message: why it is not "ok", a line.
      error_ratio: the largest error as a share of what is allowed.
      checked: what that is against: "formula" at this size, "reference" at a small one.
      median_s: seconds of a call; None: it was not timed. The others go with it:
      quartiles_s: the first and the third.
      uncertainty: width of the interval in which the median lies, as a share of it.
      stable: whether that is narrow enough.
      repeats, calls: samples, and calls in each.
      estimate_s, parts_s: `seconds` of the plan and its `time`, of each of its kernels added up.
      profiler_s: by the profiler, where it is known.
    """

    kind: str
    row: str
    graph: str
    config: dict
    scale: int
    module: str
    status: str
    message: str = ""
    error_ratio: float | None = None
    checked: str = ""
    median_s: float | None = None
    quartiles_s: list | None = None
    uncertainty: float | None = None
    stable: bool | None = None
    repeats: int | None = None
    calls: int | None = None
    estimate_s: float | None = None
    parts_s: dict | None = None
    profiler_s: float | None = None

    @property
    def key(self):
        """As `Row.key`."""
        return json.dumps([self.kind, self.row, self.graph, self.config], sort_keys=True)


# The fields that come of a run.
MEASURED = ("status", "message", "error_ratio", "checked", "median_s", "quartiles_s")
MEASURED += ("uncertainty", "stable", "repeats", "calls")
# What every entry has, and of which type; and what one that was timed has.
_NEEDED = {"kind": str, "row": str, "graph": str, "config": dict, "scale": int, "module": str}
_NEEDED |= {"status": str}
_TIMED = {"median_s": float, "quartiles_s": list, "repeats": int, "calls": int, "estimate_s": float}


class Report:
    """The entries of a machine, and the file that they are in.

    Attributes:
      path: the file; None: none.
      machine: a `Machine`.
      entries: {key: `Entry`}, in the order in which they came.
    """

    def __init__(self, path, machine, entries=()):
        self.path, self.machine = path, machine
        self.entries = {entry.key: entry for entry in entries}

    def put(self, entry):
        """Takes an entry in, and writes the whole file anew. Raises FileError."""
        self.entries[entry.key] = entry
        write_file(str(self.path), text(self))


def text(report):
    """A report as JSON, a row a line."""
    machine = json.dumps(dataclasses.asdict(report.machine))
    rows = ",\n  ".join(json.dumps(_plain(entry)) for entry in report.entries.values())
    head = f' "format": "{FORMAT}",\n "version": {VERSION},\n "machine": {machine},'
    return f'{{\n{head}\n "rows": [\n  {rows}\n ]\n}}\n'


def _plain(entry):
    """A dict without what JSON has no number for."""
    found = dataclasses.asdict(entry)
    ratio = found["error_ratio"]
    found["error_ratio"] = ratio if ratio is None or math.isfinite(ratio) else 1e300
    return found


def begin(path, machine):
    """The report in a file, to go on with, or a new one. Raises UsageError, FileError."""
    if not os.path.exists(path):
        return Report(path, machine)
    report = read(path)
    for field in dataclasses.fields(Machine):
        was, now = getattr(report.machine, field.name), getattr(machine, field.name)
        if was != now:
            raise UsageError(
                f"{path}: was written with {field.name} {was!r}, this is {now!r}:"
                " name another file with -o"
            )
    return report


def read(path):
    """The report in a file. Raises UsageError, with the place, or FileError."""
    try:
        value = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON: {error}") from None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise UsageError(f'{path}: not a report: "format" is not "{FORMAT}"')
    if value.get("version") != VERSION:
        found = value.get("version")
        raise UsageError(f"{path}: a report of version {found!r}; this pallasc reads {VERSION}")
    with contextlib.suppress(TypeError):
        machine = Machine(**value.get("machine", {}))
        rows = value.get("rows")
        if isinstance(rows, list):
            return Report(path, machine, [_entry(path, i, row) for i, row in enumerate(rows)])
    raise UsageError(f'{path}: "machine" or "rows" is not what a report has')


def _entry(path, index, row):
    place = f"{path}: rows[{index}]"
    if not isinstance(row, dict):
        raise UsageError(f"{place}: not an object")
    _check(place, row, _NEEDED)
    if row["status"] not in STATUSES:
        raise UsageError(f"{place}: status {row['status']!r} is none of {', '.join(STATUSES)}")
    if row["status"] == "ok":
        _check(place, row, _TIMED)
        if not (0 < row["median_s"] < 1e6 and 0 < row["estimate_s"] < 1e6):
            raise UsageError(f"{place}: median_s and estimate_s must be times")
    unknown = row.keys() - {field.name for field in dataclasses.fields(Entry)}
    if unknown:
        raise UsageError(f"{place}: unknown field {sorted(unknown)[0]!r}")
    return Entry(**row)


def _check(place, row, types):
    for name, kind in types.items():
        value = row.get(name)
        good = isinstance(value, (int, float) if kind is float else kind)
        if not good or isinstance(value, bool):
            missing = "is missing" if name not in row else f"is {value!r}"
            raise UsageError(f"{place}: {name} {missing}")
