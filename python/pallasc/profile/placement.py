"""Says of which statement each instruction of the compiler's final schedule is.

The markers of scopes do not reach the schedule, and should not: where they do
(`--xla_enable_custom_call_region_trace`) they fence it, and nothing overlaps across them. But both
compiles begin with the same instructions, numbered as they are made, and a number stays with its
value to the end: %556 of `original` is %v556_v10, or in another register, in the schedule. So the
compile with fences says which numbers lie in which scope, the other one where they went.

Later steps split instructions, and number anew. What is new keeps the source location of what it
replaces (`--xla_mosaic_enable_llo_source_annotations`). As jax lowers equal operations once, all
that are equal in shapes and parameters have the location of the first. So where several statements
have it, the instruction is of the one that has its opcode there, or whose values it takes, or whose
results are used as its are. A push into a unit is of the statement that pops its result, what
prepares a push of weights is of the statement that pushes them. Spills and fills are of none.
"""

import bisect
import collections
import dataclasses
import re

from .scopes import scope_line

START = "original"
SCHEDULE = "packed-bundles-post-ra"
SPILL = "spill"
FENCE = "--xla_enable_custom_call_region_trace=true"
LOCATE = "--xla_mosaic_enable_llo_source_annotations=true"

_VALUE = re.compile(r"\s*%[a-z]*(\d+)(?:_\w+)? = ([a-z][\w.]*)(.*)", re.DOTALL)
_MARKER = re.compile(r"TraceMe(Start|End)\((.*)\)")
_LOCATION = re.compile(r'loc\("[^"]*"[^)]*\)')
_COMMENT = re.compile(r" /\* (.*?) \*/")
_OPERAND = re.compile(r"%[a-z]*(\d+)")
_BUNDLE = re.compile(r"^\s*(?:0x[0-9a-f]+|0)\s+(?:[A-Z]{2})?\s*:\s*(?:> ?)*\{")
_CONTROL = re.compile(r"vphi|vsync|vwait|vdelay|vtrace|vset(iar|rng)|vrng")


@dataclasses.dataclass
class Placed:
    """A bundle.

    Attributes:
      lines: of each vector instruction the line of its statement; `SPILL` for a spill or a fill;
        None if nothing says it.
      empty: whether it has no instruction at all.
      branch: whether it has a branch.
    """

    lines: list
    empty: bool
    branch: bool


@dataclasses.dataclass
class Fenced:
    """What a compile with markers says.

    Attributes:
      markers: names of all scopes, in the order in which they begin.
      lines: {number: line of the innermost of our scopes, or None}, with the numbers that the
        compile without markers has.
      opcodes: {number: opcode}.
    """

    markers: list
    lines: dict
    opcodes: dict


def read_fenced(text):
    """The `Fenced` of a dump of `original` with markers."""
    markers, scopes, lines, opcodes, own = [], [], {}, {}, []
    for line in text.split("\n"):
        match = _VALUE.match(line)
        if not match:
            continue
        number, opcode = int(match[1]), match[2]
        if opcode == "vtrace":
            own.append(number)
            if marker := _MARKER.search(line):
                if marker[1] == "Start":
                    markers.append(marker[2])
                    scopes.append(scope_line(marker[2]))
                elif scopes:
                    scopes.pop()
            continue
        plain = number - bisect.bisect(own, number)
        lines[plain] = next((scope for scope in reversed(scopes) if scope), None)
        opcodes[plain] = opcode
    return Fenced(markers, lines, opcodes)


def place(fenced, original, schedule):
    """The bundles of a schedule as a list of `Placed`.

    Args:
      fenced: of the compile with markers.
      original, schedule: dumps of the compile without.

    Raises ValueError if the two compiles do not begin with the same instructions.
    """
    first = [item for line in original.split("\n") for item in _instructions(line)]
    if {number: opcode for number, opcode, _ in first} != fenced.opcodes:
        raise ValueError("the compile with markers begins with other instructions")
    bundles = [_instructions(bundle) for bundle in _bundles(schedule)]
    instructions = [item for bundle in bundles for item in bundle]
    places = _places(fenced.lines, _located(fenced.lines, first), instructions)
    _place_by_use(fenced.lines, first, places, instructions)
    return [
        Placed(
            [places[number] for number, opcode, _ in bundle if _is_vector(opcode)],
            not bundle,
            any(opcode.startswith("sbr") for _, opcode, _ in bundle),
        )
        for bundle in bundles
    ]


def _places(lines, located, instructions):
    """{number: line, `SPILL` or None} of a schedule's instructions, which are in order.

    Args:
      lines: {number: line} of those that are known.
      located: of `_located`.
    """
    places, reached, prepared = {}, {}, {}
    for number, opcode, rest in instructions:
        if _is_spill(opcode, rest):
            places[number] = SPILL
            continue
        operands = _operands(rest)
        known = set().union(*(reached.get(operand, ()) for operand in operands))
        may_be = {lines[number]} if lines.get(number) else _candidates(located, opcode, rest)
        may_be = may_be if len(may_be) == 1 else may_be & known
        line = next(iter(may_be)) if len(may_be) == 1 else None
        places[number] = line
        reached[number] = {line} if line else known
        unit = opcode.rpartition(".")[2]
        if opcode.startswith("vpop") and operands:
            before = operands[-1]
        elif opcode.startswith("vmatpush"):
            before = prepared.pop(unit, number)
        elif opcode.startswith("vmatprep.subr"):
            prepared[unit] = before = number
        else:
            continue
        places[before] = places.get(before) or line
    return places


def _located(lines, instructions):
    """{location or (location, opcode): lines of the statements that have it}."""
    located = collections.defaultdict(set)
    for number, opcode, rest in instructions:
        for location in _LOCATION.findall(rest) if lines.get(number) else ():
            located[location].add(lines[number])
            located[location, opcode].add(lines[number])
    return located


def _candidates(located, opcode, rest):
    """The lines that have an instruction's locations, of those with its opcode if there are any."""
    locations = _LOCATION.findall(rest)
    same = set().union(*(located.get((location, opcode), ()) for location in locations))
    return same or set().union(*(located.get(location, ()) for location in locations))


def _place_by_use(lines, first, places, instructions):
    """Places what is left where one statement's values are used by the same statements."""
    meant = collections.defaultdict(set)
    uses = _users(first, lines)
    for number, opcode, rest in first:
        for location in _LOCATION.findall(rest) if lines.get(number) else ():
            meant[location, opcode, frozenset(uses[number])].add(lines[number])
    uses = _users(instructions, places)
    for number, opcode, rest in instructions:
        if places[number] is None:
            used = frozenset(uses[number])
            found = (meant.get((where, opcode, used), ()) for where in _LOCATION.findall(rest))
            found = set().union(*found)
            places[number] = next(iter(found)) if len(found) == 1 else None


def _users(instructions, lines):
    """{number: lines of the statements that use its result}."""
    users = collections.defaultdict(set)
    for number, _, rest in instructions:
        for operand in _operands(rest):
            users[operand].add(lines.get(number))
    return users


def _operands(rest):
    return [int(operand) for operand in _OPERAND.findall(rest)]


def _is_spill(opcode, rest):
    """Whether it copies a register to or from VMEM because there are too few."""
    return opcode in ("vst", "vld") and "_spill" in rest


def _is_vector(opcode):
    """Whether it works on vector registers; a phi is no instruction."""
    return opcode.startswith("v") and not _CONTROL.match(opcode)


def without_locations(text):
    """A dump as it is without source locations in its comments."""

    def comment(match):
        parts = [part for part in match[1].split(" :: ") if not _LOCATION.fullmatch(part)]
        return f" /* {' :: '.join(parts)} */" if parts else ""

    return _COMMENT.sub(comment, text)


def _bundles(text):
    """The text of each bundle; a bundle may go over several lines."""
    found = []
    for line in text.split("\n"):
        if match := _BUNDLE.match(line):
            found.append(line[match.end() :])
        elif found:
            found[-1] += " " + line
    return found


def _instructions(bundle):
    matches = (_VALUE.match(part) for part in bundle.split(";;"))
    return [(int(match[1]), match[2], match[3]) for match in matches if match]


@dataclasses.dataclass
class Cycles:
    """Cycles of a kernel's bundles, each of them counted once.

    Attributes:
      issue: {line: cycles} of bundles with instructions of the statement; instructions of several
        statements in a bundle share it evenly. Keys are as in `Placed.lines`.
      wait: {line: cycles} of empty bundles before one with instructions of the statement: it, or
        what shares its bundle, waits for a result.
      control: cycles of bundles with scalar instructions only, of a branch's empty delay slots and
        of waits before scalar instructions.
    """

    issue: dict = dataclasses.field(default_factory=dict)
    wait: dict = dataclasses.field(default_factory=dict)
    control: float = 0.0

    @property
    def total(self):
        """All of them: the bundles executed."""
        return sum(self.issue.values()) + sum(self.wait.values()) + self.control


def share(bundles, counts, delay_slots):
    """The `Cycles` of a run.

    Args:
      bundles: of `place`.
      counts: how often each bundle ran.
      delay_slots: bundles that run after a branch before its target does.
    """
    cycles = Cycles()
    waits, slots = [], 0
    for bundle, count in zip(bundles, counts, strict=True):
        if bundle.empty:
            if slots > 0:
                cycles.control += count
            else:
                waits.append(count)
            slots -= 1
            continue
        slots = delay_slots if bundle.branch else slots - 1
        waited, waits = sum(waits), []
        if not bundle.lines:
            cycles.control += count + waited
        for line in bundle.lines:
            part = 1 / len(bundle.lines)
            cycles.issue[line] = cycles.issue.get(line, 0.0) + count * part
            cycles.wait[line] = cycles.wait.get(line, 0.0) + waited * part
    cycles.control += sum(waits)
    return cycles
