"""Bodies: the graphs of a document while they are built.

A value of a body around becomes an argument where it is first used. A variable is read through
the bodies as well; what a body assigns it hands back when it closes.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from . import ops, schema
from .inference import Refused
from .sizes import Size, dim_json
from .source import BuildError, Place, caller
from .values import (
    Meta,
    Node,
    Scalar,
    Tensor,
    Tile,
    Value,
    Variable,
    ds,
    type_text,
)

if TYPE_CHECKING:
    from .graph import Graph

# Python's operators: the op on tiles, and the one on ints and scalars of the program, if there is.
OPERATORS: dict[str, tuple[str, str | None]] = {
    "add": ("aten.add.Tensor", "add"),
    "sub": ("aten.sub.Tensor", "sub"),
    "mul": ("aten.mul.Tensor", "mul"),
    "truediv": ("aten.div.Tensor", None),
    "floordiv": ("aten.floor_divide.default", "floordiv"),
    "mod": ("aten.remainder.Tensor", "mod"),
    "pow": ("aten.pow.Tensor_Tensor", None),
    "matmul": ("aten.matmul.default", None),
    "and_": ("aten.bitwise_and.Tensor", "and_"),
    "or_": ("aten.bitwise_or.Tensor", "or_"),
    "xor": ("aten.bitwise_xor.Tensor", None),
    "lshift": ("aten.bitwise_left_shift.Tensor", None),
    "rshift": ("aten.bitwise_right_shift.Tensor", None),
    "eq": ("aten.eq.Tensor", "eq"),
    "ne": ("aten.ne.Tensor", "ne"),
    "lt": ("aten.lt.Tensor", "lt"),
    "le": ("aten.le.Tensor", "le"),
    "gt": ("aten.gt.Tensor", "gt"),
    "ge": ("aten.ge.Tensor", "ge"),
    "neg": ("aten.neg.default", "neg"),
    "not_": ("aten.bitwise_not.default", "not_"),
}
_BOOL_ONLY = ("and_", "or_", "not_")


class Body:
    """One graph of the document: of a grid, loop, branch, condition or combine function.

    Attributes:
      kind: as the format calls it.
      fields: further fields of the format's graph, such as `block_ids`.
      place: where it begins.
      placeholders: its arguments, by what they stand for, in order.
      sources: what the caller passes for each.
      output: the values that it gives.
    """

    def __init__(
        self, graph: Graph, kind: str, place: Place, parent: Body | None, **fields: Any
    ) -> None:
        self.graph, self.kind, self.place, self.parent = graph, kind, place, parent
        self.fields = fields
        self.tiles: list[Tile] = []
        self.nodes: list[Node] = []
        self.placeholders: dict[Hashable, Value] = {}
        self.sources: dict[Hashable, Value] = {}
        self.output: list[Value] = []
        self.variables: dict[Variable, Value] = {}
        self.assigned: dict[Variable, None] = {}  # in order
        self._named: dict[int, Value] = {}

    def chain(self) -> list[Body]:
        """The body and those around it."""
        return [self, *(self.parent.chain() if self.parent else [])]

    def describe(self) -> str:
        """For messages: "the loop over k"."""
        over = ", ".join(tile.name for tile in self.tiles)
        words = {"root": "grid", "for_loop": "loop", "while": "while loop"}
        word = words.get(self.kind, f"'{self.kind}'")
        return f"the {word} over {over}" if over else f"the {word} of line {self.place.line}"

    def all_nodes(self) -> list[Node]:
        """Its placeholders, then the others."""
        return [*(value.node for value in self.placeholders.values()), *self.nodes]

    def called(self, node: Node, following: Node | None) -> str:
        """What a node is called in the program: the last one of `name = ...` is called so."""
        is_last = following is None or following.place != node.place
        return (not node.named and is_last and node.place.target) or node.name

    # ---- nodes -------------------------------------------------------------------------------

    def append(
        self,
        target: str,
        args: list[Any],
        meta: Meta | None,
        place: Place,
        name: str = "",
        kwargs: dict[str, Any] | None = None,
        weak: bool = False,
    ) -> Value:
        """Appends a node whose type is known."""
        base = name or _short(target)
        node = Node(target, args, kwargs or {}, meta, place, base, bool(name))
        self.nodes.append(node)
        return Value(node, self, meta or {}, weak)

    def infer(
        self,
        target: str,
        args: list[Any],
        kwargs: dict[str, Any],
        declared: Meta | None = None,
        name: str = "",
    ) -> Meta | None:
        """The type of a node; a `BuildError` at the caller's line where it is refused."""
        grid = [self.graph.block_id(tile) for body in self.chain() for tile in body.tiles]
        try:
            return self.graph.types.infer(target, args, kwargs, grid, declared)
        except Refused as refused:
            raise caller().error(f"{name or _short(target)}: {refused}") from None

    def call(self, target: str, *args: Any, **kwargs: Any) -> Any:
        """Appends a node of the op table.

        Returns:
          A `Value`; a tuple of them; None of a store.
        """
        if target not in ops.PARAMS:
            raise caller().error(f"'{target}' is no op: docs/ops.md lists them")
        params = schema.parse(ops.PARAMS[target])
        bound = schema.bind(params, args, kwargs)
        if isinstance(bound, str):
            raise caller().error(f"{_short(target)} {bound}")
        letters = {param.name: param.letter for param in params}
        by_position = zip((p.name for p in params), bound[0], strict=False)
        given = {name: self._argument(letters[name], value) for name, value in by_position}
        named = {name: self._argument(letters[name], value) for name, value in bound[1].items()}
        declared = self._declared(target, params, bound[0], given, named)
        meta = self.infer(target, list(given.values()), named, declared)
        weak = target in {symbolic for _, symbolic in OPERATORS.values()}
        value = self.append(target, list(given.values()), meta, caller(), kwargs=named, weak=weak)
        if meta is None:
            return None
        return self.results(value, _short(target)) if "tuple" in meta else value

    def call_value(self, target: str, *args: Any, **kwargs: Any) -> Value:
        """The same of an op that gives one value."""
        value = self.call(target, *args, **kwargs)
        assert isinstance(value, Value)
        return value

    def results(self, value: Value, name: str) -> tuple[Value, ...]:
        """The elements of a tuple."""
        return tuple(
            self.append("getitem", [value, i], meta, value.node.place, f"{name}_{i}")
            for i, meta in enumerate(value.meta["tuple"])
        )

    def operate(self, name: str, *operands: Any) -> Value:
        """One of Python's operators."""
        plain = [self.resolve(operand) for operand in operands]
        values = [operand for operand in plain if isinstance(operand, Value)]
        target, symbolic = OPERATORS[name]
        if name in _BOOL_ONLY and any(value.dtype != "bool" for value in values):
            symbolic = None
        if symbolic and values and all(value.is_weak for value in values):
            target = symbolic
        return self.call_value(target, *plain)

    # ---- operands ----------------------------------------------------------------------------

    def resolve(self, operand: Any) -> Any:
        """An operand as the value that it is in this body, or a size or number."""
        if isinstance(operand, Variable):
            return self.read(operand)
        if isinstance(operand, Value):
            return self.capture(operand)
        if isinstance(operand, Scalar):
            return self._host(operand, "tile.scalar", {"dtype": operand.dtype, "shape": []}, True)
        if isinstance(operand, Tensor):
            message = f"tensor '{operand.name}' lies in HBM: take a tile of it, {operand.name}[...]"
            raise caller().error(message)
        if isinstance(operand, Tile):
            self.check_open(operand)
        if operand is None or isinstance(operand, bool | Size):
            return operand
        if isinstance(operand, numbers.Integral):
            return int(operand)
        if isinstance(operand, numbers.Real):
            return float(operand)
        raise caller().error(f"{operand!r} is no value of a kernel and no number")

    def host(self, tensor: Tensor) -> Value:
        """The node that stands for a tensor in this body."""
        return self._host(tensor, "tile.host_tensor", tensor.meta, False)

    def _host(self, what: Tensor | Scalar, target: str, meta: Meta, weak: bool) -> Value:
        self.graph.check_own(what)
        if id(what) not in self._named:
            argument: Any = what if isinstance(what, Tensor) else what.name
            value = self.append(target, [argument], meta, caller(), what.name, weak=weak)
            self._named[id(what)] = value
        return self._named[id(what)]

    def check_open(self, tile: Tile) -> None:
        """Refuses a tile whose grid or loop is not around."""
        if tile.body is not None and tile.body not in self.chain():
            raise caller().error(f"tile '{tile.name}' is used outside of {tile.body.describe()}")

    def capture(self, value: Value) -> Value:
        """A value of this body or of one around it, as it is here."""
        if value.body is self:
            return value
        if value.body not in self.chain():
            raise caller().error(self._gone(value))
        return self._argument_for(value, lambda outer: outer.capture(value), None)

    def _gone(self, value: Value) -> str:
        nodes = value.body.all_nodes()
        at = next(i for i, node in enumerate(nodes) if node is value.node)
        name = value.body.called(value.node, nodes[at + 1] if at + 1 < len(nodes) else None)
        what = f"'{name}' was computed inside of {value.body.describe()}"
        if value.body.graph is not self.graph:
            return f"{what}, in another graph"
        hint = "assign it to a variable of the body around (Graph.var), and use that"
        return f"{what} (line {value.node.place.line}), and is used outside: {hint}"

    def _argument_for(self, key: Any, outer: Any, meta: Meta | None) -> Value:
        """The placeholder for a value or variable of a body around."""
        if self.kind == "combine":
            raise caller().error("the function of a scan or reduction computes with its arguments")
        if key not in self.placeholders:
            assert self.parent is not None
            self.add_argument(key, outer(self.parent), meta)
        return self.placeholders[key]

    def add_argument(self, key: Hashable, source: Value, meta: Meta | None = None) -> Value:
        """A placeholder for a value of the body around."""
        meta = meta or source.meta
        if "sym" in meta:
            meta = {**meta, "sym": None}
        self.sources[key] = source
        return self.add_placeholder(key, meta, key.name if isinstance(key, Variable) else "")

    def add_placeholder(self, key: Hashable, meta: Meta, name: str) -> Value:
        """A placeholder of a type; without a name it is called as what is passed for it."""
        node = Node(None, [], {}, meta, self.place, name, bool(name))
        self.placeholders[key] = Value(node, self, meta)
        return self.placeholders[key]

    # ---- variables ---------------------------------------------------------------------------

    def read(self, variable: Variable) -> Value:
        """What a variable is here and now."""
        if variable in self.variables:
            return self.variables[variable]
        if variable.body not in self.chain():
            message = f"variable '{variable.name}' is used outside of {variable.body.describe()}"
            raise caller().error(message)
        argument = self._argument_for(variable, lambda o: o.read(variable), variable.meta)
        self.variables[variable] = argument
        return argument

    def assign(self, variable: Variable, value: Any) -> None:
        """Gives a variable a value of its type."""
        self.read(variable)
        given = self.as_tensor(value)
        if not self._fits(variable.meta, given):
            raise caller().error(
                f"variable '{variable.name}' is {type_text(variable.meta)}, and is assigned "
                f"{type_text(given.meta)}: convert it with .to, or broadcast it with ops.expand"
            )
        if not given.node.named and given.node.place == caller():
            given.node.name, given.node.named = variable.name, True
        self.hand(variable, given)

    def hand(self, variable: Variable, value: Value) -> None:
        """The same of a value whose type is right."""
        self.variables[variable] = value
        if variable.body is not self:
            self.assigned[variable] = None

    def as_tensor(self, value: Any) -> Value:
        """A value of the kernel, also of a number, a size, and what promotes like one."""
        plain = self.resolve(value)
        if isinstance(plain, Value) and not plain.is_weak:
            return plain
        if isinstance(plain, Value):
            dtype = plain.dtype
        else:
            kinds = {bool: "bool", float: "float32"}
            dtype = kinds.get(type(plain), "int32")
        return self.call_value("aten.scalar_tensor.default", plain, dtype=dtype)

    def _fits(self, meta: Meta, value: Value) -> bool:
        if value.meta == meta:
            return True
        if value.meta["dtype"] != meta["dtype"]:
            return False
        try:
            self.infer("tile.new_var", [value], {}, meta)
        except BuildError:
            return False
        return True

    # ---- arguments ---------------------------------------------------------------------------

    def _argument(self, letter: str, value: Any) -> Any:
        """An argument as a `Node` has it, by the letter of its parameter."""
        if letter == "d" and isinstance(value, str):
            return {"dtype": value}
        if letter == "N":
            return [self._entry(entry) for entry in _entries(value)]
        if letter == "t" and isinstance(value, Tensor):
            return self.host(value)
        if letter in "GTC" or (letter == "s" and isinstance(value, str)):
            return value
        return self._plain(value, sizes=letter in "iI")

    def _plain(self, value: Any, sizes: bool = False) -> Any:
        if isinstance(value, list | tuple):
            return [self._plain(item, sizes) for item in value]
        if isinstance(value, Size):  # as a size a symbol may stand anywhere
            if isinstance(value, Tile) and not sizes:
                self.check_open(value)
            return {"sym": value.text}
        plain = self.resolve(value)
        if isinstance(plain, float) and not math.isfinite(plain):
            return {"float": "nan" if math.isnan(plain) else "inf" if plain > 0 else "-inf"}
        if isinstance(plain, Value) and plain.meta.get("sym") is not None:
            return {"sym": plain.meta["sym"]}
        return plain

    def _entry(self, entry: Any) -> Any:
        """An entry of an index list."""
        if entry is Ellipsis:
            raise caller().error("an index has one entry for each dim: `...` is none")
        if isinstance(entry, slice):
            return {"slice": [self._plain(x) for x in (entry.start, entry.stop, entry.step)]}
        if isinstance(entry, ds):
            dim_json(entry.size)
            stop = self.resolve(entry.start)
            stop = stop + entry.size
            return {"slice": [self._plain(entry.start), self._plain(stop), None]}
        if isinstance(entry, float):
            raise caller().error(f"an index entry is {entry!r}: positions are ints")
        return self._plain(entry)

    def _declared(
        self,
        target: str,
        params: Sequence[schema.Param],
        values: Sequence[Any],
        given: dict[str, Any],
        named: dict[str, Any],
    ) -> Meta | None:
        """The type of a load between bounds of the kernel: `ds` says how long it is."""
        at = next((i for i, param in enumerate(params) if param.letter == "N"), None)
        entries = [] if at is None else _entries(values[at])
        if at is None or not any(isinstance(entry, ds) for entry in entries):
            return None
        name = params[at].name
        fixed = [
            {
                "slice": [
                    0,
                    dim_json(entry.size)
                    if isinstance(entry.size, int)
                    else {"sym": entry.size.text},
                    None,
                ]
            }
            if isinstance(entry, ds)
            else plain
            for entry, plain in zip(entries, given[name], strict=True)
        ]
        return self.infer(target, list({**given, name: fixed}.values()), named)


def _entries(index: Any) -> list[Any]:
    return list(index) if isinstance(index, tuple | list) else [index]


def _short(target: str) -> str:
    """The name that people know an op by: "aten.sum.dim_IntList" is sum."""
    parts = target.split(".")
    return parts[1] if len(parts) > 1 else target
