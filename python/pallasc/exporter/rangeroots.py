"""Grids that begin or end at an int of a tensor: a loop inside a root over their other dims."""

import torch

from .errors import ExportError
from .hostroots import numbered

UNKNOWN = "a grid's bound is computed of what is known only at run time: loop over it inside"


def item_of(replay, bound):
    """Return (tensor, when) if a root's bound is an int that host code took from it, or None."""
    return replay.recorder.items.get(bound.node.expr) if isinstance(bound, torch.SymInt) else None


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
        looped = [b for b in bounds if item_of(replay, b[1]) or item_of(replay, b[2])]
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
        found = item_of(self.tensors.replay, value)
        if not found:
            text = self.tensors.symbols.expression(self.tensors.symbols_translate(value))
            if text is None:
                raise ExportError(UNKNOWN, self.where)
            return {"sym": text}
        tensor, when = found
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
