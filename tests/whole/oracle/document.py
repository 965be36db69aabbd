"""A document of the graph format in the making: typed values, graphs, tensors and block ids."""

import dataclasses
import math

import optable

WHOLE = {"slice": [None, None, None]}


@dataclasses.dataclass(frozen=True)
class Value:
    """What a node gives: its name, dtype, and shape of ints and block symbols.

    `plain` is whether it is a load or a number, of which nothing is computed.
    """

    name: str
    dtype: str
    shape: tuple
    plain: bool = False

    @property
    def ref(self):
        """The argument that names it."""
        return {"ref": self.name}

    @property
    def meta(self):
        """Its `meta`."""
        return {"dtype": self.dtype, "shape": list(self.shape)}


def broadcast(*shapes):
    """The shape of operands together, or None where they do not broadcast."""
    rank = max(map(len, shapes))
    result = []
    for i in range(rank):
        sizes = {s[i - rank + len(s)] for s in shapes if i - rank + len(s) >= 0} - {1}
        if len(sizes) > 1:
            return None
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def sizes(shape):
    """A shape as an argument of a node."""
    return [{"sym": s} if isinstance(s, str) else s for s in shape]


class Writer:
    """The document: tensors, block ids and finished graphs."""

    def __init__(self):
        self.tensors, self.blocks, self.graphs, self.values = [], [], [], {}
        self.scalars = []

    def block(self, extent, role, **fields):
        """Adds a block id; gives its symbol. `role` says where a tile has it: see `drawing.py`."""
        number = len(self.blocks)
        self.blocks.append({"id": number, "symbol": f"u{number}", "name": f"t{number}"})
        self.blocks[-1] |= {"extent": extent, "role": role, **fields}
        return f"u{number}"

    def find(self, symbol):
        """The block of a symbol."""
        return self.blocks[int(symbol[1:])]

    def extents(self, shape):
        """The shape of an array that holds all tiles of `shape`."""
        return [self.find(s)["extent"] if isinstance(s, str) else s for s in shape]

    def tensor(self, role, dtype, shape, values=None, **fields):
        """Adds a tensor; gives its name. `values` is a key of values.KINDS."""
        letter = {"input": "x", "inout": "x", "output": "o", "view": "w"}[role]
        name = f"{letter}{len(self.tensors)}"
        entry = {"name": name, "role": role, "dtype": dtype, "shape": list(shape), **fields}
        self.tensors.append(entry)
        if values:
            self.values[name] = values
        return name

    def document(self, config):
        """The JSON object."""
        hidden = ("role",)
        blocks = [{k: v for k, v in b.items() if k not in hidden} for b in self.blocks]
        return {
            "format": "fxtile",
            "version": 1,
            "name": "drawn",
            "tensors": self.tensors,
            "scalars": self.scalars,
            "block_sizes": blocks,
            "graphs": self.graphs,
            "config": config,
        }


def call(target, args, kwargs=None):
    """The fields of a node that calls an op; what torch takes by name alone has its name."""
    args, named = optable.ops.op_rows()[target].by_name(args)
    kwargs = named | (kwargs or {})
    return {"target": target, "args": args} | ({"kwargs": kwargs} if kwargs else {})


class Scope:
    """A graph in the making.

    `symbols` are the blocks around it, outermost first; `points` those that are positions only;
    `stored` is what it has stored: (tensor, index, dtype, shape).
    """

    def __init__(self, writer, kind, blocks, parent=None, **fields):
        self.writer, self.nodes, self.pool, self.hosts, self.stored = writer, [], [], {}, []
        around = [*(parent.symbols + parent.points if parent else []), *blocks]
        self.points = [s for s in around if writer.find(s)["role"] == "point"]
        self.symbols = [s for s in around if s not in self.points]
        self.depth, self.is_root = parent.depth + 1 if parent else 0, parent is None
        self.graph = {"id": None, "kind": kind, **fields, "nodes": self.nodes}

    def add(self, name, **fields):
        self.nodes.append({"name": name, **fields})
        return name

    def node(self, target, args, dtype, shape, keep=True, **kwargs):
        """Adds a node with a tensor value; `keep` makes it an operand of later ones."""
        plain = target in ("tile.load", "tile.full")
        value = Value(f"n{len(self.nodes)}", dtype, tuple(shape), plain)
        self.add(value.name, **call(target, args, kwargs), meta=value.meta)
        if keep:
            self.pool.append(value)
        return value

    def number(self, target, args, expression=None):
        """Adds a node with a symbolic int; gives the reference to it."""
        name = f"n{len(self.nodes)}"
        return {"ref": self.add(name, target=target, args=args, meta={"sym": expression})}

    def begin(self, symbol):
        """The first position of a block's tile here."""
        return self.number("tile.begin", [symbol])

    def several(self, target, args, dtypes, shapes):
        """Adds a node that gives a tuple, and takes it apart; gives the first of its values."""
        dtypes = (dtypes,) * len(shapes) if isinstance(dtypes, str) else dtypes
        name = f"n{len(self.nodes)}"
        pairs = zip(dtypes, shapes, strict=True)
        metas = [{"dtype": dtype, "shape": list(shape)} for dtype, shape in pairs]
        self.add(name, **call(target, args), meta={"tuple": metas})
        items = [
            self.node("getitem", [{"ref": name}, i], meta["dtype"], meta["shape"])
            for i, meta in enumerate(metas)
        ]
        return items[0]

    def argument(self, value):
        """Adds a placeholder like `value`."""
        name = f"n{len(self.nodes)}"
        placeholder = Value(name, value.dtype, value.shape)
        self.add(name, op="placeholder", meta=value.meta)
        self.pool.append(placeholder)
        return placeholder

    def host(self, name):
        """The node of a host tensor."""
        if name not in self.hosts:
            entry = next(t for t in self.writer.tensors if t["name"] == name)
            meta = {"dtype": entry["dtype"], "shape": entry["shape"]}
            node = f"n{len(self.nodes)}"
            self.add(node, target="tile.host_tensor", args=[name], meta=meta)
            self.hosts[name] = {"ref": node}
        return self.hosts[name]

    def write(self, target, name, index, value, mask=()):
        """A store, maybe with a mask."""
        fields = {"target": target, "args": [self.host(name), index, value, *mask]}
        self.add(f"n{len(self.nodes)}", **fields)

    def finish(self, outputs=()):
        """Ends the graph and puts it into the document; gives its id."""
        values = [value.ref for value in outputs]
        self.add("output", op="output", args=[values])
        self.graph["id"] = len(self.writer.graphs)
        self.writer.graphs.append(self.graph)
        return self.graph["id"]


def count(shape):
    """The number of elements of an array shape."""
    return math.prod(shape)
