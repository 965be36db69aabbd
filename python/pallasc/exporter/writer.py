"""Writing one graph's nodes: names, locations, and values as the format's arguments."""

import math

import sympy
import torch

from ..document_text import unique_name
from .errors import ExportError
from .targets import EFFECTS, POSITIONS, RELATIONS
from .values import constant, dtype_name

# Python's operators of ints -> those of tensors.
TENSOR_KINDS = {
    "add": "aten.add.Tensor",
    "sub": "aten.sub.Tensor",
    "mul": "aten.mul.Tensor",
    "floordiv": "aten.floor_divide.default",
    "mod": "aten.remainder.Tensor",
    "sym_max": "aten.maximum.default",
    "sym_min": "aten.minimum.default",
}
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
        self.by_name = {}  # the nodes that have a value
        self.host_names = {}  # fx.Node of a host tensor -> its name in the document
        self.values = {}  # fx.Node -> JSON value
        self.results = {}  # getitem of an `_if` -> (the `_if`, which of the n results)
        self.pieces = {}  # sympy expression -> JSON value, made here
        self.node = None

    # Names, locations, errors

    def name_new(self, wanted):
        """Return `wanted`, numbered if this graph has it already."""
        name = unique_name(wanted, self.names)
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
            self.by_name[entry["name"]] = entry
        if loc := self.loc(node):
            entry["loc"] = loc
        self.nodes.append(entry)
        return {"ref": entry["name"]}

    def converted(self, node, value, meta, name=None):
        """Append the conversion of a value to the dtype of `meta`, and return a reference to it."""
        args = [value, {"dtype": meta["dtype"]}]
        return self.emit(node, "prims.convert_element_type.default", args, meta=meta, name=name)

    def meta(self, value):
        """Return the meta of a value of the node under way."""
        return self.symbols.meta(value, f"'{self.node.name}'", self.set.where(self.node))

    # Values

    def shape_of(self, value):
        """Return the shape of an argument as JSON, () of what is no tensor."""
        node = self.by_name.get(value.get("ref")) if isinstance(value, dict) else None
        return (node["meta"] or {}).get("shape", ()) if node else ()

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
            truth = self.symbol_truth(value)
            return self.relation(expr) if truth is None else truth
        return self.size(expr)

    def symbol_truth(self, value):
        """Return whether a condition on numbers of the host holds, or None: known at run time."""
        expr = value._sympy_().xreplace(self.symbols.known)
        floats = {symbol: self.host_number(symbol) for symbol in expr.free_symbols}
        if all(number is not None for number in floats.values()):
            expr = expr.xreplace(floats)
        return bool(expr) if expr in (sympy.true, sympy.false) else None

    def host_number(self, symbol):
        """Return what a symbol of the host is, exactly, or None."""
        if symbol in self.symbols.blocks or symbol in self.symbols.configured:
            return None
        number = self.set.tensors.scalar_exact(symbol, self.set.roots_of[self.id])
        if number is None:
            return None
        return sympy.Rational(number) if math.isfinite(number) else sympy.Float(number)

    def relation(self, expr):
        """Return a condition on ints, or on conditions, as the nodes that compute it."""
        kind = RELATIONS.get(type(expr).__name__)
        if kind is None:
            self.refuse(f"the condition {expr} is not expressible")
        if kind in ("and_", "or_", "not_"):
            values = [self.relation(arg) for arg in expr.args]
        else:
            values = [self.size(arg) for arg in expr.args]
        result, *others = values
        meta = {"sym": None, "dtype": "bool"}
        if not others:
            return self.emit(self.node, kind, [result], meta=meta, name=kind.strip("_"))
        for other in others:
            result = self.emit(self.node, kind, [result, other], meta=meta, name=kind.strip("_"))
        return result

    def size(self, expr):
        """Return an int as a literal, an expression, or nodes that compute it."""
        text = self.symbols.expression(expr)
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
        if item := self.item_emit(expr):
            return item
        kinds = {"Add": "add", "Mul": "mul", "FloorDiv": "floordiv", "Mod": "mod"}
        kinds |= {"Max": "sym_max", "Min": "sym_min"}
        kind = kinds.get(type(expr).__name__.removeprefix("Python"))
        if kind is None:
            self.refuse(
                f"the number {expr} is known only at run time and cannot be recomputed here"
            )
        result, *others = values = [self.piece(arg) for arg in expr.args]
        if any(self.is_tensor(value) for value in values):
            return self.tensor_piece(kind, values)
        for other in others:
            result = self.sym_emit(kind, [result, other])
        return result

    def is_tensor(self, value):
        """Return whether a number is a tensor without dims."""
        node = self.by_name.get(value.get("ref")) if isinstance(value, dict) else None
        return bool(node) and "shape" in node["meta"]

    def tensor_piece(self, kind, values):
        """Emit arithmetic on ints some of which come from tensors: of 64 bits, as Python's."""
        meta = {"dtype": "int64", "shape": []}
        if kind in ("add", "mul"):
            values = sorted(values, key=lambda value: not self.is_tensor(value))
        result, *others = (
            self.converted(self.node, value, meta) if self.is_tensor(value) else value
            for value in values
        )
        for other in others:
            result = self.emit(self.node, TENSOR_KINDS[kind], [result, other], meta=meta)
        return result

    def scalar_value(self, value):
        """Return a reference to a host float, by name where the kernel's source has one."""
        expr = value._sympy_()
        if expr not in self.pieces and (item := self.item_emit(expr)):
            self.pieces[expr] = item
        if expr not in self.pieces:
            root = self.set.roots_of[self.id]
            name = self.set.tensors.scalar_name(
                expr, root, self.node.name, self.set.where(self.node)
            )
            meta = {"dtype": "float32", "shape": []}
            self.pieces[expr] = self.emit(self.node, "tile.scalar", [name], meta=meta, name=name)
        return self.pieces[expr]

    def item_emit(self, symbol):
        """Emit the load of what host code took from a tensor, None if `symbol` is nothing such."""
        root = self.set.roots_of[self.id]
        found = self.set.tensors.item(symbol, root)
        if not found:
            return None
        tensor, when = found
        tensors, where = self.set.tensors, self.set.where(self.node)
        tensors.keep(tensor, when, tensors.replay.roots[root].order, where)
        name = tensors.host_enter(tensor, where)
        entry = tensors.entries[name]
        meta = {"dtype": entry["dtype"], "shape": entry["shape"]}
        host = self.emit(self.node, "tile.host_tensor", [name], meta=meta, name=name)
        meta = {"dtype": entry["dtype"], "shape": []}
        index = [0] * len(entry["shape"])
        value = self.emit(self.node, "tile.load", [host, index], meta=meta, name=f"{name}_item")
        dtype = "float32" if tensor.dtype.is_floating_point else "int32"
        if ends := tensors.range_of(name):
            value = self.emit(self.node, "aten.clamp.default", [value, *ends], meta=meta)
        if entry["dtype"] == dtype:
            return value
        return self.converted(self.node, value, meta | {"dtype": dtype})

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
