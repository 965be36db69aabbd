"""Whether a size may be padded: results in its first places must not hang on the places after.

`padding_unproven` proves it for one size S of a document, or says what stands in the way. The proof
is by lanes. Blocks that tile 0 to S, or to a multiple of S, have lanes of S. Each value that is
computed keeps lane s of what it is made of in lane s, and each store keeps it in place s: so places
from S on reach no place before. Whatever else reads S, its lanes together, or a place of its own is
not proven.
"""

from .reference import expr, ops_pointwise
from .reference.registry import lookup

# Reductions: of several dims, or of one, whose result lacks them or has 1 for them.
_REDUCTIONS = (
    *("sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "any", "all", "logsumexp"),
    *("var", "std", "var_mean", "count_nonzero", "aminmax"),
)
_REDUCTIONS_OF_DIM = ("aten.max.dim", "aten.min.dim", "aten.linalg_vector_norm.default")
_MATMULS = ("mm", "bmm", "matmul", "mv", "addmm", "baddbmm", "_int_mm")
# Views that keep each dim that they do not make or drop whole.
_VIEWS = ("permute", "transpose", "t", "mT", "unsqueeze", "squeeze", "expand", "broadcast_to")
_KEPT = ("getitem", "tile.new_var", "tile.phi", "tile.mask_to", "tile.pre_broadcast_tile")
_CREATIONS = ("tile.full", "aten.full.default", "aten.zeros.default", "aten.ones.default")
_LIKE = ("aten.full_like.default", "aten.zeros_like.default", "aten.ones_like.default")
_QUERIES = ("tile.begin", "tile.end", "tile.id", "tile.count", "tile.block_size")
_ARGS = ("args", "kwargs")


class _UnprovenError(Exception):
    """What stands in the way, for people."""


def padding_unproven(document, size):
    """None if padding the named size cannot change results; else what may let it, a text."""
    try:
        _Proof(document, size).run()
    except _UnprovenError as reason:
        return str(reason)
    except (LookupError, TypeError, ValueError, AttributeError):
        return "the document is written in a way that the proof does not follow"
    return None


def _whole(entry):
    return entry == {"slice": [None, None, None]}


class _Proof:
    """The proof for one size of a document."""

    def __init__(self, document, size):
        self.size, self.document = size, document
        self.tensors = {tensor["name"]: tensor for tensor in document["tensors"]}
        self.symbols = {}  # of blocks that tile 0 to a multiple of the size -> their names
        self.multiples = {}  # of these symbols -> the multiple
        self.whole = set()  # symbols of blocks that are all of it
        self.graphs = {graph["id"]: graph for graph in document["graphs"]}

    def run(self):
        for block in self.document["block_sizes"]:
            self.block_check(block)
        for tensor in self.document["tensors"]:
            self.tensor_check(tensor)
        for entry in self.document.get("returns") or ():
            self.return_check(entry)
        for graph in self.document["graphs"]:
            if graph["kind"] == "root":
                self.graph_check(graph, self.own(graph.get("grid", ())))

    # ---- sizes in shapes

    def mentions(self, value):
        """Whether an expression reads the size."""
        return isinstance(value, str) and self.size in expr.names(value)

    def multiple(self, value):
        """What the size is multiplied by in a dim: _product of it; None if it is not in it."""
        if not self.mentions(value):
            return None
        number, names = _product([value])
        if names.count(self.size) != 1 or any(not name.isidentifier() for name in names):
            raise _UnprovenError(f"{value} is computed from it")
        names.remove(self.size)
        return number, names

    def places(self, shape):
        """[(dim, multiple)] of the dims of a shape that are multiples of the size."""
        found = [(at, self.multiple(dim)) for at, dim in enumerate(shape)]
        return [(at, multiple) for at, multiple in found if multiple is not None]

    def block_check(self, block):
        name = block.get("name", block["symbol"])
        multiple = self.multiple(block.get("extent"))
        if self.mentions(block.get("begin")) or (multiple and block.get("begin") not in (0, None)):
            raise _UnprovenError(f"the range of {name} is a part of it")
        if multiple and block.get("reduction"):
            self.whole.add(block["symbol"])
        elif multiple:
            self.symbols[block["symbol"]] = name
            self.multiples[block["symbol"]] = multiple
        if self.mentions(block.get("size")):
            raise _UnprovenError(f"the block size of {name} is computed from it")

    def tensor_check(self, tensor):
        name, shape = tensor["name"], tensor["shape"]
        found = self.places(shape)
        if tensor["role"] not in ("view", "derived"):
            return
        base = self.tensors[tensor["of"]]["shape"]
        of = self.places(base)
        if not found and not of:
            return
        if tensor["role"] == "derived" or len(found) != len(of):
            raise _UnprovenError(f"{name} is made of parts of {tensor['of']}, or computed")
        if "permute" in tensor or "expand" in tensor:
            return
        if "slice" in tensor:
            for at, multiple in of:
                start, stop, step = tensor["slice"][at]
                all_of_it = stop is None or self.multiple(stop) == multiple
                if start or step not in (1, None) or not all_of_it:
                    raise _UnprovenError(f"{name} is a part of {tensor['of']}")
            return
        self.reshape_check(name, shape, base)

    def return_check(self, entry):
        name = entry["tensor"]
        base = self.tensors[name]["shape"]
        shape = entry.get("shape", base)
        if entry.get("ops") and (self.places(base) or self.places(shape)):
            raise _UnprovenError(f"what is returned of {name} is computed after the kernel")
        self.reshape_check(name, shape, base)

    def reshape_check(self, name, shape, base):
        """Of a reshape all that is after each index of the size stays as long."""
        if shape == base:
            return
        after = [
            [_product([*multiple[1], multiple[0], *s[at + 1 :]]) for at, multiple in self.places(s)]
            for s in (shape, base)
        ]
        if after[0] != after[1]:
            raise _UnprovenError(f"the elements of {name} are in other dims than {base}")

    # ---- graphs

    def own(self, block_ids):
        """Symbols of those blocks that tile the size."""
        blocks = {block["id"]: block["symbol"] for block in self.document["block_sizes"]}
        return {blocks[block] for block in block_ids} & set(self.symbols)

    def graph_check(self, graph, scope):
        symbols = {
            node["name"]: {"sym": node["meta"]["sym"]}
            for node in graph["nodes"]
            if (node.get("meta") or {}).get("sym") is not None
        }
        nodes = {
            node["name"]: {**node, **_by_symbol({k: node[k] for k in _ARGS if k in node}, symbols)}
            for node in graph["nodes"]
        }
        for node in nodes.values():
            lanes = self.lanes(node.get("meta"), node)
            if node.get("op") not in ("placeholder", "output"):
                self.node_check(node, nodes, scope, lanes)

    def lanes(self, meta, node):
        """The symbols that a value has lanes of; each in one dim, which is just that."""
        if node.get("target") == "tile.host_tensor":
            return set()
        found = set()
        for entry in (meta or {}).get("tuple", [meta or {}]):
            if isinstance(entry, dict) and "tuple" in entry:
                found |= self.lanes(entry, node)
                continue
            dims = [dim for dim in (entry or {}).get("shape", ()) if isinstance(dim, str)]
            for dim in dims:
                if expr.names(dim) & {self.size, *self.whole}:
                    self.stop(node, "all of it is one dim of the value")
                if expr.names(dim) & set(self.symbols) and dim not in self.symbols:
                    self.stop(node, f"its lanes are in a dim of {dim}")
            if len(set(dims) & set(self.symbols)) != sum(dim in self.symbols for dim in dims):
                self.stop(node, "two dims are the same tile")
            found |= set(dims) & set(self.symbols)
        return found

    def stop(self, node, why):
        """Raise what stands in the way, with the place in the kernel's source."""
        loc = node.get("loc") or {}
        place = f" ({loc['file']}:{loc['line']})" if "file" in loc and "line" in loc else ""
        raise _UnprovenError(f"'{node['name']}'{place}: {why}")

    def read(self, value, nodes):
        """Symbols that the values an argument refers to have lanes of."""
        if isinstance(value, dict):
            if "ref" in value:
                node = nodes[value["ref"]]
                return self.lanes(node.get("meta"), node)
            return set().union(*(self.read(entry, nodes) for entry in value.values()))
        if isinstance(value, list):
            return set().union(*(self.read(entry, nodes) for entry in value))
        return set()

    def sized(self, value):
        """Whether an argument is computed from the size, or from a size of its blocks."""
        if isinstance(value, dict) and "sym" in value:
            text = value["sym"]
            names = expr.names(text) if isinstance(text, str) else set()
            return bool(names & {self.size, *self.symbols, *self.whole})
        if isinstance(value, dict):
            return any(self.sized(entry) for entry in value.values())
        return isinstance(value, list) and any(self.sized(entry) for entry in value)

    def node_check(self, node, nodes, scope, lanes):
        target, args = node["target"], [*node.get("args", ()), *node.get("kwargs", {}).values()]
        if target in ("tile.host_tensor", "tile.scalar", "tile.symnode"):
            return None
        if target == "tile.load":
            return self.load_check(node, nodes)
        if target.startswith(("tile.store", "tile.atomic")):
            return self.store_check(node, nodes, scope)
        if target == "tile.for_loop":
            return self.loop_check(node, nodes, scope)
        if target in ("tile.if", "tile.while"):
            return self.call_check(node, nodes, scope)
        if target == "sym_size":
            if node["meta"]["sym"] is None:
                self.stop(node, "it is the size of a value")
            return None
        if target == "tile.index" or target in _QUERIES:
            if target != "tile.index" and self.named(args[0]):
                self.stop(node, "it asks where a tile is")
            return None
        if target in _CREATIONS:
            args = args[1:]
        if self.sized(args) and not _is_view(target):
            self.stop(node, "it computes with the size")
        read = self.read(args, nodes)
        if not read and not lanes:
            return None
        return self.value_check(node, nodes, read, lanes)

    def named(self, value):
        """Whether a tile query asks for one of the size's blocks."""
        text = value.get("sym") if isinstance(value, dict) else value
        return isinstance(text, str) and bool(expr.names(text) & set(self.symbols))

    def value_check(self, node, nodes, read, lanes):
        """A value with lanes of the size, or made of such: lanes stay where they are."""
        target, args = node["target"], node["args"]
        function, short = lookup(target), target.split(".")[1] if "." in target else target
        pointwise = getattr(function, "__module__", None) == ops_pointwise.__name__
        if pointwise or target in (*_KEPT, *_LIKE, *_CREATIONS):
            return
        if _is_view(target) or self.adds_dims(node):
            if not read <= lanes:
                self.stop(node, "its lanes are put elsewhere")
            return
        if (target.startswith("aten.") and short in _MATMULS) or target == "tile.dot":
            if read != lanes or self.contracted(args, nodes, short):
                self.stop(node, "it sums up over it")
            return
        reduces = target.startswith("aten.") and short in _REDUCTIONS
        if not reduces and target not in _REDUCTIONS_OF_DIM:
            self.stop(node, f"{target} may read lanes together")
        if read != lanes:
            self.stop(node, "it reduces over it")

    def adds_dims(self, node):
        """Whether a subscript only adds new dims."""
        return node["target"] == "tile.subscript" and all(
            entry is None or _whole(entry) for entry in node["args"][1]
        )

    def contracted(self, args, nodes, short):
        """Whether the dim that a matmul sums over is one of the size's tiles."""
        first = args[1 if short in ("addmm", "baddbmm") else 0]
        shape = (nodes[first["ref"]].get("meta") or {}).get("shape", [None])
        return shape[-1] in self.symbols

    # ---- memory and calls

    def base(self, node, nodes):
        """The tensor that a node reads or writes."""
        first = node["args"][0]
        host = nodes.get(first.get("ref")) if isinstance(first, dict) else None
        if host is None or host.get("target") != "tile.host_tensor":
            self.stop(node, "it reads no tensor by name")
        return self.tensors[host["args"][0]]

    def indexed(self, node, nodes):
        """Symbols of the size that index its dims; whatever else indexes them is not proven."""
        tensor, found, others = self.base(node, nodes), set(), []
        entries = [entry for entry in node["args"][1] if entry is not None]
        for dim, entry in zip(tensor["shape"], entries, strict=True):
            symbol = entry.get("sym") if isinstance(entry, dict) else None
            multiple = self.multiple(dim)
            if multiple is None:
                others.append(entry)
            elif self.multiples.get(symbol) == multiple:
                found.add(symbol)
            else:
                self.stop(node, f"it does not read '{tensor['name']}' tile by tile")
        for entry in others:
            symbol = entry.get("sym") if isinstance(entry, dict) else None
            if symbol not in self.symbols and self.sized(entry):
                self.stop(node, "it computes a position with the size")
        return found, others

    def load_check(self, node, nodes):
        self.indexed(node, nodes)

    def store_check(self, node, nodes, scope):
        """Each lane is stored in its own place; no place is written for each of several tiles."""
        found, others = self.indexed(node, nodes)
        given = [*node["args"][2:], *node.get("kwargs", {}).values()]
        read = self.read(given, nodes) | self.read(others, nodes)
        symbols = {entry.get("sym") for entry in others if isinstance(entry, dict)}
        if self.read(others, nodes) or symbols & set(self.symbols) or not read | scope <= found:
            names = ", ".join(sorted({self.symbols[s] for s in (read | scope) - found}))
            told = f"it writes one place for all tiles of {names}" if names else "it scatters lanes"
            self.stop(node, told)

    def loop_check(self, node, nodes, scope):
        graph = self.graphs[node["args"][0]]
        begins, ends, passed = (node["args"] + [[]])[1:4]
        own = self.own(graph.get("block_ids", ()))
        blocks = {block["id"]: block["symbol"] for block in self.document["block_sizes"]}
        for block, begin, end in zip(graph.get("block_ids", ()), begins, ends, strict=True):
            end = end.get("sym", end) if isinstance(end, dict) else end
            if blocks[block] in own:
                all_of_it = end is None or self.multiple(end) == self.multiples[blocks[block]]
                if begin != 0 or not all_of_it:
                    self.stop(node, f"{self.symbols[blocks[block]]} ranges over a part of it")
            elif self.sized([begin]) or self.mentions(end):
                self.stop(node, "its range is computed from the size")
        if own and (graph.get("carried") or (node.get("meta") or {}).get("tuple")):
            names = ", ".join(sorted(self.symbols[symbol] for symbol in own))
            self.stop(node, f"its loop over {names} carries values from tile to tile")
        if graph.get("lengths") is not None and self.read(passed[graph["lengths"]], nodes):
            self.stop(node, "its range has a length for each lane")
        self.graph_check(graph, scope | own)

    def call_check(self, node, nodes, scope):
        """Branches, and loops that end when a number says so: which has no lanes."""
        called = node["args"][1:3] if node["target"] == "tile.if" else node["args"][:2]
        for graph in called:
            if graph is not None:
                self.graph_check(self.graphs[graph], scope)
        if self.sized(node["args"]):
            self.stop(node, "it computes with the size")


def _by_symbol(value, symbols):
    """Arguments with {"sym": ..} where they refer to a node that is just an expression."""
    if isinstance(value, dict):
        if value.get("ref") in symbols:
            return symbols[value["ref"]]
        return {key: _by_symbol(entry, symbols) for key, entry in value.items()}
    return [_by_symbol(entry, symbols) for entry in value] if isinstance(value, list) else value


def _is_view(target):
    return target.startswith("aten.") and target.split(".")[1] in _VIEWS


def _product(dims):
    """A product of dims as (number, names in order), comparable; what is no product is a name."""
    number, names = 1, []
    pending = [expr.parse(dim) if isinstance(dim, str) else ("int", dim) for dim in dims]
    while pending:
        tree = pending.pop()
        if tree[:2] == ("op", "*"):
            pending += tree[2:]
        elif tree[0] == "int":
            number *= tree[1]
        else:
            names.append(tree[1] if tree[0] == "name" else str(tree))
    return number, sorted(names)
