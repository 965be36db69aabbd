"""Reads the compiler's schedules: VLIW bundles as text, and how full the slots of each are.

libtpu dumps a schedule after each late step. The one that is executed here is
`packed-bundles-post-ra`: registers are assigned, every instruction is in its bundle, and every
empty bundle is there. After it the compiler drops most empty bundles, since the hardware's
interlocks wait for a latency all the same, and on v7x merges those in a branch's delay slots, so
that the last dump, `final_bundles`, no longer says where the slots end. Both have the same
instructions, which `same_instructions` verifies.

A line of a dump is a bundle: address, a tag (LB: loop body, ...), a `>` for each loop it is in, and
instructions that are issued in one cycle:

    0x2a LB: >> { %s6_s1 = sadd.s32 (!%p4_p5), 1, %s5_s0  ;;  %7 = vst [vmem:[#a3]] %v9_v0 }

A value is named %NAME_REGISTER; `(%p)` or `(!%p)` makes an instruction conditional.
"""

import dataclasses
import re

_BUNDLE = re.compile(r"^\s*(0x[0-9a-f]+|0)\s+(?:[A-Z]{2})?\s*:\s*((?:> ?)*)\{")
_REGION = re.compile(r"(?:Start|Start/End empty) region (\d+)")
_TARGET = re.compile(r"target bundleno = \d+ \(0x[0-9a-f]+\), region = (\d+)")
_DIVISION = re.compile(r"/\* (kRem|kDiv|kDivAndRem|kQuot\w*) \*/")
_DIRECTION = re.compile(r"/\* (\w+)-to-(\w+) \*/")
_COMMENT = re.compile(r"/\*.*?\*/")
_INSTRUCTION = re.compile(r"^(?:%(\w+) = )?([a-z][\w.]*)\s*(.*)$")
_ANNOTATION = re.compile(r"\[(?:thread|sym|resolvable|syncflag|trace)[^\]]*\]")
_SHAPE = re.compile(r"\[shape:.*\]")
_PREFIX = re.compile(r"^\((!?)%(\w+)\)\s*,?\s*(.*)$")
_SUFFIX = re.compile(r"^(.*?)\s*\((!?)%(p\w+)\)\s*$")
# A store to SMEM has its predicate between the address and the value.
_BETWEEN = re.compile(r"^(\[smem:\[[^\]]*\]\])\s*\((!?)%(p\w+)\)\s*,\s*(.*)$")


@dataclasses.dataclass(slots=True)
class Instruction:
    """One instruction.

    Attributes:
      result: name of the value that it makes, or None.
      opcode: with all its suffixes.
      rest: operands and predicate, without comments.
      text: all of it, without comments.
    """

    result: str | None
    opcode: str
    rest: str
    text: str

    def split(self):
        """(predicate, operands): the predicate as (negated, name) or None, the operands as text."""
        rest = _SHAPE.sub("", _ANNOTATION.sub("", self.rest).strip()).strip()
        if match := _PREFIX.match(rest):
            return (bool(match[1]), match[2]), match[3]
        if match := _SUFFIX.match(rest):
            return (bool(match[2]), match[3]), match[1]
        if match := _BETWEEN.match(rest):
            return (bool(match[2]), match[3]), f"{match[1]} {match[4]}"
        return None, rest


@dataclasses.dataclass(slots=True)
class Bundle:
    """The instructions of one cycle; `depth`: loops around it; `regions`: those that start here."""

    depth: int
    regions: list
    instructions: list


def parse_bundles(text):
    """The bundles of a dump, a list of `Bundle` in order of address."""
    found, header, body = [], None, []
    for line in text.split("\n"):
        if match := _BUNDLE.match(line):
            if header is not None:
                found.append(_bundle(header, " ".join(body)))
            header, body = match[2].count(">"), [line[match.end() :]]
        elif header is not None:
            body.append(line)
    if header is not None:
        found.append(_bundle(header, " ".join(body)))
    return found


def _bundle(depth, text):
    """The bundle in `text`: instructions, comments, the closing brace and what follows it."""
    regions = [int(number) for number in _REGION.findall(text)]
    text = _DIVISION.sub(r", \1", text)  # which results a division gives, and
    text = _DIRECTION.sub(r" @\1_to_\2", text)  # whence a copy goes, stand in comments
    text = _COMMENT.sub("", text)
    end = text.rfind("}")
    parts = (part.strip() for part in (text[:end] if end >= 0 else text).split(";;"))
    return Bundle(depth, regions, [_instruction(part) for part in parts if part])


def _instruction(text):
    """An `Instruction`; the branch target of either kind of dump as `$regionN`."""
    text = _TARGET.sub(r"target = $region\1", text)
    match = _INSTRUCTION.match(text)
    return Instruction(*match.groups(), text) if match else Instruction(None, "", "", text)


def same_instructions(bundles, others):
    """Whether two dumps have the same instructions in the same bundles, but for empty ones."""

    def texts(schedule):
        found = ([item.text for item in bundle.instructions] for bundle in schedule)
        return [bundle for bundle in found if bundle]

    return texts(bundles) == texts(others)


@dataclasses.dataclass
class Utilisation:
    """How full slots are.

    Attributes:
      slots: names, such as MATMUL, VALU, XLU, EUP, VLOAD, "VLOAD:FILL", "VSTORE:SPILL".
      capacity: instructions that each takes in a cycle.
      rows: of each bundle the instructions in each slot.
    """

    slots: list
    capacity: list
    rows: list

    def shares(self, counts, first=0, last=None):
        """{slot: share of its capacity in use} where bundle i of first..last ran counts[i] times.

        A copy of registers to or from VMEM counts under VLOAD and VSTORE and again as FILL, SPILL.
        """
        last = min(len(self.rows), len(counts)) if last is None else last
        ran = sum(counts[first:last]) or 1
        used = [0] * len(self.slots)
        for index in range(first, min(last, len(self.rows))):
            if count := counts[index]:
                for slot, number in enumerate(self.rows[index]):
                    used[slot] += count * number
        named = zip(self.slots, used, self.capacity, strict=True)
        return {slot: number / ran / capacity for slot, number, capacity in named}

    def static(self, slot, first=0, last=None):
        """Instructions of a slot as they stand in the schedule, each counted once."""
        column = self.slots.index(slot)
        return sum(row[column] for row in self.rows[first:last])


def parse_utilisation(text):
    """The `Utilisation` in a dump of `hlo-static-per-bundle-utilization`, or None."""
    slots, numbers = [], []
    for line in text.split("\n"):
        if line.startswith("MATMUL"):
            slots = [name.strip() for name in line.split(",")]
        elif (words := line.split()) and all(word.lstrip("-").isdigit() for word in words):
            numbers.append([int(word) for word in words])
    return Utilisation(slots, numbers[0], numbers[1:]) if slots and numbers else None
