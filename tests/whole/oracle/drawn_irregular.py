"""What data decides: positions that int tensors give, lengths of rows, steps until something holds.

Also what follows no tile: sorts and random numbers.
"""

from choices import Choices
from document import Scope

PLACES = (1, 5, 16, 64, 200)
SORTED = ("float32", "bfloat16", "int32")


class Irregular(Choices):
    """Draws gathers, scatters, jagged loops, `tile.while`, sorts and random numbers."""

    def irregular(self, scope):
        """One of them, where it fits."""
        ways = (self.gather, self.gather, self.scatter, self.scatter, self.jagged, self.until)
        return self.pick((*ways, self.sorted, self.randoms))(scope)

    def places(self, scope, shape, extent):
        """A value of positions along a dim of `extent`, some of them outside it."""
        name = self.out.tensor("input", "int32", self.out.extents(shape), f"place:{extent}")
        args = [scope.host(name), self.index(shape)]
        found = scope.node("tile.load", args, "int32", shape, keep=False)
        if self.chance(25):
            args = [found.ref, self.pick((1, -1, 3))]
            found = scope.node("aten.add.Scalar", args, "int32", shape, keep=False)
        return found

    def places_shape(self, scope, rank=None):
        """A shape of positions: one block around or two, or of whole dims."""
        symbols = [s for s in scope.symbols if self.role(s) != "outer"]
        if scope.depth:  # one position after the other, in each step
            symbols = [s for s in symbols if self.out.find(s)["extent"] <= 64]
        rank = rank or self.pick((1, 1, 1, 2))
        if len(symbols) >= rank and self.chance(80):
            return tuple(self.random.sample(symbols, rank))
        return tuple(self.pick((3, 8, 16)) for _ in range(rank))

    def selection(self, scope, taken):
        """The other dims of a tensor that int tensors over `taken` select from."""
        kept = [s for s in scope.symbols if s not in taken and self.role(s) == "lane"]
        others = [self.pick([*kept[:1], *self.wholes]) for _ in range(self.pick((1, 1, 0, 2)))]
        if len(others) > 1 and isinstance(others[0], str):
            others[0] = 3
        return others

    def gather(self, scope):
        """A load at positions that int tensors give: of rows, columns or single elements."""
        shape, dims = self.places_shape(scope), self.pick((1, 1, 1, 2))
        others = self.selection(scope, shape)
        extents = [self.pick(PLACES) for _ in range(dims)]
        found = [self.places(scope, shape, extent) for extent in extents]
        at = self.pick((0, 0, len(others), self.number(0, len(others))))
        index = self.index(others)
        index[at:at] = [v.ref for v in found]
        array = self.out.extents(others)
        array[at:at] = extents
        block = len(shape) == 1 and isinstance(shape[0], str)
        together = shape * dims if block else shape
        if len(set(together)) < len(together):
            return None
        result = (*others[:at], *together, *others[at:])
        if not self.fits(result) or len(result) > 4 or not array:
            return None
        dtype = self.dtype()
        name = self.out.tensor("input", dtype, array, self.kind(dtype))
        mask = self.mask(scope, result, 6)
        return scope.node("tile.load", [scope.host(name), index, *mask], dtype, result)

    def scatter(self, scope):
        """A store or an atomic at positions that an int tensor gives."""
        self.scattered = True
        shape = self.places_shape(scope, 1)
        others = self.selection(scope, shape)
        extent = self.pick(PLACES)
        result = (*shape, *others)
        if not self.fits(result):
            return
        dtype = self.pick(("float32", "float32", "int32", "bfloat16"))
        value = self.load(scope, result, dtype, "normal")
        place = self.places(scope, shape, extent)
        name = self.out.tensor("output", dtype, [extent, *self.out.extents(others)])
        self.out.tensors[-1]["init"] = 0
        index = [place.ref, *self.index(others)]
        mask = self.mask(scope, result, 8)
        how = self.pick(("store", "add", "max", "xchg")) if dtype != "bfloat16" else "store"
        if how == "store":
            scope.write("tile.store", name, index, value.ref, mask)
        else:
            args = [scope.host(name), index, value.ref]
            scope.node(f"tile.atomic_{how}", args, dtype, result, keep=self.chance(50))

    def jagged(self, scope):
        """A loop whose rows end where an int tensor says; its body sums what it has."""
        rows = [s for s in scope.symbols if self.role(s) == "row"]
        if self.loops >= 3 or scope.depth or not rows:
            return
        self.loops += 1
        row = self.pick(rows)
        block = self.block("lane", [*scope.points, *scope.symbols])
        extent = self.out.find(block)["extent"]
        name = self.out.tensor("input", "int32", self.out.extents((row,)), f"bound:{extent}")
        args = [scope.host(name), self.index((row,))]
        lengths = scope.node("tile.load", args, "int32", (row,), keep=False)
        initial = self.create(scope, (row,), "float32")
        ids = [self.out.find(block)["id"]]
        body = Scope(self.out, "for_loop", [block], scope, block_ids=ids, lengths=0)
        body.argument(lengths)
        held = body.argument(initial)
        tile = self.load(body, (row, block), self.pick(SORTED), "normal")
        self.grow(body, self.number(0, 2))
        tile = self.converted(body, tile, "float32")
        part = body.node("aten.sum.dim_IntList", [tile.ref, [-1]], "float32", (row,))
        new = body.node("aten.add.Tensor", [held.ref, part.ref], "float32", (row,))
        body.graph["carried"] = [[1, 0]]
        number, name = body.finish([new]), f"n{len(scope.nodes)}"
        args = [number, [0], [extent], [lengths.ref, initial.ref]]
        scope.add(name, target="tile.for_loop", args=args, meta={"tuple": [initial.meta]})
        scope.node("getitem", [{"ref": name}, 0], "float32", (row,))

    def until(self, scope):
        """A `tile.while` that counts to a loaded number, and changes a tile at each step."""
        if self.loops >= 3 or scope.depth >= 2:
            return
        self.loops += 1
        name = self.out.tensor("input", "int32", [3], "bound:6")
        args = [scope.host(name), [self.number(0, 2)]]
        last = scope.node("tile.load", args, "int32", (), keep=False)
        count = scope.node("tile.full", [[], 0, {"dtype": "int32"}], "int32", (), keep=False)
        tile = self.create(scope, None, self.pick(("float32", "float32", "int32")))
        around = [count, tile, last]
        test = Scope(self.out, "cond", [], scope)
        held = [test.argument(v) for v in around]
        less = test.node("aten.lt.Tensor", [held[0].ref, held[2].ref], "bool", ())
        condition = test.finish([less])
        body = Scope(self.out, "while", [], scope, carried=[[0, 0], [1, 1]])
        held = [body.argument(v) for v in around]
        body.pool = [held[1]]
        self.grow(body, self.number(0, 3))
        new = self.carry(body, held[1], [])
        more = body.node("aten.add.Scalar", [held[0].ref, 1], "int32", ())
        number, name = body.finish([more, new]), f"n{len(scope.nodes)}"
        args = [condition, number, [v.ref for v in around]]
        metas = [v.meta for v in around[:2]]
        scope.add(name, target="tile.while", args=args, meta={"tuple": metas})
        scope.node("getitem", [{"ref": name}, 1], tile.dtype, tile.shape)

    def sorted(self, scope):
        """A sort along the last dim with its order, or the first of it."""
        value = self.operand(scope, lambda v: v.shape and v.dtype in SORTED)
        if value is None or isinstance(value.shape[-1], str):
            value = self.load(scope, (*value.shape[:-1], 16) if value else (16,), "float32")
        down = self.chance(50)
        target, args, shape = "aten.sort.default", [value.ref, -1, down], value.shape
        if self.chance(40):
            k = self.number(1, min(value.shape[-1], 9))
            target, args, shape = "aten.topk.default", [value.ref, k, -1, down], (*shape[:-1], k)
        return scope.several(target, args, (value.dtype, "int32"), [shape, shape])

    def randoms(self, scope):
        """Random numbers, by a seed of the run time or not; added to a tile like them."""
        shape = self.tile(scope)
        seed = self.pick((0, 7, 2**31 - 1))
        ints = [s if isinstance(s, int) else {"sym": s} for s in shape]
        if not shape or not self.fits(shape):
            return None
        if self.chance(50):
            return scope.node("tile.rand", [ints, seed], "float32", shape)
        low = self.pick((0, -5))
        return scope.node("tile.randint", [ints, low, low + 17, seed], "int32", shape)
