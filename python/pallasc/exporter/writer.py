"""Writing one graph's nodes: names, locations, and values as the format's arguments."""

import sympy
import torch

from .errors import ExportError
from .targets import EFFECTS, POSITIONS
from .values import constant, dtype_name

SYMBOLIC_TYPES = (torch.SymInt, torch.SymFloat, torch.SymBool)


class GraphWriter:
    """One graph under way: `nodes` are the format's, `values` what each Helion node stands for."""

    def __init__(self, graphs, graph_id):
        self.set = graphs
        self.id = graph_id
        self.info = graphs.infos[graph_id]
        self.call = graphs.calls.get(graph_id)
        self.symbols = graphs.symbols
        self.nodes = []
        self.names = set()
        self.host_names = {}  # fx.Node of a host tensor -> its name in the document
        self.values = {}  # fx.Node -> JSON value
        self.results = {}  # getitem of an `_if` -> (the `_if`, which of the n results)
        self.pieces = {}  # sympy expression -> JSON value, made here
        self.node = None

    # Names, locations, errors

    def name_new(self, wanted):
        """Return `wanted`, numbered if this graph has it already."""
        name, count = wanted, 0
        while name in self.names:
            count += 1
            name = f"{wanted}_{count}"
        self.names.add(name)
        return name

    def refuse(self, message):
        """Raise an ExportError at the node under way."""
        raise ExportError(message, self.set.where(self.node))

    def loc(self, node):
        """Return the `loc` of a node, or None."""
        location = node.meta.get("location")
        return self.set.trace.source.loc_at(location.lineno) if location else None

    def emit(self, node, target, args, kwargs=None, meta=None, name=None):
        """Append a node, and return a reference to it."""
        entry = {"name": self.name_new(name or node.name), "target": target, "args": args}
        if kwargs:
            entry["kwargs"] = kwargs
        if meta is not None:
            entry["meta"] = meta
        if loc := self.loc(node):
            entry["loc"] = loc
        self.nodes.append(entry)
        return {"ref": entry["name"]}

    def meta(self, value):
        """Return the meta of a value of the node under way."""
        return self.symbols.meta(value, f"'{self.node.name}'", self.set.where(self.node))

    # Values

    def value(self, item):
        """Return an argument as JSON."""
        if isinstance(item, torch.fx.Node):
            if item not in self.values:
                self.refuse(f"'{item.name}' is used but never made")
            return self.values[item]
        if isinstance(item, (list, tuple)):
            return [self.value(entry) for entry in item]
        if isinstance(item, slice):
            return {"slice": [self.value(end) for end in (item.start, item.stop, item.step)]}
        if isinstance(item, torch.dtype):
            return {"dtype": dtype_name(item)}
        if isinstance(item, SYMBOLIC_TYPES):
            return self.symbol_value(item)
        if item is None or isinstance(item, (bool, int, float, str)):
            return constant(item)
        self.refuse(f"argument {item!r} of '{self.node.name}' is not expressible")

    def symbol_value(self, value):
        """Return a symbolic number: a literal, an expression, or nodes that compute it."""
        if isinstance(value, torch.SymFloat):
            return self.scalar_value(value)
        expr = value._sympy_().xreplace(self.symbols.known)
        if isinstance(value, torch.SymBool):
            if expr in (sympy.true, sympy.false):
                return bool(expr)
            self.refuse(f"the condition {expr} is not expressible")
        text = self.symbols.expression(value)
        if text is not None:
            return text if isinstance(text, int) else {"sym": text}
        return self.piece(self.set.trace.env.specialize_expr(expr))

    def piece(self, expr):
        """Return nodes that compute `expr`, a position known at run time."""
        if expr.is_Integer:
            return int(expr)
        if expr not in self.pieces:
            self.pieces[expr] = self.piece_emit(expr)
        return self.pieces[expr]

    def piece_emit(self, expr):
        """Emit the nodes of one expression: a tile's position, or arithmetic on such."""
        origin = self.symbols.origin_find(expr)
        if target := POSITIONS.get(type(origin).__name__):
            return self.sym_emit(target, [{"sym": self.symbols.block_symbol(origin.block_id)}])
        if type(origin).__name__ == "TileExtentOrigin":
            return self.lanes_count(self.set.trace.env.block_sizes[origin.block_id].var)
        if expr in self.symbols.blocks:
            return {"sym": str(expr)}
        kinds = {"Add": "add", "Mul": "mul", "FloorDiv": "floordiv", "Mod": "mod"}
        kinds |= {"Max": "sym_max", "Min": "sym_min"}
        kind = kinds.get(type(expr).__name__.removeprefix("Python"))
        if kind is None:
            self.refuse(
                f"the number {expr} is known only at run time and cannot be recomputed here"
            )
        result = self.piece(expr.args[0])
        for arg in expr.args[1:]:
            result = self.sym_emit(kind, [result, self.piece(arg)])
        return result

    def scalar_value(self, value):
        """Return a reference to a host float, by name where the kernel's source has one."""
        expr = value._sympy_()
        if expr not in self.pieces:
            root = self.set.roots_of[self.id]
            name = self.set.tensors.scalar_name(
                expr, root, self.node.name, self.set.where(self.node)
            )
            meta = {"dtype": "float32", "shape": []}
            self.pieces[expr] = self.emit(self.node, "tile.scalar", [name], meta=meta, name=name)
        return self.pieces[expr]

    def lanes_count(self, size):
        """Return the number of valid lanes in a dim of a block's size."""
        expr = size._sympy_()
        if expr not in self.symbols.blocks:
            self.refuse(f"a mean over a dim of {expr} lanes is not expressible")
        symbol = {"sym": str(expr)}
        return self.sym_emit(
            "sub", [self.sym_emit("tile.end", [symbol]), self.sym_emit("tile.begin", [symbol])]
        )

    def sym_emit(self, target, args):
        """Emit a number known only at run time."""
        name = target.rpartition(".")[2]
        return self.emit(self.node, target, args, meta={"sym": None}, name=name)


def nodes_live(nodes):
    """Return `nodes` without those that nothing uses."""
    used, live = set(), []
    for node in reversed(nodes):
        target = node.get("target")
        if target is None or target.startswith(EFFECTS) or node["name"] in used:
            live.append(node)
            refs_collect([node.get("args"), node.get("kwargs")], used)
    return live[::-1]


def refs_collect(value, into):
    """Add every node name that a JSON value refers to."""
    if isinstance(value, dict):
        if "ref" in value:
            into.add(value["ref"])
        for entry in value.values():
            refs_collect(entry, into)
    elif isinstance(value, list):
        for entry in value:
            refs_collect(entry, into)
