"""Graphs of testdata whose ints have names: documents with named sizes."""

from kit import document


def renamed(value, names):
    """JSON with names, or other ints, where those ints were, but for what counts and places."""
    if isinstance(value, dict):
        kept = ("id", "loc", "config", "block_ids", "grid", "carried", "version")
        return {k: v if k in kept else renamed(v, names) for k, v in value.items()}
    if isinstance(value, list):
        return [renamed(v, names) for v in value]
    return names.get(value, value) if isinstance(value, int) else value


def argued(graph):
    """A document whose names in arguments are expressions: a bare string is none there."""
    for g in graph["graphs"]:
        for node in g["nodes"]:
            node["args"] = _argued(node["args"]) if "args" in node else []
    return graph


def _argued(value):
    if isinstance(value, list):
        return [_argued(v) for v in value]
    return {"sym": value} if value in ("S", "D") else value


def sized(name, numbers):
    """A graph of testdata whose ints have names."""
    names = {value: key for key, value in numbers.items()}
    graph = argued(renamed(document(name), names))
    return {**graph, "sizes": numbers}
