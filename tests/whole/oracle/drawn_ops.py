"""Computation: pointwise ops, reductions, matmuls, positions and new tiles."""

import optable
from choices import Choices
from document import WHOLE, broadcast, sizes

TAME = (
    *("aten.add.Tensor", "aten.mul.Tensor", "aten.sub.Tensor", "aten.maximum.default"),
    *("aten.minimum.default", "aten.tanh.default", "aten.sigmoid.default", "aten.neg.default"),
    *("aten.abs.default", "aten.relu.default", "aten.exp.default", "aten.where.self"),
    *(
        "aten.lt.Tensor",
        "aten.ge.Scalar",
        "aten.add.Scalar",
        "aten.mul.Scalar",
        "aten.clone.default",
    ),
    *("prims.convert_element_type.default", "aten.square.default", "aten.sin.default"),
)
REDUCTIONS = {
    "aten.sum.dim_IntList": "SUM",
    "aten.amax.default": "SAME",
    "aten.mean.dim": "PROMOTE_FLOAT",
    "aten.amin.default": "SAME",
    "aten.prod.dim_int": "SUM",
    "aten.any.dim": "ANY",
    "aten.all.dim": "ANY",
    "aten.any.dims": "ANY",
    "aten.argmax.default": "INT32",
    "aten.argmin.default": "INT32",
    "aten.var.dim": "SAME",
    "aten.std.correction": "SAME",
    "aten.logsumexp.default": "PROMOTE_FLOAT",
    "aten.linalg_vector_norm.default": "SAME",
}
ONE_DIM = ("aten.prod.dim_int", "aten.any.dim", "aten.all.dim", "aten.argmax.default")
ONE_DIM += ("aten.argmin.default",)
WHOLE_REDUCTIONS = {
    "aten.sum.default": "SUM",
    "aten.mean.default": "PROMOTE_FLOAT",
    "aten.max.default": "SAME",
    "aten.any.default": "ANY",
}
ALONG = ("aten._softmax.default", "aten._log_softmax.default", "aten.cumsum.default")
ALONG += ("aten.cumprod.default",)
PAIRS = ("aten.max.dim", "aten.min.dim", "aten.var_mean.correction")
FLOAT_ONLY = ("mean", "var", "std", "logsumexp", "norm", "softmax")


class Ops(Choices):
    """Draws ops."""

    def like(self, scope, value, dtype):
        """A value of `dtype` that broadcasts with `value`: one that is there, or a load."""
        other = self.operand(
            scope,
            lambda v: (
                v.dtype == dtype and v is not value and self.fits(broadcast(v.shape, value.shape))
            ),
        )
        if other is not None and self.pick((True, True, False)):
            return other
        return self.load(scope, self.narrowed(value.shape), dtype)

    def narrowed(self, shape):
        """`shape`, or one that broadcasts to it."""
        how = self.pick(("same", "same", "same", "ones", "drop"))
        if how == "drop" and len(shape) > 1:
            shape = shape[1:]
        elif how == "ones" and shape:
            dim = self.number(0, len(shape) - 1)
            shape = (*shape[:dim], 1, *shape[dim + 1 :])
        return shape if shape else (1,)

    def pointwise(self, scope):
        """A pointwise op, of any row of the op table."""
        rows = optable.pointwise_rows()
        tame = self.chance(60)
        row = self.pick([r for r in rows if not tame or r.target in TAME] if tame else rows)
        target = row.target
        if target == "prims.convert_element_type.default" or target == "aten._to_copy.default":
            return self.convert(scope)
        value = self.operand(scope)
        allowed = self.dtypes_of(row)
        if not allowed or value is None:
            return None
        if value.dtype not in allowed:
            value = self.converted(scope, value, self.pick(allowed))
        return self.apply(scope, row, value)

    def dtypes_of(self, row):
        known = optable.ops._dtypes_of(row)
        return [d for d in optable.DTYPE_NAMES if d in known and optable.takes(row.target, d)]

    def convert(self, scope):
        value = self.operand(scope)
        to = self.pick([d for d in optable.DTYPE_NAMES if d != value.dtype])
        return self.converted(scope, value, to)

    def converted(self, scope, value, dtype):
        if value.dtype == dtype:
            return value
        target = "prims.convert_element_type.default"
        return scope.node(target, [value.ref, {"dtype": dtype}], dtype, value.shape)

    def apply(self, scope, row, value):
        """A row on `value` and operands like it."""
        target, dtype = row.target, value.dtype
        names = [n for n, letter in row.params if letter[0] in "xt" and "=null" not in letter]
        if target.startswith("aten.clamp."):
            names = ["self", "min", "max"]
        fixed = self.fixed(target, dtype, len(names))
        args, types, shapes = [], [], []
        for i, name in enumerate(names):
            if i in fixed:
                argument, number = self.weak(scope, fixed[i])
                args.append(argument)
                types.append(number)
                continue
            wanted = "bool" if name in ("condition", "mask") else dtype
            one = value if len(shapes) == 0 and wanted == dtype else None
            if one is None:
                kind = optable.ops._values_of(target, i, dtype)
                if wanted == dtype and kind != "any":
                    one = self.load(scope, value.shape, dtype, kind)
                else:
                    one = self.like(scope, value, wanted)
            args.append(one.ref)
            types.append((one.dtype, len(one.shape)))
            shapes.append(one.shape)
        shape = broadcast(value.shape, *shapes)
        if not self.fits(shape):
            return None
        if not any(isinstance(t, tuple) for t in types):
            return None
        shape = broadcast(*shapes)
        extra = self.extra(target, dtype)
        result = optable.ruled(row.rule, types)
        if row.rule == "DIV_MODE" and "rounding_mode" not in extra and result not in optable.FLOATS:
            result = "float32"
        if result == "int64":  # of a bool and an int: a value that few ops take
            return None
        if row.rule == "SAME" and shape != shapes[0]:
            return None
        return scope.node(target, args, result, shape, **extra)

    def fixed(self, target, dtype, operands):
        """{position: number} of the operands that are Python numbers."""
        o, floats = optable.ops, dtype in optable.FLOATS
        numbers = o._numbers(target, dtype)
        if target == "aten.clamp.default":
            low, high = (0, 1) if dtype == "bool" else (2, 5)
            return {1: low, 2: 1.5 if floats else high}
        if target == "aten.where.Scalar":
            return {1: 1.5, 2: 2.0}
        if target == "aten.masked_fill.Tensor":
            return {2: numbers[0]}
        if o._NUMBER_SECOND.search(target):
            return {(2 if "where" in target or "fill" in target else 1): self.pick(numbers)}
        if o._NUMBER_FIRST.search(target):
            return {(1 if "where" in target else 0): numbers[0]}
        if operands >= 2 and self.chance(15):
            return {operands - 1: self.pick(numbers)}
        return {}

    def weak(self, scope, number):
        """(argument, a number of its kind): the number itself, a host scalar, or a position."""
        how = self.pick(("number",) * 8 + ("scalar", "query"))
        if isinstance(number, bool) or how == "number":
            return number, number
        if how == "query" and scope.symbols and isinstance(number, int) and number not in (0, 3):
            query = self.pick(("tile.begin", "tile.end", "tile.id", None))
            if query is None:
                return self.computed_int(scope), number
            return scope.number(query, [self.pick(scope.symbols)]), number
        dtype = "int32" if isinstance(number, int) else "float32"
        fields = {} if self.chance(50) and number not in (0, 3) else {"value": number}
        name = f"s{len(self.out.scalars)}"
        self.out.scalars.append({"name": name, "dtype": dtype, **fields})
        return scope.node("tile.scalar", [name], dtype, (), keep=False).ref, number

    def extra(self, target, dtype):
        options = [
            e
            for e in optable.ops._EXTRAS.get(target, ())
            if dtype in optable.FLOATS or not isinstance(next(iter(e.values())), float)
        ]
        if target in optable.ops._NOT_PLAIN:
            return self.pick(options)
        return self.pick([{}, *options])

    def reduce(self, scope, value=None, dims=None):
        """A reduction, of lanes masked before it or not."""
        value = value or self.operand(scope, lambda v: v.shape)
        if value is None:
            return None
        targets = [
            t
            for t in REDUCTIONS
            if optable.takes(t, value.dtype)
            and (value.dtype in optable.FLOATS or not any(w in t for w in FLOAT_ONLY))
        ]
        targets = [t for t in targets if dims is None or len(dims) == 1 or t not in ONE_DIM]
        if not targets:
            return None
        target, rank = self.pick(targets), len(value.shape)
        if dims is None:
            dims = [rank - 1] if self.pick((True, True, False)) else [self.number(0, rank - 1)]
            if rank > 1 and target not in ONE_DIM and self.chance(15):
                dims = sorted({*dims, self.number(0, rank - 1)})
        value = self.bounded(scope, value, target)
        if self.pick((True, True, False)):
            value = self.masked(scope, value, target)
        keep = self.chance(35)
        shape = [1 if i in dims else s for i, s in enumerate(value.shape) if keep or i not in dims]
        result = optable.ruled(REDUCTIONS[target], [(value.dtype, rank)])
        written = [d - rank if self.chance(50) else d for d in dims]
        args = [value.ref, written[0] if target in ONE_DIM else written]
        if target == "aten.linalg_vector_norm.default":
            args.insert(1, 2)
        elif "var" in target or "std" in target:
            args.append(self.chance(50) if "dim" in target else self.number(0, 1))
        return scope.node(target, [*args, True] if keep else args, result, shape)

    def along(self, scope):
        """A softmax or a running sum; a reduction of all dims, or with two results."""
        value = self.operand(scope, lambda v: v.shape and v.dtype != "bool")
        if value is None:
            return None
        floats = value.dtype in optable.FLOATS
        targets = [
            t
            for t in (*ALONG, *WHOLE_REDUCTIONS, *PAIRS)
            if optable.takes(t, value.dtype) and (floats or not any(w in t for w in FLOAT_ONLY))
        ]
        target, dim = self.pick(targets), self.number(0, len(value.shape) - 1)
        value = self.bounded(scope, value, target)
        if self.pick((True, True, False)):
            value = self.masked(scope, value, target)
        if target in WHOLE_REDUCTIONS:
            result = optable.ruled(WHOLE_REDUCTIONS[target], [(value.dtype, 1)])
            return scope.node(target, [value.ref], result, ())
        if target in PAIRS:
            shape = (*value.shape[:dim], *value.shape[dim + 1 :])
            second = value.dtype if "var" in target else "int32"
            args = [value.ref, [dim], 1] if "var" in target else [value.ref, dim]
            return scope.several(target, args, (value.dtype, second), [shape, shape])
        result = value.dtype if floats else "int32"
        args = [value.ref, dim, False] if "softmax" in target else [value.ref, dim]
        return scope.node(target, args, result, value.shape)

    def bounded(self, scope, value, target):
        """The factors of a product of floats are at most 1: of inf and 0 the order would decide."""
        if "prod" not in target or value.dtype not in optable.FLOATS[:2]:
            return value
        args = [value.ref, -1.0, 1.0]
        return scope.node("aten.clamp.default", args, value.dtype, value.shape)

    def masked(self, scope, value, target):
        """The value with another number in its invalid lanes."""
        floats = value.dtype in optable.FLOATS
        number = 0.0 if floats else 0
        if any(word in target for word in ("max", "min", "logsumexp")):
            sign = "inf" if "min" in target else "-inf"
            number = {"float": sign} if value.dtype in optable.FLOATS[:2] else 0
        if "prod" in target:
            number = 1.0 if floats else 1
        if value.dtype == "bool":
            number = "all" in target
        if number == 0 and value.dtype == "bool":
            number = False
        return scope.node("tile.mask_to", [value.ref, number], value.dtype, value.shape)

    def positions(self, scope):
        """The positions of a tile, compared with another tile's or with a number."""
        if not scope.symbols:
            return None
        first = self.pick(scope.symbols)
        index = scope.node("tile.index", [first], "int32", (first,))
        others = [s for s in scope.symbols if s != first]
        if others and self.chance(50):
            second = self.pick(others)
            other = scope.node("tile.index", [second], "int32", (second,))
            column = scope.node("tile.subscript", [index.ref, [WHOLE, None]], "int32", (first, 1))
            args, shape = [column.ref, other.ref], (first, second)
        else:
            args, shape = [index.ref, self.pick((5, 0, 100))], (first,)
        target = self.pick(("aten.ge.Tensor", "aten.lt.Tensor"))
        if isinstance(args[1], int):
            target = target.replace("Tensor", "Scalar")
        return scope.node(target, args, "bool", shape)

    def create(self, scope, shape=None, dtype=None):
        """A new tile of one number."""
        shape = self.tile(scope) if shape is None else shape
        dtype = dtype or self.dtype()
        options = [0.0, 1.5, {"float": "-inf"}] if dtype in optable.FLOATS[:2] else [0.0, 1.0]
        if dtype not in optable.FLOATS:
            options = [False, True] if dtype == "bool" else [0, 5]
        args = [sizes(shape), self.pick(options), {"dtype": dtype}]
        return scope.node("tile.full", args, dtype, shape)

    def matmul(self, scope):
        """A product of two tiles, the second one as it is or transposed."""
        symbols = list(scope.symbols)
        rows = [s for s in symbols if self.role(s) == "row"]
        inner = self.pick([*symbols[::-1], *self.wholes])
        outer = [s for s in (*rows, *self.wholes) if s != inner or isinstance(s, int)]
        m = self.pick(outer or [128])
        n = self.pick([*self.wholes, *[s for s in symbols if s not in (inner, m)]])
        dtypes = [d for d in optable.DTYPE_NAMES if optable.takes("aten.mm.default", d)]
        dtype = self.pick(dtypes)
        a = self.load(scope, (m, inner), dtype, "normal")
        if self.chance(40):
            other = self.load(scope, (n, inner), dtype, "normal")
            b = scope.node("aten.permute.default", [other.ref, [1, 0]], dtype, (inner, n))
        else:
            b = self.load(scope, (inner, n), dtype, "normal")
        result = "int32" if dtype == "int8" else "float32"
        target = self.pick(("aten.mm.dtype", "tile.dot", "aten.mm.default"))
        if target == "aten.mm.default":
            return scope.node(target, [a.ref, b.ref], dtype, (m, n))
        args = [a.ref, b.ref] + ([{"dtype": result}] if target == "aten.mm.dtype" else [])
        return scope.node(target, args, result, (m, n))
