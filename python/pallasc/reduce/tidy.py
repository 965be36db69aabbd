"""A document without what nothing uses: nodes, results, arguments, graphs, tensors, block ids."""

import json

WRITES = ("tile.store", "tile.atomic_", "tile.copy", "tile.wait", "tile.signal", "tile.debug")
# Where the arguments of a call name graphs.
GRAPHS = {
    "tile.for_loop": (0,),
    "tile.if": (1, 2),
    "tile.while": (0, 1),
    "tile.associative_scan": (0,),
    "tile.reduce": (0,),
}
# Of loops, whose unused results and arguments go: where a call has what it passes.
PASSED = {"tile.for_loop": 3}


def refs(raw):
    """Names of the nodes that an argument refers to."""
    if isinstance(raw, list):
        return [name for item in raw for name in refs(item)]
    if isinstance(raw, dict):
        if isinstance(raw.get("ref"), str):
            return [raw["ref"]]
        return [name for key in ("slice", "sym") for name in refs(raw.get(key))]
    return []


def used(nodes):
    """Names of the nodes that others use."""
    return {name for n in nodes for name in refs([n.get("args"), n.get("kwargs")])}


def writes(node):
    """Whether a node does what is seen from outside."""
    return node.get("target", "").startswith(WRITES)


def called(document, node):
    """The graphs that a node calls."""
    places, args = GRAPHS.get(node.get("target"), ()), node.get("args", ())
    ids = [args[i] for i in places if i < len(args)]
    return [g for g in document["graphs"] if g["id"] in ids]


def is_bound(node):
    """Whether a node stays whatever uses it."""
    return node.get("op") in ("output", "placeholder") or writes(node)


def tidy(case):
    """Takes out of a case, {"document", ...}, all that nothing uses."""
    document, before = case["document"], None
    while before != (before := json.dumps(document)):
        for graph in document["graphs"]:
            _drop_nodes(document, graph)
        _drop_results(document)
        _drop_arguments(document)
        _drop_graphs(document)
        _drop_tensors(document)
    _drop_blocks(document)
    named = {x["name"] for key in ("tensors", "scalars") for x in document.get(key) or ()}
    if "values" in case:
        case["values"] = {k: v for k, v in case["values"].items() if k in named}


def _has_writes(document, graph):
    inner = [g for n in graph["nodes"] for g in called(document, n) if g is not graph]
    return any(map(writes, graph["nodes"])) or any(_has_writes(document, g) for g in inner)


def _drop_nodes(document, graph):
    nodes = graph["nodes"]
    while True:
        taken = used(nodes)
        kept = [
            n
            for n in nodes
            if n["name"] in taken
            or is_bound(n)
            or any(_has_writes(document, g) for g in called(document, n))
        ]
        if len(kept) == len(nodes):
            return
        nodes[:] = kept


def _loops(document):
    for graph in document["graphs"]:
        for node in graph["nodes"]:
            if node.get("target") in PASSED:
                for inner in called(document, node):
                    yield graph, node, inner


def _drop_results(document):
    """Loop results that no getitem takes, with the arguments that they carry."""
    for graph, node, inner in list(_loops(document)):
        output = inner["nodes"][-1]["args"][0]
        items = [n for n in graph["nodes"] if n.get("target") == "getitem"]
        items = [n for n in items if refs(n["args"]) == [node["name"]]]
        taken = {n["args"][1] for n in items}
        unused = [i for i in range(len(output)) if i not in taken]
        if not unused:
            continue
        gone = unused[-1]
        output.pop(gone)
        node["meta"]["tuple"].pop(gone)
        inner["carried"] = [[a, o - (o > gone)] for a, o in inner.get("carried", []) if o != gone]
        for item in items:
            item["args"][1] -= item["args"][1] > gone


def _drop_arguments(document):
    """Placeholders that the body does not use, with what is passed for them."""
    for _, node, inner in list(_loops(document)):
        passed = node["args"][PASSED[node["target"]]]
        holders = [n for n in inner["nodes"] if n.get("op") == "placeholder"]
        taken, carried = used(inner["nodes"]), {a for a, _ in inner.get("carried", [])}
        if "lengths" in inner:  # an argument by its number
            continue
        for i, holder in reversed(list(enumerate(holders))):
            if holder["name"] not in taken and i not in carried:
                inner["nodes"].remove(holder)
                passed.pop(i)
                inner["carried"] = [[a - (a > i), o] for a, o in inner.get("carried", [])]


def _drop_graphs(document):
    ids = {
        g["id"] for graph in document["graphs"] for n in graph["nodes"] for g in called(document, n)
    }
    document["graphs"][:] = [g for g in document["graphs"] if g["kind"] == "root" or g["id"] in ids]


def _drop_tensors(document):
    text = json.dumps([document["graphs"], document.get("returns")])
    tensors = document["tensors"]
    named = {t["name"] for t in tensors if json.dumps(t["name"]) in text}
    while (bases := {t["of"] for t in tensors if "of" in t and t["name"] in named}) - named:
        named |= bases
    if any(t["role"] == "input" and t["name"] not in named for t in tensors):
        (document.get("config") or {}).pop("pallas_load_buffer_count", None)
    tensors[:] = [t for t in tensors if t["name"] in named]
    if scalars := document.get("scalars"):
        scalars[:] = [s for s in scalars if json.dumps(s["name"]) in text]


def _drop_blocks(document):
    """The last block ids, where nothing names them: those before it keep their place."""
    blocks, config = document.get("block_sizes") or [], document.get("config") or {}
    sizes = config.get("block_sizes")
    while blocks and sizes is None:
        last, text = blocks[-1], json.dumps([document["graphs"], document["tensors"], blocks[:-1]])
        ids = {i for g in document["graphs"] for k in ("grid", "block_ids") for i in g.get(k) or ()}
        if last["symbol"] in text or last["id"] in ids:
            return
        blocks.pop()
