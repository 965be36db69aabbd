"""What host code computes of tensors, elementwise, by rows or in place, as root graphs."""

import torch

from .errors import ExportError
from .host import SELECTING, fills, selects, sums_along
from .trace import INT32
from .values import dtype_name

# The most that a block holds of a dim: of the last one, the one before; further ones go one by one.
BLOCK = (1024, 256)
CALLS = {
    "tile.for_loop": (0,),
    "tile.while": (0, 1),
    "tile.if": (1, 2),
    "tile.associative_scan": (0,),
    "tile.reduce": (0,),
}


def roots_join(tensors, graphs, blocks):
    """Return all graphs in order, numbered anew: those given, and a root for each host operation.

    Adds the blocks of the new ones to `blocks`.
    """
    device = device_groups(graphs)
    orders = [root.order for root in tensors.replay.roots]
    timed = list(zip(orders, device, strict=True))
    host = [*tensors.host_ops, *tensors.replay.recorder.writes]
    if not host:
        return graphs
    for made in sorted(host, key=lambda made: made.order):
        timed.append((made.order, [HostRoot(tensors, blocks, made).graph()]))
    ordered = [
        graph for _order, group in sorted(timed, key=lambda pair: pair[0]) for graph in group
    ]
    return numbered(ordered)


def device_groups(graphs):
    """Return the device's graphs by root, those that it calls before it."""
    groups, group = [], []
    for graph in graphs:
        group.append(graph)
        if graph["kind"] == "root":
            groups.append(group)
            group = []
    return groups


def numbered(graphs):
    """Return graphs with ids that are their places, in calls as well."""
    ids = {graph["id"]: place for place, graph in enumerate(graphs) if graph["id"] is not None}
    for place, graph in enumerate(graphs):
        graph["id"] = place
        for node in graph["nodes"]:
            for at in CALLS.get(node.get("target"), ()):
                if node["args"][at] is not None:
                    node["args"][at] = ids[node["args"][at]]
    return graphs


def selection(func, args, where):
    """Return (tensor, dim, positions): tensors of ints that index this dim and those behind it."""
    at = SELECTING[str(func)]
    if at:
        base, dim, places = (0 if place is None else args[place] for place in at)
        return base, dim % base.dim(), [places]
    base, given = args[0], [(d, x) for d, x in enumerate(args[1]) if x is not None]
    dim, places = given[0][0], [x for _dim, x in given]
    if any(x.dtype in (torch.bool, torch.uint8) for x in places):
        raise ExportError("host code indexes by a mask", where)
    return base, dim, places


class HostRoot:
    """One operation of the host code under way: `made` is a Write, or a Step with its `tensor`."""

    def __init__(self, tensors, blocks, made):
        self.tensors = tensors
        self.made = made
        self.nodes = []
        line = int(made.where.rpartition(":")[2])
        self.loc = tensors.trace.source.loc_at(line)
        target, ranges = self.filled() or (made.tensor, None)
        self.target = tensors.host_enter(target, made.where)
        self.shape = tensors.entries[self.target]["shape"]
        func, args, _named = self.call()
        self.selection = selection(func, args, made.where) if selects(func) else None
        if self.selection:
            base, dim, places = self.selection
            self.shape = [*base.shape[:dim], *places[0].shape, *base.shape[dim + len(places) :]]
        if not self.shape or not all(isinstance(size, int) for size in self.shape):
            raise ExportError(
                "host code computes a tensor without dims or of unknown size", made.where
            )
        self.along = args[1] % len(self.shape) if func and sums_along(func) else None
        self.grid, self.index, self.sizes = [], [], []
        for dim, size in enumerate(self.shape):
            if ranges and ranges[dim] != [0, size, 1]:
                self.index.append({"slice": [*ranges[dim][:2], None]})
            else:
                self.dim_add(dim, size, blocks)

    def filled(self):
        """Return (base, ranges) of a slice that is filled with a number, or None.

        All of its elements become the same, so that views of it do not matter.
        """
        if getattr(self.made, "func", self) or isinstance(self.made.args[1], torch.Tensor):
            return None
        step = self.tensors.steps[id(self.made.tensor)]
        while step.kind in ("reshape", "permute", "alias"):
            step = self.tensors.steps[id(step.base)]
        if step.kind == "slice" and all(by == 1 for _begin, _end, by in step.data):
            return step.base, step.data
        return None

    def dim_add(self, dim, size, blocks):
        """Choose how a dim is tiled: a block of its own, or whole."""
        behind = len(self.shape) - 1 - dim
        most = BLOCK[behind] if behind < len(BLOCK) else 1
        if size <= most or dim == self.along:
            self.index.append({"slice": [None, None, None]})
            self.sizes.append(size)
            return
        symbol = f"host{len(blocks)}"
        name = f"{self.target}_{dim}"
        block = {"id": len(blocks), "symbol": symbol, "name": name, "extent": size, "size": most}
        blocks.append(block)
        self.grid.append(block["id"])
        self.index.append({"sym": symbol})
        self.sizes.append(symbol)

    def graph(self):
        """Return the root graph: loads, the operation, a store."""
        func, args, named = self.call()
        index, store, old, sizes = self.index, "tile.store", None, None
        if self.selection and hasattr(self.made, "func"):
            value, index = self.put(args[2]), self.selected_index()
            if [*args, False][3]:
                if args[0].dtype == torch.int64:
                    raise ExportError("host code adds to places of an int64", self.made.where)
                store, old, sizes = "tile.atomic_add", args[0].dtype, self.indexed_sizes()
        elif self.selection:
            value = self.selected()
        elif func and fills(func):
            value = self.counted(func, args)
        else:
            value = self.computed(func, args, named) if func else self.operand(args[1])
        self.emit(store, [self.host(self.target), index, value], old, sizes=sizes)
        self.nodes.append({"name": "output", "op": "output", "args": [[]]})
        return {"id": None, "kind": "root", "grid": self.grid, "nodes": self.nodes}

    def call(self):
        """Return (function or None, arguments, arguments by name); None stores the second one."""
        if hasattr(self.made, "func"):
            return self.made.func, self.made.args, self.made.named
        func, args, named = self.made.data
        return func, list(args), named

    def apart(self):
        """Whether the positions would each make a dim of its own: 1-D over a block, and several."""
        _base, dim, places = self.selection
        return len(places) > 1 and places[0].dim() == 1 and isinstance(self.sizes[dim], str)

    def indexed_sizes(self):
        """Return the sizes of what the index names."""
        dim = self.selection[1]
        return [*self.sizes[:dim], *([1] if self.apart() else []), *self.sizes[dim:]]

    def selected_index(self):
        """Return the index of what is picked or put: a position below 0 counts from the end.

        Where the dims of several would stand apart, a dim of 1 before them keeps them together.
        """
        base, dim, places = self.selection
        rank = places[0].dim()
        sizes = self.sizes[dim : dim + rank]
        found = []
        for number, at in enumerate(places):
            name = self.tensors.host_enter(at, self.made.where)
            load = [self.host(name), self.index[dim : dim + rank]]
            at = self.emit("tile.load", load, torch.int32, sizes=sizes)
            below = self.emit("aten.lt.Scalar", [at, 0], torch.bool, sizes=sizes)
            size = base.size(dim + number)
            above = self.emit("aten.add.Tensor", [at, size], torch.int32, sizes=sizes)
            at = self.emit("aten.where.self", [below, above, at], torch.int32, sizes=sizes)
            if self.apart():
                args = [at, 0]
                at = self.emit("aten.unsqueeze.default", args, torch.int32, sizes=[1, *sizes])
            found.append(at)
        return [*self.index[:dim], *found, *self.index[dim + rank :]]

    def put(self, arg):
        """Return what is put, with the dims of its positions."""
        value, dim = self.operand(arg), self.selection[1]
        if not self.apart() or not isinstance(arg, torch.Tensor):
            return value
        rank = len(self.shape) - arg.dim()
        if rank > dim:
            return value  # it has no dims before those of the positions
        sizes = list(self.nodes[-1]["meta"]["shape"])
        sizes.insert(dim - rank, 1)
        return self.emit("aten.unsqueeze.default", [value, dim - rank], arg.dtype, sizes=sizes)

    def selected(self):
        """Emit a load of what is picked; return a reference to its value."""
        base, dim, _places = self.selection
        index = self.selected_index()
        name = self.tensors.host_enter(base, self.made.where)
        dtype = torch.int32 if base.dtype == torch.int64 else base.dtype
        if not self.apart():
            return self.emit("tile.load", [self.host(name), index], dtype)
        sizes = self.indexed_sizes()
        value = self.emit("tile.load", [self.host(name), index], dtype, sizes=sizes)
        return self.emit("aten.squeeze.dim", [value, dim], dtype)

    def computed(self, func, args, named):
        """Emit the operation on what is loaded; return a reference to its value."""
        result = self.made.tensor
        if str(func) == "aten._to_copy.default":
            return self.converted(self.operand(args[0]), named.get("dtype") or result.dtype)
        self.tensors.function_check(func, self.made.where)
        with self.tensors.replay.mode:
            by_name = {a.name for a in func._schema.arguments if a.kwarg_only}
            kwargs = {key: value for key, value in named.items() if key in by_name}
            dtype = func(*args, **kwargs).dtype
        values = [self.operand(arg) for arg in args]
        given = {k: self.tensors.host_constant(v, func, self.made.where) for k, v in kwargs.items()}
        given = {k: v for k, v in given.items() if k not in ("device", "layout", "pin_memory")}
        return self.emit(str(func), values, dtype, given)

    def counted(self, func, args):
        """Emit what counts up from a number in steps of another; return a reference to it."""
        begin, step = (args[0] if len(args) > 1 else 0), (args[2] if len(args) > 2 else 1)
        last = begin + step * (self.shape[0] - 1)
        dtype = self.made.tensor.dtype
        most = INT32[1] if not dtype.is_floating_point else 1 << (7 if dtype.itemsize == 2 else 24)
        if not all(type(x) is int and abs(x) <= most for x in (begin, step, last)):
            raise ExportError(f"host code computes {func}: only ints of 32 bits", self.made.where)
        size = self.sizes[0]
        if isinstance(size, str):
            at = self.emit("tile.index", [{"sym": size}], torch.int32)
        else:
            call = {"start": 0, "step": 1, "dtype": {"dtype": "int32"}, "requires_grad": False}
            at = self.emit("prims.iota.default", [size], torch.int32, call)
        if step != 1:
            at = self.emit("aten.mul.Tensor", [at, step], torch.int32)
        if begin:
            at = self.emit("aten.add.Tensor", [at, begin], torch.int32)
        return at

    def operand(self, arg):
        """Return an argument as JSON: of a tensor, a load that broadcasts to the result's tile."""
        if not isinstance(arg, torch.Tensor):
            return self.tensors.host_constant(arg, "an operation", self.made.where)
        if not arg.dim():
            raise ExportError("host code computes of a tensor without dims", self.made.where)
        name = self.tensors.host_enter(arg, self.made.where)
        shape = self.tensors.entries[name]["shape"]
        lead = len(self.shape) - len(shape)
        one = [size == 1 and self.shape[lead + dim] != 1 for dim, size in enumerate(shape)]
        whole = {"slice": [None, None, None]}
        index = [whole if alone else self.index[lead + dim] for dim, alone in enumerate(one)]
        sizes = [1 if alone else self.sizes[lead + dim] for dim, alone in enumerate(one)]
        stored = torch.int32 if arg.dtype == torch.int64 else arg.dtype
        value = self.emit("tile.load", [self.host(name), index], stored, sizes=sizes)
        if ends := self.tensors.range_of(name):
            value = self.emit("aten.clamp.default", [value, *ends], stored, sizes=sizes)
        return self.converted(value, torch.int64, sizes) if arg.dtype == torch.int64 else value

    def converted(self, value, dtype, sizes=None):
        """Emit a value as another dtype."""
        args = [value, {"dtype": dtype_name(dtype)}]
        return self.emit("prims.convert_element_type.default", args, dtype, sizes=sizes)

    def host(self, name):
        """Emit a host tensor."""
        entry = self.tensors.entries[name]
        meta = {"dtype": entry["dtype"], "shape": entry["shape"]}
        return self.emit("tile.host_tensor", [name], meta=meta)

    def emit(self, target, args, dtype=None, kwargs=None, sizes=None, meta=None):
        """Append a node; return a reference to it."""
        name = f"{target.split('.')[1].strip('_')}_{len(self.nodes)}"
        node = {"name": name, "target": target, "args": args}
        if kwargs:
            node["kwargs"] = kwargs
        if dtype is not None:
            node["meta"] = {"dtype": dtype_name(dtype), "shape": sizes or self.sizes}
        if meta:
            node["meta"] = meta
        if self.loc:
            node["loc"] = self.loc
        self.nodes.append(node)
        return {"ref": name}
