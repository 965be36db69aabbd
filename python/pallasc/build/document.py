"""What was built, as a document of the format."""

from __future__ import annotations

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
    found["graphs"] = [_graph(body, ids) for body in graph.bodies]
    if graph.settings:
        found["config"] = dict(graph.settings)
    return found


def _graph(body: Body, ids: dict[Body, int]) -> dict[str, Any]:
    """One graph of the document."""
    nodes = [*(value.node for value in body.placeholders.values()), *body.nodes]
    names = _names(nodes)
    rows = [_node(node, names, ids) for node in nodes]
    output = [_plain(value, names, ids) for value in body.output]
    end = {"name": _free("output", set(names.values())), "op": "output", "args": [output]}
    return {"id": ids[body], "kind": body.kind, **body.fields, "nodes": [*rows, end]}


def _names(nodes: list[Node]) -> dict[int, str]:
    """A name for each node by its id: the last one of `name = ...` is called so."""
    names: dict[int, str] = {}
    taken: set[str] = set()
    for i, node in enumerate(nodes):
        following = nodes[i + 1] if i + 1 < len(nodes) else None
        is_last = following is None or following.place != node.place
        wanted = node.name
        if is_last and not node.named and node.place.target:
            wanted = node.place.target
        names[id(node)] = _free(wanted, taken)
        taken.add(names[id(node)])
    return names


def _free(name: str, taken: set[str]) -> str:
    found, number = name, 0
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


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
