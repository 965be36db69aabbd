"""Makes a case that fails small: fewer nodes, loops, tensors and switches, smaller shapes."""

import copy
import json
import time

_PURE_PREFIXES = ("tile.store", "tile.atomic_")
_SMALLER = (1, 2, 8, 128, 129, 256)


def reduce(case, fails, seconds=120):
    """The smallest case found for which `fails(case)` still holds, within so many seconds.

    Args:
      case: {"document", "values", "seed"}, which fails.
      fails: a function of a case; true where it fails in the same way.
    """
    deadline = time.monotonic() + seconds
    best, again, clean = tidy(case), True, tidy
    if not fails(best):  # it takes what nothing uses
        best, clean = case, copy.deepcopy
    while again:
        again = False
        for candidate in candidates(best):
            if time.monotonic() > deadline:
                return best
            candidate = clean(candidate)
            if size(candidate) < size(best) and fails(candidate):
                best, again = candidate, True
                break
    return best


def size(case):
    """What is made less: nodes first, then the text, then how far each array extends."""
    document = case["document"]
    nodes = sum(len(g["nodes"]) for g in document["graphs"])
    extents = sum(sum(t["shape"]) for t in document["tensors"])
    extents += sum(b["extent"] or 0 for b in document["block_sizes"])
    shapes = sum(len(t["shape"]) for t in document["tensors"])
    plain = sum(kind != "normal" for kind in case["values"].values())
    return nodes, len(document["tensors"]), len(document["config"]), plain, shapes, extents


def candidates(case):
    """Simpler cases, the boldest first; some are no documents any more."""
    yield from _without_writes(case)
    yield from _without_unused(case)
    yield from _without_nodes(case)
    yield from _without_keys(case)
    yield from _plain_values(case)
    yield from _smaller_numbers(case)


def _nodes(document):
    return [
        (g, n)
        for g in range(len(document["graphs"]))
        for n in range(len(document["graphs"][g]["nodes"]))
    ]


def _writes(node):
    return node.get("target", "").startswith(_PURE_PREFIXES)


def _without_writes(case):
    for g, n in _nodes(case["document"]):
        if _writes(case["document"]["graphs"][g]["nodes"][n]):
            smaller = copy.deepcopy(case)
            del smaller["document"]["graphs"][g]["nodes"][n]
            yield smaller


def refs(raw):
    """Names of the nodes that an argument refers to."""
    if isinstance(raw, list):
        return [name for item in raw for name in refs(item)]
    if isinstance(raw, dict):
        if isinstance(raw.get("ref"), str):
            return [raw["ref"]]
        return refs(raw["slice"]) if "slice" in raw else []
    return []


def _renamed(raw, old, new):
    """A node's arguments with another name in place of `old`."""
    return json.loads(json.dumps(raw).replace(json.dumps({"ref": old}), json.dumps({"ref": new})))


def _without_unused(case):
    """Each node that no other uses left out; a loop with its graph."""
    for g, n in _nodes(case["document"])[::-1]:
        nodes = case["document"]["graphs"][g]["nodes"]
        named = {name for x in nodes for name in refs([x.get("args"), x.get("kwargs")])}
        if nodes[n]["name"] in named or nodes[n].get("op") in ("output", "placeholder"):
            continue
        smaller = copy.deepcopy(case)
        del smaller["document"]["graphs"][g]["nodes"][n]
        _drop_graphs(smaller["document"])
        _drop_tensors(smaller)
        yield smaller


def _without_nodes(case):
    """Each value replaced by an operand of its type, by a number, or by a load."""
    for g, n in _nodes(case["document"])[::-1]:
        graph = case["document"]["graphs"][g]
        node, meta = graph["nodes"][n], graph["nodes"][n].get("meta", {})
        if "shape" not in meta or node.get("target") in (None, "tile.host_tensor"):
            continue
        by_name = {x["name"]: x for x in graph["nodes"]}
        for name in dict.fromkeys(refs(node.get("args"))):
            if by_name[name].get("meta") == meta:
                smaller = copy.deepcopy(case)
                rest = smaller["document"]["graphs"][g]["nodes"]
                rest[n + 1 :] = _renamed(rest[n + 1 :], node["name"], name)
                del rest[n]
                yield smaller
        if node["target"] not in ("tile.full", "tile.load"):
            for build in (_as_load, _as_full):
                smaller = copy.deepcopy(case)
                build(smaller, smaller["document"]["graphs"][g]["nodes"], n)
                yield smaller
        elif node["target"] == "tile.load":
            smaller = copy.deepcopy(case)
            _as_full(smaller, smaller["document"]["graphs"][g]["nodes"], n)
            yield smaller


def _as_full(case, nodes, n):
    meta = nodes[n]["meta"]
    shape = [{"sym": s} if isinstance(s, str) else s for s in meta["shape"]]
    number = {"bool": True, "float32": 1.0}.get(meta["dtype"], 1)
    nodes[n] = {
        "name": nodes[n]["name"],
        "target": "tile.full",
        "args": [shape, number, {"dtype": meta["dtype"]}],
        "meta": meta,
    }


def _as_load(case, nodes, n):
    document, meta = case["document"], nodes[n]["meta"]
    extents = {b["symbol"]: b["extent"] for b in document["block_sizes"]}
    shape = [extents.get(s, s) for s in meta["shape"]]
    name, host = f"{nodes[n]['name']}_in", f"{nodes[n]['name']}_host"
    document["tensors"].append(
        {"name": name, "role": "input", "dtype": meta["dtype"], "shape": shape}
    )
    index = [{"sym": s} if isinstance(s, str) else {"slice": [None] * 3} for s in meta["shape"]]
    load = {"target": "tile.load", "args": [{"ref": host}, index]}
    found = {"name": host, "target": "tile.host_tensor", "args": [name]}
    nodes[n : n + 1] = [
        {**found, "meta": {"dtype": meta["dtype"], "shape": shape}},
        {"name": nodes[n]["name"], **load, "meta": meta},
    ]


def _without_keys(case):
    for key in case["document"]["config"]:
        if key != "block_sizes":
            smaller = copy.deepcopy(case)
            del smaller["document"]["config"][key]
            yield smaller


def _plain_values(case):
    for name, kind in case["values"].items():
        if not kind.startswith("bound:") and kind != "normal":
            smaller = copy.deepcopy(case)
            smaller["values"][name] = "normal"
            yield smaller


def _replace(raw, old, new):
    """`raw` with the int `new` wherever the int `old` stands."""
    if isinstance(raw, dict):
        return {k: v if k in ("id",) else _replace(v, old, new) for k, v in raw.items()}
    if isinstance(raw, list):
        return [_replace(item, old, new) for item in raw]
    return new if type(raw) is int and raw == old else raw


def _smaller_numbers(case):
    document = case["document"]
    numbers = {s for t in document["tensors"] for s in t["shape"]}
    numbers |= {b["extent"] for b in document["block_sizes"] if b["extent"]}
    for old in sorted(numbers, reverse=True):
        for new in (x for x in _SMALLER if x < old):
            smaller = copy.deepcopy(case)
            for key in ("tensors", "block_sizes", "graphs", "config"):
                smaller["document"][key] = _replace(document[key], old, new)
            yield smaller


# ---- what is no longer used ----------------------------------------------------------------------


def tidy(case):
    """The case without nodes, loop results, arguments, graphs and tensors that nothing uses."""
    case = copy.deepcopy(case)
    before = None
    while before != (before := json.dumps(case["document"])):
        for graph in case["document"]["graphs"]:
            _drop_nodes(graph)
        _drop_results(case["document"])
        _drop_arguments(case["document"])
        _drop_graphs(case["document"])
        _drop_tensors(case)
    return case


def _calls(document):
    for graph in document["graphs"]:
        for node in graph["nodes"]:
            if node.get("target") == "tile.for_loop":
                inner = next(g for g in document["graphs"] if g["id"] == node["args"][0])
                yield graph, node, inner


def _has_writes(document, graph):
    found = any(_writes(n) for n in graph["nodes"])
    inner = [i for g, _, i in _calls(document) if g is graph]
    return found or any(_has_writes(document, i) for i in inner)


def _drop_nodes(graph):
    while True:
        used = {name for n in graph["nodes"] for name in refs([n.get("args"), n.get("kwargs")])}
        kept = [
            n
            for n in graph["nodes"]
            if n["name"] in used
            or n.get("op") in ("output", "placeholder")
            or _writes(n)
            or n.get("target") == "tile.for_loop"
        ]
        if len(kept) == len(graph["nodes"]):
            return
        graph["nodes"][:] = kept


def _drop_results(document):
    """Loop results that no getitem takes, with the arguments that they carry; empty loops."""
    for graph, node, inner in list(_calls(document)):
        output = inner["nodes"][-1]["args"][0]
        items = [n for n in graph["nodes"] if n.get("target") == "getitem"]
        items = [n for n in items if refs(n["args"]) == [node["name"]]]
        taken = {n["args"][1] for n in items}
        unused = [i for i in range(len(output)) if i not in taken]
        if not output and not _has_writes(document, inner):
            graph["nodes"].remove(node)
            continue
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
    for _, node, inner in list(_calls(document)):
        holders = [n for n in inner["nodes"] if n.get("op") == "placeholder"]
        used = {name for n in inner["nodes"] for name in refs([n.get("args"), n.get("kwargs")])}
        carried = {a for a, _ in inner.get("carried", [])}
        for i, holder in reversed(list(enumerate(holders))):
            if holder["name"] not in used and i not in carried:
                inner["nodes"].remove(holder)
                node["args"][3].pop(i)
                inner["carried"] = [[a - (a > i), o] for a, o in inner.get("carried", [])]


def _drop_graphs(document):
    called = {inner["id"] for _, _, inner in _calls(document)}
    document["graphs"][:] = [
        g for g in document["graphs"] if g["kind"] == "root" or g["id"] in called
    ]


def _drop_tensors(case):
    document = case["document"]
    named = {
        n["args"][0]
        for g in document["graphs"]
        for n in g["nodes"]
        if n.get("target") == "tile.host_tensor"
    }
    while True:
        bases = {t["of"] for t in document["tensors"] if "of" in t and t["name"] in named}
        if bases <= named:
            break
        named |= bases
    gone = [t for t in document["tensors"] if t["name"] not in named]
    if any(t["role"] == "input" for t in gone):
        document["config"].pop("pallas_load_buffer_count", None)
    document["tensors"][:] = [t for t in document["tensors"] if t["name"] in named]
    named |= {scalar["name"] for scalar in document.get("scalars", ())}
    case["values"] = {k: v for k, v in case["values"].items() if k in named}
