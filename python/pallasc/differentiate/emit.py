"""Writes the roots of a schedule as a document."""

from .errors import GradError
from .schedule import ACCUMULATED, count_of
from .values import map_values, sizes, topological

_EVERYWHERE = ("tile.scalar", "aten.scalar_tensor.default", "tile.begin", "tile.id", "tile.end")


class Emitter:
    """Graphs of one backward document."""

    def __init__(self, program, schedule):
        self.program, self.schedule = program, schedule
        self.graphs, self.used = [], set()
        self.tensors_used, self.scalars_used = [], []

    def root(self, root):
        """Appends the graphs of one root."""
        grid = self.ordered(root.grid)
        scope = _Scope(self, root, None, root.grid)
        for target in root.targets:
            scope.store(target)
        nodes = [*scope.nodes, {"name": "output", "op": "output", "args": [[]]}]
        ids = [self.block_id(s) for s in grid]
        self.graphs.append({"kind": "root", "grid": ids, "nodes": nodes})

    def ordered(self, symbols):
        """Blocks as the forward has them: its grid's, then its loops', then those of groups."""
        order = [*self.program.grid, *self.program.order]
        order = [*(s for s in self.program.blocks if s not in order), *order]
        return [s for s in order if s in symbols]

    def block_id(self, symbol):
        """The symbol, which `document` turns into an id."""
        self.used.add(symbol)
        return symbol


class _Scope:
    """The nodes of one graph: a root, or the body of a loop in it."""

    def __init__(self, emitter, root, parent, dims):
        self.emitter, self.root, self.parent, self.dims = emitter, root, parent, frozenset(dims)
        self.builder = emitter.program.builder
        self.nodes, self.env, self.names = [], {}, {"output"}
        self.captured = []  # (name in the body, reference in the parent), of bodies
        self.needed = None

    # Names and nodes.

    def name(self, wanted):
        """A name that the graph does not have yet."""
        wanted = wanted.strip("@") or "value"
        name, count = wanted, 0
        while name in self.names:
            count += 1
            name = f"{wanted}_{count}"
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
            self.env[value.number] = self._made(value)
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
            self.emitter.scalars_used.append(value.args[0])
        args = map_values(list(value.args), self.value)
        kwargs = map_values(value.kwargs, self.value)
        return self.node(value.name, value.target, args, _meta(value), kwargs)

    def _own(self, kept):
        return kept.level == self.root.level and kept.grid == self.root.grid and not self.parent

    def _local(self, value):
        return value.target in _EVERYWHERE or (value.dtype is None)

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
        value = self.builder.convert(target.value, target.dtype)
        made = self.value(value)
        index = list(target.index)
        for symbol in reversed(target.parts):
            index.insert(
                0, self.builder.make("tile.id", [{"sym": symbol}], None, (), name="tile_id")
            )
        entries = map_values(index, self.value)
        self.node(f"store_{target.tensor}", "tile.store", [self.host(target.tensor), entries, made])

    # Loops.

    def _loop(self, value):
        """Emits the loop that accumulates this value, with all others that it can."""
        members = self._members(value)
        dims = self.emitter.ordered(value.dims)
        body = _Scope(self.emitter, self.root, self, self.dims | set(dims))
        carried, finish = [], []
        for member in members:
            _ACCUMULATE[member.target](self, body, member, carried, finish)
        self._call(body, dims, carried)
        for job in finish:
            job()
        return self.env[value.number]

    def _members(self, value):
        """The accumulated values of this root that one loop can compute with this one."""
        scope = self
        cone = {}
        for target in scope.root.targets:
            for part in self.emitter.cone(target, self.root):
                cone[part.number] = part
        depth = self.emitter.depth(value)
        return [
            part
            for number, part in sorted(cone.items())
            if part.target in ACCUMULATED
            and part.dims == value.dims
            and number not in self.env
            and part.space <= self.dims
            and self.emitter.depth(part) == depth
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
            "block_ids": [emitter.block_id(s) for s in dims],
            "carried": [[i, i] for i in range(len(carried))],
            "nodes": nodes,
        }
        emitter.graphs.append(graph)
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
        outer = program.until.get(symbol)
        if outer in self.dims:
            return 0, self.node("end", "tile.end", [{"sym": outer}], {"sym": None})
        inner = next((s for s, o in program.until.items() if o == symbol), None)
        if inner in self.dims:
            return self.node("begin", "tile.begin", [{"sym": inner}], {"sym": None}), extent
        return 0, extent

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
    moved = body.node("moved", "aten.sub.Tensor", [{"ref": top}, step], meta)
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


def document_write(program, schedule, header):
    """The document: `header` has format, name and annotations; tensors are those that are used."""
    emitter = _Document(program, schedule, header)
    for root in schedule.roots():
        emitter.root(root)
    return emitter.finished()


class _Document(Emitter):
    def __init__(self, program, schedule, header):
        super().__init__(program, schedule)
        self.header = header
        self.tensors = {t["name"]: t for t in header["tensors"]}
        for target in schedule.kept.values():
            self.tensors[target.tensor] = {
                "name": target.tensor,
                "role": "output",
                "dtype": target.dtype,
                "shape": schedule.shape(target),
            }
        for target in schedule.targets:
            if target.parts:
                self._partial(target)
        self.touched, self._depths, self._cones = set(), {}, {}

    def _partial(self, target):
        entry = self.tensors[target.tensor]
        lead = [count_of(s, self.program.extent(s)) for s in target.parts]
        entry["shape"] = [*lead, *entry["shape"]]
        entry["dtype"] = "float32"
        wanted, target.dtype = target.dtype, "float32"
        steps = [["aten.sum.dim_IntList", list(range(len(lead)))]]
        if wanted != "float32":
            steps.append(["prims.convert_element_type.default", {"dtype": wanted}])
        ret = next(r for r in self.header["returns"] if r["tensor"] == target.tensor)
        ret["ops"] = steps

    def entry(self, name):
        """A host tensor of the backward."""
        return self.tensors[name]

    def touch(self, name):
        """Notes that a tensor is used, and what it is a view of."""
        while name is not None:
            self.touched.add(name)
            name = self.tensors[name].get("of")

    def depth(self, value):
        """How many loops one after the other a value needs."""
        kept = self.schedule.kept
        for part in topological([value]):
            if part.number not in self._depths:
                deeper = part.target in ACCUMULATED
                own = max((self._depths[x.number] for x in part.inputs), default=0)
                self._depths[part.number] = 0 if part.number in kept else own + deeper
        return self._depths[value.number]

    def cone(self, target, root):
        """The values of a target that are computed in its root: not those loaded."""
        key = (id(target), root.level)
        if key not in self._cones:
            found, stack = {}, [target.value]
            while stack:
                value = stack.pop()
                kept = self.schedule.kept.get(value.number)
                elsewhere = kept is not None and not (
                    kept.level == root.level and kept.grid == root.grid
                )
                if value.number not in found and not elsewhere:
                    found[value.number] = value
                    stack.extend(x for x in value.inputs if value.target != "@lse")
                    if value.target == "@lse":
                        stack.extend(x for part in value.args for x in part.args[0].inputs)
            self._cones[key] = list(found.values())
        return self._cones[key]

    def finished(self):
        """The whole document."""
        program, header = self.program, self.header
        returned = {r["tensor"] for r in header["returns"]}
        for name in returned:
            self.touch(name)
        tensors = [t for t in self.tensors.values() if t["name"] in self.touched]
        named = {s for t in tensors for s in _words(t["shape"])} | self.used
        for graph in self.graphs:
            for node in graph["nodes"]:
                named |= _words(node.get("args")) | _words(node.get("meta"))
        blocks = [
            dict(b)
            for s, b in program.blocks.items()
            if s in self.used or s in named or b.get("reduction")
        ]
        scalars = [s for s in header["scalars"] if s["name"] in self.scalars_used]
        ids = {b["symbol"]: i for i, b in enumerate(blocks)}
        for i, b in enumerate(blocks):
            b["id"] = i
        for i, graph in enumerate(self.graphs):
            graph["id"] = i
        return {
            "format": "fxtile",
            "version": 1,
            "name": header["name"],
            "tensors": tensors,
            **({"scalars": scalars} if scalars else {}),
            "returns": header["returns"],
            "block_sizes": blocks,
            **({"tunables": header["tunables"]} if header.get("tunables") else {}),
            "graphs": [_graph(graph, ids) for graph in self.graphs],
            **({"config": header["config"]} if header.get("config") else {}),
        }


def _words(argument):
    """The identifiers of sizes inside an argument."""
    import re

    if isinstance(argument, str):
        return set(re.findall(r"[A-Za-z_]\w*", argument))
    if isinstance(argument, (list, tuple)):
        return {w for x in argument for w in _words(x)}
    if isinstance(argument, dict):
        return {
            w
            for x in argument.values()
            for w in _words(x)
            if not isinstance(x, dict) or "nodes" not in x
        }
    return set()


def _graph(graph, ids):
    """A graph with ids in place of symbols and graphs."""
    found = {"id": graph["id"], "kind": graph["kind"]}
    for key in ("grid", "block_ids"):
        if key in graph:
            found[key] = [ids[s] for s in graph[key]]
    if "carried" in graph:
        found["carried"] = graph["carried"]
    found["nodes"] = [
        {
            **node,
            "args": [x["id"] if isinstance(x, dict) and "nodes" in x else x for x in node["args"]],
        }
        if node.get("target") == "tile.for_loop"
        else node
        for node in graph["nodes"]
    ]
    return found
