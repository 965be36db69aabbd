"""Runs a program: SMEM, copies, semaphores; counts cycles, bytes and matmuls.

The model of a copy: HBM moves one at a time at full bandwidth, in the order in which they start;
its semaphore is credited a latency after its last byte. A copy from HBM to HBM moves its bytes
twice. A wait takes what it asks for from its semaphore's credits, the oldest first, and goes on
when the last of them is there.
"""

import collections
import dataclasses

from . import chips
from .program import Program

MAX_BLOCKS = 20_000_000
_WORD_BYTES = 4


@dataclasses.dataclass
class Run:
    """What a run counted.

    Attributes:
      complete: whether the kernel came to its end within the limit.
      cycles: of the whole kernel, waits included.
      wait_cycles: of those, cycles waited for copies.
      stall_cycles: cycles waited for the queues of the matrix units.
      busy_cycles: cycles for which the busiest matrix unit has work.
      bundles: bundles executed; `counts`: how often each.
      matmuls: {dtype: executed `vmatmul`s}.
      copies, copied: {direction: number, bytes} of copies.
      failures: Counter of (bundle, text) of the kernel's own assertions that failed.
      short_waits: waits for more than all copies before them bring.
      left_bytes: bytes of copies that nothing waited for.
      unknown: names of values that depend on memory or vectors that the run does not know.
      unknown_reads: reads of SMEM that holds nothing known.
      numbers_left: of the numbers of vectors that were given, those that it did not take.
      empty_pops: divisions read that were not made.
    """

    complete: bool = True
    cycles: int = 0
    wait_cycles: int = 0
    stall_cycles: int = 0
    busy_cycles: int = 0
    bundles: int = 0
    counts: list = dataclasses.field(default_factory=list)
    matmuls: dict = dataclasses.field(default_factory=collections.Counter)
    copies: dict = dataclasses.field(default_factory=collections.Counter)
    copied: dict = dataclasses.field(default_factory=collections.Counter)
    failures: dict = dataclasses.field(default_factory=collections.Counter)
    short_waits: int = 0
    left_bytes: int = 0
    unknown: set = dataclasses.field(default_factory=set)
    unknown_reads: int = 0
    numbers_left: int = 0
    empty_pops: int = 0
    blocks: int = 0

    @property
    def compute_cycles(self):
        """Cycles without the waits for copies."""
        return self.bundles + self.stall_cycles

    @property
    def hbm_bytes(self):
        """Bytes that HBM moved for VMEM, both ways."""
        moved = self.copied.items()
        return sum(size * way.count("hbm") for way, size in moved if "smem" not in way)

    @property
    def matmul_count(self):
        """Executed `vmatmul`s."""
        return sum(self.matmuls.values())

    def matmul_flops(self, chip):
        """FLOP of the executed matmuls, whole tiles of the matrix unit each."""
        rows = sum(n * chips.matmul_rows(dtype) for dtype, n in self.matmuls.items())
        return rows * 2 * chip.mxu**2


class Semaphores:
    """The semaphores of copies: {address: credits, the oldest first}."""

    def __init__(self):
        self._credits = collections.defaultdict(collections.deque)

    def add(self, flag, time, amount, copied):
        """Credits an amount at a time; `copied`: by a copy, not by code."""
        self._credits[flag].append([time, amount, copied])

    def take(self, flag, amount, time):
        """(when a wait that begins at `time` has its amount, what it lacks)."""
        queue = self._credits[flag]
        while amount > 0 and queue:
            first = queue[0]
            time = max(time, first[0])
            taken = min(amount, first[1])
            amount -= taken
            first[1] -= taken
            if first[1] <= 0:
                queue.popleft()
        return time, amount

    def left(self):
        """Credits of copies that nothing waited for; others may wait for what code added."""
        entries = (entry for queue in self._credits.values() for entry in queue)
        return sum(amount for _, amount, copied in entries if copied)


class Machine:
    """One TensorCore: what the program's function calls. Words of SMEM are `memory`."""

    def __init__(self, program, tables, numbers=()):
        self.program, self.chip = program, program.chip
        self.tables = tables
        self.numbers = collections.deque(numbers)
        self.run = Run(unknown=set(program.translator.unknown))
        self.memory = {}
        for index, (space, address) in program.translator.operands.items():
            if space in ("", "smem"):
                self._put(address, tables.get(index, ()))
        self.semaphores = Semaphores()
        self.hbm_free = 0.0
        self.results = collections.deque()

    def read(self, address, name):
        """A word of SMEM, for the value `name`."""
        if address in self.memory:
            return self.memory[address]
        if address in self.program.translator.stand_ins:
            return 0
        self.run.unknown_reads += 1
        self.run.unknown.add(name)
        return 0

    def _put(self, address, words):
        self.memory.update(enumerate(words, address))

    def _fill(self, size, source, destination):
        """Puts into SMEM what a copy brings: words of an operand that are known, or none."""
        count = size * chips.GRANULE_BYTES // _WORD_BYTES
        for address in range(destination, destination + count):
            self.memory.pop(address, None)
        if source and (table := self.tables.get(source[0])):
            first = source[1] * chips.GRANULE_BYTES // _WORD_BYTES
            self._put(destination, table[first : first + count])

    def copy(self, direction, size, flag, source, destination, time):
        """Starts a copy of `size` granules."""
        if direction.endswith("to_smem"):
            self._fill(size, source, destination)
        moved = size * chips.GRANULE_BYTES
        self.run.copied[direction] += moved
        self.run.copies[direction] += 1
        if "hbm" in direction:
            begin = max(time, self.hbm_free)
            passes = direction.count("hbm")
            self.hbm_free = begin + moved * passes / self.chip.hbm_bytes_per_cycle
            done = self.hbm_free + self.chip.dma_latency
        else:
            done = time + moved / chips.LOCAL_BYTES_PER_CYCLE + chips.LOCAL_LATENCY
        self.semaphores.add(flag, done, size, True)

    def wait(self, flag, size, time):
        """When a wait for `size` granules is over."""
        done, lacking = self.semaphores.take(flag, size, time)
        self.run.short_waits += lacking > 0
        self.run.wait_cycles += max(0, done - time)
        return done

    def credit(self, flag, amount, time):
        """Code adds to a semaphore."""
        if amount > 0:
            self.semaphores.add(flag, time, amount, False)

    def failed(self, number):
        """An assertion of the kernel's failed."""
        self.run.failures[self.program.asserts[number]] += 1

    def taken(self, name):
        """The next number that a vector gives, for the value `name`."""
        if self.numbers:
            return self.numbers.popleft()
        self.run.unknown.add(name)
        return 0

    def pop(self):
        """The next result of a division."""
        if self.results:
            return self.results.popleft()
        self.run.empty_pops += 1
        return 0


def execute(bundles, chip, tables=None, limit=MAX_BLOCKS, numbers=()):
    """Runs a schedule: (its `Program`, the `Run`).

    Args:
      bundles: of `schedule.parse_bundles`.
      chip: a `chips.Chip`.
      tables: {operand of the call: its words}, of those that are known (`scalars.tables`). Words
        of SMEM that are not known count as 0.
      limit: blocks after which the run is cut.
      numbers: words that vectors give to the scalar unit, in the order in which it takes them;
        those behind the last one count as 0.
    """
    program = Program(bundles, chip)
    machine = Machine(program, tables or {}, numbers)
    run = machine.run
    counts, conditional = [0] * len(program.blocks), [0] * len(program.conditional)
    cycles, run.blocks, run.complete = program.function(
        machine.memory,
        machine.read,
        machine.copy,
        machine.wait,
        machine.credit,
        machine.failed,
        machine.results.extend,
        machine.pop,
        machine.taken,
        conditional,
        counts,
        limit,
    )
    run.cycles, run.wait_cycles = int(cycles), int(run.wait_cycles)
    run.numbers_left = len(machine.numbers)
    run.left_bytes = machine.semaphores.left() * chips.GRANULE_BYTES
    _count(program, counts, conditional, run)
    return program, run


def _count(program, counts, conditional, run):
    """Fills in what follows from how often each block ran."""
    run.counts = [0] * len(program.bundles)
    entered = 0
    for count, block in zip(counts, program.blocks, strict=True):
        for index in range(block.first, block.last):
            run.counts[index] += count
        run.stall_cycles += count * block.stall
        entered += count * block.busy
        for dtype, number in block.matmuls.items() if count else ():
            run.matmuls[dtype] += count * number
    units = collections.Counter()
    for count, (dtype, unit) in zip(conditional, program.conditional, strict=True):
        run.matmuls[dtype] += count
        units[unit] += count * chips.matmul_weight(dtype)
    entered += max(units.values(), default=0)
    run.busy_cycles = int(entered * program.chip.matmul_cycles)
    run.bundles = sum(run.counts)
