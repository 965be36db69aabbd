"""`Graph`: a document while it is built: its tables, and the bodies of its grids and loops."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from ..document_text import document_text, unique_name
from ..files import write_whole
from .bodies import Body
from .document import document
from .inference import Refused, Types
from .sizes import Dim, Size, dim_json
from .source import BuildError, Place, caller
from .values import (
    Operand,
    Scalar,
    Tensor,
    Tile,
    Value,
    Variable,
    current,
    enter,
    is_open,
    shape_json,
    type_text,
)

T = TypeVar("T")
Shape: TypeAlias = Sequence[Dim]
Bound: TypeAlias = Dim | Value | Variable


class axis:
    """A range that a grid or loop tiles, where its end alone does not say it.

    Args:
      end: the position behind the last: an int, a size, or in a loop an int of the kernel.
      begin: the first position.
      size: elements of a tile, where the graph fixes them; None: the configuration says.
      lengths: ints over dims of tiles around: each row ends at its own (a jagged loop); then
        `end` is their maximum.
    """

    def __init__(
        self,
        end: Bound | None = None,
        begin: Bound = 0,
        *,
        size: Dim | None = None,
        lengths: Value | Variable | None = None,
    ) -> None:
        self.end, self.begin, self.size, self.lengths = end, begin, size, lengths


Axis: TypeAlias = Bound | axis


class Graph:
    """A graph that is built statement by statement (docs/build.md).

    Args:
      name: of the kernel's function.
      assume_in_bounds: indices are inside of their tensors: no checks.
    """

    def __init__(self, name: str, *, assume_in_bounds: bool = False) -> None:
        self.name = name
        self.tensors: list[Tensor] = []
        self.scalars: list[Scalar] = []
        self.head: dict[str, Any] = {"assume_in_bounds": True} if assume_in_bounds else {}
        self.tables: dict[str, Any] = {"name": name, "sizes": {}, "tunables": {}, "block_sizes": []}
        self.values: dict[str, Any] = {}  # of scalars that the graph gives
        self.results: list[dict[str, Any]] = []
        self.bodies: list[Body] = []  # that are closed, in that order
        self.settings: dict[str, Any] = {}
        self.types = Types(lambda: self.tables)
        self._last_if: _Branches | None = None
        self._ask("graph", "add", [0, 1])

    # ---- tables ------------------------------------------------------------------------------

    def size(self, name: str, value: int) -> Size:
        """A named size; `value` is what it is where nobody says another."""
        self._check_name(name)
        if type(value) is not int or value < 1:
            raise caller().error(f"size '{name}' is {value!r}, no int above 0")
        self._add("sizes", f"size '{name}'", name, value)
        return Size(name)

    def sizes(self, **values: int) -> tuple[Size, ...]:
        """Several named sizes: `M, N = g.sizes(M=512, N=256)`."""
        return tuple(self.size(name, value) for name, value in values.items())

    def tunable(self, name: str, default: int, choices: Sequence[int] = ()) -> Size:
        """An int that the configuration chooses."""
        self._check_name(name)
        row = {"default": default} | ({"choices": list(choices)} if choices else {})
        self._add("tunables", f"tunable '{name}'", name, row)
        return Size(name)

    def input(self, name: str, shape: Shape, dtype: str) -> Tensor:
        """An array that the kernel reads: a parameter of the function."""
        return self._tensor(name, "input", dtype, shape)

    def output(
        self,
        name: str,
        shape: Shape,
        dtype: str,
        *,
        init: float | None = None,
        whole: bool = False,
    ) -> Tensor:
        """An array that the function makes; `init` fills what no store writes."""
        more: dict[str, Any] = {} if init is None else {"init": init}
        return self._tensor(name, "output", dtype, shape, **more, **_whole(whole))

    def inout(self, name: str, shape: Shape, dtype: str, *, whole: bool = False) -> Tensor:
        """A parameter that is written: the function returns it updated."""
        return self._tensor(name, "inout", dtype, shape, **_whole(whole))

    def scalar(self, name: str, dtype: str, value: float | bool | None = None) -> Scalar:
        """A number: a parameter of the function, unless it has a value here."""
        scalar = Scalar(name, dtype)
        self._check_free(name)
        self.scalars.append(scalar)
        if value is not None:
            self.values[name] = value
        return scalar

    def view(self, of: Tensor, shape: Shape, *, name: str | None = None) -> Tensor:
        """Another name for a tensor: its elements in order, in another shape."""
        return self._view(of, shape, name)

    def permuted(self, of: Tensor, dims: Sequence[int], *, name: str | None = None) -> Tensor:
        """A tensor with its dims in another order."""
        if sorted(dims) != list(range(len(of.shape))):
            raise caller().error(f"permuted: dims {list(dims)} are no order of {of!r}")
        return self._view(of, [of.shape[d] for d in dims], name, permute=list(dims))

    def sliced(self, of: Tensor, *slices: slice, name: str | None = None) -> Tensor:
        """A part of a tensor: a slice for each dim, from 0 on or later."""
        if len(slices) != len(of.shape):
            raise caller().error(f"sliced: {len(slices)} slices for {of!r}")
        shape = [_length(s, dim) for s, dim in zip(slices, of.shape, strict=True)]
        rows = [[_bound_json(x) for x in (s.start, s.stop, s.step)] for s in slices]
        return self._view(of, shape, name, slice=rows)

    def expanded(self, of: Tensor, shape: Shape, *, name: str | None = None) -> Tensor:
        """A tensor whose dims of 1, and new ones in front, are repeated."""
        return self._view(of, shape, name, expand=True)

    def derived(
        self,
        name: str,
        of: Tensor,
        shape: Shape,
        dtype: str,
        ops: Sequence[Sequence[Any]],
    ) -> Tensor:
        """An array that the function computes from `of` by steps, [target, arguments...]."""
        steps = [list(step) for step in ops]
        return self._tensor(name, "derived", dtype, shape, of=of, ops=steps)

    def returns(
        self,
        tensor: Tensor,
        *,
        ops: Sequence[Sequence[Any]] = (),
        shape: Shape | None = None,
    ) -> None:
        """Adds a result of the function, after steps, in a shape; by default all outputs are."""
        row: dict[str, Any] = {"tensor": tensor.name}
        row |= {"ops": [list(step) for step in ops]} if ops else {}
        row |= {} if shape is None else {"shape": shape_json(shape)}
        self.results.append(row)

    def config(self, **keys: Any) -> None:
        """Keys of the configuration; `block_sizes` may be {tile's name: size}."""
        chosen = keys.get("block_sizes")
        if isinstance(chosen, Mapping):
            keys["block_sizes"] = self._blocks_by_name(chosen)
        self.settings |= keys

    # ---- bodies ------------------------------------------------------------------------------

    def grid(self, **axes: Axis) -> _Open[tuple[Tile, ...]]:
        """A kernel over tiles of ranges: `with g.grid(m=M, n=N) as (m, n):`."""
        if is_open():
            raise caller().error("a grid stands inside of no other: use g.loop")
        body = Body(self, "root", caller(), None)
        given = {name: _as_axis(value) for name, value in axes.items()}
        for name, value in given.items():
            if value.lengths is not None or not all(
                isinstance(bound, int | Size) for bound in (value.begin, value.end)
            ):
                raise caller().error(f"the grid's axis '{name}' needs bounds that are sizes")
            body.tiles.append(self._tile(name, value, body))
        body.fields["grid"] = [self.block_id(tile) for tile in body.tiles]
        return _Open(self, body, tuple(body.tiles), self._close_grid)

    def loop(
        self,
        name: str,
        end: Bound | None = None,
        begin: Bound = 0,
        *,
        size: Dim | None = None,
        lengths: Value | Variable | None = None,
    ) -> _Open[Tile]:
        """A loop over the tiles of one range: `with g.loop("k", K) as k:`; see `axis`."""
        opened = self._loop({name: axis(end, begin, size=size, lengths=lengths)})
        return _Open(self, opened.body, opened.given[0], opened.close)

    def loops(self, **axes: Axis) -> _Open[tuple[Tile, ...]]:
        """A loop over the tiles of several ranges, the first outermost."""
        return self._loop({name: _as_axis(value) for name, value in axes.items()})

    def while_(self, condition: Callable[[], Operand]) -> _Open[None]:
        """A loop that runs while `condition()`, computed from variables, is true."""
        parent = current()
        test = Body(self, "cond", caller(), parent)
        enter(test)
        try:
            test.output = [_predicate(test, condition())]
        finally:
            enter(parent)
        body = Body(self, "while", caller(), parent)
        return _Open(self, body, None, lambda: self._close_while(test, body))

    def if_(self, condition: Operand) -> _Open[None]:
        """What is done where an int or bool of the kernel is true; `else_` may follow."""
        parent = current()
        predicate = _predicate(parent, condition)
        branches = _Branches(parent, predicate, Body(self, "if", caller(), parent))
        return _Open(self, branches.then, None, lambda: self._close_if(branches))

    def else_(self) -> _Open[None]:
        """What is done where the condition of the `if_` just before is false."""
        branches = self._last_if
        parent = current()
        if branches is None or branches.parent is not parent or not branches.is_last():
            raise caller().error("else_ follows its if_, with nothing between")
        branches.undo()
        branches.otherwise = Body(self, "else", caller(), parent)
        return _Open(self, branches.otherwise, None, lambda: self._close_if(branches))

    def var(self, value: Operand, name: str | None = None) -> Variable:
        """A variable that has this value, and what is assigned to it in loops and branches."""
        place = caller()
        body = current()
        first = body.as_tensor(value)
        variable = Variable(body, first.meta, name or place.target or "var")
        body.variables[variable] = first
        return variable

    def whole(self, name: str, extent: Dim) -> Tile:
        """A whole dim, which is computed at once, or in blocks where that does not fit."""
        return self._tile(name, axis(extent), None, reduction=True)

    # ---- results -----------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """The graph in the format of docs/graph-format.md, as JSON values."""
        if is_open():
            raise caller().error("the document is whole when its grids are closed")
        return document(self)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the document to a file, whole or not at all. Raises OSError."""
        write_whole(path, document_text(self.document()))

    # ---- behind the scenes -------------------------------------------------------------------

    def block_id(self, tile: Tile) -> int:
        """The number of a tile's block."""
        symbols = [block["symbol"] for block in self.tables["block_sizes"]]
        return symbols.index(tile.text)

    def check_own(self, what: Tensor | Scalar) -> None:
        """Refuses what another graph has."""
        if not any(what is own for own in (*self.tensors, *self.scalars)):
            raise caller().error(f"{what!r} is of another graph")

    def _check_free(self, name: str) -> None:
        own: list[Tensor | Scalar] = [*self.tensors, *self.scalars]
        if name in [what.name for what in own]:
            raise caller().error(f"there is a tensor or scalar '{name}' already")

    def _check_name(self, name: str) -> None:
        symbols = [block["symbol"] for block in self.tables["block_sizes"]]
        if name in {*self.tables["sizes"], *self.tables["tunables"], *symbols}:
            raise caller().error(f"there is a size, tunable or block '{name}' already")

    def _add(self, table: str, what: str, name: str, row: Any) -> None:
        """Adds to a table what the library takes."""
        rows = self.tables[table]
        self.tables[table] = {**rows, name: row}
        try:
            self._ask(what, "add", [0, 1])
        except BuildError:
            self.tables[table] = rows
            raise

    def _ask(self, what: str, target: str, args: list[Any]) -> None:
        try:
            self.types.infer(target, args, {}, [])
        except Refused as refused:
            raise caller().error(f"{what}: {refused}") from None

    def _tensor(
        self,
        name: str,
        role: str,
        dtype: str,
        shape: Shape,
        *,
        of: Tensor | None = None,
        **more: Any,
    ) -> Tensor:
        self._check_free(name)
        row = {"name": name, "role": role, "dtype": dtype, "shape": shape_json(shape)}
        row |= {} if of is None else {"of": of.name}
        tensor = Tensor({**row, **more}, of)
        try:
            self.types.check(tensor, [])
        except Refused as refused:
            raise caller().error(f"{role} '{name}': {refused}") from None
        self.tensors.append(tensor)
        return tensor

    def _view(self, of: Tensor, shape: Shape, name: str | None, **how: Any) -> Tensor:
        taken = [tensor.name for tensor in self.tensors]
        base = name or caller().target or f"{of.name}_view"
        chosen = base if name else unique_name(base, taken)
        return self._tensor(chosen, "view", of.dtype, shape, of=of, **how)

    def _tile(self, name: str, over: axis, body: Body | None, **more: Any) -> Tile:
        blocks = self.tables["block_sizes"]
        symbol = unique_name(name, [block["symbol"] for block in blocks])
        self._check_name(symbol)
        bounds = {"begin": over.begin, "extent": over.end}
        row: dict[str, Any] = {"id": len(blocks), "symbol": symbol, "name": name}
        row |= {
            key: dim_json(bound) if isinstance(bound, int | Size) else None
            for key, bound in bounds.items()
            if key == "extent" or not (isinstance(bound, int) and bound == 0)
        }
        row |= {} if over.size is None else {"size": dim_json(over.size)}
        blocks.append({**row, **more})
        tile = Tile(symbol, name, body)
        try:
            self._ask(f"axis '{name}'", "tile.block_size", [{"sym": symbol}])
        except BuildError:
            blocks.pop()
            raise
        return tile

    def _loop(self, axes: Mapping[str, axis]) -> _Open[tuple[Tile, ...]]:
        parent = current()
        body = Body(self, "for_loop", caller(), parent)
        begins, ends = [], []
        for name, over in axes.items():
            if over.lengths is not None:
                lengths = parent.as_tensor(over.lengths)
                over = axis(_longest(parent, lengths), over.begin, size=over.size)
                body.fields["lengths"] = len(body.placeholders)
                body.add_argument(lengths, lengths)
            begins.append(_bound(parent, name, over.begin))
            ends.append(_bound(parent, name, over.end))
            body.tiles.append(self._tile(name, over, body))
        body.fields["block_ids"] = [self.block_id(tile) for tile in body.tiles]
        tiles = tuple(body.tiles)
        return _Open(self, body, tiles, lambda: self._close_loop(body, begins, ends))

    def _blocks_by_name(self, chosen: Mapping[str, int]) -> list[int]:
        names = [
            block["symbol"]
            for block in self.tables["block_sizes"]
            if "size" not in block and not block.get("reduction")
        ]
        if set(chosen) != set(names):
            told = f"block_sizes names {', '.join(chosen) or 'nothing'}"
            raise caller().error(f"{told}; the blocks to choose are {', '.join(names) or 'none'}")
        return [chosen[name] for name in names]

    # ---- what closes -------------------------------------------------------------------------

    def _close_grid(self) -> None:
        pass

    def _close_loop(self, body: Body, begins: list[Any], ends: list[Any]) -> None:
        _give_assigned(body)
        args = list(body.sources.values())
        call: list[Any] = [body, begins, ends, args]
        _hand_back(body, "tile.for_loop", call, "loop")

    def _close_while(self, test: Body, body: Body) -> None:
        for one, other in ((body, test), (test, body)):
            for key in one.placeholders:
                if key not in other.placeholders:
                    other.add_argument(key, one.sources[key], one.placeholders[key].meta)
        order = list(body.placeholders)
        test.placeholders = {key: test.placeholders[key] for key in order}
        self.bodies.append(test)
        _give_assigned(body)
        call: list[Any] = [test, body, [body.sources[key] for key in order]]
        _hand_back(body, "tile.while", call, "while")

    def _close_if(self, branches: _Branches) -> None:
        self._last_if = branches
        branches.close()


class _Open(Generic[T]):
    """A body that is open inside of a `with` statement, which gets `given`."""

    def __init__(self, graph: Graph, body: Body, given: T, close: Callable[[], None]) -> None:
        self.graph, self.body, self.given, self.close = graph, body, given, close

    def __enter__(self) -> T:
        enter(self.body)
        return self.given

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        enter(self.body.parent)
        if kind is None:
            self.close()
            self.graph.bodies.append(self.body)


class _Branches:
    """An `if_`, and the `else_` that may follow."""

    def __init__(self, parent: Body, predicate: Value, then: Body) -> None:
        self.parent, self.predicate, self.then = parent, predicate, then
        self.otherwise: Body | None = None
        self._before = self._state()
        self._implied: Body | None = None
        self._after = 0

    def _state(self) -> tuple[int, dict[Variable, Value], dict[Variable, None]]:
        parent = self.parent
        return len(parent.nodes), dict(parent.variables), dict(parent.assigned)

    def is_last(self) -> bool:
        """Whether nothing was computed since."""
        return len(self.parent.nodes) == self._after

    def undo(self) -> None:
        """Takes the call back, for another with an else."""
        count, variables, assigned = self._before
        del self.parent.nodes[count:]
        self.parent.variables, self.parent.assigned = dict(variables), dict(assigned)
        if self._implied is not None:
            self.parent.graph.bodies.remove(self._implied)
            self._implied = None

    def close(self) -> None:
        """The call of the branches that there are, and what becomes of variables."""
        otherwise = self.otherwise
        changed = list(self.then.assigned | (otherwise.assigned if otherwise else {}))
        if changed and otherwise is None:
            place = self.then.place
            otherwise = self._implied = Body(self.parent.graph, "else", place, self.parent)
            self.parent.graph.bodies.append(otherwise)
        branches = [self.then, *([otherwise] if otherwise else [])]
        for branch in branches:
            branch.output = [branch.read(variable) for variable in changed]
        call: list[Any] = [self.predicate, self.then, otherwise]
        call += [list(branch.sources.values()) for branch in branches]
        if otherwise is None:
            call = [self.predicate, self.then, None, call[3]]
        _results(self.parent, "tile.if", call, self.then, changed, "if")
        self._after = len(self.parent.nodes)


def _give_assigned(body: Body) -> None:
    """The outputs and carried arguments of a loop's body."""
    body.output = [body.variables[variable] for variable in body.assigned]
    positions = {key: i for i, key in enumerate(body.placeholders)}
    carried = [[positions[variable], i] for i, variable in enumerate(body.assigned)]
    if carried:
        body.fields["carried"] = carried


def _hand_back(body: Body, target: str, call: list[Any], name: str) -> None:
    assert body.parent is not None
    _results(body.parent, target, call, body, list(body.assigned), name)


def _results(
    parent: Body, target: str, call: list[Any], body: Body, changed: list[Variable], name: str
) -> None:
    """The node that calls a body, and its results, which variables of the parent become."""
    meta = {"tuple": [value.meta for value in body.output]}
    value = parent.append(target, call, meta, body.place, name)
    for i, variable in enumerate(changed):
        result = parent.append(
            "getitem", [value, i], body.output[i].meta, body.place, variable.name
        )
        parent.hand(variable, result)


def _predicate(body: Body, condition: Operand) -> Value:
    value = body.resolve(condition)
    if not isinstance(value, Value) or value.dtype != "bool" or value.shape:
        told = type_text(value.meta) if isinstance(value, Value) else repr(value)
        raise caller().error(f"a condition is a bool of the kernel without dims, not {told}")
    return value


def _bound(body: Body, name: str, bound: Bound | None) -> Any:
    """A bound of a loop as an argument of the call."""
    value = body.resolve(bound)
    if isinstance(value, Size):
        return {"sym": value.text}
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, Value) and "int" in value.dtype and not value.shape:
        return value
    told = type_text(value.meta) if isinstance(value, Value) else repr(value)
    raise caller().error(f"a bound of '{name}' is an int, a size or int32[], not {told}")


def _longest(body: Body, lengths: Value) -> Value:
    least = body.call_value("tile.mask_to", lengths, -(2**31))
    return body.call_value("aten.amax.default", least)


def _as_axis(value: Axis) -> axis:
    return value if isinstance(value, axis) else axis(value)


def _whole(whole: bool) -> dict[str, Any]:
    return {"whole": True} if whole else {}


def _length(part: slice, dim: Dim) -> Dim:
    """Elements of a slice of a dim, whose bounds are not below 0."""
    start: Dim = part.start or 0
    stop: Dim = dim if part.stop is None else part.stop
    step: Dim = part.step or 1
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        return max(0, -((start - stop) // step))
    if start == 0 and step == 1:
        return stop
    length = stop - start
    return length if step == 1 else Size(f"cdiv({length}, {step})")


def _bound_json(bound: Dim | None) -> int | str | None:
    return None if bound is None else dim_json(bound)


Open = _Open
__all__ = ["Axis", "Graph", "Open", "Place", "axis"]
