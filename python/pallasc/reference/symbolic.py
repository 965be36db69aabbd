"""Symbolic ints and bools: Python's operators on them, and the tensor dims that tiles index."""

import operator

import numpy as np

from .errors import GraphError
from .registry import lookup

OPERATORS = {
    "add": (operator.add, "aten.add"),
    "sub": (operator.sub, "aten.sub"),
    "mul": (operator.mul, "aten.mul"),
    "truediv": (operator.truediv, "aten.div"),
    "floordiv": (operator.floordiv, "aten.floor_divide"),
    "mod": (operator.mod, "aten.remainder"),
    "sym_max": (max, "aten.maximum"),
    "sym_min": (min, "aten.minimum"),
    "neg": (operator.neg, "aten.neg"),
    "eq": (operator.eq, "aten.eq"),
    "ne": (operator.ne, "aten.ne"),
    "lt": (operator.lt, "aten.lt"),
    "le": (operator.le, "aten.le"),
    "gt": (operator.gt, "aten.gt"),
    "ge": (operator.ge, "aten.ge"),
    "and_": (operator.and_, "aten.bitwise_and"),
    "or_": (operator.or_, "aten.bitwise_or"),
    "not_": (operator.not_, "aten.logical_not"),
}


def operate(name, args):
    """A Python operator on symbolic values; on 0-d tensors, the ATen target of that name."""
    plain, target = OPERATORS[name]
    if any(isinstance(arg, np.ndarray) for arg in args):
        return lookup(target)(*args)
    return plain(*args)


def number(value):
    """A symbolic value (Python number, or a tensor of one element) as a Python int or bool."""
    if isinstance(value, np.ndarray):
        if value.ndim:
            raise GraphError(f"expected a single value, found the shape {list(value.shape)}")
        value = value.astype(np.int64).item() if value.dtype != bool else value.item()
    if isinstance(value, (bool, int)):
        return value
    if isinstance(value, np.integer):
        return int(value)
    raise GraphError(f"expected an int or bool, found {value!r}")


def symbol_text(raw):
    """The expression of a tile.symnode argument: a string, or {"sym": E}."""
    return raw["sym"] if isinstance(raw, dict) and "sym" in raw else raw


def tile_dims(document, graph, symbol):
    """Yields the dims that `graph`, and the graphs it calls, index with the whole tile `symbol`."""
    for node in graph.nodes:
        for called in graphs_called(node):
            inner = document.graphs.get(called)
            if inner is not None and not _rebinds(document, inner, symbol):
                yield from tile_dims(document, inner, symbol)
        if node.target in ("tile.load", "tile.store") or str(node.target).startswith("tile.atomic"):
            yield from _indexed_dims(document, graph, node, symbol)


def graphs_called(node):
    """The ids of the graphs that a node calls."""
    args = node.args
    if node.target in ("tile.for_loop", "tile.associative_scan", "tile.reduce"):
        return args[:1]
    if node.target == "tile.while":
        return args[:2]
    return [i for i in args[1:3] if i is not None] if node.target == "tile.if" else []


def _rebinds(document, graph, symbol):
    return any(document.blocks_by_id[i].symbol == symbol for i in graph.block_ids)


def _indexed_dims(document, graph, node, symbol):
    host = graph.by_name.get((node.args[0] or {}).get("ref")) if node.args else None
    if host is None or host.target != "tile.host_tensor" or len(node.args) < 2:
        return
    shape = document.shape(document.tensors[host.args[0]]["shape"])
    entries = [entry for entry in node.args[1] if entry is not None]
    for entry, size in zip(entries, shape, strict=False):
        sym = None
        if isinstance(entry, dict) and "sym" in entry:
            sym = entry["sym"]
        elif isinstance(entry, dict) and entry.get("ref") in graph.by_name:
            sym = (graph.by_name[entry["ref"]].meta or {}).get("sym")
        if sym is not None and document.block_symbol(sym) == symbol:
            yield size
