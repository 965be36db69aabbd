"""Hypothesis strategies: random well-typed documents of the graph format, with a configuration.

A block id has a role, which says where tiles have it and so which sizes a chip takes: "outer" dims
stand in front, "row" dims are second-last, "lane" dims last.
"""

import math

import optable
from document import WHOLE, Scope, Writer, broadcast, count, sizes
from hypothesis import strategies as st

OUTER = (2, 1, 3, 5)
ROWS = (16, 64, 128, 1, 7, 127, 129, 256, 255, 257, 300, 421)
LANES = (128, 256, 1, 7, 127, 129, 255, 257, 300, 384, 421)
ROLES = {"outer": OUTER, "row": ROWS, "lane": LANES}
GRIDS = (
    ("row",),
    ("row", "lane"),
    ("lane",),
    ("outer", "row"),
    ("outer",),
    ("outer", "row", "lane"),
    ("outer", "outer", "row"),
    ("outer", "lane"),
)
MOST_ELEMENTS = 1 << 17
MOST_STEPS = 40
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
    "aten.any.dim": "BOOL",
    "aten.all.dim": "BOOL",
    "aten.argmax.default": "INT32",
    "aten.argmin.default": "INT32",
    "aten.var.dim": "SAME",
    "aten.logsumexp.default": "PROMOTE_FLOAT",
}
ONE_DIM = (
    "aten.prod.dim_int",
    "aten.any.dim",
    "aten.all.dim",
    "aten.argmax.default",
    "aten.argmin.default",
)
FLOAT_ONLY = ("aten.mean.dim", "aten.var.dim", "aten.logsumexp.default")
SWITCHES = (
    *("pallas_pre_broadcast", "pallas_inloop_loads", "pallas_scale_after_max"),
    *("pallas_transposed_scores", "pallas_row_split", "pallas_column_strips", "pallas_fori_dma"),
    *("pallas_straight_loops", "pallas_loop_skew", "pallas_back_and_forth"),
)


class Drawing:
    """One document being drawn."""

    def __init__(self, draw):
        self.draw, self.out = draw, Writer()
        self.loops = 0
        self.wholes = []

    # ---- choices

    def pick(self, options):
        """One of `options`; the first is the simplest."""
        return self.draw(st.sampled_from(list(options)))

    def chance(self, per_cent):
        """True in so many of a hundred draws; False is simpler."""
        return self.draw(st.integers(0, 99)) >= 100 - per_cent

    def number(self, low, high):
        return self.draw(st.integers(low, high))

    def dtype(self):
        common = ("float32",) * 6 + ("bfloat16",) * 3 + ("int32",) * 2
        return self.pick((*common, *optable.DTYPE_NAMES))

    # ---- the document

    def case(self):
        """{"document", "values", "seed"}."""
        roles = self.pick(GRIDS)
        grid = [self.block(role) for role in roles]
        self.wholes = [self.pick((128, 256, 64, 1, 7, 129, 300)) for _ in range(self.number(1, 2))]
        root = Scope(self.out, "root", grid, grid=[self.out.find(s)["id"] for s in grid])
        self.grow(root, self.number(1, 6))
        for _ in range(self.number(1, 3)):
            self.store(root)
        root.finish()
        config = self.config()
        return {
            "document": self.out.document(config),
            "values": self.out.values,
            "seed": self.number(0, 3),
        }

    def block(self, role, **fields):
        extent = self.pick(ROLES[role])
        return self.out.block(extent, role, **fields)

    def grow(self, scope, statements):
        """Adds loads, ops, loops and stores to a graph."""
        self.load(scope)
        for _ in range(statements):
            step = self.pick(
                (self.pointwise,) * 8
                + (self.load,) * 4
                + (self.reduce,) * 4
                + (self.loop,) * 3
                + (self.view,) * 2
                + (self.positions, self.create, self.matmul, self.store)
            )
            step(scope)

    def store_ready(self, scope):
        return [v for v in scope.pool if len(v.shape) <= 4]

    # ---- loads

    def tile(self, scope, need=()):
        """A shape of a tile: some of the blocks around, outer ones first, and maybe a whole dim."""
        symbols = [s for s in scope.symbols if s in need or self.pick((True, True, False))]
        order = {"outer": 0, "row": 1, "lane": 2}
        symbols.sort(key=lambda s: order[self.out.find(s)["role"]])
        shape = list(symbols)
        last = self.out.find(symbols[-1])["role"] if symbols else None
        if last != "lane" and (last is None or self.pick((True, True, False))):
            shape.append(self.pick(self.wholes))
        if len(shape) > 1 and self.chance(8):
            a = self.number(0, len(shape) - 2)
            shape[a], shape[a + 1] = shape[a + 1], shape[a]
        if len(shape) > 1 and self.chance(8):
            shape[self.number(0, len(shape) - 1)] = 1
        while count(self.out.extents(shape)) > MOST_ELEMENTS:
            shape.pop(0)
        return tuple(shape)

    def kind(self, dtype):
        return self.pick(("normal",) * 6 + ("any", "infinite", "zeros"))

    def load(self, scope, shape=None, dtype=None, values=None):
        """A tile of a new input, or of one that is there."""
        shape = self.tile(scope) if shape is None else shape
        dtype = dtype or self.dtype()
        values = values or self.kind(dtype)
        if values in ("infinite", "zeros") and dtype not in optable.FLOATS[:2]:
            values = "any"
        index = [{"sym": s} if isinstance(s, str) else WHOLE for s in shape]
        extents, how = (
            self.out.extents(shape),
            self.pick(
                ("plain",) * 6
                + (
                    "again",
                    "again",
                    "position",
                    "slice",
                    "permuted",
                    "reshaped",
                    "expanded",
                    "sliced",
                    "shifted",
                )
            ),
        )
        if how == "again":
            same = [
                t["name"]
                for t in self.out.tensors
                if t["role"] == "input" and (t["dtype"], t["shape"]) == (dtype, extents)
            ]
            name = self.pick(same) if same else self.out.tensor("input", dtype, extents, values)
        elif how == "position":
            planes = self.number(1, 4)
            name = self.out.tensor("input", dtype, [planes, *extents], values)
            index.insert(0, self.position(scope, planes))
        elif how == "slice" and any(isinstance(s, int) for s in shape):
            name = self.part(dtype, shape, extents, index, values)
        else:
            name = self.named(how, dtype, extents, values)
        return scope.node("tile.load", [scope.host(name), index], dtype, shape, loaded=True)

    def position(self, scope, planes):
        """A position in a dim of `planes`."""
        single = [s for s in scope.symbols if self.out.find(s).get("size") == 1]
        single = [s for s in single if self.out.find(s)["extent"] <= planes]
        if single and self.chance(60):
            return scope.number("tile.begin", [self.pick(single)])
        return self.number(0, planes - 1)

    def part(self, dtype, shape, extents, index, values):
        """A tensor with a wider dim than the tile's, of which `index` takes a slice."""
        dim = self.pick([i for i, s in enumerate(shape) if isinstance(s, int)])
        before, after = self.pick((0, 128, 8, 1)), self.pick((0, 128, 44, 1))
        extents = list(extents)
        extents[dim] += before + after
        index[dim] = {"slice": [before, before + shape[dim], None]}
        return self.out.tensor("input", dtype, extents, values)

    def named(self, how, dtype, extents, values):
        """The name of a tensor of this array shape: an input, or a view of one."""
        rank = len(extents)
        if how == "permuted" and rank > 1:
            dims = self.draw(st.permutations(range(rank)))
            base = [0] * rank
            for new, old in enumerate(dims):
                base[old] = extents[new]
            of = self.out.tensor("input", dtype, base, values)
            return self.out.tensor("view", dtype, extents, of=of, permute=list(dims))
        if how == "reshaped" and rank > 1:
            at = self.number(0, rank - 2)
            merged = [*extents[:at], extents[at] * extents[at + 1], *extents[at + 2 :]]
            of = self.out.tensor("input", dtype, merged, values)
            return self.out.tensor("view", dtype, extents, of=of)
        if how == "expanded" and rank > 1:
            base = list(extents)
            base[self.number(0, rank - 1)] = 1
            of = self.out.tensor("input", dtype, base, values)
            return self.out.tensor("view", dtype, extents, of=of, expand=True)
        if how == "sliced":
            dim, first = self.number(0, rank - 1), self.pick((0, 8, 1, 128))
            base, cut = list(extents), [[0, size, 1] for size in extents]
            base[dim] += first + 3
            cut[dim] = [first, first + extents[dim], 1]
            of = self.out.tensor("input", dtype, base, values)
            return self.out.tensor("view", dtype, extents, of=of, slice=cut)
        return self.out.tensor("input", dtype, extents, values)

    # ---- ops

    def operand(self, scope, fits=lambda v: True):
        """A value of the graph, later ones more often; None where none fits."""
        found = [v for v in scope.pool if fits(v)]
        if not found:
            return None
        return found[-1 - min(self.number(0, 5), len(found) - 1)]

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

    def fits(self, shape):
        """Whether a tile shape is not too large."""
        return shape is not None and count(self.out.extents(shape)) <= MOST_ELEMENTS

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
        if not allowed:
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
                args.append(fixed[i])
                types.append(fixed[i])
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
            and (value.dtype in optable.FLOATS or t not in FLOAT_ONLY)
        ]
        targets = [t for t in targets if dims is None or len(dims) == 1 or t not in ONE_DIM]
        if not targets:
            return None
        target, rank = self.pick(targets), len(value.shape)
        if dims is None:
            dims = [rank - 1] if self.pick((True, True, False)) else [self.number(0, rank - 1)]
            if rank > 1 and target not in ONE_DIM and self.chance(15):
                dims = sorted({*dims, self.number(0, rank - 1)})
        if self.pick((True, True, False)):
            value = self.masked(scope, value, target)
        keep = self.chance(35)
        shape = [1 if i in dims else s for i, s in enumerate(value.shape) if keep or i not in dims]
        result = optable.ruled(REDUCTIONS[target], [(value.dtype, rank)])
        written = [d - rank if self.chance(50) else d for d in dims]
        args = [value.ref, written[0] if target in ONE_DIM else written]
        if target == "aten.var.dim":
            args.append(self.chance(50))
        return scope.node(target, [*args, True] if keep else args, result, shape)

    def masked(self, scope, value, target):
        """The value with another number in its invalid lanes."""
        floats = value.dtype in optable.FLOATS
        number = 0.0 if floats else 0
        if "am" in target or "logsumexp" in target:
            sign = "inf" if "min" in target else "-inf"
            number = {"float": sign} if value.dtype in optable.FLOATS[:2] else 0
        if "prod" in target:
            number = 1.0 if floats else 1
        if value.dtype == "bool":
            number = "all" in target
        if number == 0 and value.dtype == "bool":
            number = False
        return scope.node("tile.mask_to", [value.ref, number], value.dtype, value.shape)

    def view(self, scope):
        """A view of a value."""
        value = self.operand(scope, lambda v: v.shape)
        if value is None:
            return None
        rank, shape = len(value.shape), value.shape
        how = self.pick(("unsqueeze", "permute", "squeeze", "subscript", "expand", "select"))
        if how == "unsqueeze" and rank < 4:
            dim = self.number(0, rank)
            new = (*shape[:dim], 1, *shape[dim:])
            return scope.node("aten.unsqueeze.default", [value.ref, dim], value.dtype, new)
        if how == "subscript" and rank < 4:
            dim = self.number(0, rank)
            index = [WHOLE] * rank
            index.insert(dim, None)
            new = (*shape[:dim], 1, *shape[dim:])
            return scope.node("tile.subscript", [value.ref, index], value.dtype, new)
        if how == "permute" and rank > 1:
            dims = self.draw(st.permutations(range(rank)))
            new = tuple(shape[d] for d in dims)
            return scope.node("aten.permute.default", [value.ref, list(dims)], value.dtype, new)
        ones = [i for i, s in enumerate(shape) if s == 1]
        if how == "squeeze" and ones and rank > 1:
            dim = self.pick(ones)
            new = (*shape[:dim], *shape[dim + 1 :])
            return scope.node("aten.squeeze.dim", [value.ref, dim], value.dtype, new)
        if how == "expand" and ones:
            dim = self.pick(ones)
            new = (*shape[:dim], self.pick((*scope.symbols, *self.wholes)), *shape[dim + 1 :])
            if len({s for s in new if isinstance(s, str)}) < len(
                [s for s in new if isinstance(s, str)]
            ) or not self.fits(new):
                return None
            args = [value.ref, sizes(new)]
            return scope.node("aten.expand.default", args, value.dtype, new)
        whole = [i for i, s in enumerate(shape) if isinstance(s, int)]
        if how == "select" and whole and rank > 1:
            dim = self.pick(whole)
            at = self.pick((0, shape[dim] - 1))
            new = (*shape[:dim], *shape[dim + 1 :])
            return scope.node("aten.select.int", [value.ref, dim, at], value.dtype, new)
        return None

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
        rows = [s for s in symbols if self.out.find(s)["role"] == "row"]
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

    # ---- loops

    def loop(self, scope):
        """A loop over one or two new blocks, with carried values, invariants and stores."""
        depth = len(scope.symbols) - len(self.out.graphs)
        if self.loops >= 3 or (scope.graph["kind"] == "for_loop" and self.loops >= 2) or depth < -9:
            return None
        self.loops += 1
        used = {self.out.find(s)["role"] for s in scope.symbols}
        role = "row" if "lane" in used else self.pick(("lane", "row"))
        fixed = {"size": 128} if self.chance(25) else {}
        blocks = [self.block(role, **fixed)]
        if self.chance(12):
            blocks.insert(0, self.block("outer"))
        begins, ends = self.bounds(scope, blocks)
        body = Scope(
            self.out,
            "for_loop",
            [*scope.symbols, *blocks],
            block_ids=[self.out.find(s)["id"] for s in blocks],
        )
        initial = [self.initial(scope) for _ in range(self.number(0, 3))]
        passed = [v for v in [self.operand(scope)] if v is not None and self.chance(50)]
        holders = [body.argument(v) for v in initial]
        for value in passed:
            body.argument(value)
        self.grow(body, self.number(1, 4))
        results = [self.carry(body, holder, blocks) for holder in holders]
        if not results or self.chance(25):
            self.store(body)
        body.graph["carried"] = [[i, i] for i in range(len(results))]
        number = body.finish(results)
        name = f"n{len(scope.nodes)}"
        args = [number, begins, ends, [v.ref for v in (*initial, *passed)]]
        scope.add(
            name, target="tile.for_loop", args=args, meta={"tuple": [v.meta for v in initial]}
        )
        for i, value in enumerate(initial):
            scope.node("getitem", [{"ref": name}, i], value.dtype, value.shape)
        return None

    def bounds(self, scope, blocks):
        """Begins and ends of a loop: the whole range, a part, nothing, or computed."""
        begins, ends = [], []
        for symbol in blocks:
            block = self.out.find(symbol)
            extent = block["extent"]
            how = self.pick(("all",) * 7 + ("part", "none", "loaded", "end"))
            begin, end = 0, extent
            if how == "part":
                begin = min(self.pick((128, 0, 8)), extent)
                end = max(extent - self.pick((0, 1, 128)), 0)
            elif how == "none":
                begin, end = self.pick(((0, 0), (extent, 0)))
            elif how == "loaded":
                name = self.out.tensor("input", "int32", [3], f"bound:{extent}")
                args = [scope.host(name), [self.position(scope, 3)]]
                end = scope.node("tile.load", args, "int32", (), keep=False).ref
            elif how == "end" and scope.symbols:
                end = scope.number("tile.end", [self.pick(scope.symbols)])
            begins.append(begin)
            ends.append(end)
        return begins, ends

    def initial(self, scope):
        """The initial value of a carried argument."""
        if self.chance(30):
            value = self.operand(scope)
            if value is not None:
                return value
        dtype = self.pick(("float32",) * 5 + ("bfloat16", "int32"))
        return self.create(scope, None, dtype)

    def carry(self, body, holder, blocks):
        """The next value of a carried argument: it combined with what the body computed."""
        found = self.operand(body, lambda v: v is not holder and v.dtype != "bool")
        own = [i for i, s in enumerate(found.shape) if s in blocks] if found else []
        if own:
            found = self.reduce(body, found, own)
        if found is None or broadcast(found.shape, holder.shape) != holder.shape:
            found = self.load(body, self.narrowed(holder.shape), holder.dtype)
        found = self.converted(body, found, holder.dtype)
        if holder.dtype == "bool":
            target = "aten.logical_or.default"
        else:
            target = self.pick(
                (
                    "aten.add.Tensor",
                    "aten.maximum.default",
                    "aten.minimum.default",
                    "aten.mul.Tensor",
                )
            )
        return body.node(target, [holder.ref, found.ref], holder.dtype, holder.shape)

    # ---- stores

    def store(self, scope):
        """A store of a value to an output of its own, one element of it for each lane."""
        value = self.operand(scope, lambda v: len(v.shape) <= 4)
        if value is None:
            return
        missing = [s for s in scope.symbols if s not in value.shape]
        shape = (*missing, *value.shape)
        twice = [s for s in shape if isinstance(s, str) and shape.count(s) > 1]
        if twice or len(shape) > 5 or not self.fits(shape):
            value = self.create(scope, tuple(scope.symbols[-1:]), "float32")
            shape = tuple(scope.symbols)
        if self.chance(20) and len(missing) and value.shape and self.atomic(scope, value):
            return
        dtype = value.dtype if self.pick((True, True, False)) else self.dtype()
        index = [{"sym": s} if isinstance(s, str) else WHOLE for s in shape]
        name = self.out.tensor("output", dtype, self.out.extents(shape))
        self.out.tensors[-1]["init"] = 0
        scope.write("tile.store", name, index, value.ref)

    def atomic(self, scope, value):
        """An atomic into a tensor that several grid points share."""
        if value.dtype not in ("float32", "int32"):
            return False
        shape = value.shape
        target = self.pick(("tile.atomic_add", "tile.atomic_max", "tile.atomic_min"))
        name = self.out.tensor("output", value.dtype, self.out.extents(shape))
        self.out.tensors[-1]["init"] = 0
        index = [{"sym": s} if isinstance(s, str) else WHOLE for s in shape]
        args = [scope.host(name), index, value.ref]
        scope.node(target, args, value.dtype, shape, keep=False)
        return True

    # ---- the configuration

    def config(self):
        """Block sizes that a chip is likely to take, how loops are lowered, and some switches."""
        config, steps, taken = {}, 1, []
        for block in self.out.blocks:
            extent = block["extent"]
            if "size" in block:
                steps *= max(math.ceil(extent / block["size"]), 1)
                continue
            options = {"outer": (1, 2), "row": (32, 64, 128, 8), "lane": (128, 256)}[block["role"]]
            options = [o for o in options if o < extent]
            size = self.pick([*options, extent, extent])
            if steps * math.ceil(extent / size) > MOST_STEPS:
                size = extent
            steps *= math.ceil(extent / size)
            taken.append(max(size, 1))
        config["block_sizes"] = taken
        if self.loops:
            config["pallas_loop_type"] = self.pick(
                ("default", "fori_loop", "emit_pipeline", "unroll")
            )
            if self.chance(25):
                config["pallas_fori_dma"] = self.pick(("on", "off"))
        for switch in SWITCHES:
            if switch not in config and self.chance(8):
                config[switch] = self.pick(("on", "off"))
        if self.loops and self.chance(10):
            config["pallas_matmul_ahead"] = self.number(0, 3)
        if self.loops and self.chance(10):
            config["pallas_emit_pipeline_group_size"] = self.pick((1, 64))
        inputs = sum(t["role"] == "input" for t in self.out.tensors)
        if self.chance(10):
            config["pallas_load_buffer_count"] = [self.pick((2, 1)) for _ in range(inputs)]
        return config


@st.composite
def cases(draw):
    """{"document", "values": {tensor: kind}, "seed"}."""
    return Drawing(draw).case()
