"""Types of nodes: the library's own rules, asked for one node at a time.

What is asked is a document of its own: values of the operands' types, then the node. Named sizes
stand in it as symbols, so that what is right is right at all sizes.
"""

from __future__ import annotations

from typing import Any

from ..binding import Inference
from ..errors import CompileError
from .values import Meta, Tensor, Value

_SPARE = "pallasc_spare"  # a block and an output that no graph has


class Refused(Exception):
    """What the library says is wrong, without a place."""


class Types:
    """Asks for types within one graph's tables.

    Args:
      tables: gives the document's `name`, `sizes`, `tunables` and `block_sizes`.
    """

    def __init__(self, tables: Any) -> None:
        self._tables = tables
        self._library: Inference | None = None

    def infer(
        self,
        target: str,
        args: list[Any],
        kwargs: dict[str, Any],
        grid: list[int],
        declared: Meta | None = None,
    ) -> Meta | None:
        """The `meta` of a node, None of one without a value.

        Args:
          args: as a `Node` has them.
          grid: ids of the blocks that are open.
          declared: what the node's type is to be, where the rules leave it open.

        Raises Refused.
        """
        question = _Question(self._tables())
        node = {"name": "it", "target": target, "args": question.plain(args)}
        node |= {"kwargs": question.plain(kwargs)} if kwargs else {}
        node |= {"meta": declared} if declared else {}
        if self._library is None:
            self._library = Inference()
        try:
            meta: Meta | None = self._library.infer(question.document(node, grid))
        except CompileError as found:
            first = found.diagnostics[0] if found.diagnostics else {"message": str(found)}
            message = str(first["message"]).removeprefix(f"{target} 'it': ")
            message = message.removeprefix(f"{target}: ")
            hint = first.get("hint")
            raise Refused(f"{message}: {hint}" if hint else message) from None
        return meta

    def check(self, tensor: Tensor, grid: list[int]) -> None:
        """Refuses a tensor that the format has not."""
        self.infer("tile.host_tensor", [tensor], {}, grid, tensor.meta)


class _Question:
    """A document with the operands of one node."""

    def __init__(self, tables: dict[str, Any]) -> None:
        self.tables = tables
        self.tensors: dict[str, dict[str, Any]] = {}
        self.scalars: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []
        self.names: dict[int, str] = {}

    def plain(self, argument: Any) -> Any:
        """An argument of a node as JSON; values become nodes."""
        if isinstance(argument, Tensor):
            self._declare(argument)
            return argument.name
        if isinstance(argument, Value):
            return {"ref": self._made(argument)}
        if isinstance(argument, list):
            return [self.plain(item) for item in argument]
        if isinstance(argument, dict):
            return {key: self.plain(item) for key, item in argument.items()}
        return argument

    def _declare(self, tensor: Tensor) -> None:
        if tensor.of is not None:
            self._declare(tensor.of)
        self.tensors[tensor.name] = tensor.row

    def _made(self, value: Value) -> str:
        """The name of a node of the value's type."""
        name = self.names.setdefault(id(value), f"operand_{len(self.names)}")
        if all(node["name"] != name for node in self.nodes):
            self.nodes.append({"name": name, **self._maker(value, name), "meta": value.meta})
        return name

    def _maker(self, value: Value, name: str) -> dict[str, Any]:
        meta = value.meta
        if value.node.target == "tile.host_tensor":
            return {"target": "tile.host_tensor", "args": self.plain(value.node.args)}
        if "sym" in meta:
            if meta.get("dtype") == "bool":
                return {"target": "lt", "args": [0, 1]}
            return {"target": "tile.begin", "args": [{"sym": _SPARE}]}
        if value.is_weak:
            self.scalars.append({"name": name, "dtype": value.dtype})
            return {"target": "tile.scalar", "args": [name]}
        shape = [dim if isinstance(dim, int) else {"sym": dim} for dim in meta["shape"]]
        return {"target": "tile.full", "args": [shape, 0, {"dtype": value.dtype}]}

    def document(self, node: dict[str, Any], grid: list[int]) -> dict[str, Any]:
        spare = {"name": _SPARE, "role": "output", "dtype": "float32", "shape": [1]}
        blocks = [*self.tables["block_sizes"]]
        blocks.append({"id": len(blocks), "symbol": _SPARE, "extent": 1})
        sizes = {name: {"default": size} for name, size in self.tables["sizes"].items()}
        end = {"name": "output", "op": "output", "args": [[]]}
        root = {"id": 0, "kind": "root", "grid": [*grid, len(blocks) - 1]}
        return {
            "format": "fxtile",
            "version": 1,
            "name": self.tables["name"],
            "tensors": [*self.tensors.values(), spare],
            "scalars": self.scalars,
            "tunables": {**self.tables["tunables"], **sizes},
            "block_sizes": blocks,
            "graphs": [{**root, "nodes": [*self.nodes, node, end]}],
        }
