"""Values of a lifted program: what the nodes of a tile graph compute, in one list without loops.

A value has the shape of a tile, and a *space*: the block symbols that it depends on. At each
combination of tiles of these blocks it has a tile of its own. What a loop accumulates is one value,
`@sum` or `@max` over the loop's blocks, whose space is without them. Equal values are one object.
"""

import re
from dataclasses import dataclass

_NAME = re.compile(r"[A-Za-z_]\w*")
_FUNCTIONS = {"cdiv", "next_pow2", "min", "max"}
LINEAR_VIEWS = {
    "aten.permute.default",
    "aten.transpose.int",
    "aten.t.default",
    "aten.mT.default",
    "aten.view.default",
    "aten._unsafe_view.default",
    "aten.reshape.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.unsqueeze.default",
    "aten.expand.default",
    "tile.subscript",
}
FLOATS = ("float32", "bfloat16", "float16")


@dataclass(eq=False)
class Value:
    """One value. `args` hold Values and the literals of the format; `dims` are those of @sum."""

    number: int
    target: str
    args: tuple
    kwargs: dict
    dtype: str | None
    shape: tuple
    space: frozenset
    dims: tuple = ()
    origin: str | None = None
    name: str = "value"
    loc: dict | None = None  # the line of source that it is of, or whose gradient it is part of

    @property
    def inputs(self):
        """The values among the arguments."""
        return list(values_in((self.args, self.kwargs)))

    @property
    def line(self):
        """The line of source that it is of, as ` (FILE:LINE)`; nothing where no node says it."""
        loc = self.loc or {}
        return f" ({loc['file']}:{loc.get('line')})" if loc.get("file") else ""

    @property
    def is_float(self):
        """Whether derivatives flow through it."""
        return self.dtype in FLOATS


def values_in(argument):
    """The Values inside an argument, in order."""
    if isinstance(argument, Value):
        yield argument
    elif isinstance(argument, (list, tuple)):
        for item in argument:
            yield from values_in(item)
    elif isinstance(argument, dict):
        for item in argument.values():
            yield from values_in(item)


def map_values(argument, change):
    """The argument with each Value replaced by what `change` gives."""
    if isinstance(argument, Value):
        return change(argument)
    if isinstance(argument, (list, tuple)):
        return [map_values(item, change) for item in argument]
    if isinstance(argument, dict):
        return {key: map_values(item, change) for key, item in argument.items()}
    return argument


def symbols_of(argument, known):
    """The block symbols among `known` that sizes and literals of an argument name."""
    if isinstance(argument, str):
        return {name for name in _NAME.findall(argument) if name in known} - _FUNCTIONS
    if isinstance(argument, (list, tuple)):
        return {name for item in argument for name in symbols_of(item, known)}
    if isinstance(argument, dict):
        return {
            name
            for key, item in argument.items()
            if key == "sym" and isinstance(item, str)
            for name in symbols_of(item, known)
        }
    return set()


def _key(argument):
    if isinstance(argument, Value):
        return ("value", argument.number)
    if isinstance(argument, (list, tuple)):
        return tuple(_key(item) for item in argument)
    if isinstance(argument, dict):
        return tuple((key, _key(item)) for key, item in sorted(argument.items()))
    return (type(argument).__name__, argument)


def broadcast(*shapes):
    """The shape that these broadcast to."""
    rank = max(map(len, shapes))
    sizes = []
    for position in range(-rank, 0):
        size = 1
        for shape in shapes:
            if len(shape) >= -position and shape[position] != 1:
                size = shape[position]
        sizes.append(size)
    return tuple(sizes)


def topological(roots):
    """The values that `roots` are made of, arguments first."""
    seen, order, stack = set(), [], list(roots)
    while stack:
        value = stack.pop()
        if value.number not in seen:
            seen.add(value.number)
            order.append(value)
            stack.extend(value.inputs)
    return sorted(order, key=lambda value: value.number)


def depends(value, on):
    """Whether `value` is made of `on`, or is it."""
    return any(part is on for part in topological([value]))


def shifted_by(value, maximum):
    """Whether a value is made of a maximum, other than through a log-sum-exp that ends its loop."""
    stack, seen = [value], set()
    while stack:
        part = stack.pop()
        if part is maximum:
            return True
        if part.number not in seen and part.target != "@lse":
            seen.add(part.number)
            stack.extend(part.inputs)
    return False


class Builder:
    """Makes values; equal ones only once, and a few that are simpler."""

    def __init__(self, symbols):
        self.symbols = symbols
        self.scalars = {}  # name -> value, of scalars that have one
        self.bases = {}  # number of a maximum -> target of the exponentials that it shifts
        self.placed_in = {}  # number of a value -> (dim, [(first lane, tile)]); the rest of it is 0
        self.origin, self.loc = None, None  # of the node that values are made for
        self._made = {}

    def make(self, target, args, dtype, shape, kwargs=None, dims=(), origin=None, name="value"):
        """The value of this op."""
        kwargs, shape = kwargs or {}, tuple(shape)
        simple = _simplified(self, target, args, dtype, shape)
        if simple is not None:
            return simple
        key = (target, _key(args), _key(kwargs), dtype, shape, dims)
        if key not in self._made:
            space = set(symbols_of(list(shape), self.symbols) | symbols_of(args, self.symbols))
            for value in values_in((args, kwargs)):
                space |= value.space
            space -= set(dims)
            number = len(self._made)
            self._made[key] = Value(
                number,
                target,
                tuple(args),
                kwargs,
                dtype,
                shape,
                frozenset(space),
                dims,
                origin or self.origin,
                name,
                self.loc,
            )
        return self._made[key]

    def at(self, value):
        """What is made from now on is made for this value."""
        self.origin, self.loc = value.origin, value.loc

    # Arithmetic of gradients: float32, broadcasting.

    def binary(self, target, a, b, name="grad"):
        """An op of two operands, each a value or a number."""
        shapes = [x.shape for x in (a, b) if isinstance(x, Value)]
        dtypes = [x.dtype for x in (a, b) if isinstance(x, Value) and x.is_float]
        dtype = dtypes[0] if len(set(dtypes)) == 1 else "float32"
        return self.make(target, [a, b], dtype, broadcast(*shapes), name=name)

    def add(self, a, b):
        """a + b; of what is 0 but for lanes that the other has not, both put together."""
        return self._together(a, b) or self.binary("aten.add.Tensor", a, b)

    def _together(self, a, b):
        if not isinstance(b, Value) or a.shape != b.shape:
            return None
        one, other = (self.placed_in.get(x.number) for x in (a, b))
        if one and other and one[0] == other[0]:
            pieces = sorted([*one[1], *other[1]], key=lambda piece: piece[0])
            ends = [0, *(begin + part.shape[one[0]] for begin, part in pieces)]
            if all(begin >= end for (begin, _), end in zip(pieces, ends, strict=False)):
                return self.placed(one[0], a.shape[one[0]], pieces)
        if a.target == b.target == "aten.reshape.default":
            inner = self._together(a.args[0], b.args[0])
            return inner and self.reshape(inner, a.shape)
        if a.target == b.target == "tile.join":
            for one, other in ((a, b), (b, a)):
                if number_of(one.args[1]) == number_of(other.args[0]) == 0:
                    both = [one.args[0], other.args[1]]
                    return self.make("tile.join", both, a.dtype, a.shape, name="pairs")
        return None

    def placed(self, dim, size, pieces):
        """A tile of 0 along a dim of so many lanes, but for [(first lane, tile)], in order."""
        parts, end = [], 0
        for begin, part in [*pieces, (size, None)]:
            if begin > end:
                like = pieces[0][1]
                shape = [begin - end if d == dim else s for d, s in enumerate(like.shape)]
                parts.append(self.full(shape, 0.0, like.dtype))
            if part is not None:
                parts.append(part)
                end = begin + part.shape[dim]
        if len(parts) == 1:
            return parts[0]
        shape = [size if d == dim else s for d, s in enumerate(parts[0].shape)]
        made = self.make("aten.cat.default", [parts, dim], parts[0].dtype, shape, name="placed")
        self.placed_in[made.number] = dim, pieces
        return made

    def slice(self, a, dim, begin, end):
        """Lanes `begin` to `end` of a dim of ints."""
        if (begin, end) == (0, a.shape[dim]):
            return a
        shape = [end - begin if d == dim else s for d, s in enumerate(a.shape)]
        return self.make("aten.slice.Tensor", [a, dim, begin, end], a.dtype, shape, name="part")

    def reshape(self, a, shape):
        """a in another shape."""
        args = [a, sizes(shape)]
        return self.make("aten.reshape.default", args, a.dtype, shape, name="shaped")

    def item(self, target, args, place, metas):
        """One result of an op of several; `metas` are the (dtype, shape) of all."""
        metas = [[dtype, list(shape)] for dtype, shape in metas]
        dtype, shape = metas[place]
        return self.make("@item", [target, args, place, metas], dtype, shape, name="item")

    def sub(self, a, b):
        """a - b, one of them perhaps a number."""
        if not isinstance(a, Value):
            return self.binary("aten.rsub.Scalar", b, a)
        return self.binary("aten.sub.Tensor", a, b)

    def known(self, a):
        """A scalar of the document that has a value, as that number; else `a`."""
        if isinstance(a, Value) and a.target == "tile.scalar":
            return self.scalars.get(a.args[0], a)
        return a

    def mul(self, a, b):
        """a * b; of numbers one after the other, their product."""
        if isinstance(b, (int, float)) and a.target == "aten.mul.Tensor" and not a.kwargs:
            inner = a.args[1]
            if isinstance(inner, (int, float)) and a.dtype == "float32":
                return self.mul(a.args[0], inner * b)
        return self.binary("aten.mul.Tensor", a, b)

    def div(self, a, b):
        """a / b; a may be a number."""
        if not isinstance(a, Value):
            inverse = self.unary("aten.reciprocal.default", b)
            return inverse if a == 1 else self.mul(inverse, a)
        return self.binary("aten.div.Tensor", a, b)

    def neg(self, a):
        """-a."""
        return self.unary("aten.neg.default", a)

    def unary(self, target, a):
        """An op of one operand."""
        return self.make(target, [a], a.dtype, a.shape, name="grad")

    def compare(self, target, a, b):
        """A comparison."""
        shapes = [x.shape for x in (a, b) if isinstance(x, Value)]
        return self.make(target, [a, b], "bool", broadcast(*shapes), name="holds")

    def where(self, condition, a, b):
        """a where the condition holds, else b (values or one number)."""
        values = [self.constant(x) if not isinstance(x, Value) else x for x in (a, b)]
        dtypes = {x.dtype for x in values}
        shape = broadcast(condition.shape, *(x.shape for x in values))
        dtype = dtypes.pop() if len(dtypes) == 1 else "float32"
        return self.make("aten.where.self", [condition, *values], dtype, shape, name="grad")

    def constant(self, number):
        """A float32 scalar."""
        spelled = (
            number if number == number and abs(number) != float("inf") else {"float": str(number)}
        )
        return self.make(
            "aten.scalar_tensor.default", [spelled], "float32", (), {"dtype": {"dtype": "float32"}}
        )

    def full(self, shape, number, dtype="float32"):
        """A constant tile."""
        return self.make(
            "tile.full", [sizes(shape), number, {"dtype": dtype}], dtype, shape, name="full"
        )

    def convert(self, a, dtype):
        """a in this dtype."""
        if a.dtype == dtype:
            return a
        return self.make(
            "prims.convert_element_type.default",
            [a, {"dtype": dtype}],
            dtype,
            a.shape,
            name="rounded",
        )

    def expand(self, a, shape):
        """a broadcast to this shape."""
        if a.shape == tuple(shape):
            return a
        return self.make("aten.expand.default", [a, sizes(shape)], a.dtype, shape, name="wide")

    def permute(self, a, order):
        """The dims of a in this order; of a product turned, the product of its factors turned."""
        order = list(order)
        if a.target == "aten.permute.default":
            a, order = a.args[0], [a.args[1][i] for i in order]
        if order == list(range(len(order))):
            return a
        if a.target == "@sum":
            return self.total(a.dims, self.permute(a.args[0], order), a.origin)
        rank = len(order)
        if a.target.startswith(("aten.mm.", "aten.bmm.")) and order[-2:] == [rank - 1, rank - 2]:
            x, y = a.args[:2]
            return self.matmul(self.swap(y), self.swap(x), a.dtype)
        shape = [a.shape[i] for i in order]
        return self.make("aten.permute.default", [a, list(order)], a.dtype, shape, name="turned")

    def swap(self, a):
        """The last two dims of a exchanged."""
        rank = len(a.shape)
        return self.permute(a, [*range(rank - 2), rank - 1, rank - 2])

    def mask(self, a):
        """a, and 0 in lanes outside the ranges."""
        if zero_outside(a) or not symbols_of(list(a.shape), self.symbols):
            return a
        return self.make("tile.mask_to", [a, 0], a.dtype, a.shape, name="inside")

    def sum(self, a, dims, keep):
        """The sum over these dims, of valid lanes alone."""
        dims = sorted(d % len(a.shape) for d in dims)
        if symbols_of([a.shape[d] for d in dims], self.symbols):
            a = self.mask(a)
        shape = [1 if d in dims else s for d, s in enumerate(a.shape) if keep or d not in dims]
        args = [a, dims, True] if keep else [a, dims]
        return self.make("aten.sum.dim_IntList", args, a.dtype, shape, name="total")

    def drop(self, a, dims):
        """a without these dims, which are of size 1."""
        if a.target == "@sum":
            return self.total(a.dims, self.drop(a.args[0], dims), a.origin)
        if a.target == "aten.sum.dim_IntList" and len(a.args) == 3:
            reduced = a.args[1]
            if set(dims) <= set(reduced) and set(dims) == set(reduced):
                return self.sum(a.args[0], dims, False)
        shape = [s for d, s in enumerate(a.shape) if d not in dims]
        return self.make("aten.squeeze.dims", [a, list(dims)], a.dtype, shape, name="flat")

    def insert(self, a, dims):
        """a with new dims of size 1 at these places of the result."""
        rank = len(a.shape) + len(dims)
        entries = [None if d in dims else {"slice": [None, None, None]} for d in range(rank)]
        rest = iter(a.shape)
        shape = [1 if d in dims else next(rest) for d in range(rank)]
        return self.make("tile.subscript", [a, entries], a.dtype, shape, name="column")

    def matmul(self, a, b, dtype="float32"):
        """A matmul of two tiles of rank 2 or 3 with a result of this dtype."""
        shape = (*a.shape[:-1], b.shape[-1])
        kind = "bmm" if len(a.shape) == 3 else "mm"
        if a.dtype == b.dtype == dtype:
            return self.make(f"aten.{kind}.default", [a, b], dtype, shape, name="product")
        return self.make(
            f"aten.{kind}.dtype", [a, b, {"dtype": dtype}], dtype, shape, name="product"
        )

    def total(self, dims, a, origin=None, name="grad"):
        """The sum of a over all tiles of these blocks."""
        if a.target == "@sum":
            dims, a = (*a.dims, *dims), a.args[0]
        return self.make(
            "@sum", [a], a.dtype, a.shape, dims=tuple(sorted(set(dims))), origin=origin, name=name
        )

    def substitute(self, roots, changes):
        """The values `roots` with those in `changes` (number -> Value) replaced in them."""
        done = dict(changes)
        for value in topological(roots):
            if value.number in done:
                continue
            inputs = value.inputs
            if all(done.get(x.number, x) is x for x in inputs):
                done[value.number] = value
                continue

            def swap(x):
                return done[x.number]

            self.at(value)
            args = map_values(list(value.args), swap)
            kwargs = map_values(value.kwargs, swap)
            done[value.number] = self.make(
                value.target,
                args,
                value.dtype,
                value.shape,
                kwargs,
                value.dims,
                value.origin,
                value.name,
            )
        return [done[value.number] for value in roots]


def sizes(shape):
    """A shape as an argument."""
    return [size if isinstance(size, int) else {"sym": size} for size in shape]


def zero_outside(value):
    """Whether its lanes outside the ranges are known to hold 0."""
    while value.target in ("prims.convert_element_type.default", "aten.neg.default") or (
        value.target in ("aten.permute.default", "tile.subscript", "aten.squeeze.dims")
    ):
        value = value.args[0]
    return value.target == "tile.load" or (value.target == "tile.mask_to" and value.args[1] == 0)


def number_of(argument):
    """The number that an argument is in all lanes, or None."""
    if isinstance(argument, bool):
        return None
    if isinstance(argument, (int, float)):
        return float(argument)
    if isinstance(argument, dict) and "float" in argument:
        return float(argument["float"])
    if isinstance(argument, Value) and argument.target == "tile.full":
        return number_of(argument.args[1])
    if isinstance(argument, Value) and argument.target == "aten.scalar_tensor.default":
        return number_of(argument.args[0])
    return None


def _simplified(builder, target, args, dtype, shape):
    """A value that is the same as this op, or None. Only what normalising by 1 and 0 leaves."""
    if not args or not isinstance(args[0], Value):
        return None
    first, ones = args[0], number_of(args[0])
    if target == "prims.convert_element_type.default" and first.target == target:
        widened = first.dtype == "float32" and first.args[0].dtype in ("bfloat16", "float16")
        if widened and first.args[0].dtype == dtype:
            return first.args[0]
    if target == "tile.mask_to" and args[1] == 0 and zero_outside(first):
        return first
    if target in LINEAR_VIEWS and first.target == "tile.full" and ones is not None:
        return builder.full(shape, first.args[1], dtype)
    if (
        target in ("aten.log.default", "aten.log2.default")
        and first.target == "tile.full"
        and ones == 1
    ):
        return builder.full(shape, 0.0, dtype)
    if target == "aten.reciprocal.default" and first.target == "tile.full" and ones == 1:
        return first
    if len(args) < 2 or dtype is None:
        return None
    second = number_of(args[1])

    def same(x):
        return isinstance(x, Value) and x.shape == shape and x.dtype == dtype

    if target in ("aten.div.Tensor", "aten.mul.Tensor") and second == 1 and same(first):
        return first
    if target == "aten.mul.Tensor" and ones == 1 and same(args[1]):
        return args[1]
    if target == "aten.add.Tensor" and second == 0 and same(first):
        return first
    if target == "aten.add.Tensor" and ones == 0 and same(args[1]):
        return args[1]
    return None
