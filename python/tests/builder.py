"""A small builder of graph documents for tests, and the documents that several tests share.

`Doc` holds tensors and graphs, `G` one graph.
"""

import json
from pathlib import Path

import numpy as np


def t(dtype, *shape):
    """The meta of a tensor value."""
    return {"dtype": dtype, "shape": list(shape)}


def f32(*shape):
    return t("float32", *shape)


def sym(expression):
    """A symbolic int: as an argument {"sym": E}, as a meta the same."""
    return {"sym": expression}


def ref(name):
    return {"ref": name}


def dt(name):
    return {"dtype": name}


def sl(start=None, stop=None, step=None):
    return {"slice": [start, stop, step]}


class G:
    """One graph; every method that adds a node returns a ref to it."""

    def __init__(self, graph_id, kind="root", **fields):
        self.raw = {"id": graph_id, "kind": kind, **fields, "nodes": []}
        self.id, self.count = graph_id, 0

    def _node(self, name, **fields):
        self.count += 1
        name = name or f"n{self.count}"
        self.raw["nodes"].append({"name": name, **fields})
        return ref(name)

    def arg(self, meta, name=None):
        """A placeholder."""
        return self._node(name, op="placeholder", meta=meta)

    def call(self, target, *args, meta=None, name=None, **kwargs):
        fields = {"target": target, "args": list(args)}
        if kwargs:
            fields["kwargs"] = kwargs
        if meta is not None:
            fields["meta"] = meta
        return self._node(name, **fields)

    def host(self, tensor, meta=None, name=None):
        """The tensor; without `meta` the document says it."""
        return self.call("tile.host_tensor", tensor, meta=meta, name=name)

    def load(self, name, index, meta, extra_mask=None):
        args = [self.host(name), index] + ([] if extra_mask is None else [extra_mask])
        return self.call("tile.load", *args, meta=meta)

    def store(self, name, index, value, extra_mask=None):
        args = [self.host(name), index, value] + ([] if extra_mask is None else [extra_mask])
        self.call("tile.store", *args)

    def out(self, *values):
        self._node("output", op="output", args=[list(values)])
        return self


class Doc:
    """A document; `raw` is the JSON object. A field that is None is left out."""

    def __init__(self, config=None, **fields):
        self.raw = {"format": "fxtile", "version": 1, "name": "test"}
        self.raw |= {"tensors": [], "scalars": [], "block_sizes": [], "graphs": []}
        self.raw |= {**fields, "config": config}
        self.raw = {key: value for key, value in self.raw.items() if value is not None}

    def tensor(self, name, role, dtype, shape, **fields):
        entry = {"name": name, "role": role, "dtype": dtype, "shape": list(shape), **fields}
        self.raw["tensors"].append(entry)
        return self

    def block(self, extent, name="b", **fields):
        """A block of a name of its own, "b0", unless another is given, or None."""
        number = len(self.raw["block_sizes"])
        named = {"name": f"b{number}" if name == "b" else name} if name else {}
        entry = {"id": number, "symbol": f"u{number}", **named, "extent": extent, **fields}
        self.raw["block_sizes"].append(entry)
        return self

    def scalar(self, name, dtype, value=None):
        entry = {"name": name, "dtype": dtype}
        self.raw["scalars"].append(entry if value is None else {**entry, "value": value})
        return self

    def add(self, *graphs):
        """The document with these graphs too."""
        metas = {entry["name"]: t(entry["dtype"], *entry["shape"]) for entry in self.raw["tensors"]}
        for graph in graphs:
            for node in graph.raw["nodes"]:
                if node.get("target") == "tile.host_tensor":
                    node.setdefault("meta", metas[node["args"][0]])
            self.raw["graphs"].append(graph.raw)
        return self.raw


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(actual, expected, tol=2e-5):
    scale = np.abs(expected) + np.sqrt(np.mean(np.square(expected)))
    assert actual.shape == np.shape(expected)
    assert np.all(np.abs(actual.astype(np.float64) - expected) <= tol * scale)


def pointwise_doc(shape, blocks, body, dtype="float32", out_dtype=None, inputs=("x",)):
    """out[...] = body(g, *loaded) over a grid with one block id per dim."""
    doc = Doc(config={"block_sizes": list(blocks)})
    for name in inputs:
        doc.tensor(name, "input", dtype, shape)
    doc.tensor("out", "output", out_dtype or dtype, shape)
    for extent in shape:
        doc.block(extent)
    index = [sym(f"u{i}") for i in range(len(shape))]
    meta = t(dtype, *(f"u{i}" for i in range(len(shape))))
    g = G(0, grid=list(range(len(shape))))
    values = [g.load(name, index, meta) for name in inputs]
    g.store("out", index, body(g, *values))
    return doc.add(g.out())


def example():
    path = Path(__file__).parent / "data" / "scaled_row_sum.json"
    return json.loads(path.read_text())


def packed_doc():
    """out[g] = sum of x[offsets[g]:offsets[g + 1]], bounds loaded at run time."""
    doc = Doc(config={"block_sizes": [4]})
    doc.tensor("x", "input", "float32", [12]).tensor("offsets", "input", "int32", [4])
    doc.tensor("out", "output", "float32", [3]).block(3, size=1).block(None)
    body = G(1, "for_loop", block_ids=[1], carried=[[0, 0]])
    acc = body.arg(f32())
    x = body.load("x", [sym("u1")], f32("u1"))
    s = body.call("aten.sum.default", x, meta=f32())
    body.out(body.call("aten.add.Tensor", acc, s, meta=f32()))
    g = G(0, grid=[0])
    here = g.call("tile.begin", sym("u0"), meta=sym(None))
    after = g.call("add", here, 1, meta=sym(None))
    begin, end = (g.load("offsets", [at], t("int32")) for at in (here, after))
    zero = g.call("tile.full", [], 0, dt("float32"), meta=f32())
    loop = g.call("tile.for_loop", 1, [begin], [end], [zero], meta={"tuple": [f32()]})
    g.store("out", [here], g.call("getitem", loop, 0, meta=f32()))
    return doc.add(body, g.out())
