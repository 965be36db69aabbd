"""Documents of the graph format as text that people can read, and the names in them."""

import json
from collections.abc import Container, Mapping
from typing import Any


def unique_name(wanted: str, taken: Container[str]) -> str:
    """`wanted`, with the first number behind it that makes it a name which is not taken."""
    name, count = wanted, 0
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    return name


def document_text(document: Mapping[str, Any]) -> str:
    """The document as JSON text: one line for each tensor, block, node and the like."""
    lines = []
    for key, value in document.items():
        if key == "graphs":
            body = ",\n".join(graph_text(graph) for graph in value)
            lines.append(f' "graphs": [\n{body}]')
        elif isinstance(value, list):
            rows = ",\n  ".join(line_text(row) for row in value)
            lines.append(f' "{key}": [\n  {rows}]' if value else f' "{key}": []')
        else:
            lines.append(f" {line_text(key)}: {line_text(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def graph_text(graph: Mapping[str, Any]) -> str:
    """One graph as JSON: its fields on a line, then its nodes."""
    head = ", ".join(f"{line_text(k)}: {line_text(v)}" for k, v in graph.items() if k != "nodes")
    nodes = ",\n   ".join(line_text(node) for node in graph["nodes"])
    return f'  {{{head}, "nodes": [\n   {nodes}]}}'


def line_text(value: Any) -> str:
    """A JSON value on one line."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
