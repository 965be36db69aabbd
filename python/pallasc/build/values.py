"""What a graph computes with: values, variables, host scalars and tensors, tiles."""

from __future__ import annotations

import contextvars
import dataclasses
from typing import TYPE_CHECKING, Any, TypeAlias

from .sizes import Dim, Size, dim_json, dim_of
from .source import Place, error

if TYPE_CHECKING:
    from .bodies import Body

Meta: TypeAlias = dict[str, Any]
"""The type of a value as the format's `meta` has it."""

_current: contextvars.ContextVar[Body | None] = contextvars.ContextVar("body", default=None)


def current() -> Body:
    """The body that is open: of a grid, a loop, a branch."""
    body = _current.get()
    if body is None:
        raise error("outside of a grid: values are computed inside of `with g.grid(...)`")
    return body


def enter(body: Body | None) -> None:
    """Makes a body the one that is open; None: none is."""
    _current.set(body)


def is_open() -> bool:
    """Whether a body is open."""
    return _current.get() is not None


class Operators:
    """Python's operators on what stands for a value of the kernel."""

    __array_ufunc__ = None  # numpy's numbers leave operators to this class

    def __add__(self, other: Operand) -> Value:
        return current().operate("add", self, other)

    def __radd__(self, other: Operand) -> Value:
        return current().operate("add", other, self)

    def __sub__(self, other: Operand) -> Value:
        return current().operate("sub", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return current().operate("sub", other, self)

    def __mul__(self, other: Operand) -> Value:
        return current().operate("mul", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return current().operate("mul", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return current().operate("truediv", self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return current().operate("truediv", other, self)

    def __floordiv__(self, other: Operand) -> Value:
        return current().operate("floordiv", self, other)

    def __rfloordiv__(self, other: Operand) -> Value:
        return current().operate("floordiv", other, self)

    def __mod__(self, other: Operand) -> Value:
        return current().operate("mod", self, other)

    def __rmod__(self, other: Operand) -> Value:
        return current().operate("mod", other, self)

    def __pow__(self, other: Operand) -> Value:
        return current().operate("pow", self, other)

    def __rpow__(self, other: Operand) -> Value:
        return current().operate("pow", other, self)

    def __matmul__(self, other: Operators) -> Value:
        return current().operate("matmul", self, other)

    def __and__(self, other: Operand) -> Value:
        return current().operate("and_", self, other)

    def __rand__(self, other: Operand) -> Value:
        return current().operate("and_", other, self)

    def __or__(self, other: Operand) -> Value:
        return current().operate("or_", self, other)

    def __ror__(self, other: Operand) -> Value:
        return current().operate("or_", other, self)

    def __xor__(self, other: Operand) -> Value:
        return current().operate("xor", self, other)

    def __lshift__(self, other: Operand) -> Value:
        return current().operate("lshift", self, other)

    def __rshift__(self, other: Operand) -> Value:
        return current().operate("rshift", self, other)

    def __eq__(self, other: Operand) -> Value:  # type: ignore[override]
        return current().operate("eq", self, other)

    def __ne__(self, other: Operand) -> Value:  # type: ignore[override]
        return current().operate("ne", self, other)

    def __lt__(self, other: Operand) -> Value:
        return current().operate("lt", self, other)

    def __le__(self, other: Operand) -> Value:
        return current().operate("le", self, other)

    def __gt__(self, other: Operand) -> Value:
        return current().operate("gt", self, other)

    def __ge__(self, other: Operand) -> Value:
        return current().operate("ge", self, other)

    def __neg__(self) -> Value:
        return current().operate("neg", self)

    def __invert__(self) -> Value:
        return current().operate("not_", self)

    def __abs__(self) -> Value:
        return current().call_value("aten.abs.default", self)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise error(
            "a value of the kernel is not known yet: choose with ops.where or `with g.if_(...)`, "
            "and combine bools with & | ~"
        )

    def __iter__(self) -> Any:
        raise error("a value of the kernel cannot be iterated over")

    def __getitem__(self, index: Index) -> Value:
        """Positions, slices, and None for a new dim of 1: `v[:, None]`."""
        return current().call_value("tile.subscript", self, index)

    def to(self, dtype: str) -> Value:
        """The value converted to a dtype."""
        return current().call_value("prims.convert_element_type.default", self, dtype)

    @property
    def T(self) -> Value:
        """The value with its last two dims swapped."""
        return current().call_value("aten.mT.default", self)


Operand: TypeAlias = Operators | Size | int | float | bool
"""What an op takes: a value, variable or scalar, a size, a Python number."""


@dataclasses.dataclass
class Node:
    """One node of a graph.

    Attributes:
      target: of the op table; None of a placeholder.
      args: JSON values, in which a `Value` stands for a ref to it, a `Body` for its graph.
      name: what it is called, if that is free; the document gives it its final name.
      named: whether the user gave `name`.
    """

    target: str | None
    args: list[Any]
    kwargs: dict[str, Any]
    meta: Meta | None
    place: Place
    name: str
    named: bool = False


class Value(Operators):
    """What a node computes: a tile, or a number.

    Attributes:
      dtype: its element type, such as "float32".
      shape: its dims, ints and `Size`s; () of a number.
    """

    def __init__(self, node: Node, body: Body, meta: Meta, weak: bool = False) -> None:
        self.node, self.body, self.meta = node, body, meta
        self._weak = weak

    @property
    def dtype(self) -> str:
        return str(self.meta.get("dtype", "int32"))

    @property
    def shape(self) -> tuple[Dim, ...]:
        return tuple(dim_of(dim) for dim in self.meta.get("shape", ()))

    @property
    def is_symbolic(self) -> bool:
        """Whether it is an int or bool of the program that runs the kernel, as `m.begin` is."""
        return "sym" in self.meta

    @property
    def is_weak(self) -> bool:
        """Whether it promotes as a Python number."""
        return self._weak or self.is_symbolic

    def __repr__(self) -> str:
        return f"{self.node.name}: {type_text(self.meta)}"


class Variable(Operators):
    """A name for a value that loops and branches may change. Made by `Graph.var`.

    What a loop assigns it carries from each iteration to the next; after the loop the variable
    has what the last one left, and its value from before where there was none.
    """

    def __init__(self, body: Body, meta: Meta, name: str) -> None:
        self.body, self.meta, self.name = body, meta, name

    @property
    def value(self) -> Value:
        """What it is now; later assignments do not change that."""
        return current().read(self)

    @property
    def dtype(self) -> str:
        return str(self.meta["dtype"])

    @property
    def shape(self) -> tuple[Dim, ...]:
        return tuple(dim_of(dim) for dim in self.meta["shape"])

    def set(self, value: Operand) -> None:
        """Assigns a value of the variable's type."""
        current().assign(self, value)

    def __iadd__(self, other: Operand) -> Variable:  # type: ignore[override]
        self.set(self + other)
        return self

    def __isub__(self, other: Operand) -> Variable:  # type: ignore[override]
        self.set(self - other)
        return self

    def __imul__(self, other: Operand) -> Variable:  # type: ignore[override]
        self.set(self * other)
        return self

    def __itruediv__(self, other: Operand) -> Variable:  # type: ignore[override]
        self.set(self / other)
        return self

    def __repr__(self) -> str:
        return f"variable {self.name}: {type_text(self.meta)}"


class Scalar(Operators):
    """A number that the program gives the kernel. Made by `Graph.scalar`."""

    def __init__(self, name: str, dtype: str) -> None:
        self.name, self.dtype = name, dtype

    def __repr__(self) -> str:
        return f"scalar {self.name}: {self.dtype}"


class Tensor:
    """An array in HBM, of which a kernel takes tiles. Made by `Graph.input` and its like.

    Attributes:
      row: what the format's `tensors` says of it.
    """

    def __init__(self, row: dict[str, Any], of: Tensor | None = None) -> None:
        self.row, self.of = row, of

    @property
    def name(self) -> str:
        return str(self.row["name"])

    @property
    def dtype(self) -> str:
        return str(self.row["dtype"])

    @property
    def shape(self) -> tuple[Dim, ...]:
        return tuple(dim_of(dim) for dim in self.row["shape"])

    @property
    def meta(self) -> Meta:
        return {"dtype": self.row["dtype"], "shape": self.row["shape"]}

    def __getitem__(self, index: Index) -> Value:
        """Loads: one entry for each dim, as `tile.load` has them."""
        return current().call_value("tile.load", self, index)

    def __setitem__(self, index: Index, value: Operand) -> None:
        """Stores a value, converted to the tensor's dtype and broadcast."""
        current().call("tile.store", self, index, value)

    def __repr__(self) -> str:
        return f"{self.row['role']} {self.name}: {type_text(self.meta)}"


class Tile(Size):
    """One tile of a range: its size in shapes, the whole tile in an index.

    Attributes:
      name: what it is called in messages and grid variables.
    """

    def __init__(self, symbol: str, name: str, body: Body | None = None) -> None:
        super().__init__(symbol)
        self.name, self.body = name, body

    @property
    def size(self) -> Size:
        return Size(self.text)

    @property
    def begin(self) -> Value:
        """The position of its first element: an int."""
        return current().call_value("tile.begin", self)

    @property
    def end(self) -> Value:
        """The position behind its last element: an int."""
        return current().call_value("tile.end", self)

    @property
    def id(self) -> Value:
        """Its number in the range: an int."""
        return current().call_value("tile.id", self)

    @property
    def count(self) -> Value:
        """How many tiles the range has: an int."""
        return current().call_value("tile.count", self)

    @property
    def index(self) -> Value:
        """Positions of its elements: int32[size]."""
        return current().call_value("tile.index", self)


@dataclasses.dataclass(frozen=True)
class ds:
    """`size` positions from `start` on, in an index: `x[ds(m.begin + 8, 16), :]`."""

    start: Operand
    size: Dim


Entry: TypeAlias = Operators | Size | int | slice | ds | None
Index: TypeAlias = Entry | tuple[Entry, ...] | list[Entry]
"""One entry for each dim: a tile, a position, a slice, `ds`, ints to gather at; None: a new dim."""


def type_text(meta: Meta) -> str:
    """A type for people: "float32[m, 128]"."""
    if "tuple" in meta:
        return f"({', '.join(type_text(part) for part in meta['tuple'])})"
    if "sym" in meta:
        return "bool" if meta.get("dtype") == "bool" else "int"
    return f"{meta['dtype']}[{', '.join(str(dim) for dim in meta['shape'])}]"


def shape_json(shape: Any) -> list[int | str]:
    """The shape as the format has it."""
    return [dim_json(dim) for dim in shape]
