"""Some grid points of a document of any size: tensors that take memory where they are reached.

Floats of an input are made in blocks, when a load or a store first reaches one, from a generator
that counts: a block's values depend on the seed, the tensor and the block's number alone. Ints and
bools are made whole, as `make_inputs` makes them, and so are inputs that others are derived from.
What nothing has written is 0, not NaN, in all tensors.
"""

import numpy as np

from .document import Document
from .inputs import int_uses, make_array, make_scalar
from .interp import Run
from .memory import HostTensor, Memory, literal_value, steps_apply
from .values import dtype_of, is_float, to_array

_BLOCK = 1 << 14  # elements that are made together


def zeros(shape, dtype):
    """Zeros that take memory only where something is written."""
    dtype = np.dtype(dtype)
    plain = dtype if dtype.kind in "biuf" else np.dtype(f"u{dtype.itemsize}")
    return np.zeros(shape, plain).view(dtype)


class Floats:
    """The values of one float parameter, by blocks of its elements in row-major order."""

    def __init__(self, seed, number, shape, dtype):
        self.key, self.shape, self.dtype = [seed, number], tuple(shape), dtype
        self.size = int(np.prod(shape, dtype=np.int64))
        self.made = np.zeros(-(-self.size // _BLOCK), bool)

    def fill(self, flat, blocks):
        """Writes these blocks' values into the array `flat`."""
        for block in blocks:
            bits = np.random.Philox(key=self.key, counter=[0, 0, 0, int(block)])
            part = flat[block * _BLOCK : (block + 1) * _BLOCK]
            values = np.random.Generator(bits).standard_normal(len(part), np.float32)
            part[...] = to_array(values, self.dtype)

    def need(self, flat, wanted):
        """Makes what is not yet there of the blocks that the bools `wanted` say."""
        self.fill(flat, np.flatnonzero(wanted & ~self.made))
        self.made |= wanted

    def copy(self):
        """An array of its own, filled where this one is."""
        array = zeros(self.shape, self.dtype)
        self.fill(array.reshape(-1), np.flatnonzero(self.made))
        return array


class _Base:
    """A tensor's memory: its elements in a row, what makes them, what has been written lately."""

    def __init__(self, array, floats=None):
        self.flat, self.floats, self.written = array.reshape(-1), floats, []


class _Sparse(HostTensor):
    """A host tensor that makes what is reached, and remembers what is written."""

    def __init__(self, name, array, writable, base):
        super().__init__(name, array, writable)
        self.base = base
        start = array.__array_interface__["data"][0] - base.flat.__array_interface__["data"][0]
        self.start = start // array.itemsize

    def reach(self, positions, written=False):
        """The places in the memory, whatever view of it this is."""
        if not self.array.size or (self.base.floats is None and not written):
            return
        flat = np.asarray(self.start)
        for position, stride in zip(positions, self.array.strides, strict=True):
            flat = flat + position * (stride // self.array.itemsize)
        if self.base.floats is not None:
            wanted = np.zeros_like(self.base.floats.made)
            wanted[np.asarray(flat) // _BLOCK] = True
            self.base.floats.need(self.base.flat, wanted)
        if written:
            self.base.written.append(np.ravel(flat))


class SparseMemory(Memory):
    """The tensors of a run, by `Floats` ({name: Floats}) and arrays that were made whole."""

    def __init__(self, document, floats, arrays):
        self.floats, self.bases = floats, {}
        super().__init__(document, arrays)

    def _host(self, tensor, array, writable):
        name, role = tensor["name"], tensor["role"]
        of = tensor["of"] if role == "view" else None
        base = self.bases[of] if of else _Base(array, self.floats.get(name))
        self.bases[name] = base
        return _Sparse(name, array, writable, base)

    def _input(self, tensor, array):
        if tensor["name"] in self.floats:
            return array
        return super()._input(tensor, array)

    def _output(self, tensor):
        init = literal_value(tensor.get("init") or "empty", self.document.size)
        array = zeros(self.document.shape(tensor["shape"]), dtype_of(tensor["dtype"]))
        if init != "empty":
            array[...] = to_array(init, array.dtype)
        return array


class PointsRun:
    """A document of which chosen grid points run.

    Attributes:
      document: the Document.
      whole: names of the inputs that are made whole.
      scalars: the run-time scalars' values, in order.
    """

    def __init__(self, graph, seed=0, config=None, scalars=None):
        self.document = document = Document(graph, config)
        random, uses = np.random.default_rng(seed), int_uses(document)
        arrays, self.floats, self.whole = [], {}, []
        derived = {self._root_of(t) for t in document.tensors.values() if t["role"] == "derived"}
        for number, tensor in enumerate(document.parameters()):
            name, dtype = tensor["name"], dtype_of(tensor["dtype"], int64_ok=False)
            shape = document.shape(tensor["shape"])
            if not is_float(dtype):
                arrays.append(make_array(document, tensor, random, uses))
                self.whole.append(name)
                continue
            floats = self.floats[name] = Floats(seed, number, shape, dtype)
            arrays.append(zeros(shape, dtype))
            if name in derived:
                floats.need(arrays[-1].reshape(-1), np.ones_like(floats.made))
                self.whole.append(name)
        made = [make_scalar(s, random, uses) for s in document.runtime_scalars()]
        named = zip(document.runtime_scalars(), made, strict=True)
        self.scalars = [(scalars or {}).get(s["name"], value) for s, value in named]
        self.memory = SparseMemory(document, self.floats, arrays)
        self.run = Run(document, [], self.scalars, memory=self.memory)
        self.arrays = arrays

    def _root_of(self, tensor):
        while "of" in tensor:
            tensor = self.document.tensors[tensor["of"]]
        return tensor["name"]

    def execute(self, root, chosen):
        """Runs a root graph where blocks have `chosen` tiles: {symbol: number of the tile}."""
        for base in self.memory.bases.values():
            base.written.clear()
        self.run.root(root, chosen)

    def arguments(self):
        """What a kernel takes: the parameters as they were before anything ran, and the scalars."""
        arrays = []
        for tensor, array in zip(self.document.parameters(), self.arrays, strict=True):
            changed = tensor["role"] == "inout" and tensor["name"] in self.floats
            arrays.append(self.floats[tensor["name"]].copy() if changed else array)
        return arrays + self.scalars

    def compared(self, outputs):
        """Yields (number, actual, expected) of the outputs that the last points wrote.

        Of each the box that holds what was written, or what was written in a row if that is sparse;
        an output with steps after the kernel, which may combine all of it, whole.
        """
        for number, (entry, actual) in enumerate(zip(self.document.returns, outputs, strict=True)):
            tensor = self.memory.find(entry["tensor"])
            flat = self._written(tensor)
            if not flat.size:
                continue
            value = steps_apply(tensor.array, entry.get("ops"), self.document)
            value, actual = value.reshape(actual.shape), np.asarray(actual)
            if entry.get("ops"):
                yield number, actual, value
                continue
            box = _box(flat, actual.shape)
            yield number, actual[box], value[box]

    def _written(self, tensor):
        """Numbers of the elements, in a returned tensor's own order, that the last points wrote."""
        written = tensor.base.written
        if not written:
            return np.zeros(0, np.int64)
        flat = np.unique(np.concatenate(written))
        if tensor.array.flags.c_contiguous and tensor.array.size == tensor.base.flat.size:
            return flat
        marks = np.zeros(tensor.base.flat.size, bool)
        marks[flat] = True
        strides = [stride // tensor.array.itemsize for stride in tensor.array.strides]
        seen = np.lib.stride_tricks.as_strided(marks[tensor.start :], tensor.shape, strides)
        return np.flatnonzero(seen)


def _box(flat, shape):
    """An index of the elements of these numbers: slices around them, or their positions."""
    positions = np.unravel_index(flat, shape)
    slices = tuple(slice(int(p.min()), int(p.max()) + 1) for p in positions)
    size = np.prod([s.stop - s.start for s in slices], dtype=np.int64)
    return slices if size <= 4 * flat.size else positions
