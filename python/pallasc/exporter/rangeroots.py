"""Grids that begin or end at an int of a tensor: a loop inside a root over their other dims."""

import torch

from .errors import ExportError
from .hostroots import numbered

UNKNOWN = "a grid's bound is computed of what is known only at run time: loop over it inside"


# What an expression of ints becomes: SymPy's name -> the op of two values.
_ARITHMETIC = {
    "Add": "aten.add.Tensor",
    "Mul": "aten.mul.Tensor",
    "FloorDiv": "aten.floor_divide.default",
}


def run_time(replay, bound):
    """Return whether a root's bound is a tensor of one int, or computed of what tensors hold."""
    return isinstance(bound, torch.Tensor) or replay.is_of_items(bound)


def range_roots(tensors, graphs):
    """Return graphs whose roots run over ranges that are known before the kernel runs.

    A root with other dims becomes a loop over these, and a root over the rest calls it: the points
    of a grid run in any order.
    """
    roots, found = iter(tensors.replay.roots), []
    for graph in graphs:
        found.append(graph)
        if graph["kind"] == "root":
            found += RangeRoot(tensors, next(roots)).around(graph)
    return numbered(found)


class RangeRoot:
    """The root that is made around another one, `root` of the host code."""

    def __init__(self, tensors, root):
        self.tensors = tensors
        self.root = root
        self.where = tensors.trace.source.where(root.line)
        self.loc = tensors.trace.source.loc_at(root.line)
        self.nodes = []

    def around(self, graph):
        """Make `graph` a loop and return the root that calls it, or [] if it can stay a root."""
        bounds = list(zip(graph["grid"], self.root.begins, self.root.ends, strict=True))
        replay = self.tensors.replay
        looped = [b for b in bounds if run_time(replay, b[1]) or run_time(replay, b[2])]
        if not looped:
            return []
        blocks = [block for block, _begin, _end in looped]
        grid = [block for block in graph.pop("grid") if block not in blocks]
        graph |= {"kind": "for_loop", "block_ids": blocks}
        begins, ends = ([self.bound(b[side]) for b in looped] for side in (1, 2))
        self.emit("tile.for_loop", [graph["id"], begins, ends, []], {"tuple": []})
        self.nodes.append({"name": "output", "op": "output", "args": [[]]})
        return [{"id": None, "kind": "root", "grid": grid, "nodes": self.nodes}]

    def bound(self, value):
        """Return a bound of the loop as JSON, emitting the load of what a tensor says."""
        if isinstance(value, int):
            return value
        if isinstance(value, torch.Tensor):
            return self.load(value, self.root.order)
        return self.computed(value.node.expr)

    def computed(self, expr):
        """Return an int, or an expression of ints, emitting what is known only at run time."""
        items = self.tensors.replay.recorder.items
        if expr in items:
            return self.load(*items[expr])
        if not expr.free_symbols & set(items):
            replaced = expr.xreplace(self.tensors.replay.symbols)
            text = self.tensors.symbols.expression(replaced)
            if text is None:
                raise ExportError(UNKNOWN, self.where)
            return text if isinstance(text, int) else {"sym": text}
        kind = _ARITHMETIC.get(type(expr).__name__.removeprefix("Python"))
        if kind is None:
            raise ExportError(UNKNOWN, self.where)
        result, *others = (self.computed(arg) for arg in operands(expr))
        for other in others:
            result = self.emit(kind, [result, other], {"dtype": "int32", "shape": []})
        return result

    def load(self, tensor, when):
        """Return what a tensor of one int, which host code read then, holds."""
        self.tensors.keep(tensor, when, self.root.order, self.where)
        name = self.tensors.host_enter(tensor, self.where)
        entry = self.tensors.entries[name]
        meta = {"dtype": entry["dtype"], "shape": entry["shape"]}
        host = self.emit("tile.host_tensor", [name], meta)
        index = [0] * len(entry["shape"])
        return self.emit("tile.load", [host, index], {"dtype": entry["dtype"], "shape": []})

    def emit(self, target, args, meta):
        """Append a node; return a reference to it."""
        name = f"{target.split('.')[1]}_{len(self.nodes)}"
        node = {"name": name, "target": target, "args": args, "meta": meta}
        self.nodes.append(node | ({"loc": self.loc} if self.loc else {}))
        return {"ref": name}


def operands(expr):
    """Return what an expression is made of, what is known only at run time first."""
    if type(expr).__name__ not in ("Add", "Mul"):
        return expr.args
    return sorted(expr.args, key=lambda arg: (not arg.free_symbols, str(arg)))
