"""Scans and reductions whose function is a graph of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from .bodies import Body
from .source import caller
from .values import Operators, Value, current, enter


@overload
def associative_scan(
    combine: Callable[..., Value], x: Operators, dim: int, *, reverse: bool = False
) -> Value: ...
@overload
def associative_scan(
    combine: Callable[..., tuple[Value, ...]],
    x: Sequence[Operators],
    dim: int,
    *,
    reverse: bool = False,
) -> tuple[Value, ...]: ...
def associative_scan(
    combine: Callable[..., Value | tuple[Value, ...]],
    x: Operators | Sequence[Operators],
    dim: int,
    *,
    reverse: bool = False,
) -> Value | tuple[Value, ...]:
    """`tile.associative_scan`: what `combine` makes of all elements along a dim, up to each.

    Args:
      combine: of one value: (left, right) to a value; of several: of all left and then all right
        ones to a tuple of as many. It is associative, and sees numbers.
      x: a value, or several of one shape, which are scanned together.
      reverse: from the end on.

    Returns:
      Values of the shapes and dtypes of `x`.
    """
    return _combined("tile.associative_scan", combine, x, dim, reverse)


@overload
def reduce(
    combine: Callable[..., Value],
    x: Operators,
    dim: int | None = None,
    *,
    keep_dims: bool = False,
) -> Value: ...
@overload
def reduce(
    combine: Callable[..., tuple[Value, ...]],
    x: Sequence[Operators],
    dim: int | None = None,
    *,
    keep_dims: bool = False,
) -> tuple[Value, ...]: ...
def reduce(
    combine: Callable[..., Value | tuple[Value, ...]],
    x: Operators | Sequence[Operators],
    dim: int | None = None,
    *,
    keep_dims: bool = False,
) -> Value | tuple[Value, ...]:
    """`tile.reduce`: what `combine` makes of all elements along a dim, or of all there are.

    Args:
      combine: as that of `associative_scan`.
      x: a value, or several of one shape.
      keep_dims: the dim stays, with a size of 1.

    Returns:
      Values of the dtypes of `x`, without the dim.
    """
    return _combined("tile.reduce", combine, x, dim, keep_dims)


def _combined(
    target: str,
    combine: Callable[..., Value | tuple[Value, ...]],
    x: Operators | Sequence[Operators],
    dim: int | None,
    flag: bool,
) -> Value | tuple[Value, ...]:
    parent = current()
    several = not isinstance(x, Operators)
    operands = [parent.as_tensor(value) for value in (x if isinstance(x, Sequence) else [x])]
    body = Body(parent.graph, "combine", caller(), parent)
    for side in ("left", "right"):
        for i, operand in enumerate(operands):
            name = f"{side}_{i}"
            body.add_placeholder(name, {"dtype": operand.dtype, "shape": []}, name)
    enter(body)
    try:
        made = combine(*body.placeholders.values())
        results = list(made) if isinstance(made, tuple) else [made]
        body.output = [body.as_tensor(result) for result in results]
    finally:
        enter(parent)
    dtypes = [operand.dtype for operand in operands]
    if [value.dtype for value in body.output] != dtypes:
        told = ", ".join(value.dtype for value in body.output)
        raise caller().error(f"the function gives {told}, and takes {', '.join(dtypes)}")
    parent.graph.bodies.append(body)
    # The dim is checked, and left out, as in other reductions.
    dims = [] if dim is None else [dim]
    name = target.partition(".")[2]
    reduced = [parent.infer("aten.amax.default", [x, dims, flag], {}, name=name) for x in operands]
    scans = target == "tile.associative_scan"
    metas = [x.meta if scans else meta or {} for x, meta in zip(operands, reduced, strict=True)]
    args = [body, operands if several else operands[0], dim, flag]
    meta = {"tuple": metas} if several else metas[0]
    value = parent.append(target, args, meta, caller())
    return parent.results(value, name) if several else value
