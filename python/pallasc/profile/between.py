"""What XLA does between the kernels of a module: copies to and from VMEM, and work on SparseCores.

XLA brings an operand into VMEM with a `copy-start` and waits for it in a `copy-done`; the kernels
between the two run meanwhile. Under `cross_program_prefetch_index` the copy may begin before the
module, in what another program leaves of HBM's bandwidth: of a module that is measured alone it
begins with it.
"""

import re

from . import floor

_INSTRUCTION = re.compile(r"\s*(?:ROOT )?%([\w.\-]+) = (.*)")
_ARRAY = re.compile(r"([a-z]\w*)\[([\d,]*)\]")
_OPERAND = re.compile(r"%([\w.\-]+)")
# {opcode: which of the arrays of its result is the one that is copied}
_STARTS = {"copy-start": 0, "slice-start": 1}
_DONES = ("copy-done", "slice-done")


def sparse_cores(hlo):
    """Whether a part of a compiled module runs on SparseCores, of which nothing is known here."""
    return 'async_execution_thread="sparsecore"' in hlo


def copies(hlo, kernels, chip):
    """The copies of a module's entry computation, a dict: copies, bytes, wait_cycles.

    HBM moves one copy at a time, in the order in which they start, with the bandwidth that a kernel
    beside it leaves; then a latency goes by (`Chip.dma_latency`).

    Args:
      hlo: the text of the compiled module, whose instructions stand in the order of the schedule.
      kernels: {name: its facts, of which cycles and hbm_bytes are read}.
      chip: a `chips.Chip`.
    """
    queue = _Queue(chip)
    for name, opcode, result, operands in _instructions(hlo):
        if name in kernels:
            queue.run(kernels[name]["cycles"], kernels[name]["hbm_bytes"])
        elif opcode in _STARTS:
            queue.start(name, _bytes(result, _STARTS[opcode]))
        elif opcode in _DONES:
            queue.wait(_OPERAND.search(operands)[1])
    return {"copies": queue.count, "bytes": round(queue.bytes), "wait_cycles": round(queue.waited)}


class _Queue:
    """Copies on their way, and the time, in cycles."""

    def __init__(self, chip):
        self.chip = chip
        self.now = self.waited = 0.0
        self.count = self.bytes = 0
        self.left = {}  # {copy: cycles of HBM that it still needs}, in order
        self.there = {}  # {copy: when it is there}

    def start(self, name, size):
        self.count += 1
        self.bytes += size
        self.left[name] = size / self.chip.hbm_bytes_per_cycle

    def run(self, cycles, hbm_bytes):
        """A kernel runs: copies have the bandwidth that it leaves."""
        self._move(max(0.0, cycles - hbm_bytes / self.chip.hbm_bytes_per_cycle))
        self.now += cycles

    def wait(self, name):
        begun = self.now
        while name in self.left:
            self.now += self._move(next(iter(self.left.values())))
        latency = max(0.0, self.there.get(name, 0.0) - self.now)
        self._move(latency)
        self.now += latency
        self.waited += self.now - begun

    def _move(self, cycles):
        """Moves what there is, for so many cycles of HBM; gives those that it took."""
        used = 0.0
        while self.left and used < cycles:
            name = next(iter(self.left))
            part = min(self.left[name], cycles - used)
            used += part
            self.left[name] -= part
            if self.left[name] <= 0:
                del self.left[name]
                self.there[name] = self.now + used + self.chip.dma_latency
        return used


def _instructions(hlo):
    """(name, opcode, text of the result's type, text of the operands) of the entry computation."""
    entry = hlo[hlo.find("\nENTRY ") + 1 :] if "\nENTRY " in hlo else hlo
    for line in entry.split("\n"):
        if line.startswith("}"):
            return
        if match := _INSTRUCTION.match(line):
            result, rest = _split_type(match[2])
            opcode, _, operands = rest.partition("(")
            yield match[1], opcode.strip(), result, operands


def _split_type(text):
    """(the type, what follows it) of the text behind `=`."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter in "({[") - (letter in ")}]")
        if letter == " " and depth == 0:
            return text[:place], text[place:]
    return text, ""


def _bytes(result, which):
    """Bytes of one of the arrays of a result."""
    dtype, dims = _ARRAY.findall(result)[which]
    bits = {"pred": "int8"}.get(dtype, dtype)
    return floor.array_bytes(bits, [int(dim) for dim in dims.split(",") if dim])
