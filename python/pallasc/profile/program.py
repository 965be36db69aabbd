"""Turns the actions of a schedule into one Python function that runs a kernel's control flow.

The schedule is cut into blocks, each a straight run of bundles, and the function jumps from block
to block. What matters for a right answer:

- all reads of a bundle see the values from before it;
- a conditional write whose condition does not hold leaves the register as it was;
- a phi reads the physical register (%s12_s5 reads s5) as the predecessor left it;
- after a branch its delay slots run, whichever way it goes; a target may lie inside them;
- a bundle takes one cycle; where a block enters more matmuls into a unit than its bundles have
  cycles for, the unit's queue is full and the rest is waited for at the end of the block.
"""

import collections
import dataclasses

from . import chips
from .scalar import WORD_MASK, Translator, float_of, wrapped


@dataclasses.dataclass(slots=True)
class Block:
    """Bundles first..last-1.

    `stall`: cycles waited for the matrix units at its end; `busy`: cycles for which its
    unconditional matmuls keep the busiest unit; `matmuls`: {dtype: count} of those.
    """

    first: int
    last: int
    stall: int = 0
    busy: float = 0.0
    matmuls: dict = dataclasses.field(default_factory=collections.Counter)


@dataclasses.dataclass(slots=True)
class Loop:
    """A branch back: bundles first..last-1, the branch in bundle `branch`, `depth` loops deep."""

    first: int
    last: int
    branch: int
    depth: int


class Program:
    """A kernel's schedule as a function.

    Attributes:
      bundles, actions: of each bundle.
      blocks: in order of address.
      loops: of the schedule.
      asserts: (bundle, text) of the kernel's own assertions, by the number `failed` is called with.
      conditional: (dtype, unit) of the matmuls that run conditionally, by number.
      function: run(mem, read, dma, wait, credit, failed, push, pop, taken, conditional, counts,
        limit) -> (cycles, blocks run, whether it ended).
    """

    def __init__(self, bundles, chip):
        self.bundles = bundles
        self.chip = chip
        self.translator = Translator(bundles)
        self.actions = self.translator.actions
        self.asserts, self.conditional = [], []
        self._find_branches()
        self._names, self._registers = set(), set()
        self.blocks, sources = [], []
        for first in self.starts:
            block, source = self._block(first)
            self.blocks.append(block)
            sources.append(source)
        self.function = self._compile(sources)

    @property
    def unhandled(self):
        """{what: count} of instructions that are not known."""
        return self.translator.unhandled

    def _find_branches(self):
        """The branches, {bundle: (target, predicate, end of delay slots)}; where blocks start."""
        regions, self.branches, self.starts = {}, {}, {0}
        for index, bundle in enumerate(self.bundles):
            for region in bundle.regions:
                regions.setdefault(region, index)
        for index, actions in enumerate(self.actions):
            for action in actions:
                if action.kind == "branch":
                    self._add_branch(index, action, regions)
        self.starts = sorted(start for start in self.starts if start < len(self.bundles))
        self._number = {start: number for number, start in enumerate(self.starts)}
        self.loops = [
            Loop(target, end, index, self.bundles[target].depth)
            for index, (target, _, end) in self.branches.items()
            if target <= index
        ]

    def _add_branch(self, index, action, regions):
        target = regions.get(action.target)
        if target is None:
            self.unhandled[f"branch to unknown region {action.target}"] += 1
            return
        if index in self.branches:
            self.unhandled["two branches in a bundle"] += 1
        end = min(index + self.chip.delay_slots + 1, len(self.bundles))
        self.branches[index] = (target, action.predicate, end)
        self.starts.update((target, end))

    # ---- blocks

    def _block(self, first):
        """(Block, its lines) from a bundle on.

        It ends at the next start, or, after a branch, with the delay slots, past any start in them.
        """
        lines, pending, stop, index, cycles = [], None, len(self.bundles), first, 0
        units, matmuls = collections.Counter(), collections.Counter()
        while index < stop and (index == first or pending or index not in self._number):
            cycles += 1
            if index in self.branches:
                if pending:
                    self.unhandled["branch in a branch's delay slots"] += 1
                pending = self.branches[index]
                stop = pending[2]
            cycles = self._bundle(index, lines, cycles, units, matmuls)
            index += 1
        entered = max(units.values(), default=0)
        busy = entered * self.chip.matmul_cycles
        block = Block(first, index, int(max(0, busy - (index - first))), entered, matmuls)
        if cycles + block.stall:
            lines.append(f"t+={cycles + block.stall}")
        after = self._number.get(index, -1)
        if pending:
            lines.append(f"block={self._number[pending[0]]} if go else {after}")
        else:
            lines.append(f"block={after}")
        return block, lines

    def _bundle(self, index, lines, cycles, units, matmuls):
        """Adds the lines of a bundle; gives the cycles that are not yet added to the time."""
        actions = self.actions[index]
        for action in actions:
            if action.kind == "phi":
                register = self._register(action.target)
                lines.append(f"V_{action.target}={register}")
        writes = self._reads(actions, lines)
        for action in actions:
            if action.kind == "matmul" and action.predicate is None:
                dtype, unit = action.target
                units[unit] += chips.matmul_weight(dtype)
                matmuls[dtype] += 1
                continue
            if action.kind in ("copy", "wait", "credit") and cycles:
                lines.append(f"t+={cycles}")
                cycles = 0
            if action.kind == "branch":
                lines.append(f"go={action.predicate or True}")
            elif statement := self._statement(index, action):
                when = f"if {action.predicate}: " if action.predicate else ""
                lines.append(f"{when}{statement}")
        lines += writes
        for action in actions:
            if action.kind == "alias":
                self._names.add(action.target)
                lines.append(f"V_{action.target}={action.values[0]}")
        return cycles

    def _reads(self, actions, lines):
        """Adds lines that compute what a bundle sets; gives those that then set it."""
        sets = [action for action in actions if action.kind == "set"]
        apart = len(sets) > 1 or any(action.kind == "store" for action in actions)
        writes, after = [], []
        for number, action in enumerate(sets):
            register, value = self._register(action.target), action.values[0]
            condition = action.predicate
            if apart:
                if condition:
                    lines.append(f"P{number}={condition}")
                    condition = f"P{number}"
                    value = f"({value}) if {condition} else 0"
                lines.append(f"T{number}={value}")
                value = f"T{number}"
            if condition:
                writes.append(f"if {condition}: {register}={value}")
                after.append(f"V_{action.target}={register}")
            else:
                writes.append(f"V_{action.target}={register}={value}")
        return writes + after

    def _register(self, name):
        """The Python name of the physical register of a value; both are declared."""
        register = f"R_{name.rsplit('_', 1)[-1]}"
        self._names.add(name)
        self._registers.add(register)
        return register

    def _statement(self, index, action):
        """The Python statement of an action that is no assignment, without its predicate."""
        values = ",".join(action.values)
        if action.kind == "store":
            return f"mem[{action.values[0]}]={action.values[1]}"
        if action.kind == "divide":
            return values
        if action.kind == "delay":
            return f"t+={values}"
        if action.kind == "assert":
            self.asserts.append((index, action.target))
            return f"failed({len(self.asserts) - 1})"
        if action.kind == "matmul":
            self.conditional.append(action.target)
            return f"conditional[{len(self.conditional) - 1}]+=1"
        if action.kind == "copy":
            return f"dma({action.target!r},{values},t)"
        if action.kind == "wait":
            return f"t=wait({values},t)"
        return f"credit({values},t)" if action.kind == "credit" else None

    # ---- the function

    def _compile(self, sources):
        """The function of the blocks' lines."""
        head = "def run(mem,read,dma,wait,credit,failed,push,pop,taken,conditional,counts,limit):"
        lines = [head, f" t=steps=0;go=True;block={0 if sources else -1}"]
        lines += _zeros([f"V_{name}" for name in sorted(self._names)])
        lines += _zeros(sorted(self._registers))
        lines += [" while block>=0:", "  steps+=1", "  if steps>limit: return t,steps,False"]
        lines.append("  counts[block]+=1")
        if sources:
            _dispatch(sources, 0, len(sources), "  ", lines)
        lines.append(" return t,steps,True")
        space = {"w": wrapped, "f": float_of, "M": WORD_MASK, "divided": divided}
        space["divided_unsigned"] = divided_unsigned
        exec(compile("\n".join(lines), "<schedule>", "exec"), space)
        return space["run"]


def _zeros(names, width=50):
    """Lines that set names to 0."""
    groups = (names[first : first + width] for first in range(0, len(names), width))
    return [f" {'='.join(group)}=0" for group in groups]


def _dispatch(sources, low, high, indent, lines):
    """Adds a tree of ifs that runs the block of the number `block`."""
    if high - low == 1:
        lines += [indent + line for line in sources[low]]
        return
    middle = (low + high) // 2
    lines.append(f"{indent}if block<{middle}:")
    _dispatch(sources, low, middle, f"{indent} ", lines)
    lines.append(f"{indent}else:")
    _dispatch(sources, middle, high, f"{indent} ", lines)


def divided(left, right):
    """(quotient, remainder) of signed ints, towards zero; a divisor of 0 counts as 1."""
    right = right or 1
    quotient = abs(left) // abs(right)
    quotient = quotient if (left < 0) == (right < 0) else -quotient
    return wrapped(quotient), wrapped(left - quotient * right)


def divided_unsigned(left, right):
    """(quotient, remainder) of unsigned ints; a divisor of 0 counts as 1."""
    left, right = left & WORD_MASK, (right & WORD_MASK) or 1
    return wrapped(left // right), wrapped(left % right)
