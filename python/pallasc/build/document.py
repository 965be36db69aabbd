"""What was built, as a document of the format."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from .bodies import Body
from .values import Node, Tensor, Value

if TYPE_CHECKING:
    from .graph import Graph


def document(graph: Graph) -> dict[str, Any]:
    """The document of a graph whose bodies are closed."""
    ids = {body: i for i, body in enumerate(graph.bodies)}
    found: dict[str, Any] = {"format": "fxtile", "version": 1, "name": graph.name, **graph.head}
    if graph.tables["sizes"]:
        found["sizes"] = dict(graph.tables["sizes"])
    found["tensors"] = [dict(tensor.row) for tensor in graph.tensors]
    if graph.scalars:
        found["scalars"] = [
            {"name": s.name, "dtype": s.dtype}
            | ({"value": graph.values[s.name]} if s.name in graph.values else {})
            for s in graph.scalars
        ]
    if graph.results:
        found["returns"] = [dict(row) for row in graph.results]
    found["block_sizes"] = [dict(row) for row in graph.tables["block_sizes"]]
    if graph.tables["tunables"]:
        found["tunables"] = dict(graph.tables["tunables"])
    names: dict[int, str] = {}
    for body in reversed(graph.bodies):  # those around come first
        names |= _names(body, names)
    found["graphs"] = [_graph(body, ids, names) for body in graph.bodies]
    if graph.settings:
        found["config"] = dict(graph.settings)
    return copy.deepcopy(found)


def _graph(body: Body, ids: dict[Body, int], names: dict[int, str]) -> dict[str, Any]:
    """One graph of the document."""
    rows = [_node(node, names, ids) for node in body.all_nodes()]
    output = [_plain(value, names, ids) for value in body.output]
    name = _free("output", {row["name"] for row in rows})
    end = {"name": name, "op": "output", "args": [output]}
    return {"id": ids[body], "kind": body.kind, **body.fields, "nodes": [*rows, end]}


def _names(body: Body, around: dict[int, str]) -> dict[int, str]:
    """A name for each node by its id; an argument is called as what it is around the body."""
    names: dict[int, str] = {}
    taken: set[str] = set()
    sources = [body.sources.get(key) for key in body.placeholders]
    placeholders = zip(body.placeholders.values(), sources, strict=True)
    outer = {id(value.node): around[id(s.node)] for value, s in placeholders if s is not None}
    nodes = body.all_nodes()
    for i, node in enumerate(nodes):
        following = nodes[i + 1] if i + 1 < len(nodes) else None
        wanted = body.called(node, following)
        if not node.named and id(node) in outer:
            wanted = outer[id(node)]
        names[id(node)] = _free(wanted, taken)
        taken.add(names[id(node)])
    return names


def _free(name: str, taken: set[str]) -> str:
    found, number = name, 0
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return copy.deepcopy(found)


def _node(node: Node, names: dict[int, str], ids: dict[Body, int]) -> dict[str, Any]:
    row: dict[str, Any] = {"name": names[id(node)]}
    if node.target is None:
        return {**row, "op": "placeholder", "meta": node.meta}
    row |= {"target": node.target, "args": _plain(node.args, names, ids)}
    row |= {"kwargs": _plain(node.kwargs, names, ids)} if node.kwargs else {}
    row |= {"meta": node.meta} if node.meta is not None else {}
    return row | ({"loc": node.place.loc} if node.place.loc else {})


def _plain(argument: Any, names: dict[int, str], ids: dict[Body, int]) -> Any:
    """An argument as JSON."""
    if isinstance(argument, Value):
        return {"ref": names[id(argument.node)]}
    if isinstance(argument, Body):
        return ids[argument]
    if isinstance(argument, Tensor):
        return argument.name
    if isinstance(argument, list):
        return [_plain(item, names, ids) for item in argument]
    if isinstance(argument, dict):
        return {key: _plain(item, names, ids) for key, item in argument.items()}
    return argument
