"""Lifts a document to values: the inner loops become sums and maxima over their blocks."""

import math
from dataclasses import dataclass, field

from .errors import BRANCH, PAIR, RANGE, ROOTS, WRITTEN, GradError
from .inouts import split
from .rules_views import items
from .shift import guarded, rate
from .values import Builder, Value, depends, number_of, symbols_of, topological
from .windows import Window, bound

SAME = ("tile.new_var", "aten.clone.default", "aten.alias.default", "aten.contiguous.default")
QUERIES = {f"tile.{name}" for name in ("begin", "end", "id", "count", "index", "block_size")}
REFUSED = (
    "tile.if",
    "tile.while",
    "tile.associative_scan",
    "tile.reduce",
    "tile.rand",
    "tile.randint",
)
IGNORED = ("device", "layout", "pin_memory", "memory_format")


@dataclass
class Store:
    """What one store of the forward does."""

    tensor: str
    index: list
    value: Value
    origin: str
    loc: dict | None = None
    mask: Value | None = None  # lanes that it writes; None: all
    loops: tuple = ()  # blocks of the loops around it
    adds: bool = False  # to what is there


@dataclass
class Program:
    """A lifted document."""

    document: dict
    builder: Builder
    blocks: dict  # symbol -> block entry, a copy
    grid: list  # symbols
    source: dict  # the document as it was given
    inouts: list  # names of what it updates in place: of `x` the document has x_in and x_out
    stores: list = field(default_factory=list)
    order: list = field(default_factory=list)  # symbols of loops, as met
    windows: dict = field(default_factory=dict)  # loop symbol -> its Window beside a grid tile
    within: dict = field(default_factory=dict)  # loop symbol -> grid symbol whose tile it divides
    root_names: dict = field(default_factory=dict)  # number of a value -> node of the root
    tiles: dict = field(default_factory=dict)  # output -> the name by which its tiles are loaded

    def tensor(self, name):
        """The entry of a host tensor."""
        return next(t for t in self.document["tensors"] if t["name"] == name)

    def host(self, name):
        """The entry of a tensor as the document that was given names it."""
        return self.tensor(f"{name}_in" if name in self.inouts else name)

    def base(self, name):
        """The entry of the tensor that a view is of."""
        entry = self.tensor(name)
        while entry["role"] == "view":
            entry = self.tensor(entry["of"])
        return entry

    def views(self, name):
        """The entries of a view and the views that it is of."""
        entry, found = self.tensor(name), []
        while entry["role"] == "view":
            found.append(entry)
            entry = self.tensor(entry["of"])
        return found

    def sources(self, name):
        """The names of what a tensor is a view of or derived from, itself first."""
        entry = self.tensor(name)
        found = [name]
        while entry["role"] in ("view", "derived"):
            entry = self.tensor(entry["of"])
            found.append(entry["name"])
        return found

    def moving(self):
        """The blocks of loops whose range moves with a grid tile, and those of such tiles."""
        return {*self.windows, *(window.outer for window in self.windows.values())}

    def extent(self, symbol):
        """The end of a block's range: an int."""
        return self.blocks[symbol]["extent"]


def lift(document, path="graph"):
    """The Program of a document. Raises GradError, which names the node."""
    source, (document, inouts) = document, split(document, path)
    blocks = {b["symbol"]: dict(b) for b in document.get("block_sizes") or []}
    graphs = {g["id"]: g for g in document["graphs"]}
    roots = [g for g in document["graphs"] if g["kind"] == "root"]
    if len(roots) != 1:
        about = f"{path}: {len(roots)} roots; a forward of one root can be differentiated"
        raise GradError(about, hint=ROOTS)
    by_id = {b["id"]: symbol for symbol, b in blocks.items()}
    grid = [by_id[i] for i in roots[0].get("grid") or []]
    program = Program(document, Builder(set(blocks)), blocks, grid, source, inouts)
    for symbol in grid:
        if not isinstance(blocks[symbol].get("extent"), int) or blocks[symbol].get("begin"):
            raise GradError(f"{path}: grid block {symbol!r} has no fixed range from 0")
    program.builder.scalars.update(
        {
            s["name"]: s["value"]
            for s in document.get("scalars") or []
            if isinstance(s.get("value"), float)
        }
    )
    lifter = _Lifter(program, graphs, by_id, path)
    lifter.graph(roots[0], [])
    _without_outer_tiles(program, path)
    return program


@dataclass
class _Unread:
    """A result that nothing may read."""

    origin: str


class _Lifter:
    def __init__(self, program, graphs, by_id, path):
        self.program, self.graphs, self.by_id, self.path = program, graphs, by_id, path
        self.builder = program.builder
        self.loops = 0
        self.around = []  # blocks of the loops that are being read

    def origin(self, graph, position):
        node = graph["nodes"][position]
        at = self.program.document["graphs"].index(graph)
        loc = node.get("loc") or {}
        line = f", {loc['file']}:{loc.get('line')}" if loc.get("file") else ""
        return (
            f"{self.path}: /graphs/{at}/nodes/{position}: node {node['name']!r} "
            f"({node.get('target', node.get('op'))}){line}"
        )

    def graph(self, graph, args):
        """Evaluates the nodes; gives the outputs."""
        env, holders = {}, iter(args)
        for position, node in enumerate(graph["nodes"]):
            origin = self.origin(graph, position)
            kind = node.get("op", "call_function")
            if kind == "placeholder":
                env[node["name"]] = next(holders)
            elif kind == "output":
                return [self.argument(item, env) for item in (node.get("args") or [[]])[0]]
            else:
                self.builder.origin, self.builder.loc = origin, node.get("loc")
                env[node["name"]] = made = self.node(node, env, origin)
                if graph["kind"] == "root" and isinstance(made, Value):
                    self.program.root_names[made.number] = node["name"]
        return []

    def argument(self, raw, env):
        if isinstance(raw, dict) and "ref" in raw:
            if isinstance(env[raw["ref"]], _Unread):
                raise GradError(
                    "what was there before has no derivative here", env[raw["ref"]].origin
                )
            return env[raw["ref"]]
        if isinstance(raw, list):
            return [self.argument(item, env) for item in raw]
        if isinstance(raw, dict):
            return {key: self.argument(item, env) for key, item in raw.items()}
        return raw

    def node(self, node, env, origin):
        target = node["target"]
        args = self.argument(node.get("args") or [], env)
        kwargs = {k: v for k, v in (node.get("kwargs") or {}).items() if k not in IGNORED}
        kwargs = self.argument(kwargs, env)
        meta = node.get("meta") or {}
        if target == "tile.atomic_add":
            return self.added(args, meta, origin, node["name"])
        if target in REFUSED or target.startswith("tile.atomic"):
            branch = target in ("tile.if", "tile.while")
            raise GradError("has no derivative here", origin, BRANCH if branch else PAIR)
        if target == "tile.host_tensor":
            return {"host": args[0]}
        if target == "tile.symnode":
            return args[0] if isinstance(args[0], dict) else {"sym": args[0]}
        if target in ("sym_size", "aten.sym_size.int"):
            return self.size(args, meta)
        if target == "getitem":
            return args[0][args[1]]
        if target == "tile.phi":
            return args[1]
        if target in SAME:
            return args[0]
        if target == "tile.for_loop":
            return self.loop(args, meta, origin)
        if target == "tile.store":
            return self.store(args, origin)
        if target == "tile.load":
            args[0] = args[0]["host"]
            if args[0] in self.program.inouts:
                if any(store.tensor == f"{args[0]}_out" for store in self.program.stores):
                    raise GradError(f"reads {args[0]!r} after it is written", origin, WRITTEN)
                args[0] += "_in"
            if self.program.base(args[0])["role"] not in ("input", "derived"):
                raise GradError(f"reads {args[0]!r}, which the graph may write", origin, WRITTEN)
            mask = args.pop(2) if len(args) > 2 else None
            made = self.load(args, meta, origin, node["name"])
            if mask is None:
                return made
            zero = self.builder.full(made.shape, 0.0 if made.is_float else 0, made.dtype)
            return self.builder.where(mask, made, zero)
        if target in QUERIES and isinstance(args[0], str):
            args[0] = {"sym": args[0]}
        if "tuple" in meta:
            metas = [(m.get("dtype"), m.get("shape", ())) for m in meta["tuple"]]
            found = items(self.builder, target, args, kwargs, metas)
            if found is None:
                raise GradError("gives several values, and has no derivative here", origin)
            return found
        if "sym" in meta and isinstance(meta["sym"], (int, str)) and target not in QUERIES:
            return meta["sym"] if isinstance(meta["sym"], int) else {"sym": meta["sym"]}
        return self.builder.make(
            target,
            args,
            meta.get("dtype"),
            meta.get("shape", ()),
            kwargs,
            origin=origin,
            name=node["name"],
        )

    def load(self, args, meta, origin, name):
        turned = self.turned(args, meta, origin, name)
        if turned is not None:
            return turned
        return self.builder.make(
            "tile.load", args, meta["dtype"], meta["shape"], origin=origin, name=name
        )

    def turned(self, args, meta, origin, name):
        """A load of a permuted view as a load of what it is of, turned; None if it is of none."""
        entry = self.program.tensor(args[0])
        tiles = all(
            isinstance(i, dict) and ("slice" in i or i.get("sym") in self.program.blocks)
            for i in args[1]
        )
        if not entry.get("permute") or not tiles or len(meta["shape"]) != len(args[1]):
            return None
        order = list(entry["permute"])
        back = [order.index(d) for d in range(len(order))]
        index, shape = ([x[d] for d in back] for x in (args[1], meta["shape"]))
        plain = self.node(
            {
                "name": name,
                "target": "tile.load",
                "args": [{"ref": "t"}, index],
                "meta": meta | {"shape": shape},
            },
            {"t": {"host": entry["of"]}},
            origin,
        )
        return self.builder.permute(plain, order)

    def size(self, args, meta):
        size = meta.get("sym")
        if size is None:
            source = args[0]
            shape = (
                source.shape
                if isinstance(source, Value)
                else self.program.host(source["host"])["shape"]
            )
            size = shape[args[1]]
        return size if isinstance(size, int) else {"sym": size}

    def added(self, args, meta, origin, name):
        """An atomic addition; each lane's gradient is that of the place that it is added to."""
        tensor, index, value = args[0]["host"], args[1], args[2]
        if self.program.tensor(tensor)["role"] != "output":
            raise GradError(f"adds to {tensor!r}, which is no output", origin)
        if not isinstance(value, Value) or list(value.shape) != list(meta["shape"]):
            raise GradError("adds a value that is broadcast", origin)
        loc, loops = self.builder.loc, tuple(self.around)
        self.program.stores.append(Store(tensor, index, value, origin, loc, None, loops, True))
        return _Unread(origin)

    def store(self, args, origin):
        tensor, index, value = args[0]["host"], args[1], args[2]
        tensor += "_out" if tensor in self.program.inouts else ""
        mask = args[3] if len(args) > 3 else None
        if not isinstance(value, Value):
            value = self.builder.make(
                "aten.scalar_tensor.default",
                [value],
                "float32",
                (),
                {"dtype": {"dtype": "float32"}},
            )
        loc, loops = self.builder.loc, tuple(self.around)
        self.program.stores.append(Store(tensor, index, value, origin, loc, mask, loops))

    def loop(self, args, meta, origin):
        graph = self.graphs[args[0]]
        if graph.get("lengths") is not None:
            raise GradError("a jagged loop has no derivative here", origin, RANGE)
        symbols = [self.by_id[i] for i in graph["block_ids"]]
        for symbol, begin, end in zip(symbols, _bounds(args[1]), _bounds(args[2]), strict=True):
            self.range(symbol, begin, end, origin)
        actual = args[3] if len(args) > 3 else []
        carried = graph.get("carried") or []
        self.loops += 1
        inside = list(actual)
        for argument, _ in carried:
            start = actual[argument]
            inside[argument] = self.builder.make(
                "@carry", [self.loops, argument, start], start.dtype, start.shape, origin=origin
            )
        self.around += symbols
        outputs = self.graph(graph, inside)
        del self.around[-len(symbols) :]
        return _Carried(self, symbols, actual, inside, carried, outputs, origin).results()

    def range(self, symbol, begin, end, origin):
        program, block = self.program, self.program.blocks[symbol]
        if symbol not in program.order:
            program.order.append(symbol)
        outer = _query(end, "tile.end")
        window = self.window(begin, end, block.get("extent"))
        if outer and _query(begin, "tile.begin") == outer:
            program.within[symbol] = outer
            extent = program.extent(outer)
        elif window:
            program.windows[symbol] = window
            extent = block.get("extent") if isinstance(end, Value) else end
            extent = program.extent(window.outer) if extent is None else extent
        elif begin == 0 and isinstance(end, int):
            extent = end
        else:
            raise GradError("loop bounds that are computed have no derivative here", origin, RANGE)
        if block.get("extent") not in (None, extent) or block.get("begin"):
            raise GradError(f"block {symbol!r} has another range than this loop", origin)
        block["extent"] = extent

    def window(self, begin, end, extent):
        """The Window of a loop between these bounds; None if it is none."""
        first = bound(begin, "tile.begin")
        last = bound(end, "tile.end", extent if isinstance(extent, int) else math.inf)
        whole = (begin == 0 and first is None), (isinstance(end, int) and last is None)
        known = [found for found in (first, last) if found]
        if not known or not (first or whole[0]) or not (last or whole[1]):
            return None
        if len({symbol for symbol, _ in known}) > 1 or known[0][0] not in self.program.grid:
            return None
        return Window(known[0][0], -first[1] if first else None, last[1] if last else None)


def _bounds(values):
    return values if isinstance(values, list) else [values]


def _query(value, target):
    if isinstance(value, Value) and value.target == target:
        return value.args[0].get("sym")
    return None


class _Carried:
    """The results of one loop, recognised: sums, running maxima, sums rescaled by them."""

    def __init__(self, lifter, symbols, actual, inside, carried, outputs, origin):
        self.builder, self.symbols, self.actual = lifter.builder, tuple(symbols), actual
        self.inside, self.carried, self.outputs, self.origin = inside, carried, outputs, origin
        self.carries = [inside[argument] for argument, _ in carried]
        self.largest = {}  # number of a carry -> (what it becomes in a step, its @max)

    def results(self):
        found = {}
        for argument, output in self.carried:
            maximum = self.maximum(self.inside[argument], self.outputs[output])
            if maximum is not None:
                found[output] = maximum
        changes = {step.number: value for step, value in self.largest.values()}
        for argument, output in self.carried:
            if output not in found:
                start, result = self.inside[argument], self.outputs[output]
                found[output] = self.sum(start, self.actual[argument], result, changes)
        return [found.get(i) for i in range(len(self.outputs))]

    def free(self, value, allowed=()):
        """Whether a value is made of no carried one."""
        held = {c.number for c in self.carries} - {c.number for c in allowed}
        return not any(part.number in held for part in topological([value]))

    def maximum(self, carry, result):
        if result.target not in ("aten.maximum.default", "aten.max.other"):
            return None
        parts = [x for x in result.args if x is not carry]
        if len(parts) != 1 or not isinstance(parts[0], Value) or not self.free(parts[0]):
            return None
        if number_of(carry.args[2]) != -math.inf:
            raise GradError("a running maximum has to start from -inf", result.origin)
        self.each_tile(parts[0], result)
        value = self.builder.make(
            "@max",
            [parts[0]],
            result.dtype,
            result.shape,
            dims=self.symbols,
            origin=result.origin,
            name="top",
        )
        self.largest[carry.number] = (result, value)
        return value

    def each_tile(self, part, result):
        if not set(self.symbols) <= part.space or symbols_of(list(part.shape), set(self.symbols)):
            raise GradError(
                "what the loop accumulates does not depend on each of its tiles", result.origin
            )

    def sum(self, carry, start, result, changes):
        if result is carry:
            return start
        before, part = _split(self.builder, result, carry)
        while part is not None and before is not carry:  # of several parts, one after the other
            earlier, more = _split(self.builder, before, carry)
            if more is None:
                break
            before, part = earlier, self.builder.add(part, more)
        if part is None:
            raise GradError(
                "is carried by a loop and neither a sum nor a running maximum", result.origin
            )
        top = None
        if before is not carry:
            top = self.rescaled(before, carry)
            if top is None:
                raise GradError(
                    "is carried by a loop, which scales it by what is not "
                    "exp(old maximum - new maximum)",
                    before.origin or result.origin,
                )
        [part] = self.builder.substitute([part], changes)
        if not self.free(part):
            raise GradError("depends on what the loop has carried so far", result.origin)
        self.each_tile(part, result)
        self.check_rates(part, top, result)
        if number_of(start) != 0 and (top is not None or not isinstance(start, Value)):
            raise GradError("a sum that is rescaled has to start from 0", result.origin)
        total = self.builder.total(self.symbols, part, origin=result.origin, name=result.name)
        return total if number_of(start) == 0 else self.builder.add(start, total)

    def check_rates(self, part, top, result):
        for _, maximum in self.largest.values():
            found = rate(self.builder, part, maximum)
            expected = ("mul", -1.0) if maximum is top else ("mul", 0.0)
            if found is None or found[0] != "mul" or abs(found[1] - expected[1]) > 1e-6:
                raise GradError(
                    "does not follow the running maximum as its sum is scaled", result.origin
                )

    def rescaled(self, before, carry):
        """The @max of `carry * exp(old - new)`, or None. exp and exp2 are told apart by rates."""
        if before.target != "aten.mul.Tensor" or carry not in before.args:
            return None
        factor = next(x for x in before.args if x is not carry)
        while isinstance(factor, Value) and factor.target in (
            "tile.subscript",
            "aten.unsqueeze.default",
        ):
            factor = factor.args[0]
        if not isinstance(factor, Value) or factor.target not in (
            "aten.exp.default",
            "aten.exp2.default",
        ):
            return None
        difference = factor.args[0]
        if difference.target != "aten.sub.Tensor":
            return None
        old, new = difference.args
        for number, (step, maximum) in self.largest.items():
            if isinstance(old, Value) and old.number == number and step in (new, guarded(new)):
                self.builder.bases[maximum.number] = factor.target
                return maximum
        return None


def _split(builder, result, carry):
    """(what the carried value became, what is added) of a step of a sum; else (None, None)."""
    target, args = result.target, list(result.args)
    if target == "aten.add.Tensor" and not result.kwargs:
        for before, part in ((args[0], args[1]), (args[1], args[0])):
            if isinstance(before, Value) and isinstance(part, Value) and depends(before, carry):
                if part.shape != result.shape:
                    part = builder.expand(part, result.shape)
                return before, part
    if target in ("aten.addmm.default", "aten.baddbmm.default") and not result.kwargs:
        return args[0], builder.matmul(args[1], args[2], result.dtype)
    if target == "tile.dot" and len(args) > 2 and isinstance(args[2], Value):
        return args[2], builder.matmul(args[0], args[1], result.dtype)
    return None, None


def _without_outer_tiles(program, path):
    """Drops grid blocks whose tiles a loop divides, as if its block were the grid's."""
    for inner, outer in program.within.items():
        for store in program.stores:
            for part in [store.value, *topological([store.value])]:
                if outer in part.space or inner in program.windows:
                    raise GradError(
                        f"depends on the tile of {outer!r}, which a loop over {inner!r} divides",
                        part.origin,
                    )
            if symbols_of(store.index, {outer}):
                raise GradError(
                    f"stores by the tile of {outer!r}, which a loop divides", store.origin
                )
        program.grid = [inner if symbol == outer else symbol for symbol in program.grid]
        del program.blocks[outer]
        if inner in program.order:
            program.order.remove(inner)
