"""Puts the roots of a schedule together: tensors, blocks, graphs."""

import re

from .emit import Emitter
from .schedule import ACCUMULATED, count_of
from .values import Value, topological

_NAME = re.compile(r"[A-Za-z_]\w*")


def document_write(program, schedule, header):
    """The document. `header` has its name, tensors, scalars and returns; it keeps those used."""
    document = _Document(program, schedule, header)
    for root in schedule.roots():
        document.root(root)
    return document.finished()


def sum_of_parts(lead, dtype):
    """The steps that sum the parts of a gradient, which lie along its `lead` first dims."""
    steps = [["aten.sum.dim_IntList", list(range(lead))]]
    if dtype != "float32":
        steps.append(["prims.convert_element_type.default", {"dtype": dtype}])
    return steps


class _Document(Emitter):
    """The tensors and blocks of a backward around its graphs."""

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
            if target.joins:
                self._added(target)
        self.touched, self._depths, self._cones = set(), {}, {}

    def _partial(self, target):
        entry = self.tensors[target.tensor]
        lead = [count_of(s, self.program.extent(s)) for s in target.parts]
        entry["shape"] = [*lead, *entry["shape"]]
        entry["dtype"] = "float32"
        wanted, target.dtype = target.dtype, "float32"
        ret = next(r for r in self.header["returns"] if r["tensor"] == target.tensor)
        ret["ops"] = sum_of_parts(len(lead), wanted)

    def _added(self, target):
        """An output that tiles are added to, from zeros, in float32."""
        wanted, target.dtype, name = target.dtype, "float32", target.tensor
        while name is not None:
            entry = self.tensors[name]
            entry["dtype"], name = "float32", entry.get("of")
        entry["init"] = 0
        ret = next(r for r in self.header["returns"] if r["tensor"] == entry["name"])
        if wanted != "float32":
            ret["ops"] = [["prims.convert_element_type.default", {"dtype": wanted}]]

    def entry(self, name):
        """A host tensor of the backward."""
        return self.tensors[name]

    def touch(self, name):
        """Notes that a tensor is used, and what it is a view of."""
        while name is not None:
            self.touched.add(name)
            name = self.tensors[name].get("of")

    def depth(self, value, root):
        """How many loops one after the other a value needs in a root."""
        depths = self._depths.setdefault((root.level, root.grid), {})
        for part in topological([value]):
            if part.number not in depths:
                deeper = part.target in ACCUMULATED
                own = max((depths[x.number] for x in part.inputs), default=0)
                depths[part.number] = 0 if self._elsewhere(part, root) else own + deeper
        return depths[value.number]

    def _elsewhere(self, value, root):
        """Whether another root computes a value, and this one loads it."""
        kept = self.schedule.kept.get(value.number)
        return kept is not None and not (kept.level == root.level and kept.grid == root.grid)

    def cone(self, target, root):
        """The values of a target that are computed in its root: not those loaded."""
        key = (id(target), root.level)
        if key not in self._cones:
            found, stack = {}, [target.value]
            while stack:
                value = stack.pop()
                if value.number not in found and not self._elsewhere(value, root):
                    found[value.number] = value
                    stack.extend(x for x in value.inputs if value.target != "@lse")
                    if value.target == "@lse":
                        stack.extend(x for part in value.args for x in part.args[0].inputs)
            self._cones[key] = list(found.values())
        return self._cones[key]

    def finished(self):
        """The whole document."""
        header = self.header
        for entry in header["returns"]:
            self.touch(entry["tensor"])
        blocks = self._blocks_by_root()
        for number, block in enumerate(blocks):
            block["id"] = number
        ids = {block["symbol"]: block["id"] for block in blocks}
        for number, graph in enumerate(self.graphs):
            graph["id"] = number
        document = {
            "format": "fxtile",
            "version": 1,
            "name": header["name"],
            "tensors": [t for t in self.tensors.values() if t["name"] in self.touched],
            "scalars": [s for s in header["scalars"] if s["name"] in self.scalars_used],
            "returns": header["returns"],
            "block_sizes": blocks,
            "tunables": header["tunables"],
            "graphs": [_graph(graph, ids) for graph in self.graphs],
            "config": header["config"],
        }
        return {key: value for key, value in document.items() if value or key == "graphs"}

    def _blocks_by_root(self):
        """The blocks that are used. Each root has its own, so that each may have its own sizes."""
        program, blocks, seen = self.program, [], set()
        for number in range(self.roots):
            graphs = [graph for graph in self.graphs if graph["root"] == number]
            names = {}
            for symbol, entry in program.blocks.items():
                if not _uses(graphs, symbol):
                    continue
                own = f"{symbol}_{number}" if symbol in seen and self._free(symbol) else symbol
                if symbol not in seen or own != symbol:
                    blocks.append(entry | {"symbol": own})
                seen.add(symbol)
                names[symbol] = own
            _rename(graphs, names)
            for target in self.schedule.targets:
                if target.parts and target.root == number:
                    entry = self.tensors[target.tensor]
                    entry["shape"] = [_renamed(size, names) for size in entry["shape"]]
        rows = [dict(b) for s, b in program.blocks.items() if b.get("reduction") and s not in seen]
        return blocks + rows

    def _free(self, symbol):
        """Whether nothing but the root's own tiles hang on the size of a block."""
        block = self.program.blocks[symbol]
        fixed = block.get("size") is not None or block.get("reduction")
        kept = self.schedule.kept.values()
        by_tile = {e.args[0]["sym"] for t in kept for e in t.index if isinstance(e, Value)}
        return not fixed and symbol not in by_tile


def _uses(graphs, symbol):
    """Whether graphs of one root name a block."""
    found = []
    ids = {s for g in graphs for s in (*g.get("grid", ()), *g.get("block_ids", ()))}
    for graph in graphs:
        for node in graph["nodes"]:
            _resized(_sized(node), found.append)
    return symbol in ids or any(symbol in _NAME.findall(text) for text in found)


def _sized(node):
    """What of a node may name blocks; a loop's graph is no part of it."""
    args = [x for x in node.get("args", ()) if not (isinstance(x, dict) and "nodes" in x)]
    return {"args": args, "kwargs": node.get("kwargs", {}), "meta": node.get("meta", {})}


def _resized(item, change):
    """The item with `change` of each expression of sizes in it."""
    if isinstance(item, (list, tuple)):
        return [_resized(x, change) for x in item]
    if not isinstance(item, dict) or "nodes" in item:
        return item
    found = {}
    for key, value in item.items():
        if key == "sym" and isinstance(value, str):
            found[key] = change(value)
        elif key == "shape":
            found[key] = [change(x) if isinstance(x, str) else x for x in value]
        else:
            found[key] = _resized(value, change)
    return found


def _renamed(size, names):
    """A size with blocks renamed."""
    if not isinstance(size, str):
        return size
    return _NAME.sub(lambda match: names.get(match[0], match[0]), size)


def _rename(graphs, names):
    """Renames the blocks of one root's graphs."""
    for graph in graphs:
        for key in ("grid", "block_ids"):
            if key in graph:
                graph[key] = [names[symbol] for symbol in graph[key]]
        for node in graph["nodes"]:
            for key in ("args", "kwargs", "meta"):
                if key in node:
                    node[key] = _resized(node[key], lambda size: _renamed(size, names))


def _graph(graph, ids):
    """A graph with ids in place of symbols and graphs."""
    found = {"id": graph["id"], "kind": graph["kind"]}
    for key in ("grid", "block_ids"):
        if key in graph:
            found[key] = [ids[symbol] for symbol in graph[key]]
    if graph.get("carried"):
        found["carried"] = graph["carried"]
    found["nodes"] = [_node(node) for node in graph["nodes"]]
    return found


def _node(node):
    """A node; a loop's graph is its id."""
    if node.get("target") != "tile.for_loop":
        return node
    graph, *rest = node["args"]
    return node | {"args": [graph["id"], *rest]}
