"""Single edits that make a document simpler; each is a function of a case that changes it.

Nodes are named by their graph's id and their name, so that an edit means the same after others;
where what it names is gone, it does nothing.
"""

import functools
import json

from ..document_text import unique_name
from .tidy import refs, used

SMALLER = (1, 2, 8, 16, 128, 129, 256)
OPTIONAL = {
    "tensors": ("init", "whole", "ops", "permute", "slice", "expand"),
    "block_sizes": ("name", "begin", "reduction", "size"),
    "graphs": ("lengths",),
}
TOP = ("annotations", "returns", "sizes", "mesh", "tunables", "assume_in_bounds")


def all_edits(case):
    """Lists of edits, the boldest first; those of a list may be made together."""
    document = case["document"]
    at = [(g["id"], n["name"]) for g in document["graphs"] for n in g["nodes"]]
    roots = [g["id"] for g in document["graphs"] if g["kind"] == "root"]
    values = [(graph, name) for graph, name in at if _meta(document, graph, name)]
    yield [functools.partial(_drop_root, graph) for graph in roots]
    yield [functools.partial(_drop, graph, name) for graph, name in at[::-1]]
    for build in (_as_full, _as_load):
        yield [functools.partial(build, graph, name) for graph, name in values[::-1]]
    yield [
        functools.partial(_as_operand, graph, name, i) for i in range(3) for graph, name in values
    ]
    yield [functools.partial(_as_symbol, graph, name) for graph, name in at]
    keys = [key for key in document.get("config") or () if key != "block_sizes"]
    yield [functools.partial(_drop_key, key) for key in keys]
    yield [functools.partial(_plain, name) for name in case.get("values", ())]
    yield [functools.partial(_drop_field, graph, name, "loc") for graph, name in at]
    yield [functools.partial(_drop_top, key) for key in TOP if key in document]
    yield [
        functools.partial(_drop_optional, part, i, field)
        for part, fields in OPTIONAL.items()
        for i, entry in enumerate(document.get(part) or ())
        for field in fields
        if field in entry
    ]


def numbers(case):
    """Edits that put a smaller number in place of one, wherever it stands; one at a time."""
    document = case["document"]
    found = {s for t in document["tensors"] for s in t["shape"] if type(s) is int}
    extents = [b.get("extent") for b in document.get("block_sizes") or ()]
    found |= {extent for extent in extents if type(extent) is int}
    for old in sorted(found, reverse=True):
        half = [old // 2] if old > 2 * SMALLER[-1] else []
        for new in [*(x for x in SMALLER if x < old), *half]:
            yield functools.partial(_smaller, old, new)
    for i, old in enumerate((document.get("config") or {}).get("block_sizes") or ()):
        for new in (x for x in SMALLER if type(old) is int and x < old):
            yield functools.partial(_smaller_block, i, new)


def _graph(document, graph):
    return next((g for g in document["graphs"] if g["id"] == graph), None)


def _place(document, graph, name):
    """(a graph's nodes, the number of one among them), or (None, None)."""
    nodes = (_graph(document, graph) or {"nodes": ()})["nodes"]
    for i, node in enumerate(nodes):
        if node["name"] == name:
            return nodes, i
    return None, None


def _meta(document, graph, name):
    """The `meta` of a node whose value is a tile that something computes; else None."""
    nodes, n = _place(document, graph, name)
    if nodes is None or nodes[n].get("target") in (None, "tile.host_tensor", "tile.full"):
        return None
    meta = nodes[n].get("meta") or {}
    return meta if "shape" in meta and isinstance(meta.get("dtype"), str) else None


def _drop_root(graph, case):
    graphs = case["document"]["graphs"]
    if sum(g["kind"] == "root" for g in graphs) > 1:
        graphs[:] = [g for g in graphs if g["id"] != graph]


def _drop(graph, name, case):
    """A node that no other uses, whatever it does."""
    nodes, n = _place(case["document"], graph, name)
    if nodes is None or name in used(nodes) or nodes[n].get("op") in ("output", "placeholder"):
        return
    del nodes[n]


def _as_full(graph, name, case):
    """A number in place of a value."""
    meta = _meta(case["document"], graph, name)
    if meta is None:
        return
    nodes, n = _place(case["document"], graph, name)
    shape = [{"sym": s} if isinstance(s, str) else s for s in meta["shape"]]
    number = {"bool": True, "float32": 1.0}.get(meta["dtype"], 1)
    args = [shape, number, {"dtype": meta["dtype"]}]
    nodes[n] = {"name": name, "target": "tile.full", "args": args, "meta": meta}


def _as_load(graph, name, case):
    """A load of an input of its own in place of a value."""
    document = case["document"]
    meta, (nodes, n) = _meta(document, graph, name), _place(document, graph, name)
    if meta is None or nodes[n]["target"] == "tile.load":
        return
    extents = {b["symbol"]: b.get("extent") for b in document.get("block_sizes") or ()}
    shape = [extents.get(s, s) for s in meta["shape"]]
    tensor = unique_name(f"{name}_in", {t["name"] for t in document["tensors"]})
    host = unique_name(f"{name}_host", {node["name"] for node in nodes})
    entry = {"name": tensor, "role": "input", "dtype": meta["dtype"], "shape": shape}
    document["tensors"].append(entry)
    index = [{"sym": s} if isinstance(s, str) else {"slice": [None] * 3} for s in meta["shape"]]
    load = {"target": "tile.load", "args": [{"ref": host}, index]}
    found = {"name": host, "target": "tile.host_tensor", "args": [tensor]}
    nodes[n : n + 1] = [
        {**found, "meta": {"dtype": meta["dtype"], "shape": shape}},
        {"name": name, **load, "meta": meta},
    ]


def _as_operand(graph, name, number, case):
    """One of a value's operands, if it is of the same type, in place of it."""
    document = case["document"]
    meta, (nodes, n) = _meta(document, graph, name), _place(document, graph, name)
    if meta is None:
        return
    by_name = {x["name"]: x for x in nodes}
    alike = [x for x in dict.fromkeys(refs(nodes[n].get("args"))) if by_name[x].get("meta") == meta]
    if number >= len(alike):
        return
    nodes[n + 1 :] = _renamed(nodes[n + 1 :], name, alike[number])
    del nodes[n]


def _as_symbol(graph, name, case):
    """A block's symbol in place of the node that gives it."""
    nodes, n = _place(case["document"], graph, name)
    if nodes is not None and nodes[n].get("target") == "tile.symnode":
        nodes[:] = _replaced(nodes, {"ref": name}, {"sym": nodes[n]["args"][0]})


def _renamed(nodes, old, new):
    """Nodes with another name in place of `old`."""
    return _replaced(nodes, {"ref": old}, {"ref": new})


def _replaced(raw, old, new):
    return json.loads(json.dumps(raw).replace(json.dumps(old), json.dumps(new)))


def _drop_key(key, case):
    case["document"]["config"].pop(key, None)


def _drop_top(key, case):
    case["document"].pop(key, None)


def _drop_field(graph, name, field, case):
    nodes, n = _place(case["document"], graph, name)
    if nodes is not None:
        nodes[n].pop(field, None)


def _drop_optional(part, number, field, case):
    entries = case["document"].get(part) or ()
    if number < len(entries):
        entries[number].pop(field, None)


def _plain(name, case):
    """Ordinary inputs."""
    if not case["values"].get(name, "normal").startswith(("bound:", "place:", "normal")):
        case["values"][name] = "normal"


def _replace(raw, old, new):
    """`raw` with the int `new` wherever the int `old` stands."""
    if isinstance(raw, dict):
        return {k: v if k == "id" else _replace(v, old, new) for k, v in raw.items()}
    if isinstance(raw, list):
        return [_replace(item, old, new) for item in raw]
    return new if type(raw) is int and raw == old else raw


def _smaller(old, new, case):
    document = case["document"]
    for key in ("tensors", "block_sizes", "graphs", "config"):
        if key in document:
            document[key] = _replace(document[key], old, new)


def _smaller_block(number, new, case):
    sizes = (case["document"].get("config") or {}).get("block_sizes") or []
    if number < len(sizes):
        sizes[number] = new
