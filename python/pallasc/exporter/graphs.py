"""Converting Helion's device graphs, with its lowering undone."""

import operator

import sympy
import torch

from ..reference.registry import lookup
from .calls import calls_of, combine_order, if_calls, target_name
from .errors import ExportError
from .host import pointwise
from .lowering import operands_restore
from .remote import LIFECYCLE, RemoteWriter, copies_find, operands_passed
from .targets import BITS, COUNTING, IGNORED_KWARGS, INSTEAD, PLAIN, SYMBOLIC
from .trace import INT32
from .values import INTS_OF_INT32, constant
from .writer import SYMBOLIC_TYPES, TENSOR_KINDS, nodes_live

# Helion's own that compute each element of those at its place.
ALIKE = ("tile.new_var", "tile.mask_to", "tile.phi")
# Targets of (tensor, index list, ...), beside the atomics.
INDEXED = ("tile.load", "tile.store", "tile.subscript")
# Helion's own, with a method here for each, whose names begin with no underscore.
HANDLED = ("load", "store", "make_async_remote_copy", "remote_barrier", *LIFECYCLE)


class GraphSet:
    """All graphs that run, converted: `graphs` in the format's form, root ranges beside them."""

    def __init__(self, trace, symbols, tensors):
        self.trace = trace
        self.symbols = symbols
        self.tensors = tensors
        self.infos = {info.graph_id: info for info in trace.device_ir.graphs}
        self.copies = copies_find(self.infos)
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
                if self.copies:
                    kept = call.unchanged()
                    needed = dict.fromkeys(operands_passed(call_id, self))
                    call.args += [node for node in needed if node not in kept]
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


class GraphConverter(RemoteWriter):
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
        order = range(len(placeholders))
        if self.call and target_name(self.call.node) == "_associative_scan":
            order = combine_order([node.meta["val"].dtype for node in placeholders])
        for index, place in enumerate(order):
            self.node = node = placeholders[place]
            name = variables[index] if index < len(variables) else placeholders[index].name
            self.values[node] = self.placeholder_emit(name, node.meta["val"])
        if self.call and self.set.copies:
            for outer, place in self.call.unchanged().items():
                if place < len(placeholders):
                    self.values[outer] = self.values[placeholders[place]]
        added = self.call.args[len(placeholders) :] if self.call else []
        for outer in added:
            self.node = outer
            self.values[outer] = self.placeholder_emit(outer.name, outer.meta["val"])

    def placeholder_emit(self, name, value):
        """Append a placeholder, and return a reference to it."""
        name = self.name_new(name)
        meta = self.meta(value)
        node = {"name": name, "op": "placeholder", "meta": meta}
        self.nodes.append(node)
        self.by_name[name] = node
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
        elif handler and (name.startswith("_") or name in HANDLED):
            handler(node)
        elif is_aten(node):
            self.aten_convert(node)
        elif node.target is operator.getitem:
            self.getitem_convert(node)
        elif node.target in (*BITS, operator.or_) and isinstance(value, torch.SymInt):
            self.bits_convert(node)
        elif node.target in SYMBOLIC and isinstance(value, SYMBOLIC_TYPES):
            self.number_convert(node, SYMBOLIC[node.target])
        elif name in PLAIN and "helion" in (node.target.__module__ or ""):
            target, count = PLAIN[name]
            self.plain_convert(node, target, list(node.args[:count]))
        else:
            hint = f": {INSTEAD[name]}" if name in INSTEAD else ""
            shown = f"operation '{name or node.target}'"
            self.refuse(f"{shown} is not expressible in the graph format{hint}")

    def symbol_fixed(self, value):
        """Return whether a symbolic number is one constant, or a float of host scalars."""
        if self.symbols.block_of(value) is not None:
            return False
        if isinstance(value, torch.SymFloat):
            symbols = value._sympy_().free_symbols
            return all(self.set.tensors.scalar_known(symbol) for symbol in symbols)
        if isinstance(value, torch.SymBool) and self.symbol_truth(value) is not None:
            return True
        expr = value._sympy_().xreplace(self.symbols.known)
        return not expr.free_symbols

    def plain_convert(self, node, target, args, kwargs=None):
        """Emit a node whose arguments need no change; trailing Nones are left out."""
        while args and args[-1] is None:
            args.pop()
        indexed = target in INDEXED or target.startswith("tile.atomic_")
        if target.startswith("tile.atomic_") and args[0] not in self.host_names:
            self.refuse("an atomic of a value: only tensors of the host have places to add to")
        if indexed:
            args[1] = index_counted(args[0].meta["val"].shape, args[1])
        values = [self.value(arg) for arg in args]
        if indexed:
            values[1] = self.index_crossed(values[1])
        named = {key: self.value(arg) for key, arg in (kwargs or {}).items()}
        meta = None if target == "tile.store" else self.meta(node.meta.get("val"))
        alike = is_aten(node) and pointwise(node.target)
        wide = meta if target.startswith("tile.atomic_") and self.is_int64(args[0]) else None
        if wide:  # memory holds int32, and so does the old value
            meta = wide | {"dtype": "int32"}
        if alike or target in ALIKE:
            meta = self.meta_broadcast(meta, values)
        if alike or target == "aten.expand.default":
            values = [self.value_aligned(value, meta["shape"]) for value in values]
        self.values[node] = self.emit(node, target, values, named, meta)
        if wide:
            self.values[node] = self.converted(node, self.values[node], wide, f"{node.name}_wide")

    def number_convert(self, node, kind):
        """Emit an operator of numbers; of what host code took from tensors, one of tensors."""
        values = [self.value(arg) for arg in node.args]
        if kind in TENSOR_KINDS and any(self.is_tensor(value) for value in values):
            self.values[node] = self.tensor_piece(kind, values)
        else:
            self.plain_convert(node, kind, list(node.args))

    def bits_convert(self, node):
        """Emit a shift, or a mask of low bits, of an int that is known at run time: arithmetic."""
        if node.target is operator.or_:
            self.refuse("'|' of ints of the host or of positions is not expressible: use + and *")
        value, bits = node.args
        given = bits.meta["val"] if isinstance(bits, torch.fx.Node) else bits
        number = self.symbols.expression(given) if isinstance(given, int | torch.SymInt) else None
        shift = node.target is not operator.and_
        low_bits = type(number) is int and number > 0 and (number & (number + 1)) == 0
        if not (type(number) is int and 0 <= number < 31 if shift else low_bits):
            shown = f"'{node.target.__name__}' of ints of the host or of positions"
            self.refuse(f"{shown} takes a shift of 0 to 30, or a mask of low bits")
        factor = 1 << number if shift else number + 1
        self.plain_convert(node, BITS[node.target], [value, factor])

    def meta_broadcast(self, meta, values):
        """Return the meta of a pointwise value, a block of one element broadcast to what it meets.

        Helion takes any block for the other's equal: `w[row, tile] * x` where rows go one by one.
        """
        if not meta or not meta.get("shape"):
            return meta
        shape = list(meta["shape"])
        for value in values:
            other = self.shape_of(value)
            for place in range(1, min(len(shape), len(other)) + 1):
                if self.symbols.is_one(shape[-place]) and other[-place] != 1:
                    shape[-place] = other[-place]
        return meta | {"shape": shape}

    def index_crossed(self, index):
        """Return an index list whose neighbouring 1-D tensors are crossed, each along its own dim.

        So Helion has them; in the graph only those of tiles are, others broadcast together. Single
        positions between them have no dims.
        """
        shapes = [self.shape_of(entry) for entry in index]
        places = [at for at, shape in enumerate(shapes) if shape]
        if len(places) < 2 or any(len(shapes[at]) != 1 for at in places):
            return index
        between = [at for at in range(places[0], places[-1]) if at not in places]
        tiles = all(isinstance(shapes[at][0], str) for at in places)
        if tiles or not all(self.is_position(index[at]) for at in between):
            return index
        crossed = list(index)
        for count, at in enumerate(places):
            shape = [1] * len(places)
            shape[count] = shapes[at][0]
            crossed[at] = self.view(index[at], shape, "crossed")
        return crossed

    def is_position(self, entry):
        """Return whether an entry of an index list is a symbolic int, and no tile."""
        if not isinstance(entry, dict) or "ref" not in entry:
            return isinstance(entry, int)
        meta = self.by_name[entry["ref"]]["meta"]
        return "shape" not in meta and meta["sym"] not in map(str, self.symbols.blocks)

    def view(self, value, shape, name):
        """Emit a view of a value made in this graph."""
        sizes = [size if isinstance(size, int) else {"sym": size} for size in shape]
        meta = self.by_name[value["ref"]]["meta"] | {"shape": shape}
        return self.emit(self.node, "aten.view.default", [value, sizes], meta=meta, name=name)

    def value_aligned(self, value, shape):
        """Return a value with new axes where its tiles are not the last ones of a shape.

        Helion finds a dim by its tile: `x[rows, cols] * scale[rows]` scales rows.
        """
        own = self.shape_of(value)
        if not own or len(own) >= len(shape):
            return value
        pairs = zip(own, shape[-len(own) :], strict=True)
        if all(mine == 1 or other == 1 or mine == other for mine, other in pairs):
            return value
        found, at = [], 0
        for size in shape:
            found.append(own[at] if at < len(own) and own[at] == size else 1)
            at += found[-1] != 1
        if at < len(own):
            return value
        return self.view(value, found, "aligned")

    def aten_convert(self, node):
        """Emit an ATen or prims overload with its operands restored."""
        target = str(node.target)
        if target == "aten.sym_size.int":
            return self.plain_convert(node, "sym_size", list(node.args))
        if target.startswith(("aten.empty", "aten.new_empty")):
            self.refuse("a tensor that is made inside of the kernel and never filled")
        if lookup(target) is None:
            self.refuse(f"operation {target} is not expressible in the graph format")
        args, kwargs = operands_restore(node, self.set.trace.originals)
        kwargs = {k: v for k, v in kwargs.items() if k not in IGNORED_KWARGS}
        if target in COUNTING:
            return self.counting_convert(node, target, list(args), kwargs)
        if target == "aten.full_like.default":
            return self.plain_convert(
                node, "tile.full", [list(node.meta["val"].shape), args[1], node.meta["val"].dtype]
            )
        if target == "aten.remainder.Scalar_Tensor":
            return self.remainder_convert(node, *args)
        self.plain_convert(node, target, list(args), kwargs)

    def remainder_convert(self, node, number, divisor):
        """Emit the remainder of a number: the graph has it of tensors."""
        meta = self.meta(node.meta["val"])
        full = [[], self.value(number), {"dtype": meta["dtype"]}]
        made = self.emit(node, "tile.full", full, meta=meta | {"shape": []}, name="number")
        args = [made, self.value(divisor)]
        self.values[node] = self.emit(node, "aten.remainder.Tensor", args, meta=meta)

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
            self.values[node] = self.converted(node, self.values[node], meta, f"{node.name}_wide")

    def convert_store(self, node):
        """A store of a value in the shape, and for an int64 tensor the dtype, of what it fills."""
        tensor, index, value, mask = (*node.args, None)[:4]
        given = value.meta["val"] if isinstance(value, torch.fx.Node) else value
        self.plain_convert(node, "tile.store", [tensor, index, value, mask])
        store = self.nodes.pop()
        if isinstance(given, torch.Tensor):
            shape = self.merged(tensor, index, given)
            if shape:
                store["args"][2] = self.view(store["args"][2], shape, "parted")
            if self.is_int64(tensor) and given.dtype not in (torch.int64, *INTS_OF_INT32):
                meta = self.meta(given) | {"dtype": "int64"}
                wide = self.converted(node, store["args"][2], meta, f"{node.name}_wide")
                store["args"][2] = wide
        elif self.is_int64(tensor):
            number = type(given) is int and not INT32[0] <= given <= INT32[1]
            if number or isinstance(given, float | torch.SymFloat):
                self.refuse(f"{given} is stored to an int64 tensor: only ints of 32 bits can be")
        self.nodes.append(store)

    def merged(self, tensor, index, value):
        """Return the shape that a store fills where a dim of the value is several of its tiles."""
        sizes = iter(tensor.meta["val"].shape)
        filled = []
        for entry in index:
            size = next(sizes)
            entry = entry.meta["val"] if isinstance(entry, torch.fx.Node) else entry
            if isinstance(entry, torch.SymInt) and entry._sympy_() in self.symbols.blocks:
                filled.append(entry._sympy_())
            elif entry == slice(None):
                filled.append(sympy.sympify(size))
            else:
                return None
        own = [sympy.sympify(size) for size in value.shape]
        fits = all(
            mine in (1, theirs) for mine, theirs in zip(own[::-1], filled[::-1], strict=False)
        )
        same = sympy.prod(own) == sympy.prod(filled)
        return None if fits or not same else self.symbols.shape(filled, "a store", None)

    def is_int64(self, tensor):
        """Return whether a node is a host tensor that is int64 to the kernel."""
        name = self.host_names.get(tensor)
        return name is not None and self.set.tensors.stands_for_int64(name)

    def convert_host_tensor(self, node):
        """A host tensor is called by its name in the document."""
        writes = [user for user in node.users if target_name(user).startswith(("store", "atomic_"))]
        written = any(user.args[0] is node for user in writes)
        written = written or any(make.args[3] is node for make in self.set.copies.values())
        root = self.set.roots_of[self.id]
        name = self.set.tensors.tensor_name(node.args[0], root, written, self.set.where(node))
        self.host_names[node] = name
        entry = self.set.tensors.entries[name]
        meta = {"dtype": entry["dtype"], "shape": entry["shape"]}
        self.values[node] = self.emit(node, "tile.host_tensor", [name], meta=meta)

    def convert_get_symnode(self, node):
        """A block size is `tile.symnode`; other symbols are what their origin says."""
        value = node.meta["val"]
        block = self.symbols.block_of(value)
        if block is None:
            self.values[node] = self.symbol_value(value)
            return
        symbol = str(block)
        self.values[node] = self.emit(node, "tile.symnode", [symbol], meta={"sym": symbol})

    def convert_rng_seed(self, node):
        """The seed that an op without one draws anew is a word of one more input."""
        name, count = self.set.tensors.seeds_name()
        meta = {"dtype": "int32", "shape": [count]}
        host = self.emit(node, "tile.host_tensor", [name], meta=meta, name=f"{node.name}_host")
        meta = {"dtype": "int32", "shape": []}
        word = self.emit(node, "tile.load", [host, [node.args[0]]], meta=meta, name="seed")
        self.values[node] = self.converted(node, word, self.meta(node.meta["val"]))

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


def is_aten(node):
    """Return whether a node calls an overload of ATen or prims."""
    return isinstance(node.target, torch._ops.OpOverload)


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
