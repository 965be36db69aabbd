"""A loaded document: tensors, scalars, block ids and graphs, with the configuration resolved."""

import functools
import json
import os
from dataclasses import dataclass, field

from . import expr
from .errors import GraphError

ROLES = ("input", "output", "inout", "view", "derived")
KINDS = ("root", "for_loop", "reduction_loop", "if", "else", "while", "cond", "combine")
_DEFAULT_BLOCK_MAX = 128


@dataclass
class Block:
    """One block id. `begin`, `extent` and `given` (the graph's own `size`) are sizes or None.

    `size` is the configuration's choice: None if the graph gives it, or for a reduction that is not
    rolled.
    """

    id: int
    symbol: str
    name: str
    begin: object
    extent: object
    given: object
    reduction: bool
    size: int | None = None


@dataclass
class Node:
    """One node: `meta` is the JSON object or None; `args` and `kwargs` are raw JSON."""

    name: str
    op: str
    target: str | None
    args: list
    kwargs: dict
    meta: dict | None


@dataclass
class Graph:
    """One graph; `carried` maps an argument's number to the output that replaces it."""

    id: int
    kind: str
    grid: list
    block_ids: list
    carried: list
    lengths: int | None
    nodes: list
    by_name: dict = field(default_factory=dict)

    def reads(self, name):
        """Whether some node's argument is the value of the node `name`."""
        return name in self._read

    @functools.cached_property
    def _read(self):
        found, pending = set(), [[node.args, node.kwargs] for node in self.nodes]
        while pending:
            item = pending.pop()
            if isinstance(item, dict):
                found.add(item.get("ref") if len(item) == 1 else None)
                pending += item.values()
            elif isinstance(item, list):
                pending += item
        return found


def _need(holder, key, where):
    if not isinstance(holder, dict) or key not in holder:
        raise GraphError(f"{where} has no {key!r}")
    return holder[key]


def _unique(items, key, what):
    """A dict of `items` by `key`, refusing a key given twice."""
    found = {}
    for item in items:
        if key(item) in found:
            raise GraphError(f"{what} {key(item)!r} is defined twice")
        found[key(item)] = item
    return found


def document_read(source):
    """The JSON object of a document given as a dict or a path."""
    if isinstance(source, dict):
        return source
    with open(os.fspath(source), encoding="utf-8") as file:
        return json.load(file)


def resized(raw, sizes):
    """The JSON object of a document at other sizes, {name: int}; the others stay. GraphError."""
    known = raw.get("sizes") or {}
    for name, value in sizes.items():
        if name not in known:
            raise GraphError(
                f"there is no size {name!r}: its sizes are {', '.join(known) or 'none'}"
            )
        if isinstance(known[name], dict) and known[name].get("fixed") != value:
            raise GraphError(f"size {name!r} is fixed at {known[name].get('fixed')}, not {value}")
    return {**raw, "sizes": {**known, **sizes}} if sizes else raw


class Document:
    """A document under one configuration. Raises GraphError for what it cannot mean.

    Attributes: name, tensors and scalars (JSON objects by name), blocks (Block by symbol),
    blocks_by_id, graphs (Graph by id), roots, returns, config, sizes (int by name).
    """

    def __init__(self, source, config=None):
        raw = document_read(source)
        try:
            self._load(raw, config)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, GraphError):
                raise
            raise GraphError(f"malformed document: {type(error).__name__}: {error}") from error

    def _load(self, raw, config):
        if raw.get("format") != "fxtile" or raw.get("version") != 1:
            raise GraphError("not a document of format 'fxtile', version 1")
        self.raw, self.name = raw, raw.get("name", "")
        self.tensors = _unique(
            raw.get("tensors", []), lambda t: _need(t, "name", "tensor"), "tensor"
        )
        self.scalars = _unique(raw.get("scalars") or [], lambda s: s["name"], "scalar")
        self.sizes = {name: _named_size(name, v) for name, v in (raw.get("sizes") or {}).items()}
        self.config = {**self._in_force(raw.get("config")), **self._in_force(config)}
        self.tunables = self._tunables(raw.get("tunables") or {})
        self.blocks = self._blocks(raw.get("block_sizes") or [])
        self.blocks_by_id = {block.id: block for block in self.blocks.values()}
        self.graphs = _unique(map(_graph_read, raw.get("graphs", [])), lambda g: g.id, "graph")
        self.roots = [graph for graph in self.graphs.values() if graph.kind == "root"]
        self.returns = raw.get("returns") or [
            {"tensor": t["name"]}
            for t in raw.get("tensors", [])
            if t.get("role") in ("output", "inout")
        ]
        self._configure()

    def _in_force(self, config):
        """A configuration with the first of its entries `by_size` that holds over its keys."""
        config = dict(config or {})
        if "by_size" in self.raw.get("tunables", ()):
            return config
        for entry in config.pop("by_size", None) or []:
            if all(_is_in(self.sizes[name], span) for name, span in entry["when"].items()):
                return {**config, **entry["config"]}
        return config

    def _tunables(self, declared):
        return {name: self.config.get(name, spec["default"]) for name, spec in declared.items()}

    def _blocks(self, listed):
        blocks = [
            Block(
                id=_need(b, "id", "block size"),
                symbol=_need(b, "symbol", "block size"),
                name=b.get("name", b["symbol"]),
                begin=0 if b.get("begin", 0) is None else b.get("begin", 0),
                extent=b.get("extent"),
                given=b.get("size"),
                reduction=bool(b.get("reduction")),
            )
            for b in listed
        ]
        _unique(blocks, lambda b: b.id, "block id")
        return _unique(sorted(blocks, key=lambda b: b.id), lambda b: b.symbol, "symbol")

    def _configure(self):
        """Gives each block its size out of `block_sizes` and `reduction_loops`."""
        free = [b for b in self.blocks.values() if b.given is None and not b.reduction]
        rolled = [b for b in self.blocks.values() if b.reduction]
        self._deal(free, "block_sizes", self._default_size)
        self._deal(rolled, "reduction_loops", lambda block: None)

    def _deal(self, blocks, key, default):
        sizes = self.config.get(key)
        short = self.config.get(key.removesuffix("s"))
        if sizes is None and short is not None:
            each = len(blocks) if key == "reduction_loops" else 1
            sizes = short if isinstance(short, list) else [short] * each
        if sizes is None:
            sizes = [default(block) for block in blocks]
        if len(sizes) != len(blocks):
            raise GraphError(f"config {key!r} has {len(sizes)} entries for {len(blocks)} block ids")
        for block, size in zip(blocks, sizes, strict=True):
            if size is not None and (not isinstance(size, int) or size < 1):
                raise GraphError(f"config {key!r}: {size!r} is no block size for {block.symbol!r}")
            block.size = size

    def _default_size(self, block):
        if block.extent is None:
            return _DEFAULT_BLOCK_MAX
        extent = self.size(block.extent)
        return max(1, min(1 << max(extent - 1, 0).bit_length(), _DEFAULT_BLOCK_MAX))

    def name_value(self, name, sizes=None, pending=()):
        """The value of a size, block symbol or tunable.

        `sizes` (symbol -> int) overrides the blocks'.
        """
        if name in self.sizes:
            return self.sizes[name]
        if sizes and name in sizes:
            return sizes[name]
        if name in self.tunables:
            return self.tunables[name]
        if name not in self.blocks:
            raise GraphError(f"unknown symbol {name!r} in an expression")
        if name in pending:
            raise GraphError(f"the size of {name!r} depends on itself")
        block = self.blocks[name]
        pending = (*pending, name)
        if block.given is not None:
            return self.size(block.given, sizes, pending)
        if block.size is not None and not block.reduction:
            return block.size
        if block.extent is None:
            raise GraphError(f"block {name!r} has neither a size nor an extent")
        return self.size(block.extent, sizes, pending) - self.size(block.begin, sizes, pending)

    def size(self, size, sizes=None, pending=()):
        """The value of a size (int or expression) under this configuration."""
        return expr.evaluate(size, lambda name: self.name_value(name, sizes, pending))

    def shape(self, shape, sizes=None):
        """The values of a list of sizes."""
        return [self.size(s, sizes) for s in shape]

    def block_symbol(self, size):
        """The block symbol that the expression `size` is, or None if it is anything else."""
        name = expr.name_of(size)
        return name if name in self.blocks else None

    def loop_size(self, block):
        """The tile size of `block` in a loop over it."""
        if block.reduction and block.size is not None:
            return block.size
        return self.name_value(block.symbol)

    def parameters(self):
        """The tensors that are parameters of the function, in order."""
        return [t for t in self.tensors.values() if t["role"] in ("input", "inout")]

    def runtime_scalars(self):
        """The scalars that are run-time arguments, in order."""
        return [s for s in self.scalars.values() if s.get("value") is None]

    def graph(self, graph_id):
        """The Graph with this id."""
        if graph_id not in self.graphs:
            raise GraphError(f"there is no graph {graph_id!r}")
        return self.graphs[graph_id]


def _is_in(size, span):
    """Whether a size is an int, or in a range whose ends may be None."""
    if isinstance(span, int):
        return size == span
    low, high = span
    return (low is None or low <= size) and (high is None or size <= high)


def _named_size(name, value):
    """The int that a size is, or is fixed at."""
    value = value["fixed"] if isinstance(value, dict) else value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise GraphError(f"size {name!r} is {value!r}, no positive int")
    return value


def _graph_read(raw):
    """A Graph out of its JSON object."""
    graph = Graph(
        id=_need(raw, "id", "graph"),
        kind=_need(raw, "kind", "graph"),
        grid=raw.get("grid") or [],
        block_ids=raw.get("block_ids") or [],
        carried=raw.get("carried") or [],
        lengths=raw.get("lengths"),
        nodes=[_node_read(node, raw["id"]) for node in raw.get("nodes", [])],
    )
    if graph.kind not in KINDS:
        raise GraphError(f"unknown kind {graph.kind!r}", graph.id)
    graph.by_name = _unique(graph.nodes, lambda n: n.name, f"graph {graph.id}: node")
    return graph


def _node_read(raw, graph_id):
    op = raw.get("op", "call_function")
    name = _need(raw, "name", f"a node of graph {graph_id}")
    if op not in ("call_function", "placeholder", "output"):
        raise GraphError(f"unknown op {op!r}", graph_id, name)
    if op == "call_function" and "target" not in raw:
        raise GraphError("has no target", graph_id, name)
    return Node(
        name=name,
        op=op,
        target=raw.get("target"),
        args=raw.get("args") or [],
        kwargs=raw.get("kwargs") or {},
        meta=raw.get("meta"),
    )
