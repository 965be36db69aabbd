"""Writes the roots of a schedule as a document."""

from ..document_text import unique_name
from .errors import GradError
from .estimate import MATMULS
from .schedule import ACCUMULATED
from .shift import EXPONENTIALS, guarded
from .values import LINEAR_VIEWS, map_values, shifted_by, sizes, topological

_EVERYWHERE = ("tile.scalar", "aten.scalar_tensor.default", "tile.begin", "tile.id", "tile.end")


class Emitter:
    """Graphs of one backward document."""

    def __init__(self, program, schedule):
        self.program, self.schedule = program, schedule
        self.graphs, self.roots = [], 0
        self.scalars_used = set()

    def root(self, root):
        """Appends the graphs of one root."""
        grid = self.ordered(root.grid)
        scope = _Scope(self, root, None, root.grid)
        for target in root.targets:
            if not target.joins:
                scope.store(target)
        nodes = [*scope.nodes, {"name": "output", "op": "output", "args": [[]]}]
        self.append({"kind": "root", "grid": grid, "nodes": nodes})
        for target in root.targets:
            target.root = self.roots
        self.roots += 1

    def append(self, graph):
        """Adds a graph of the root that is being written; its blocks are symbols still."""
        self.graphs.append(graph | {"root": self.roots})
        return self.graphs[-1]

    def ordered(self, symbols):
        """Blocks as the forward has them: its grid's, then its loops', then those of groups."""
        order = [*self.program.grid, *self.program.order]
        order = [*(s for s in self.program.blocks if s not in order), *order]
        return [s for s in order if s in symbols]


def _first(value):
    """Exponentials to which other factors made by matmuls are multiplied.

    The compiler keeps to the order of the graph, and the vector unit takes its time for these
    while the other matmul runs.
    """
    if value.target != "aten.mul.Tensor":
        return []
    found = [x for x in value.inputs if x.target in EXPONENTIALS]
    rest = topological([x for x in value.inputs if x.target not in EXPONENTIALS])
    return found if any(x.target.startswith(MATMULS) for x in rest) else []


class _Scope:
    """The nodes of one graph: a root, or the body of a loop in it."""

    def __init__(self, emitter, root, parent, dims):
        self.emitter, self.root, self.parent, self.dims = emitter, root, parent, frozenset(dims)
        self.builder = emitter.program.builder
        self.nodes, self.env, self.names = [], {}, {"output"}
        self.captured = []  # (name in the body, reference in the parent), of bodies
        self.running = []  # maxima that stand for what they are in a step, in bodies
        self.loc = None  # the forward's line of what is being written

    # Names and nodes.

    def name(self, wanted):
        """A name that the graph does not have yet."""
        name = unique_name(wanted.strip("@") or "value", self.names)
        self.names.add(name)
        return name

    def node(self, wanted, target, args, meta=None, kwargs=None):
        """Appends a node; gives a reference to it."""
        name = self.name(wanted)
        node = {"name": name, "target": target, "args": args}
        if kwargs:
            node["kwargs"] = kwargs
        if meta is not None:
            node["meta"] = meta
        if self.loc is not None:
            node["loc"] = self.loc
        self.nodes.append(node)
        return {"ref": name}

    def host(self, name):
        """A reference to a host tensor."""
        key = ("host", name)
        if key not in self.env:
            entry = self.emitter.entry(name)
            meta = {"dtype": entry["dtype"], "shape": entry["shape"]}
            self.env[key] = self.node(name, "tile.host_tensor", [name], meta)
        return self.env[key]

    # Values.

    def value(self, value):
        """A reference to a value, made here or handed in."""
        if value.number not in self.env:
            outer, self.loc = self.loc, value.loc
            self.env[value.number] = self._made(value)
            self.loc = outer
        return self.env[value.number]

    def _made(self, value):
        if self.parent and value.space <= self.parent.dims and not self._local(value):
            return self._capture(value)
        kept = self.emitter.schedule.kept.get(value.number)
        if kept is not None and not self._own(kept):
            return self.load(kept.tensor, kept.index, value)
        if value.target in ACCUMULATED:
            return self._loop(value)
        if value.target == "@carry":
            raise GradError("depends on what a loop has carried so far", value.origin)
        if value.target == "tile.load":
            return self.load(value.args[0], value.args[1], value)
        if value.target == "tile.scalar":
            self.emitter.scalars_used.add(value.args[0])
        if value.target == "@item":
            return self._item(value)
        for exponential in _first(value):
            self.value(exponential)
        args = map_values(list(value.args), self.value)
        kwargs = map_values(value.kwargs, self.value)
        return self.node(value.name, value.target, args, _meta(value), kwargs)

    def _item(self, value):
        target, args, place, metas = value.args
        key = (target, *(part.number for part in value.inputs))
        if key not in self.env:
            meta = [{"dtype": dtype, "shape": shape} for dtype, shape in metas]
            args = map_values(args, self.value)
            self.env[key] = self.node("items", target, args, {"tuple": meta})
        return self.node(value.name, "getitem", [self.env[key], place], _meta(value))

    def _own(self, kept):
        return kept.level == self.root.level and kept.grid == self.root.grid and not self.parent

    def _local(self, value):
        """Whether a loop's body makes it again, since the compiler makes nothing of it there."""
        if value.target in _EVERYWHERE or value.target in LINEAR_VIEWS or value.dtype is None:
            return True
        if not value.is_float and all(x.target != "tile.load" for x in topological([value])):
            return True
        return any(shifted_by(value, own) for own in self.running)

    def _capture(self, value):
        outer = self.parent.value(value)
        name = self.name(value.name)
        self.captured.append((name, outer, _meta(value)))
        return {"ref": name}

    def load(self, tensor, index, value):
        """A load of a tile."""
        self.emitter.touch(tensor)
        entries = map_values(list(index), self.value)
        return self.node(value.name, "tile.load", [self.host(tensor), entries], _meta(value))

    # Stores.

    def store(self, target):
        """Stores a target's value."""
        self.emitter.touch(target.tensor)
        self.loc = target.value.loc
        if target.loops and not self.parent:
            dims = self.emitter.ordered(target.loops)
            body = _Scope(self.emitter, self.root, self, self.dims | set(dims))
            body.store(target)
            self._call(body, dims, [])
            return
        value = self.builder.convert(target.value, target.dtype)
        made = self.value(value)
        index = list(target.index)
        for symbol in reversed(target.parts):
            index.insert(
                0, self.builder.make("tile.id", [{"sym": symbol}], None, (), name="tile_id")
            )
        entries = map_values(index, self.value)
        args = [self.host(target.tensor), entries, made]
        if target.scatters:
            shape = {"dtype": target.dtype, "shape": list(target.value.shape)}
            self.node(f"add_{target.tensor}", "tile.atomic_add", args, shape)
        else:
            self.node(f"store_{target.tensor}", "tile.store", args)

    # Loops.

    def _loop(self, value):
        """Emits the loop that accumulates this value, with all others that it can."""
        members = self._members(value)
        dims = self.emitter.ordered(value.dims)
        body = _Scope(self.emitter, self.root, self, self.dims | set(dims))
        carried, finish = [], []
        for member in members:
            body.loc = member.loc
            _ACCUMULATE[member.target](self, body, member, carried, finish)
        if value.target == "@sum":
            self._add_beside(body, members)
        self._call(body, dims, carried)
        for job in finish:
            job()
        return self.env[value.number]

    def _add_beside(self, body, members):
        """Adds the tiles of gradients that join the loop of one of these sums."""
        for target in self.root.targets:
            hosts = [m for m in members if any(t.value is m for t in self.root.targets)]
            if target.joins and any(set(m.dims) == set(target.loops) for m in hosts):
                body.store(target)

    def _members(self, value):
        """The accumulated values of this root that one loop can compute with this one."""
        scope = self
        cone = {}
        for target in scope.root.targets:
            for part in self.emitter.cone(target, self.root):
                cone[part.number] = part
        depth = self.emitter.depth(value, self.root)
        return [
            part
            for number, part in sorted(cone.items())
            if part.target in ACCUMULATED
            and part.dims == value.dims
            and number not in self.env
            and part.space <= self.dims
            and self.emitter.depth(part, self.root) == depth
        ] or [value]

    def _call(self, body, dims, carried):
        """The loop's graph and its call; `carried` are [placeholder, start, step, meta, sink]."""
        emitter = self.emitter
        holders = [
            {"name": name, "op": "placeholder", "meta": meta}
            for name, meta in [
                *((c[0], c[3]) for c in carried),
                *((name, meta) for name, _, meta in body.captured),
            ]
        ]
        outputs = [{"ref": c[2]["ref"]} for c in carried]
        nodes = [*holders, *body.nodes, {"name": "output", "op": "output", "args": [outputs]}]
        graph = {
            "kind": "for_loop",
            "block_ids": list(dims),
            "carried": [[i, i] for i in range(len(carried))],
            "nodes": nodes,
        }
        graph = emitter.append(graph)
        begins, ends = zip(*(self._bounds(s) for s in dims), strict=True)
        starts = [c[1] for c in carried] + [outer for _, outer, _ in body.captured]
        metas = [c[3] for c in carried]
        args = [graph, list(begins), list(ends), starts]
        call = self.node("loop", "tile.for_loop", args, {"tuple": metas})
        for i, (name, start, _, meta, sink) in enumerate(carried):
            item = self.node(f"{name}_item", "getitem", [call, i], meta)
            sink(self.node(f"{name}_end", "tile.phi", [start, item], meta))

    def _bounds(self, symbol):
        """Begin and end of a loop over a block."""
        program = self.emitter.program
        extent = program.extent(symbol)
        group = next(
            (g for t in self.root.targets for s, g in t.groups.items() if s == symbol), None
        )
        if group:
            first = self.node("begin", "tile.begin", [{"sym": group[0]}], {"sym": None})
            begin = self.node("first", "mul", [first, group[1]], {"sym": None})
            return begin, self.node("last", "add", [begin, group[1]], {"sym": None})
        window = program.windows.get(symbol)
        if window and window.outer in self.dims:
            return self._moving(symbol, window.outer, window.behind, window.ahead)
        for inner, window in program.windows.items():
            if window.outer == symbol and inner in self.dims:
                return self._moving(symbol, inner, window.ahead, window.behind)
        return 0, extent

    def _moving(self, symbol, outer, behind, ahead):
        """A loop from `behind` lanes before the tile of a block to `ahead` after its end."""
        any_int, begin, end = {"sym": None}, 0, self.emitter.program.extent(symbol)
        if behind is not None:
            begin = self.node("begin", "tile.begin", [{"sym": outer}], any_int)
        if behind:
            begin = self.node("first", "add", [begin, -behind], any_int)
            begin = self.node("first", "sym_max", [begin, 0], any_int)
            begin = self.node("step", "floordiv", [begin, {"sym": symbol}], any_int)
            begin = self.node("first", "mul", [begin, {"sym": symbol}], any_int)
        if ahead is not None:
            extent, end = end, self.node("end", "tile.end", [{"sym": outer}], any_int)
        if ahead:
            end = self.node("last", "add", [end, ahead], any_int)
            end = self.node("last", "sym_min", [end, extent], any_int)
        return begin, end

    def zeros(self, meta, number=0.0):
        """A constant tile."""
        spelled = number if number != -float("inf") else {"float": "-inf"}
        return self.node(
            "start", "tile.full", [sizes(meta["shape"]), spelled, {"dtype": meta["dtype"]}], meta
        )


def _meta(value):
    if value.dtype is None:
        return {"sym": None}
    return {"dtype": value.dtype, "shape": list(value.shape)}


def _sum(scope, body, member, carried, finish):
    """acc + part; of a matmul, its own op with an accumulator."""
    meta, part = _meta(member), member.args[0]
    name = body.name("acc")
    start = scope.zeros(meta)
    fused = {"aten.mm": "aten.addmm.default", "aten.bmm": "aten.baddbmm.default"}.get(
        part.target.rpartition(".")[0]
    )
    kept = scope.emitter.schedule.kept.get(part.number)
    if fused and part.dtype == "float32" and kept is None:
        args = [{"ref": name}, *(body.value(x) for x in part.args[:2])]
        step = body.node("acc_next", fused, args, meta)
    else:
        step = body.node("acc_next", "aten.add.Tensor", [{"ref": name}, body.value(part)], meta)
    carried.append((name, start, step, meta, lambda ref: scope.env.__setitem__(member.number, ref)))


def _max(scope, body, member, carried, finish):
    meta, part = _meta(member), member.args[0]
    name = body.name("top")
    start = scope.zeros(meta, -float("inf"))
    step = body.node("top_next", "aten.maximum.default", [{"ref": name}, body.value(part)], meta)
    carried.append((name, start, step, meta, lambda ref: scope.env.__setitem__(member.number, ref)))


def _lse(scope, body, member, carried, finish):
    """The running maximum and the sum rescaled by it, and their logarithm at the end."""
    maximum, total = member.args
    meta, wide = _meta(member), _meta(total)
    builder = scope.builder
    exp = builder.bases[maximum.number]
    log = {"aten.exp.default": "aten.log.default", "aten.exp2.default": "aten.log2.default"}[exp]
    top, acc = body.name("top"), body.name("total")
    starts = scope.zeros(meta, -float("inf")), scope.zeros(wide)
    step = body.node(
        "top_next", "aten.maximum.default", [{"ref": top}, body.value(maximum.args[0])], meta
    )
    body.env[maximum.number] = step
    body.running.append(maximum)
    guard = next((x for x in topological([total.args[0]]) if guarded(x) is maximum), maximum)
    moved = body.node("moved", "aten.sub.Tensor", [{"ref": top}, body.value(guard)], meta)
    scale = body.node("scale", exp, [moved], meta)
    scaled = body.node("scaled", "aten.mul.Tensor", [{"ref": acc}, scale], wide)
    result = body.node("total_next", "aten.add.Tensor", [scaled, body.value(total.args[0])], wide)
    ends = {}
    carried.append((top, starts[0], step, meta, lambda ref: ends.__setitem__("top", ref)))
    carried.append((acc, starts[1], result, wide, lambda ref: ends.__setitem__("total", ref)))

    def job():
        logarithm = scope.node("log_total", log, [ends["total"]], wide)
        scope.env[member.number] = scope.node(
            "logsumexp", "aten.add.Tensor", [logarithm, ends["top"]], meta
        )

    finish.append(job)


_ACCUMULATE = {"@sum": _sum, "@max": _max, "@lse": _lse}
