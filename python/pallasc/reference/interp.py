"""Execution of graphs: grids, calls, and the values of nodes."""

import itertools
from dataclasses import dataclass, field

import numpy as np

from . import access, structure, symbolic
from .document import Document
from .errors import GraphError
from .memory import HostTensor, Memory, literal_value, steps_apply
from .registry import lookup
from .tiles import Tile
from .values import cast, dtype_of, is_number, uninitialized

_IGNORED_KWARGS = ("device", "layout", "pin_memory", "memory_format")
_MISSING = object()
_UNEXPECTED = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RecursionError,
    MemoryError,
)
_TILE_QUERIES = ("begin", "end", "id", "count", "index", "block_size")


def run(graph, inputs, config=None, scalars=None, order="forward"):
    """Executes a document on numpy arrays.

    Args:
      graph: the document, a dict or the path of a JSON file.
      inputs: arrays of the parameters (roles input and inout) in order, with the declared dtypes
        (ml_dtypes for bfloat16, fp8 and int4), then the run-time scalars unless `scalars` has them.
        They are copied, never written.
      config: configuration keys over the document's own.
      scalars: the run-time scalars, as a list in order or a dict by name.
      order: "forward" or "reverse", the order in which grid points run.

    Returns a tuple of arrays, in the order of `returns`. Raises GraphError.

    """
    return Run(Document(graph, config), inputs, scalars, order).outputs()


class Run:
    """One execution. `touched`, if given, is a Memory of bools: the elements that were read.

    `memory`, if given, holds the tensors instead of one made from `inputs`.
    """

    def __init__(self, document, inputs, scalars=None, order="forward", touched=None, memory=None):
        if order not in ("forward", "reverse"):
            raise GraphError(f"order is 'forward' or 'reverse', not {order!r}")
        self.document, self.order, self.touched = document, order, touched
        inputs = list(inputs)
        count = len(document.parameters())
        self.scalars = _scalars(document, inputs[count:] if scalars is None else scalars)
        if memory is None:
            memory = Memory(document, inputs[:count] if scalars is None else inputs)
        self.memory = memory
        self.limits = {}

    def outputs(self):
        """Runs the roots in order and gives the returned arrays."""
        for graph in self.document.roots:
            self.root(graph)
        return tuple(self._returned(entry) for entry in self.document.returns)

    def _returned(self, entry):
        value = self.memory.find(entry["tensor"]).array
        value = steps_apply(value, entry.get("ops"), self.document)
        if entry.get("shape") is not None:
            value = value.reshape(self.document.shape(entry["shape"]))
        return np.array(value)

    def scalar(self, name):
        """The value of a host scalar, a Python number."""
        if name not in self.scalars:
            raise GraphError(f"there is no scalar {name!r}")
        return self.scalars[name]

    def root(self, graph, chosen=None):
        """Runs a root graph at every grid point; of the dims `chosen` ({symbol: tile}) at one."""
        blocks = [self.document.blocks_by_id[i] for i in graph.grid]
        ranges = [self.tiles(block, None, None) for block in blocks]
        for dim, block in enumerate(blocks):
            if chosen and block.symbol in chosen:
                ranges[dim] = [ranges[dim][chosen[block.symbol]]]
        points = list(itertools.product(*ranges))
        for point in points if self.order == "forward" else reversed(points):
            Frame(self, graph, {tile.symbol: tile for tile in point}).execute([])

    def tiles(self, block, begin, end, limit=None):
        """The tiles of a block id over [begin, end), by default its own range, cut to `limit`."""
        document = self.document
        begin = document.size(block.begin) if begin is None else begin
        if end is None and block.extent is None:
            raise GraphError(f"the range of {block.symbol!r} has no end")
        end = document.size(block.extent) if end is None else end
        if limit is not None:
            begin, end = max(begin, 0), min(end, limit)
        size = document.loop_size(block)
        return [Tile(block.symbol, at, size, begin, end) for at in range(begin, end, size)]

    def limit(self, graph, symbol):
        """The smallest dim that `graph`, or one it calls, indexes with the whole tile `symbol`."""
        key = (graph.id, symbol)
        if key not in self.limits:
            self.limits[key] = None
            found = list(symbolic.tile_dims(self.document, graph, symbol))
            self.limits[key] = min(found) if found else None
        return self.limits[key]

    def touch(self, name, at, mask, shape):
        """Records the elements that a load has read in its valid lanes."""
        lanes = np.broadcast_to(True if mask is None else mask, shape)
        self.touched.find(name).array[tuple(np.broadcast_to(p, shape)[lanes] for p in at)] = True


def _scalars(document, given):
    """The values of all host scalars by name, as Python numbers rounded to their dtypes."""
    runtime = [s["name"] for s in document.runtime_scalars()]
    if not isinstance(given, dict):
        given = list(given)
        if len(given) != len(runtime):
            raise GraphError(f"expected {len(runtime)} run-time scalars, got {len(given)}")
        given = dict(zip(runtime, given, strict=True))
    values = {}
    for name, scalar in document.scalars.items():
        if name in runtime and name not in given:
            raise GraphError(f"the run-time scalar {name!r} has no value")
        value = given[name] if name in runtime else literal_value(scalar["value"], document.size)
        dtype = dtype_of(scalar["dtype"])
        item = cast(np.asarray(value), dtype).astype(np.float64).item()
        values[name] = _number(item, dtype)
    return values


def _number(item, dtype):
    if dtype == np.dtype(bool):
        return bool(item)
    return int(item) if dtype.kind in "iu" or dtype.name == "int4" else item


@dataclass
class Frame:
    """One call of a graph: its values so far and the tiles around it."""

    run: Run
    graph: object
    tiles: dict
    elementwise: bool = False
    values: dict = field(default_factory=dict)

    def __post_init__(self):
        self.document = self.run.document
        self.sizes = {symbol: tile.size for symbol, tile in self.tiles.items()}

    def execute(self, args):
        """Runs the nodes on `args`; gives the list of outputs."""
        holders = [n for n in self.graph.nodes if n.op == "placeholder"]
        if len(holders) != len(args):
            raise GraphError(f"takes {len(holders)} arguments, got {len(args)}", self.graph.id)
        given = iter(args)
        for node in self.graph.nodes:
            try:
                if node.op == "output":
                    return self.resolve(node.args[0] if node.args else [])
                value = next(given) if node.op == "placeholder" else self.call(node)
                self.values[node.name] = self.conform(value, node.meta)
            except GraphError as error:
                if error.graph is not None:
                    raise
                raise GraphError(error.message, self.graph.id, node.name, node.target) from error
            except _UNEXPECTED as error:
                what = f"{type(error).__name__}: {error}"
                raise GraphError(what, self.graph.id, node.name, node.target) from error
        return []

    def size(self, size):
        """The value of a size here: block symbols in scope have their tile's size."""
        return self.document.size(size, self.sizes)

    def resolve(self, raw):
        """The run-time value of a JSON argument."""
        if isinstance(raw, list):
            return [self.resolve(item) for item in raw]
        if isinstance(raw, dict) and len(raw) == 1:
            if "ref" in raw:
                if raw["ref"] not in self.values:
                    raise GraphError(f"refers to {raw['ref']!r}, which has no value here")
                return self.values[raw["ref"]]
            if "slice" in raw:
                return slice(*self.resolve(raw["slice"]))
        return literal_value(raw, self.size)

    def raw(self, node, position, name, default=_MISSING):
        """The raw JSON of an argument, by position or keyword."""
        if position < len(node.args):
            return node.args[position]
        if name in node.kwargs:
            return node.kwargs[name]
        if default is _MISSING:
            raise GraphError(f"misses its argument {name!r}")
        return default

    def argument(self, node, position, name, default=_MISSING):
        """The run-time value of an argument, by position or keyword."""
        return self.resolve(self.raw(node, position, name, default))

    def meta(self, raw):
        """The `meta` of a raw {"ref": ...}, or None."""
        if isinstance(raw, dict) and "ref" in raw and raw["ref"] in self.graph.by_name:
            return self.graph.by_name[raw["ref"]].meta
        return None

    def value_shape(self, raw):
        """The `meta` shape of a raw argument: sizes as written; [] for numbers."""
        meta = self.meta(raw)
        return meta["shape"] if meta and "shape" in meta else []

    def labels(self, raw):
        """The block symbol (or None) of each dim of a raw argument."""
        return [self.document.block_symbol(size) for size in self.value_shape(raw)]

    def tile_symbol(self, raw):
        """The block symbol that a raw argument is (a name, {"sym"} or a ref to one), or None."""
        if isinstance(raw, dict) and "sym" in raw:
            return self.document.block_symbol(raw["sym"])
        meta = self.meta(raw)
        return self.document.block_symbol(meta["sym"]) if meta and "sym" in meta else None

    def call(self, node):
        """The value of a call_function node, before it is rounded to its `meta`."""
        target = node.target
        if target.startswith("tile.atomic_"):
            return access.atomic(self, node)
        if target in structure.TARGETS:
            return structure.TARGETS[target](self, node)
        if target.removeprefix("tile.") in _TILE_QUERIES:
            return self.tile_query(node)
        args = [self.resolve(arg) for arg in node.args]
        name = target.removeprefix("operator.").removeprefix("_operator.")
        if name in symbolic.OPERATORS:
            return symbolic.operate(name, args)
        function = lookup(target)
        if function is None:
            raise GraphError("unknown target")
        kept = {k: v for k, v in node.kwargs.items() if k not in _IGNORED_KWARGS}
        return function(*args, **{k: self.resolve(v) for k, v in kept.items()})

    def conform(self, value, meta):
        """`value` as `meta` says: rounded to its dtype, its shape checked."""
        if meta is None or isinstance(value, HostTensor):
            return value
        if "tuple" in meta:
            pairs = zip(value, meta["tuple"], strict=True)
            return tuple(self.conform(item, inner) for item, inner in pairs)
        if "sym" in meta:
            return symbolic.number(value)
        if is_number(value):
            return value
        if not isinstance(value, np.ndarray):
            value = np.asarray(value)
        shape = tuple(self.size(size) for size in meta["shape"])
        if value.shape != shape and not self.elementwise:
            raise GraphError(f"has the shape {list(value.shape)}, meta says {list(shape)}")
        return cast(value, dtype_of(meta["dtype"]))

    def tile_query(self, node):
        """tile.begin, end, id, count, index and block_size."""
        query = node.target.removeprefix("tile.")
        raw = self.raw(node, 0, "tile")
        symbol = self.document.block_symbol(raw) if isinstance(raw, str) else self.tile_symbol(raw)
        if symbol is None:
            raise GraphError(f"{raw!r} is no block symbol")
        if query == "block_size":
            return self.size(symbol)
        tile = self.tiles.get(symbol)
        if tile is None and self.document.blocks[symbol].reduction:
            size = self.size(symbol)
            tile = Tile(symbol, 0, size, 0, size)
        if tile is None:
            raise GraphError(f"no loop or grid around here runs over {symbol!r}")
        return tile.index().astype(np.int32) if query == "index" else tile.queries()[query]

    def invoke(self, graph, args, tiles=None, elementwise=False):
        """Calls another graph; gives its outputs."""
        tiles = self.tiles if tiles is None else tiles
        return Frame(self.run, graph, tiles, elementwise or self.elementwise).execute(args)

    def carry(self, graph, args, outputs):
        """`args` with the carried outputs put in their places."""
        args = list(args)
        for argument, output in graph.carried:
            args[argument] = outputs[output]
        return args

    def untouched(self, graph, args, meta):
        """The outputs of a loop that never ran: initial arguments, undefined if not carried."""
        carried = {output: argument for argument, output in graph.carried}
        outputs = []
        for number, inner in enumerate((meta or {}).get("tuple", [])):
            if number in carried:
                outputs.append(args[carried[number]])
            elif "shape" in inner:
                shape = [self.size(size) for size in inner["shape"]]
                outputs.append(uninitialized(shape, dtype_of(inner["dtype"])))
            else:
                outputs.append(0)
        return tuple(outputs)
