"""The other forms that an op comes in, and ops that stand for themselves: a draw for each target.

What kernels do often is drawn elsewhere; here is the rest of the op table, so that no target that a
kernel may hold is never drawn (test_oracle.py).
"""

import optable
from choices import Choices
from document import WHOLE, Scope, sizes

FLOAT = "float32"
INTS = ("sub", "mul", "floordiv", "mod", "sym_max", "sym_min", "neg")
# Ints and floats of one size, as which bits can be read.
BITS = {
    "float32": ("int32",),
    "int32": ("float32",),
    "bfloat16": ("int16",),
    "int16": ("bfloat16",),
}


class Forms(Choices):
    """Draws one target of many, each as often as the others."""

    def form(self, scope):
        """One of them, where it fits."""
        ways = (self.viewed, self.viewed, self.parted, self.picked, self.made, self.multiplied)
        ways += (
            self.reduced,
            self.reduced,
            self.combined,
            self.triangle,
            self.alias,
            self.swap,
            self.moved,
        )
        return self.pick(ways)(scope)

    # ---- ints and bools of the host

    def computed_int(self, scope):
        """An int that is computed of where a tile is; a reference to it."""
        symbol = self.pick(scope.symbols)
        query = self.pick(("tile.begin", "tile.end", "tile.id", "tile.count", "tile.block_size"))
        expression = symbol if query == "tile.block_size" else None
        place, target = scope.number(query, [symbol], expression), self.pick(INTS)
        args = [place] if target == "neg" else [place, self.pick((1, 2, 3, 128))]
        if query == "tile.block_size":
            return place
        return scope.number(target, args)

    def tested(self, scope, first, second):
        """A symbolic bool of two others; a reference to it."""
        target = self.pick(("and_", "or_", "not_"))
        args = [first] if target == "not_" else [first, second]
        name = f"n{len(scope.nodes)}"
        return {
            "ref": scope.add(name, target=target, args=args, meta={"sym": None, "dtype": "bool"})
        }

    def dims(self, scope, shape, like=None):
        """A shape as an argument, whose blocks nodes may give."""
        found = sizes(shape)
        for i, size in enumerate(shape):
            if isinstance(size, str) and self.chance(50):
                found[i] = scope.number("tile.symnode", [size], size)
            elif isinstance(size, str) and like is not None and size in like.shape:
                args = [like.ref, like.shape.index(size)]
                found[i] = scope.number("sym_size", args, size)
        return found

    # ---- views

    def viewed(self, scope):
        """Another name of a view."""
        value = self.operand(scope, lambda v: v.shape)
        if value is None:
            return None
        rank, shape = len(value.shape), value.shape
        how = self.pick(("transpose", "mT", "view", "squeeze", "rev", "bits", "wide", "copy"))
        if how == "transpose" and rank > 1:
            a, b = sorted(self.random.sample(range(rank), 2))
            new = list(shape)
            new[a], new[b] = new[b], new[a]
            args = [value.ref, a - rank if self.chance(50) else a, b]
            return scope.node("aten.transpose.int", args, value.dtype, new)
        if how == "mT" and rank == 2:
            return scope.node("aten.mT.default", [value.ref], value.dtype, shape[::-1])
        if how == "view":
            target = self.pick(("aten.reshape.default", "aten._unsafe_view.default"))
            at = self.number(0, rank)
            new = (*shape[:at], 1, *shape[at:])[:4] if rank < 4 else shape
            return scope.node(target, [value.ref, self.dims(scope, new, value)], value.dtype, new)
        if how == "squeeze":
            ones = [i for i, s in enumerate(shape) if s == 1]
            if not ones or len(ones) == rank:
                return None
            new = [s for s in shape if s != 1]
            blocks = [self.out.find(s) for s in new if isinstance(s, str)]
            alone = any(b["role"] == "outer" or b["extent"] == 1 for b in blocks)
            if not alone and self.chance(50):  # a block's dim stays, also where its tiles are of 1
                return scope.node("aten.squeeze.default", [value.ref], value.dtype, new)
            return scope.node("aten.squeeze.dims", [value.ref, ones], value.dtype, new)
        if how == "rev" and (dim := self.whole_dim(value)) is not None:
            return scope.node("prims.rev.default", [value.ref, [dim]], value.dtype, shape)
        if how == "bits" and value.dtype in BITS:
            return self.bits(scope, value)
        if how == "wide" and shape[-1] == 1 and rank > 1:
            new = (*shape[:-1], 128)
            args = [value.ref, 128]
            return scope.node("tile.pre_broadcast_tile", args, value.dtype, new)
        if how == "copy":
            to = self.pick(
                [d for d in optable.DTYPE_NAMES if optable.takes("aten._to_copy.default", d)]
            )
            return scope.node("aten._to_copy.default", [value.ref, {"dtype": to}], to, shape)
        return None

    def bits(self, scope, value):
        """The bits of a value as another dtype; floats of them are never NaN."""
        to = self.pick(BITS[value.dtype])
        if to in optable.FLOATS:
            args = [value.ref, 0x3FFF]
            value = scope.node("aten.bitwise_and.Scalar", args, value.dtype, value.shape)
        return scope.node("aten.view.dtype", [value.ref, {"dtype": to}], to, value.shape)

    def parted(self, scope):
        """Parts of a value, of equal size or single ones."""
        value = self.operand(scope, lambda v: v.shape and self.whole_dim(v) is not None)
        if value is None:
            return None
        dim = self.whole_dim(value)
        size = value.shape[dim]
        if self.chance(50) and 1 < size <= 5 and len(value.shape) > 1:
            shape = (*value.shape[:dim], *value.shape[dim + 1 :])
            args = [value.ref, dim]
            return scope.several("aten.unbind.int", args, value.dtype, [shape] * size)
        part = max(size // 2, 1)
        sizes_of = [min(part, size - at) for at in range(0, size, part)]
        shapes = [(*value.shape[:dim], s, *value.shape[dim + 1 :]) for s in sizes_of]
        args = [value.ref, part, dim]
        return scope.several("aten.split.Tensor", args, value.dtype, shapes)

    def picked(self, scope):
        """Positions in a value that another gives."""
        count, width = self.pick((8, 16, 128)), self.pick((64, 128, 256))
        rows = self.pick((3, 8, 16, 64))
        dtype = self.pick((FLOAT, FLOAT, "bfloat16", "int32"))
        name = self.out.tensor("input", dtype, [rows, width], "normal")
        table = scope.node("tile.load", [scope.host(name), [WHOLE] * 2], dtype, (rows, width))
        how = self.pick(("gather", "index_select", "index", "embedding"))
        if how == "gather":
            dim = self.number(0, 1)
            shape = (count, width) if dim == 0 else (rows, count)
            places = self.inside(scope, shape, (rows, width)[dim])
            return scope.node("aten.gather.default", [table.ref, dim, places.ref], dtype, shape)
        places = self.inside(scope, (count,), rows)
        if how == "index_select":
            args = [table.ref, 0, places.ref]
            return scope.node("aten.index_select.default", args, dtype, (count, width))
        if how == "index":
            args = [table.ref, [places.ref]]
            return scope.node("aten.index.Tensor", args, dtype, (count, width))
        args = [table.ref, places.ref]
        return scope.node("aten.embedding.default", args, dtype, (count, width))

    def inside(self, scope, shape, extent):
        """Positions of which none lies outside."""
        name = self.out.tensor("input", "int32", list(shape), f"bound:{extent - 1}")
        args = [scope.host(name), [WHOLE] * len(shape)]
        return scope.node("tile.load", args, "int32", shape, keep=False)

    # ---- new tiles

    def made(self, scope):
        """A new tile: by its size, or like another."""
        value, dtype = (
            self.operand(scope, lambda v: v.shape),
            self.pick((FLOAT, "bfloat16", "int32")),
        )
        shape, number = self.tile(scope), self.pick((0, 1, 2))
        how, named = self.pick(("size", "new", "like", "scalar", "arange")), {"dtype": dtype}
        if how == "scalar":
            return scope.node("aten.scalar_tensor.default", [number, named], dtype, ())
        if how == "arange":
            return self.counted(scope)
        kind = self.pick(("full", "zeros", "ones", "empty"))
        more = [number] if kind == "full" else []
        if how == "size":
            target = "aten.empty.memory_format" if kind == "empty" else f"aten.{kind}.default"
            args = [self.dims(scope, shape, value), *more, named]
            made = scope.node(target, args, dtype, shape)
        elif value is None:
            return None
        elif how == "new":
            args = [value.ref, self.dims(scope, shape, value), *more]
            made = scope.node(f"aten.new_{kind}.default", args, value.dtype, shape)
        else:
            args = [value.ref, *more]
            made = scope.node(f"aten.{kind}_like.default", args, value.dtype, value.shape)
        if kind == "empty":  # whatever it holds, it is not looked at
            scope.pool.remove(made)
            return scope.node("aten.zeros_like.default", [made.ref], made.dtype, made.shape)
        return made

    def counted(self, scope):
        """Numbers that count up."""
        size, start, step = self.pick((8, 128, 129)), self.pick((0, 3)), self.pick((1, 2))
        how, named = self.pick(("default", "start", "start_step", "iota")), {"dtype": "int32"}
        if how == "iota":
            args = [size, start, step, named, False]
            return scope.node("prims.iota.default", args, "int32", (size,))
        args = {"default": [size], "start": [start, start + size]}
        args = args.get(how, [start, start + size * step, step])
        return scope.node(f"aten.arange.{how}", [*args, named], "int32", (size,))

    # ---- matmuls

    def multiplied(self, scope):
        """A product of matrices, of batches of them, of a matrix and a vector."""
        rows = [s for s in scope.symbols if self.role(s) == "row"]
        lanes = [s for s in scope.symbols if self.role(s) == "lane"]
        m, n = self.pick([*rows, 64]), self.pick([*lanes, *self.wholes])
        k, dtype = self.pick((64, 128, 96)), self.pick((FLOAT, "bfloat16"))
        how = self.pick(("batch", "add", "matmul", "mv", "dot", "int"))
        if how == "int":
            a = self.load(scope, (m, k), "int8", "small")
            b = self.load(scope, (k, n), "int8", "small")
            return scope.node("aten._int_mm.default", [a.ref, b.ref], "int32", (m, n))
        if how == "mv":
            a = self.load(scope, (m, k), dtype, "normal")
            b = self.load(scope, (k,), dtype, "normal")
            return scope.node("aten.mv.default", [a.ref, b.ref], dtype, (m,))
        if how == "dot":
            a = self.load(scope, (k,), dtype, "normal")
            b = self.load(scope, (k,), dtype, "normal")
            return scope.node("aten.dot.default", [a.ref, b.ref], dtype, ())
        batch = (self.pick((1, 2, 3)),) if how == "batch" or self.chance(30) else ()
        if not self.fits((*batch, m, n)) or not self.fits((*batch, k, n)):
            return None
        a = self.load(scope, (*batch, m, k), dtype, "normal")
        b = self.load(scope, (*batch, k, n), dtype, "normal")
        if how == "matmul":
            args = [a.ref, b.ref]
            return scope.node("aten.matmul.default", args, dtype, (*batch, m, n))
        wide = self.chance(50) and dtype != FLOAT
        result = FLOAT if wide else dtype
        out = [{"dtype": FLOAT}] if wide else []
        if how == "batch" and self.chance(50):
            target = "aten.bmm.dtype" if wide else "aten.bmm.default"
            return scope.node(target, [a.ref, b.ref, *out], result, (*batch, m, n))
        acc = self.load(scope, (*batch, m, n), result, "normal")
        name = "baddbmm" if batch else "addmm"
        target = f"aten.{name}.{'dtype' if wide else 'default'}"
        scale = [] if self.chance(60) else [self.pick((0.5, 2)), self.pick((0.5, 1))]
        args = [acc.ref, a.ref, b.ref, *out, *scale]
        return scope.node(target, args, result, (*batch, m, n))

    # ---- reductions

    def reduced(self, scope):
        """A reduction of all of a value, or under another name."""
        value = self.operand(
            scope, lambda v: v.shape and v.dtype in (FLOAT, "bfloat16", "int32", "bool")
        )
        if value is None:
            return None
        floats, rank = value.dtype in optable.FLOATS, len(value.shape)
        how = self.pick(("prod", "min", "all", "all.dims", "var", "softmax", "sort"))
        if how in ("all", "all.dims"):
            target, args, shape = (
                f"aten.{how}" if "." in how else "aten.all.default",
                [value.ref],
                (),
            )
            if how == "all.dims":
                args, shape = [value.ref, [rank - 1]], value.shape[:-1]
            return scope.node(target, args, "bool", shape)
        if value.dtype == "bool":
            return None
        if how in ("prod", "min"):
            value = self.bounded(scope, value, how)
            value = self.masked(scope, value, f"aten.{how}.default")
            result = "int32" if how == "prod" and not floats else value.dtype
            return scope.node(f"aten.{how}.default", [value.ref], result, ())
        if how == "var" and floats:
            args = [value.ref, [-1], self.number(0, 1)]
            return scope.node("aten.var.correction", args, value.dtype, value.shape[:-1])
        if how == "softmax" and floats:
            value = self.masked(scope, value, "aten.amax.default")
            target = self.pick(("aten.softmax.int", "aten.log_softmax.int"))
            return scope.node(target, [value.ref, -1], value.dtype, value.shape)
        if how == "sort" and isinstance(value.shape[-1], int) and value.shape[-1] <= 128:
            args = [value.ref, True, -1, self.chance(50)]
            dtypes = (value.dtype, "int32")
            return scope.several("aten.sort.stable", args, dtypes, [value.shape] * 2)
        return None

    def combined(self, scope):
        """A scan or a reduction with a function of its own."""
        if self.loops >= 4:
            return None
        value = self.operand(scope, lambda v: v.shape and v.dtype in (FLOAT, "int32"))
        if value is None:
            return None
        self.loops += 1
        dim = len(value.shape) - 1 if self.chance(60) else self.number(0, len(value.shape) - 1)
        inner = Scope(self.out, "combine", [], scope)
        scan = self.chance(50)
        left, right = (inner.argument(self.scalar_like(value)) for _ in range(2))
        target = self.pick(("aten.maximum.default", "aten.minimum.default", "aten.add.Tensor"))
        if target == "aten.add.Tensor" and value.dtype == FLOAT and not scan:
            target = "aten.maximum.default"
        made = inner.node(target, [left.ref, right.ref], value.dtype, left.shape)
        number = inner.finish([made])
        if scan:
            args = [number, value.ref, dim, *([True] if self.chance(30) else [])]
            return scope.node("tile.associative_scan", args, value.dtype, value.shape)
        shape = (*value.shape[:dim], *value.shape[dim + 1 :])
        return scope.node("tile.reduce", [number, value.ref, dim], value.dtype, shape)

    def scalar_like(self, value):
        """One lane of a value, as a function of lanes gets it."""
        return type(value)(value.name, value.dtype, ())

    # ---- the rest

    def triangle(self, scope):
        """A value without what lies above or below a diagonal."""
        value = self.operand(scope, lambda v: len(v.shape) > 1)
        if value is None:
            return None
        target = self.pick(("aten.tril.default", "aten.triu.default"))
        if not optable.takes(target, value.dtype):
            return None
        args = [value.ref, self.pick((0, 1, -1, 5))]
        return scope.node(target, args, value.dtype, value.shape)

    def moved(self, scope):
        """Where lanes are, and an int of the host."""
        if not scope.symbols:
            return None
        symbol = self.pick(scope.symbols)
        index = scope.node("tile.index", [symbol], "int32", (symbol,))
        target = self.pick(("aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor"))
        args = [index.ref, self.computed_int(scope)]
        return scope.node(target, args, "int32", (symbol,))

    def alias(self, scope):
        """Another name of a value, as it is after a loop or in one."""
        value = self.operand(scope, lambda v: v.shape)
        if value is None:
            return None
        if self.chance(50):
            return scope.node("tile.new_var", [value.ref], value.dtype, value.shape)
        other = self.like_exactly(scope, value)
        return scope.node("tile.phi", [other.ref, value.ref], value.dtype, value.shape)

    def swap(self, scope):
        """An atomic that writes where it finds what is expected."""
        shape = self.places_shape(scope, 1)
        extent, dtype = self.pick((5, 16, 64)), self.pick((FLOAT, "int32"))
        place = self.places(scope, shape, extent)
        value = self.load(scope, shape, dtype, "normal")
        name = self.out.tensor("output", dtype, [extent])
        self.out.tensors[-1]["init"] = 0
        args = [scope.host(name), [place.ref], 0 if dtype == "int32" else 0.0, value.ref]
        return scope.node("tile.atomic_cas", args, dtype, shape, keep=self.chance(50))
