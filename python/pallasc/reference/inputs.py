"""Inputs for a document: deterministic by seed, well-scaled, and adversarial on request."""

import numpy as np

from . import symbolic
from .document import Document
from .errors import GraphError
from .interp import Run
from .memory import Memory
from .slices import Slicer, host_name, is_write, refs_of
from .values import dtype_of, int_range, is_float, to_array

ADVERSARIAL = ("last_row", "last_col", "past_edge")


def make_inputs(graph, seed=0, adversarial=None, config=None):
    """Inputs for `run`: the parameters' arrays in order, then the run-time scalars.

    Floats are standard normal; ints that end up as positions are inside what they index, those that
    bound loops are ascending offsets or lengths; other ints are small.

    Args:
      graph: a document (dict or path).
      seed: the same seed gives the same inputs.
      adversarial: None; "last_row" or "last_col": the last row (second-last dim) or column of every
        float input dominates it, so that a dropped tail changes the result; "past_edge": what no
        valid lane reads (outside a range, a slice, a row's length) is NaN.
      config: configuration over the document's own.

    """
    if adversarial is not None and adversarial not in ADVERSARIAL:
        raise GraphError(f"adversarial is one of {ADVERSARIAL}, not {adversarial!r}")
    document = Document(graph, config)
    random, uses = np.random.default_rng(seed), int_uses(document)
    arrays = [make_array(document, t, random, uses, adversarial) for t in document.parameters()]
    scalars = [make_scalar(s, random, uses) for s in document.runtime_scalars()]
    if adversarial == "past_edge":
        poison(document, arrays, scalars)
    return arrays + scalars


def make_array(document, tensor, random, uses, adversarial=None):
    """The array of a parameter; `uses` are those of int_uses()."""
    dtype, shape = dtype_of(tensor["dtype"]), document.shape(tensor["shape"])
    if dtype == np.dtype(bool):
        return random.random(shape) < 0.5
    if not is_float(dtype):
        return to_array(_ints(tensor["name"], shape, dtype, random, uses), dtype)
    values = random.standard_normal(shape).astype(np.float32)
    if adversarial in ("last_row", "last_col") and values.ndim and values.size:
        axis = -1 if adversarial == "last_col" or values.ndim == 1 else -2
        last = [slice(None)] * values.ndim
        last[axis] = slice(-1, None)
        values *= np.float32(0.25)
        values[tuple(last)] = 3.0 + np.abs(values[tuple(last)])
    return to_array(values, dtype)


def _ints(name, shape, dtype, random, uses):
    """int64 values that fit how the kernel uses the tensor `name`."""
    low, high = max(int_range(dtype)[0], -8), min(int_range(dtype)[1], 8)
    use = uses.get(name, {})
    if {"begin", "end"} <= use.keys() and len(shape) == 1 and shape[0]:
        limit = min(use["begin"], use["end"])
        offsets = np.sort(random.integers(0, limit + 1, shape))
        offsets[0], offsets[-1] = 0, limit
        return offsets
    if "end" in use or "begin" in use:
        return random.integers(0, min(use.values()) + 1, shape)
    if "index" in use:
        return random.integers(0, max(use["index"], 1), shape)
    return random.integers(low, high + 1, shape)


def make_scalar(scalar, random, uses):
    """The value of a run-time scalar."""
    dtype = dtype_of(scalar["dtype"])
    if dtype == np.dtype(bool):
        return bool(random.random() < 0.5)
    if is_float(dtype):
        return float(np.float32(random.uniform(0.5, 1.5)))
    use = uses.get(scalar["name"])
    high = 8 if not use else min(use.values()) + (0 if "index" in use else 1)
    return int(random.integers(0, max(high, 1)))


def int_uses(document):
    """Name of tensor or scalar -> {"begin" | "end" | "index": the least limit it is held to}."""
    slicer, uses = Slicer(document), {}
    for graph in document.graphs.values():
        for node in graph.nodes:
            for kind, raw, limit in _use_sites(document, graph, node):
                steps = [(graph, name, None) for name in refs_of(raw)]
                for origin, source in slicer.walk(steps):
                    name = _source_name(slicer, origin, source)
                    if name is not None:
                        held = uses.setdefault(name, {})
                        held[kind] = min(limit, held.get(kind, limit))
    return uses


def _source_name(slicer, graph, node):
    if node.target == "tile.load":
        return slicer.base(host_name(graph, node))
    return node.args[0] if node.target == "tile.scalar" else None


def _use_sites(document, graph, node):
    """Yields (kind, raw argument, limit) of the positions and loop bounds in a node."""
    if node.target == "tile.load" or is_write(node):
        name = host_name(graph, node)
        if name is not None:
            shape = document.shape(document.tensors[name]["shape"])
            entries = [e for e in node.args[1] if e is not None]
            for entry, size in zip(entries, shape, strict=False):
                yield "index", entry, size
    elif node.target == "tile.for_loop":
        inner = document.graphs[node.args[0]]
        for number, block_id in enumerate(inner.block_ids):
            limit = _loop_limit(document, inner, document.blocks_by_id[block_id])
            for kind, bounds in zip(("begin", "end"), node.args[1:3], strict=False):
                yield kind, bounds[number], limit
            if inner.lengths is not None:
                yield "end", node.args[3][inner.lengths], limit


def _loop_limit(document, graph, block):
    dims = list(symbolic.tile_dims(document, graph, block.symbol))
    if block.extent is not None:
        dims.append(document.size(block.extent))
    return min(dims, default=8)


class _Shadow(Memory):
    """Bool arrays in place of the tensors, with the same aliasing: which elements were read."""

    def _input(self, tensor, array):
        return np.zeros(np.shape(array), bool)

    def _output(self, tensor):
        return np.zeros(self.document.shape(tensor["shape"]), bool)

    def _derived(self, tensor, base):
        base[...] = True
        return np.zeros(self.document.shape(tensor["shape"]), bool)


def poison(document, arrays, scalars):
    """Puts NaN into the float elements of `arrays`, in place, that no valid lane loads."""
    read = _Shadow(document, arrays)
    Run(document, arrays, scalars, touched=read).outputs()
    for tensor, array in zip(document.parameters(), arrays, strict=True):
        if is_float(array.dtype) and tensor["role"] == "input":
            array[~read.find(tensor["name"]).array] = np.nan
