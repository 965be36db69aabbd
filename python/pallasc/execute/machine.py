"""Runs a program: the wrapper on each device, and its kernels over their grids."""

import itertools
import math

import numpy as np

from ..reference.values import cast
from .blocks import Blocks
from .code import Code, kernel_scope
from .copies import Flights, address
from .errors import ExecuteError, TextError
from .scopes import DEVICE, POINT, Scope, function, integer
from .syntax import Type
from .turns import Turns
from .values import poisoned


class Device:
    """One of the devices that run a program, as the statements of a kernel see it."""

    def __init__(self, number=0, turns=None, machine=None):
        self.number, self.turns, self.machine = number, turns, machine
        self.flights, self.core, self.subcore = Flights(), 0, 0
        self.barrier = np.zeros((), np.int64)
        self.roots = []

    def block(self, ready, what):
        """Lets others run until `ready()`."""
        if ready():
            return
        if self.turns is None:
            raise ExecuteError(f"waits for ever for {what}")
        self.turns.wait(self.number, ready, what)

    def peer(self, number):
        """Another device of the mesh."""
        devices = self.machine.devices if self.machine else [self]
        if not 0 <= number < len(devices):
            raise ExecuteError(f"there is no device {number}")
        return devices[number]

    def counts(self):
        """The devices along each axis of the program's mesh."""
        return tuple(self.machine.program.axes.values())

    def together(self, value):
        """What each device has, when all are here."""
        self.machine.board[self.number] = value
        self.turns.meet(self.number)
        parts = dict(self.machine.board)
        self.turns.meet(self.number)  # before anybody has the next one
        return parts

    def mirror(self, other, view):
        """The memory here that stands where `view` does on the other device."""
        if other is self:
            return view
        if view is other.barrier:
            return self.barrier
        owner = view if view.base is None else view.base
        for theirs, ours in zip(other.roots, self.roots, strict=True):
            if theirs is owner:
                start = (address(view) - address(owner)) // owner.itemsize
                return np.lib.stride_tricks.as_strided(
                    ours.reshape(-1)[start:], view.shape, view.strides
                )
        raise ExecuteError("a remote copy is to a buffer of the kernel's own")


class KernelCode:
    """A compiled kernel."""

    def __init__(self, kernel):
        self.kernel, self.name = kernel, kernel.name
        self.code = Code(kernel)
        self.scope = kernel_scope(self.code, kernel)
        self.slots = {b.name: self.scope[b.name].slot for b in kernel.buffers}
        inner = Scope(self.scope)  # what a kernel's index maps see, and its statements do not
        self.at = [self.code.define(inner, name, Type("int")) for name, _ in kernel.grid]
        self.blocks = [self._blocks(b, inner) for b in kernel.buffers if b.index]
        self.aliases = {b.alias: b.name for b in kernel.buffers if b.alias}
        self.run, _ = self.code.region(kernel.body, Scope(self.scope))
        unknown = set(self.aliases) - {b.name for b in kernel.buffers if b.role == "in"}
        if unknown:
            raise TextError(f"{unknown.pop()} is no operand to alias", kernel.line)

    def inputs(self):
        """The operands that a launch gives."""
        return [b for b in self.kernel.buffers if b.role == "in"]

    @staticmethod
    def array_shape(buffer):
        """Of an operand's whole array."""
        return buffer.shape if buffer.array is None else buffer.array

    def _blocks(self, buffer, scope):
        try:
            index = [function(integer(i, scope)) for i in buffer.index]
        except ExecuteError as error:
            raise TextError(str(error), buffer.line) from error
        array, slot = self.code.slot(), self.slots[buffer.name]
        self.slots[buffer.name] = array
        return Blocks(lambda e: e[array], buffer.shape, index, slot, buffer.role == "out")

    # ---- a launch --------------------------------------------------------------------------------

    def launch(self, device, arrays):
        """Runs the kernel on one device; gives the arrays of its outputs."""
        e = self._environment(device, arrays)
        if device.turns:
            device.turns.meet(device.number)
        if self.kernel.sparse_core:
            self._each_subcore(e)
        else:
            self._each_point(e)
        if device.turns:
            device.turns.meet(device.number)
        device.flights.finish()
        self._check_semaphores(e)
        return [e[self.slots[b.name]] for b in self.kernel.buffers if b.role == "out"]

    def _environment(self, device, arrays):
        e = self.code.template.copy()
        e[DEVICE], given = device, {}
        for buffer, array in zip(self.inputs(), arrays, strict=True):
            given[buffer.name] = np.array(array)
            given[buffer.name].flags.writeable = buffer.name in self.aliases
        for buffer in self.kernel.buffers:
            e[self.slots[buffer.name]] = self._memory(buffer, given)
        device.roots = [e[self.slots[b.name]] for b in self.kernel.buffers]
        device.barrier = np.zeros((), np.int64)
        return e

    def _memory(self, buffer, given):
        if buffer.role == "in":
            return given[buffer.name]
        if buffer.alias:
            source, shape = given[buffer.alias], self.array_shape(buffer)
            if (source.dtype, source.shape) != (buffer.dtype, shape):
                raise ExecuteError(f"{buffer.name} is not as {buffer.alias} is", buffer.line)
            return source
        if buffer.space in ("dma", "regular"):
            return np.zeros(buffer.shape, np.int64)
        return poisoned(self.array_shape(buffer), buffer.dtype)

    def _each_point(self, e):
        blocks = [block.new() for block in self.blocks]
        for point in itertools.product(*[range(steps) for _, steps in self.kernel.grid]):
            e[POINT] = point
            for slot, number in zip(self.at, point, strict=True):
                e[slot] = number
            for block in blocks:
                block.move(e)
            self._first_visits(e, point)
            self.run(e)
            self._last_visits(e, point)
        for block in blocks:
            block.finish(e)

    def _first_visits(self, e, point):
        for held in self.kernel.held:
            if any(point[d] for d in held.over) or (held.fill is None and held.source is None):
                continue
            target = e[self.scope[held.sums or held.buffer].slot]
            source = held.fill if held.source is None else e[self.scope[held.source].slot]
            target[...] = cast(np.asarray(source), target.dtype)

    def _last_visits(self, e, point):
        for held in self.kernel.held:
            last = all(point[d] == self.kernel.grid[d][1] - 1 for d in held.over)
            if held.sums and last:
                target = e[self.scope[held.buffer].slot]
                sums = e[self.scope[held.sums].slot]
                if sums.shape != target.shape:  # a register of rows
                    sums = sums.sum(axis=-2, keepdims=True, dtype=np.float64)
                target[...] = cast(sums, target.dtype)

    def _each_subcore(self, e):
        device, (cores, subcores) = e[DEVICE], self.kernel.sparse_core
        for device.core in range(cores):
            for device.subcore in range(subcores):
                for buffer in self.kernel.buffers:
                    if buffer.role == "scratch":
                        e[self.slots[buffer.name]] = self._memory(buffer, {})
                self.run(e)

    def _check_semaphores(self, e):
        for buffer in self.kernel.buffers:
            if buffer.space == "regular" and e[self.slots[buffer.name]].any():
                raise ExecuteError(f"{buffer.name} is not zero at the end", buffer.line)
        if e[DEVICE].barrier:
            raise ExecuteError("the barrier's semaphore is not zero at the end", self.kernel.line)


# ---- programs ------------------------------------------------------------------------------------


class Machine:
    """A compiled program."""

    def __init__(self, program):
        self.program = program
        self.kernels = [KernelCode(kernel) for kernel in program.kernels]
        self.code, scope = Code(launch=self.kernels), Scope()
        self.slots = []
        if len(program.parameters) != len(program.inputs):
            raise TextError("the wrapper takes what `input` says", program.host_line)
        for name, array in zip(program.parameters, program.inputs, strict=True):
            kind = "scalar" if array.shape is None else "tile"
            type_ = Type(kind, array.dtype, array.shape or ())
            self.slots.append((array, self.code.define(scope, name, type_)))
        self.body, last = self.code.region(program.host, scope)
        if last is None:
            raise TextError("the wrapper returns nothing", program.host_line)
        self.gives = [self.code.value(arg, scope)[1] for arg in last.args]
        self.mesh = {kernel.devices for kernel in program.kernels if kernel.mesh}
        self.mesh |= {math.prod(program.axes.values())} if program.axes else set()
        self.devices, self.board = [], {}

    def run(self, arrays):
        """A tuple of the arrays that the program returns; with a mesh each has a device dim."""
        arrays = list(arrays)
        if len(arrays) != len(self.slots):
            raise ExecuteError(f"{len(self.slots)} inputs are needed, not {len(arrays)}")
        if not self.mesh:
            self.devices = [Device()]
            return self._one(self.devices[0], arrays)
        counts = {len(np.asarray(array)) for array in arrays if np.ndim(array)}
        if counts != self.mesh:
            raise ExecuteError(f"arrays must have a leading dim, of {max(self.mesh)} devices")
        return self._all(counts.pop(), arrays)

    def _one(self, device, arrays):
        e = self.code.template.copy()
        e[DEVICE] = device
        for (declared, slot), array in zip(self.slots, arrays, strict=True):
            e[slot] = _given(declared, array)
        with np.errstate(all="ignore"):
            self.body(e)
            found = tuple(np.array(get(e)) for get in self.gives)
        self._check_outputs(found)
        return found

    def _check_outputs(self, found):
        stated = self.program.outputs
        if len(stated) != len(found):
            raise ExecuteError(f"{len(found)} arrays are returned, {len(stated)} are stated")
        for array, out in zip(found, stated, strict=True):
            if (array.dtype, array.shape) != (out.dtype, out.shape or ()):
                raise ExecuteError(
                    f"{out.name} is {array.dtype.name}{list(array.shape)}, "
                    f"{out.dtype.name}{list(out.shape or ())} is stated"
                )

    def _all(self, count, arrays):
        turns = Turns(count)
        self.devices = [Device(number, turns, self) for number in range(count)]
        found = [None] * count

        def work(number):
            mine = [array[number] if np.ndim(array) else array for array in arrays]
            found[number] = self._one(self.devices[number], mine)

        turns.run(work)
        return tuple(np.stack(parts) for parts in zip(*found, strict=True))


def _given(declared, array):
    if declared.shape is None:
        return cast(np.asarray(array), declared.dtype)[()]
    array = np.asarray(array)
    if (array.dtype, array.shape) != (declared.dtype, declared.shape):
        raise ExecuteError(
            f"{declared.name} must be {declared.dtype.name}{list(declared.shape)}, "
            f"not {array.dtype.name}{list(array.shape)}"
        )
    return array
