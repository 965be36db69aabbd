"""Documents that name sizes: graphs of testdata with a name in place of a number."""

import copy

from builder import Doc, G, dt, f32, sym

# Fields of a document that hold no sizes.
_NO_SIZES = ("name", "target", "loc", "id", "of", "dtype", "value", "init", "config", "graph")


def sized(document, **sizes):
    """The document with each number of `sizes` as that name, wherever a size may stand."""
    names = {value: name for name, value in sizes.items()}

    def changed(value, key=None, argument=False):
        if key in _NO_SIZES or isinstance(value, bool):
            return value
        if isinstance(value, dict):
            inside = argument and key != "meta"
            return {k: changed(v, k, inside or k == "args") for k, v in value.items()}
        if isinstance(value, list):
            return [changed(entry, key, argument) for entry in value]
        if isinstance(value, int) and value in names:
            return sym(names[value]) if argument and key != "meta" else names[value]
        return value

    document = copy.deepcopy(document)
    graphs = [
        {**graph, "nodes": [node_sized(node, changed) for node in graph["nodes"]]}
        for graph in document["graphs"]
    ]
    return {**changed(document), "graphs": graphs, "sizes": dict(sizes)}


def node_sized(node, changed):
    """A node with names in its meta and its arguments."""
    node = dict(node)
    if "meta" in node:
        node["meta"] = changed(node["meta"])
    if "args" in node:
        callee = node["args"][:1] if node.get("target") == "tile.for_loop" else []
        node["args"] = callee + changed(node["args"][len(callee) :], argument=True)
    return node


def rows_doc():
    """out[s] = exp(x[s]) + y[s] of S rows."""
    doc = Doc(config={"block_sizes": [8, 128]}, sizes={"S": 16}, name="rows")
    doc.tensor("x", "input", "float32", ["S", 128]).tensor("y", "input", "float32", ["S", 128])
    doc.tensor("out", "output", "float32", ["S", 128]).block("S").block(128)
    g, meta = G(0, grid=[0, 1]), f32("u0", "u1")
    x, y = (g.load(name, [sym("u0"), sym("u1")], meta) for name in "xy")
    value = g.call("aten.add.Tensor", g.call("aten.exp.default", x, meta=meta), y, meta=meta)
    g.store("out", [sym("u0"), sym("u1")], value)
    return doc.add(g.out())


def sums_doc():
    """out[n] = the sum over S of x[s, n]."""
    doc = Doc(config={"block_sizes": [128, 8]}, sizes={"S": 16}, name="sums")
    doc.tensor("x", "input", "float32", ["S", 128]).tensor("out", "output", "float32", [128])
    doc.block(128).block("S")
    body = G(1, "for_loop", block_ids=[1], carried=[[0, 0]])
    acc = body.arg(f32("u0"))
    x = body.load("x", [sym("u1"), sym("u0")], f32("u1", "u0"))
    part = body.call("aten.sum.dim_IntList", x, [0], meta=f32("u0"))
    body.out(body.call("aten.add.Tensor", acc, part, meta=f32("u0")))
    g = G(0, grid=[0])
    zero = g.call("tile.full", [sym("u0")], 0.0, dt("float32"), meta=f32("u0"))
    loop = g.call("tile.for_loop", 1, [0], [sym("S")], [zero], meta={"tuple": [f32("u0")]})
    g.store("out", [sym("u0")], g.call("getitem", loop, 0, meta=f32("u0")))
    return doc.add(body, g.out())


def numbered(document, sizes):
    """The document without names: each number that a name stands for."""

    def changed(value, key=None):
        if isinstance(value, dict):
            if set(value) == {"sym"} and value["sym"] in sizes:
                return sizes[value["sym"]]
            return {k: changed(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [changed(entry, key) for entry in value]
        return sizes.get(value, value) if key in ("shape", "extent") else value

    return {key: changed(value, key) for key, value in document.items() if key != "sizes"}
