"""Converting Helion's device graphs, with its lowering undone."""

import operator

import torch

from .calls import calls_of, if_calls, target_name
from .errors import ExportError
from .lowering import operands_restore
from .targets import COUNTING, IGNORED_KWARGS, PLAIN, SYMBOLIC
from .values import constant
from .writer import SYMBOLIC_TYPES, GraphWriter, nodes_live

# Targets of (tensor, index list, ...), beside the atomics.
INDEXED = ("tile.load", "tile.store", "tile.subscript")


class GraphSet:
    """All graphs that run, converted: `graphs` in the format's form, root ranges beside them."""

    def __init__(self, trace, symbols, tensors):
        self.trace = trace
        self.symbols = symbols
        self.tensors = tensors
        self.infos = {info.graph_id: info for info in trace.device_ir.graphs}
        self.calls = {}
        self.roots_of = {}  # graph id -> index of the root that it runs in
        for index, root_id in enumerate(trace.device_ir.root_ids):
            self.calls_find(root_id, index, trace.device_ir.grid_block_ids[index])
        self.ids = {old: new for new, old in enumerate(sorted(self.roots_of))}
        self.graphs = [GraphConverter(self, old).convert() for old in self.ids]

    def calls_find(self, graph_id, root, around):
        """Note each graph that `graph_id` calls, and how; `around`: the blocks iterated there."""
        self.roots_of[graph_id] = root
        for node in self.infos[graph_id].graph.nodes:
            for call_id, call in calls_of(node, self):
                if call_id in self.calls:
                    raise ExportError("one graph is called twice", self.where(node))
                self.calls[call_id] = call
                blocks = list(getattr(self.infos[call_id], "block_ids", ()))
                if call.kind == "for_loop" and set(blocks) & set(around):
                    raise ExportError(
                        "a loop inside a loop of the same registered block size: "
                        "register one for each, both loops' tiles are the same one to Helion",
                        self.where(node),
                    )
                self.calls_find(call_id, root, [*around, *blocks])

    def where(self, node):
        """Return `file:line` of a node, or None."""
        location = node.meta.get("location")
        if not location or not location.lineno:
            return None
        return self.trace.source.where(location.lineno)


class GraphConverter(GraphWriter):
    """Converts one graph."""

    def convert(self):
        """Return the graph as the format has it, dead nodes dropped."""
        graph = {"id": self.set.ids[self.id], "kind": self.call.kind if self.call else "root"}
        if not self.call:
            root = self.set.roots_of[self.id]
            graph["grid"] = list(self.set.trace.device_ir.grid_block_ids[root])
        elif self.call.kind in ("for_loop", "reduction_loop"):
            graph["block_ids"] = list(self.info.block_ids)
            if graph["block_ids"][0] in self.set.trace.env.jagged_tile_parent_ids:
                graph["lengths"] = 0  # Helion lifts the lengths first
        if self.call and self.call.carried:
            graph["carried"] = self.call.carried
        self.placeholders_convert()
        for node in self.info.graph.nodes:
            self.node = node
            if node.op == "call_function":
                self.call_convert(node)
            elif node.op == "output":
                self.output_convert(node)
        graph["nodes"] = nodes_live(self.nodes)
        return graph

    # Placeholders and outputs

    def placeholders_convert(self):
        """Emit the placeholders, then one for each argument added to the call."""
        placeholders = [node for node in self.info.graph.nodes if node.op == "placeholder"]
        variables = self.set.trace.variables.get(self.id, ([], []))[0]
        for index, node in enumerate(placeholders):
            self.node = node
            name = variables[index] if index < len(variables) else node.name
            self.values[node] = self.placeholder_emit(name, node.meta["val"])
        added = self.call.args[len(placeholders) :] if self.call else []
        for outer in added:
            self.node = outer
            self.values[outer] = self.placeholder_emit(outer.name, outer.meta["val"])

    def placeholder_emit(self, name, value):
        """Append a placeholder, and return a reference to it."""
        name = self.name_new(name)
        self.nodes.append({"name": name, "op": "placeholder", "meta": self.meta(value)})
        return {"ref": name}

    def output_convert(self, node):
        """Emit the outputs, in the order that the call wants."""
        outputs = node.args[0]
        outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        if outputs == [None]:
            outputs = []
        if self.call and self.call.outputs is not None:
            outputs = [self.output_pick(outputs, pick) for pick in self.call.outputs]
        values = [self.value(output) for output in outputs]
        self.nodes.append({"name": self.name_new("output"), "op": "output", "args": [values]})

    def output_pick(self, outputs, pick):
        """Return one output of a branch: its own, or the placeholder of a value passed through."""
        if isinstance(pick, int):
            return outputs[pick]
        if pick in self.values:
            return pick
        placeholders = [node for node in self.info.graph.nodes if node.op == "placeholder"]
        return placeholders[self.call.args.index(pick)]

    # Calls

    def call_convert(self, node):
        """Emit one call_function node, or note what it stands for."""
        value = node.meta.get("val")
        name = target_name(node)
        handler = getattr(self, f"convert_{name.strip('_')}", None)
        if isinstance(value, (int, float, bool)) and name != "_host_tensor":
            self.values[node] = constant(value)
        elif isinstance(value, SYMBOLIC_TYPES) and self.symbol_fixed(value):
            self.values[node] = self.symbol_value(value)
        elif handler and (name.startswith("_") or name == "load"):
            handler(node)
        elif isinstance(node.target, torch._ops.OpOverload):
            self.aten_convert(node)
        elif node.target is operator.getitem:
            self.getitem_convert(node)
        elif node.target in SYMBOLIC and isinstance(value, SYMBOLIC_TYPES):
            self.plain_convert(node, SYMBOLIC[node.target], list(node.args))
        elif name in PLAIN and "helion" in (node.target.__module__ or ""):
            target, count = PLAIN[name]
            self.plain_convert(node, target, list(node.args[:count]))
        else:
            self.refuse(f"operation '{name or node.target}' is not expressible in the graph format")

    def symbol_fixed(self, value):
        """Return whether a symbolic number is one constant, or a float of host scalars."""
        if isinstance(value, torch.SymFloat):
            symbols = value._sympy_().free_symbols
            return all(self.set.tensors.scalar_known(symbol) for symbol in symbols)
        expr = value._sympy_().xreplace(self.symbols.known)
        return not expr.free_symbols

    def plain_convert(self, node, target, args, kwargs=None):
        """Emit a node whose arguments need no change; trailing Nones are left out."""
        while args and args[-1] is None:
            args.pop()
        if target in INDEXED or target.startswith("tile.atomic_"):
            args[1] = index_counted(args[0].meta["val"].shape, args[1])
        values = [self.value(arg) for arg in args]
        named = {key: self.value(arg) for key, arg in (kwargs or {}).items()}
        meta = None if target == "tile.store" else self.meta(node.meta.get("val"))
        self.values[node] = self.emit(node, target, values, named, meta)

    def aten_convert(self, node):
        """Emit an ATen or prims overload with its operands restored."""
        target = str(node.target)
        if target == "aten.sym_size.int":
            return self.plain_convert(node, "sym_size", list(node.args))
        if target.startswith(("aten.empty", "aten.new_empty")):
            self.refuse("a tensor that is made inside of the kernel and never filled")
        args, kwargs = operands_restore(node, self.set.trace.originals)
        kwargs = {k: v for k, v in kwargs.items() if k not in IGNORED_KWARGS}
        if target in COUNTING:
            return self.counting_convert(node, target, list(args), kwargs)
        if target == "aten.full_like.default":
            return self.plain_convert(
                node, "tile.full", [list(node.meta["val"].shape), args[1], node.meta["val"].dtype]
            )
        self.plain_convert(node, target, list(args), kwargs)

    def counting_convert(self, node, target, args, kwargs):
        """Emit a reduction that divides by a count: over a tile, by the lanes that are valid."""
        source = args[0].meta["val"]
        given = args[1] if len(args) > 1 and target != "aten.mean.default" else None
        dims = [dim % source.dim() for dim in given or range(source.dim())]
        sizes = [self.symbols.expression(source.shape[dim]) for dim in dims]
        if all(isinstance(size, int) for size in sizes):
            return self.plain_convert(node, target, args, kwargs)
        if not target.startswith("aten.mean."):
            self.refuse(f"{target} over a tile is not expressible: sum, and divide by the count")
        keep = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
        meta = self.meta(node.meta["val"])
        masked = self.value(args[0])
        if target_name(args[0]) != "_mask_to":
            mask_args = [masked, 0]
            masked = self.emit(
                node, "tile.mask_to", mask_args, meta=self.meta(source), name="masked"
            )
        sum_args = [masked, dims, keep] if keep else [masked, dims]
        total = self.emit(node, "aten.sum.dim_IntList", sum_args, meta=meta, name="total")
        count = None
        for dim, size in zip(dims, sizes, strict=True):
            lanes = size if isinstance(size, int) else self.lanes_count(source.shape[dim])
            count = lanes if count is None else self.sym_emit("mul", [count, lanes])
        self.values[node] = self.emit(node, "aten.div.Tensor", [total, count], meta=meta)

    def getitem_convert(self, node):
        """Emit a getitem, or name what an `_if`'s result stands for."""
        source, index = node.args
        if target_name(source) != "_if":
            return self.plain_convert(node, "getitem", [source, index])
        pairs = self.set.infos[source.args[1]].branches_outputs
        side, place = divmod(index, len(pairs))
        self.results[node] = (source, place)
        if isinstance(pairs[place][side], str):
            self.values[node] = self.values[if_calls(source, self.set)[side].outputs[place]]

    def convert_load(self, node):
        """A load from a host tensor is a load; from a value on the device, a subscript."""
        tensor, index, mask = (
            node.args[0],
            node.args[1],
            node.args[2] if len(node.args) > 2 else None,
        )
        if target_name(tensor) == "_host_tensor":
            return self.host_load(node, tensor, index, mask)
        if not isinstance(tensor, torch.fx.Node):
            self.refuse("a load from a stack of tensors is not expressible")
        if mask is not None:
            self.refuse("a masked load from a value on the device is not expressible")
        self.plain_convert(node, "tile.subscript", [tensor, index])

    def host_load(self, node, tensor, index, mask):
        """A load, whose ints lie in their range and are int64 again where the caller's are."""
        self.plain_convert(node, "tile.load", [tensor, index, mask])
        name = self.host_names[tensor]
        stored = self.set.tensors.entries[name]["dtype"]
        meta = self.meta(node.meta["val"])
        ends = self.set.tensors.range_of(name)
        if meta["dtype"] != stored:
            self.nodes[-1]["meta"] = meta | {"dtype": stored}
        if ends:
            args = [self.values[node], *ends]
            narrow = meta | {"dtype": stored}
            name = f"{node.name}_in_range"
            self.values[node] = self.emit(node, "aten.clamp.default", args, meta=narrow, name=name)
        if meta["dtype"] != stored:
            args = [self.values[node], {"dtype": meta["dtype"]}]
            target, name = "prims.convert_element_type.default", f"{node.name}_wide"
            self.values[node] = self.emit(node, target, args, meta=meta, name=name)

    def convert_host_tensor(self, node):
        """A host tensor is called by its name in the document."""
        writes = [user for user in node.users if target_name(user).startswith(("store", "atomic_"))]
        written = any(user.args[0] is node for user in writes)
        root = self.set.roots_of[self.id]
        name = self.set.tensors.tensor_name(node.args[0], root, written, self.set.where(node))
        self.host_names[node] = name
        entry = self.set.tensors.entries[name]
        meta = {"dtype": entry["dtype"], "shape": entry["shape"]}
        self.values[node] = self.emit(node, "tile.host_tensor", [name], meta=meta)

    def convert_get_symnode(self, node):
        """A block size is `tile.symnode`; other symbols are what their origin says."""
        value = node.meta["val"]
        if isinstance(value, torch.SymInt):
            expr = value._sympy_()
            if expr in self.symbols.blocks:
                symbol = str(expr)
                meta = {"sym": symbol}
                self.values[node] = self.emit(node, "tile.symnode", [symbol], meta=meta)
                return
        self.values[node] = self.symbol_value(value)

    def convert_rng_seed(self, node):
        """The seed that an op without one draws anew is a word of one more input."""
        name, count = self.set.tensors.seeds_name()
        meta = {"dtype": "int32", "shape": [count]}
        host = self.emit(node, "tile.host_tensor", [name], meta=meta, name=f"{node.name}_host")
        meta = {"dtype": "int32", "shape": []}
        word = self.emit(node, "tile.load", [host, [node.args[0]]], meta=meta, name="seed")
        args = [word, {"dtype": "int64"}]
        meta = self.meta(node.meta["val"])
        target = "prims.convert_element_type.default"
        self.values[node] = self.emit(node, target, args, meta=meta)

    def convert_constant_tensor(self, node):
        """A constant made on the device is a 0-d full."""
        value, dtype = node.args
        self.plain_convert(node, "tile.full", [[], value, dtype])

    def convert_inductor_lowering_extra(self, node):
        """An intermediate of Helion's lowering: its user is restored whole, so nothing is made."""

    def convert_mask_to(self, node):
        """A mask stays, but for one of an intermediate."""
        if target_name(node.args[0]) != "_inductor_lowering_extra":
            self.plain_convert(node, "tile.mask_to", list(node.args))

    def convert_gelu_erf(self, node):
        """Helion's GELU is ATen's."""
        self.plain_convert(node, "aten.gelu.default", list(node.args))

    def convert_gelu_tanh_approx(self, node):
        """Helion's approximate GELU is ATen's."""
        self.plain_convert(node, "aten.gelu.default", list(node.args), {"approximate": "tanh"})

    def convert_phi(self, node):
        """A phi of two `_if` results is that result; any other stays."""
        merged = {self.results.get(arg) for arg in node.args}
        if len(merged) == 1 and merged != {None}:
            source, place = merged.pop()
            meta = self.meta(node.meta["val"])
            name = f"{source.name.strip('_')}_{place}"
            args = [self.values[source], place]
            self.values[node] = self.emit(node, "getitem", args, meta=meta, name=name)
            return
        self.plain_convert(node, "tile.phi", list(node.args))

    def call_args(self, graph_id):
        """Return the arguments of a call as JSON, added ones included."""
        call = self.set.calls.get(graph_id)
        return [self.value(arg) for arg in call.args] if call else []

    def convert_for_loop(self, node):
        """A device loop; a step is in its block's size."""
        graph, begins, ends = node.args[:3]
        args = [self.set.ids[graph], self.value(begins), self.value(ends), self.call_args(graph)]
        meta = self.meta(node.meta["val"])
        self.values[node] = self.emit(node, "tile.for_loop", args, meta=meta)

    def convert_for_loop_step(self, node):
        """A device loop with a step, see `document.blocks_build`."""
        self.convert_for_loop(node)

    def convert_if(self, node):
        """An `if`, with n results for Helion's 2n."""
        test, then_id, else_id = node.args[:3]
        args = [self.condition(test), self.set.ids[then_id], self.set.ids.get(else_id)]
        args += [self.call_args(then_id), self.call_args(else_id)]
        results = node.meta["val"] or []
        meta = self.meta(list(results[: len(results) // 2]))
        self.values[node] = self.emit(node, "tile.if", args, meta=meta)

    def condition(self, test):
        """Return what an `if` asks as JSON, a bool: of a number, whether it is not 0."""
        value = test.meta["val"] if isinstance(test, torch.fx.Node) else test
        asked = self.value(test)
        if isinstance(value, torch.Tensor):
            if value.dim():
                self.refuse(f"`if` on a tensor of {value.dim()} dims: use torch.where")
            if value.dtype == torch.bool:
                return asked
            meta = {"dtype": "bool", "shape": []}
            return self.emit(self.node, "aten.ne.Scalar", [asked, 0], meta=meta, name="ne")
        if isinstance(value, torch.SymInt) or type(value) is int:
            meta = {"sym": None, "dtype": "bool"}
            return self.emit(self.node, "ne", [asked, 0], meta=meta, name="ne")
        return asked

    def convert_while_loop(self, node):
        """A `while` loop; its condition gets the same arguments."""
        cond, body = node.args[:2]
        args = [self.set.ids[cond], self.set.ids[body], self.call_args(body)]
        meta = self.meta(node.meta["val"])
        self.values[node] = self.emit(node, "tile.while", args, meta=meta)

    def convert_associative_scan(self, node):
        """A scan with a combine graph."""
        graph, tensor, dim, reverse, _many = (*node.args, False, False)[:5]
        self.combine_emit(node, "tile.associative_scan", [graph, tensor, dim, reverse])

    def convert_reduce(self, node):
        """A reduction with a combine graph."""
        graph, tensor, dim, keep = (*node.args, None, False)[:4]
        args = [graph, tensor, dim]
        self.combine_emit(node, "tile.reduce", [*args, True] if keep else args)

    def combine_emit(self, node, target, args):
        """Emit a node whose first argument is a combine graph."""
        values = [self.set.ids[args[0]], *(self.value(arg) for arg in args[1:])]
        meta = self.meta(combined_value(node))
        self.values[node] = self.emit(node, target, values, meta=meta)


def combined_value(node):
    """Return an example of what a scan or reduction gives; Helion keeps none of several."""
    if "val" in node.meta:
        return node.meta["val"]
    found = {user.args[1]: user.meta["val"] for user in node.users}
    any_of = next(iter(found.values()))
    sources = [source.meta["val"] for source in node.args[1]]
    return [found.get(place, any_of.to(source.dtype)) for place, source in enumerate(sources)]


def index_counted(shape, index):
    """Return an index list with what counts from the end, or ends past it, as torch has it."""
    sizes = iter(shape)
    return [entry if entry is None else entry_counted(next(sizes), entry) for entry in index]


def entry_counted(size, entry):
    """Return one entry of an index list, its ints counted from the start of a dim of `size`."""
    if not isinstance(size, int):
        return entry
    if type(entry) is int and entry < 0:
        return entry + size
    if isinstance(entry, slice) and entry != slice(None):
        ends = (entry.start, entry.stop)
        if all(end is None or type(end) is int for end in ends):
            low, high, _step = slice(*ends).indices(size)
            start = None if entry.start is None else low
            return slice(start, None if entry.stop is None else max(low, high), entry.step)
    return entry
