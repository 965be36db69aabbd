"""Graphs that Helion cannot trace: roots over one grid, stores that later loads see, and the like.

A function for each returns the document; `make graphs MATCH=structure` writes them.
"""

import json
from pathlib import Path

_GRAPHS = Path(__file__).parent / "graphs"

ALL = {"slice": [None, None, None]}


def _ref(name):
    """An argument that is a node's value."""
    return {"ref": name}


def _index_entry(entry):
    """The argument for ":", the whole dim, "u0", a tile of that block, or what stands as it is."""
    if entry == ":":
        return ALL
    return {"sym": entry} if isinstance(entry, str) else entry


class Graph:
    """The nodes of a graph in the making; methods append one and return its name."""

    def __init__(self, document, ident, kind, **fields):
        self.document, self.nodes = document, []
        self.written = {"id": ident, "kind": kind, **fields, "nodes": self.nodes}

    def node(self, name, target, args, meta):
        """A node; its name gets a suffix where it is taken."""
        taken = {n["name"] for n in self.nodes}
        name = next(c for c in [name, *(f"{name}_{i}" for i in range(1, 99))] if c not in taken)
        found = {"name": name, "target": target, "args": args}
        self.nodes.append(found | ({"meta": meta} if meta else {}))
        return name

    def placeholder(self, name, shape, dtype="float32"):
        """The next argument of the graph."""
        meta = {"dtype": dtype, "shape": list(shape)}
        self.nodes.append({"name": name, "op": "placeholder", "meta": meta})
        return name

    def host(self, tensor):
        """The tensor itself, once per graph."""
        found = self.document.tensor(tensor)
        if not any(n["name"] == tensor for n in self.nodes):
            meta = {"dtype": found["dtype"], "shape": found["shape"]}
            self.node(tensor, "tile.host_tensor", [tensor], meta)
        return _ref(tensor)

    def scalar(self, name):
        """A host scalar."""
        (found,) = [s for s in self.document.scalars if s["name"] == name]
        return self.node(name, "tile.scalar", [name], {"dtype": found["dtype"], "shape": []})

    def load(self, tensor, index, shape, name=None, mask=None):
        """A tile of the tensor, of `shape`."""
        host = self.host(tensor)
        args = [host, [_index_entry(e) for e in index]] + ([_ref(mask)] if mask else [])
        meta = {"dtype": self.document.tensor(tensor)["dtype"], "shape": list(shape)}
        return self.node(name or f"{tensor}_tile", "tile.load", args, meta)

    def store(self, tensor, index, value, mask=None, target="tile.store"):
        """Stores a value or number."""
        host = self.host(tensor)
        args = [
            host,
            [_index_entry(e) for e in index],
            _ref(value) if isinstance(value, str) else value,
        ]
        return self.node("store", target, args + ([_ref(mask)] if mask else []), None)

    def op(self, target, *args, shape, dtype="float32", name=None):
        """An ATen op; strings among the arguments are nodes, lists stay."""
        args = [_ref(a) if isinstance(a, str) else a for a in args]
        short = name or target.split(".")[1]
        return self.node(short, target, args, {"dtype": dtype, "shape": list(shape)})

    def output(self, *values):
        """Ends the graph."""
        args = [[_ref(v) if isinstance(v, str) else v for v in values]]
        self.nodes.append({"name": "output", "op": "output", "args": args})


class Document:
    """A document in the making."""

    def __init__(self, name, **config):
        self.name, self.config = name, config
        self.tensors, self.scalars, self.returns, self.blocks, self.graphs = [], [], [], [], []

    def add(self, name, role, shape, dtype="float32", **rest):
        """A tensor."""
        found = {"name": name, "role": role, "dtype": dtype, "shape": list(shape), **rest}
        self.tensors.append(found)

    def tensor(self, name):
        """The entry of a tensor."""
        return next(t for t in self.tensors if t["name"] == name)

    def add_scalar(self, name, dtype, **rest):
        """A host scalar; without `value` a run-time argument."""
        self.scalars.append({"name": name, "dtype": dtype, **rest})

    def block(self, name, extent, **rest):
        """A block id; its symbol."""
        ident = len(self.blocks)
        entry = {"id": ident, "symbol": f"u{ident}", "name": name, "extent": extent, **rest}
        self.blocks.append(entry)
        return entry["symbol"]

    def graph(self, kind, **fields):
        """A graph, in the order of the document."""
        found = Graph(self, len(self.graphs), kind, **fields)
        self.graphs.append(found)
        return found

    def done(self):
        """The document as a dict."""
        found = {"format": "fxtile", "version": 1, "name": self.name, "tensors": self.tensors}
        if self.scalars:
            found["scalars"] = self.scalars
        if self.returns:
            found["returns"] = self.returns
        found["block_sizes"] = self.blocks
        found["graphs"] = [g.written for g in self.graphs]
        return found | {"config": self.config}


# ---- several roots -------------------------------------------------------------------------------


def _shared_block(m=256, n=384, rows=64):
    """Two roots over one block id: tmp = 2 x, then out = tmp + y, where tmp is scratch."""
    d = Document("shared_block", block_sizes=[rows])
    d.add("x", "input", [m, n])
    d.add("y", "input", [m, n])
    d.add("tmp", "output", [m, n])
    d.add("out", "output", [m, n])
    d.returns = [{"tensor": "out"}]
    u0 = d.block("tile_m", m)
    first, second = d.graph("root", grid=[0]), d.graph("root", grid=[0])
    x = first.load("x", [u0, ":"], [u0, n])
    first.store("tmp", [u0, ":"], first.op("aten.mul.Tensor", x, 2.0, shape=[u0, n]))
    first.output()
    t, y = second.load("tmp", [u0, ":"], [u0, n]), second.load("y", [u0, ":"], [u0, n])
    second.store("out", [u0, ":"], second.op("aten.add.Tensor", t, y, shape=[u0, n]))
    second.output()
    return d.done()


def _written_twice(m=256, n=384, rows=64):
    """Both roots store to out: the first all of it, the second the first 128 columns, doubled."""
    d = Document("written_twice", block_sizes=[rows, rows])
    d.add("x", "input", [m, n])
    d.add("out", "output", [m, n])
    u0, u1 = d.block("tile_m", m), d.block("tile_r", m)
    first, second = d.graph("root", grid=[0]), d.graph("root", grid=[1])
    x = first.load("x", [u0, ":"], [u0, n])
    first.store("out", [u0, ":"], first.op("aten.add.Tensor", x, 1.0, shape=[u0, n]))
    first.output()
    head = {"slice": [0, 128, None]}
    t = second.load("out", [u1, head], [u1, 128])
    second.store("out", [u1, head], second.op("aten.mul.Tensor", t, 2.0, shape=[u1, 128]))
    second.output()
    return d.done()


def _gradient_step(m=256, n=384, rows=64, columns=128):
    """Roots of different grids: column sums of g by atomics, then w -= rate * sums, in place."""
    d = Document("gradient_step", block_sizes=[rows, columns])
    d.add("g", "input", [m, n])
    d.add("w", "inout", [n])
    d.add("sums", "output", [n], init=0)
    d.add_scalar("rate", "float32")
    d.returns = [{"tensor": "w"}]
    u0, u1 = d.block("tile_m", m), d.block("tile_n", n)
    first, second = d.graph("root", grid=[0]), d.graph("root", grid=[1])
    g = first.load("g", [u0, ":"], [u0, n])
    first.store(
        "sums", [":"], first.op("aten.sum.dim_IntList", g, [0], shape=[n]), target="tile.atomic_add"
    )
    first.nodes[-1]["meta"] = {"dtype": "float32", "shape": [n]}
    first.output()
    rate = second.scalar("rate")
    s, w = second.load("sums", [u1], [u1]), second.load("w", [u1], [u1])
    step = second.op("aten.mul.Tensor", s, rate, shape=[u1])
    second.store("w", [u1], second.op("aten.sub.Tensor", w, step, shape=[u1]))
    second.output()
    return d.done()


def roots_shared_block():
    """Two roots over one block id."""
    return _shared_block()


def roots_shared_block_odd():
    """Two roots over one block id, ragged."""
    return _shared_block(421, 300, 64)


def roots_shared_block_8192_4096():
    """Two roots over one block id, as people run it."""
    return _shared_block(8192, 4096, 128)


def roots_written_twice():
    """An output of two roots."""
    return _written_twice()


def roots_written_twice_odd():
    """An output of two roots, ragged."""
    return _written_twice(421, 300, 64)


def roots_written_twice_8192_4096():
    """An output of two roots, as people run it."""
    return _written_twice(8192, 4096, 128)


def roots_gradient_step():
    """Roots of different grids."""
    return _gradient_step()


def roots_gradient_step_odd():
    """Roots of different grids, ragged."""
    return _gradient_step(421, 300, 64, 128)


def roots_gradient_step_8192_4096():
    """Roots of different grids, as people run it."""
    return _gradient_step(8192, 4096, 256, 1024)


# ---- run-time scalars ----------------------------------------------------------------------------


def _at_run_time(graph):
    """An exported graph whose scalars are arguments, not numbers."""
    found = json.loads((_GRAPHS / f"{graph}.json").read_text())
    for scalar in found["scalars"]:
        scalar.pop("value", None)
    return found


def _sum_to(m, n, rows, columns):
    """The columns' sums of x[start:stop], whose bounds are arguments."""
    d = Document("sum_to", block_sizes=[columns, rows])
    d.add("x", "input", [m, n])
    d.add("out", "output", [n])
    d.add_scalar("start", "int32")
    d.add_scalar("stop", "int32")
    u0, u1 = d.block("tile_n", n), d.block("tile_m", None)
    loop = d.graph("for_loop", block_ids=[1], carried=[[0, 0]])
    acc = loop.placeholder("acc", [u0])
    tile = loop.load("x", [u1, u0], [u1, u0])
    part = loop.op("aten.sum.dim_IntList", tile, [0], shape=[u0])
    loop.output(loop.op("aten.add.Tensor", acc, part, shape=[u0]))
    root = d.graph("root", grid=[0])
    zero = root.op("tile.full", [{"sym": u0}], 0.0, {"dtype": "float32"}, shape=[u0], name="zero")
    start, stop = root.scalar("start"), root.scalar("stop")
    meta = {"tuple": [{"dtype": "float32", "shape": [u0]}]}
    args = [0, [_ref(start)], [_ref(stop)], [_ref(zero)]]
    root.node("loop", "tile.for_loop", args, meta)
    total = root.node("total", "getitem", [_ref("loop"), 0], {"dtype": "float32", "shape": [u0]})
    root.store("out", [u0], total)
    root.output()
    return d.done()


def sum_to():
    """Loop bounds at run time."""
    return _sum_to(256, 512, 64, 128)


def sum_to_odd():
    """Loop bounds at run time, ragged."""
    return _sum_to(300, 421, 64, 128)


def sum_to_8192_4096():
    """Loop bounds at run time, as people run it."""
    return _sum_to(8192, 4096, 256, 128)


def _put_row(m, n, columns):
    """Row `to` of out becomes row `at` of x, doubled; both are arguments."""
    d = Document("put_row", block_sizes=[columns])
    d.add("x", "input", [m, n])
    d.add("out", "inout", [m, n])
    d.add_scalar("at", "int32")
    d.add_scalar("to", "int32")
    u0 = d.block("tile_n", n)
    root = d.graph("root", grid=[0])
    at, to = root.scalar("at"), root.scalar("to")
    row = root.load("x", [_ref(at), u0], [u0])
    root.store("out", [_ref(to), u0], root.op("aten.mul.Tensor", row, 2.0, shape=[u0]))
    root.output()
    return d.done()


def put_row():
    """Positions at run time, in a load and a store."""
    return _put_row(64, 512, 128)


def put_row_odd():
    """Positions at run time, ragged."""
    return _put_row(37, 421, 128)


def put_row_4096():
    """Positions at run time, as people run it."""
    return _put_row(512, 4096, 512)


def _masked_copy(m, n, rows, dtype):
    """Out gets x where y is positive and x is not masked by z; elsewhere it stays as it is."""
    d = Document("masked_copy", block_sizes=[rows])
    for name in ("x", "y"):
        d.add(name, "input", [m, n], dtype)
    d.add("out", "inout", [m, n], dtype)
    u0 = d.block("tile_m", m)
    root = d.graph("root", grid=[0])
    y = root.load("y", [u0, ":"], [u0, n])
    mask = root.op("aten.gt.Scalar", y, 0, shape=[u0, n], dtype="bool")
    few = root.op("aten.lt.Scalar", y, 1, shape=[u0, n], dtype="bool")
    x = root.load("x", [u0, ":"], [u0, n], mask=few)
    root.store("out", [u0, ":"], x, mask=mask)
    root.output()
    return d.done()


def masked_copy():
    """A mask in a load and in a store."""
    return _masked_copy(256, 384, 64, "float32")


def masked_copy_odd():
    """A mask in a load and in a store, ragged."""
    return _masked_copy(421, 300, 64, "bfloat16")


def masked_copy_8192_4096():
    """A mask in a load and in a store, as people run it."""
    return _masked_copy(8192, 4096, 128, "bfloat16")


def adamw_run_time():
    """AdamW with rate, decay and step as arguments."""
    return _at_run_time("adamw")


def adamw_run_time_odd():
    """AdamW with rate, decay and step as arguments, ragged."""
    return _at_run_time("adamw_odd")


def adamw_run_time_8192_4096():
    """AdamW with rate, decay and step as arguments, as people run it."""
    return _at_run_time("adamw_8192_4096")
