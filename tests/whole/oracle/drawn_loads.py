"""Loads and stores: whole tiles, slices, positions, views, shifted tiles, what was stored."""

import optable
from choices import Choices
from document import WHOLE, broadcast


class Loads(Choices):
    """Draws accesses to tensors."""

    def dtype(self):
        """A dtype, common ones more often."""
        common = ("float32",) * 6 + ("bfloat16",) * 3 + ("int32",) * 2
        return self.pick((*common, *optable.DTYPE_NAMES))

    def tile(self, scope):
        """A shape of a tile: some of the blocks around, outer ones first, and maybe a whole dim."""
        symbols = [s for s in scope.symbols if self.pick((True, True, False))]
        order = {"outer": 0, "row": 1, "lane": 2}
        symbols.sort(key=lambda s: order[self.role(s)])
        shape = list(symbols)
        last = self.role(symbols[-1]) if symbols else None
        if last != "lane" and (last is None or self.pick((True, True, False))):
            shape.append(self.pick(self.wholes))
        if len(shape) > 1 and self.chance(8):
            a = self.number(0, len(shape) - 2)
            shape[a], shape[a + 1] = shape[a + 1], shape[a]
        if len(shape) > 1 and self.chance(8):
            shape[self.number(0, len(shape) - 1)] = 1
        while not self.fits(shape):
            shape.pop(0)
        return tuple(shape)

    def index(self, shape):
        """The index list of a tile of this shape."""
        whole = [isinstance(s, int) or self.role(s) == "reduction" for s in shape]
        return [WHOLE if w else {"sym": s} for s, w in zip(shape, whole, strict=True)]

    def kind(self, dtype):
        """What an input holds: a key of values.KINDS."""
        found = self.pick(("normal",) * 6 + ("any", "infinite", "zeros"))
        plain = found in ("normal", "any") or dtype in optable.FLOATS[:2]
        return found if plain else "any"

    def load(self, scope, shape=None, dtype=None, values=None):
        """A tile of a new input, or of one that is there."""
        free = shape is None
        shape = self.tile(scope) if free else shape
        dtype = dtype or self.dtype()
        values = values or self.kind(dtype)
        ways = ("plain",) * 7 + (
            "again",
            "again",
            "position",
            "slice",
            "named",
            "shifted",
            "stored",
            "earlier",
        )
        how = self.pick(ways)
        if how == "earlier" and free and (made := self.load_earlier(scope)):
            return made
        if how == "stored" and scope.stored and free:
            return self.load_stored(scope)
        if how == "shifted" and free and (made := self.load_shifted(scope, shape, dtype, values)):
            return made
        index, extents = self.index(shape), self.out.extents(shape)
        if how == "again":
            same = [
                t["name"]
                for t in self.out.tensors
                if t["role"] == "input" and (t["dtype"], t["shape"]) == (dtype, extents)
            ]
            name = self.pick(same) if same else self.out.tensor("input", dtype, extents, values)
        elif how == "position" or (scope.points and self.chance(50)):
            planes, entry = self.position(scope)
            name = self.out.tensor("input", dtype, [planes, *extents], values)
            index.insert(0, entry)
        elif how == "slice" and any(isinstance(s, int) for s in shape):
            name = self.part(dtype, shape, extents, index, values)
        elif how == "named" and extents:
            name = self.named(dtype, extents, values)
        else:
            name = self.out.tensor("input", dtype, extents, values)
        mask = self.mask(scope, shape, 5)
        return scope.node("tile.load", [scope.host(name), index, *mask], dtype, shape)

    def position(self, scope):
        """(size of a dim, an index entry that is a position in it, or beyond it)."""
        if scope.points:
            point = self.pick(scope.points)
            return self.out.find(point)["extent"], scope.begin(point)
        planes = self.number(1, 4)
        if self.chance(15):
            return planes, self.run_time(scope, planes)
        return planes, self.number(0, planes - 1)

    def run_time(self, scope, limit):
        """A host int of 0 to `limit`, known only at run time."""
        name = f"s{len(self.out.scalars)}"
        self.out.scalars.append({"name": name, "dtype": "int32"})
        self.out.values[name] = f"bound:{limit}"
        return scope.node("tile.scalar", [name], "int32", (), keep=False).ref

    def mask(self, scope, shape, per_cent):
        """[an extra_mask of an access to a tile], in so many of a hundred draws; else []."""
        if not shape or not self.chance(per_cent):
            return []
        dims = [s if self.pick((True, True, False)) else 1 for s in shape]
        found = self.load(scope, tuple(dims), self.pick(("bool", "float32", "int32")))
        if found.dtype != "bool":
            found = scope.node("aten.gt.Scalar", [found.ref, 0], "bool", found.shape)
        return [found.ref]

    def part(self, dtype, shape, extents, index, values):
        """A tensor with a wider dim than the tile's, of which `index` takes a slice."""
        dim = self.pick([i for i, s in enumerate(shape) if isinstance(s, int)])
        before, after = self.pick((0, 128, 8, 1)), self.pick((0, 128, 44, 1))
        extents = list(extents)
        extents[dim] += before + after
        index[dim] = {"slice": [before, before + shape[dim], None]}
        return self.out.tensor("input", dtype, extents, values)

    def named(self, dtype, extents, values):
        """The name of a view of this array shape of a new input."""
        rank, how = len(extents), self.pick(("permuted", "reshaped", "expanded", "sliced"))
        base = list(extents)
        if how == "permuted" and rank > 1:
            dims = self.permutation(rank)
            for new, old in enumerate(dims):
                base[old] = extents[new]
            of = self.out.tensor("input", dtype, base, values)
            return self.out.tensor("view", dtype, extents, of=of, permute=dims)
        if how == "reshaped" and rank > 1:
            at = self.number(0, rank - 2)
            base[at : at + 2] = [extents[at] * extents[at + 1]]
            of = self.out.tensor("input", dtype, base, values)
            return self.out.tensor("view", dtype, extents, of=of)
        if how == "expanded" and rank > 1:
            base[self.number(0, rank - 1)] = 1
            of = self.out.tensor("input", dtype, base, values)
            return self.out.tensor("view", dtype, extents, of=of, expand=True)
        dim, first = self.number(0, rank - 1), self.pick((0, 8, 1, 128))
        cut = [[0, size, 1] for size in extents]
        base[dim] += first + 3
        cut[dim] = [first, first + extents[dim], 1]
        of = self.out.tensor("input", dtype, base, values)
        return self.out.tensor("view", dtype, extents, of=of, slice=cut)

    def load_stored(self, scope):
        """A load of what the graph has stored before, at the same place."""
        name, index, dtype, shape = self.pick(scope.stored)
        return scope.node("tile.load", [scope.host(name), index], dtype, shape)

    def load_earlier(self, scope):
        """A tile of what an earlier root has stored, by blocks of its extents or whole."""
        found = [t for t in self.out.tensors if t["name"] in self.earlier and t["role"] != "view"]
        if not found:
            return None
        tensor, shape = self.pick(found), []
        for size in tensor["shape"]:
            same = [s for s in scope.symbols if self.out.extents((s,)) == [size] and s not in shape]
            shape.append(self.pick(same) if same else size)
        if not self.fits(shape) or len(shape) > 4:
            return None
        args = [scope.host(tensor["name"]), self.index(shape)]
        return scope.node("tile.load", args, tensor["dtype"], shape)

    def load_shifted(self, scope, shape, dtype, values):
        """A tile of a fixed size, and the one so many elements after it, added."""
        fixed = [i for i, s in enumerate(shape) if isinstance(s, str) and self.divides(s)]
        if not fixed or dtype == "bool":
            return None
        dim, shift = self.pick(fixed), self.pick((128, 256, 8, 1))
        symbol, extents = shape[dim], self.out.extents(shape)
        size = self.out.find(symbol)["size"]
        extents[dim] += shift
        name = self.out.tensor("input", dtype, extents, values)
        here = scope.node("tile.load", [scope.host(name), self.index(shape)], dtype, shape)
        start = scope.number("add", [scope.begin(symbol), shift])
        end = scope.number("add", [start, size])
        index = self.index(shape)
        index[dim] = {"slice": [start, end, None]}
        there = (*shape[:dim], size, *shape[dim + 1 :])
        args = [scope.host(name), index]
        after = scope.node("tile.load", args, dtype, there, keep=False)
        return scope.node("aten.add.Tensor", [here.ref, after.ref], dtype, shape)

    def divides(self, symbol):
        """Whether a block has a fixed size that divides its range."""
        block = self.out.find(symbol)
        return "size" in block and not block["extent"] % block["size"] and not block.get("begin")

    # ---- stores

    def place(self, scope, shape):
        """(array shape, index) of a tile at this grid point and loop step, no other."""
        planes = [self.out.find(s)["extent"] for s in scope.points]
        index = [*(scope.begin(s) for s in scope.points), *self.index(shape)]
        return [*planes, *self.out.extents(shape)], index

    def store(self, scope):
        """A store of a value to an output of its own, one element of it for each lane."""
        value = self.operand(scope, lambda v: len(v.shape) <= 4) or self.load(scope)
        missing = [s for s in scope.symbols if s not in value.shape]
        shape = (*missing, *value.shape)
        twice = [s for s in shape if isinstance(s, str) and shape.count(s) > 1]
        if twice or len(shape) > 5 or not self.fits(shape):
            value = self.create(scope, tuple(scope.symbols[-1:]), "float32")
            shape = tuple(scope.symbols)
        alone = not missing and not scope.points
        if self.chance(20) and not alone and value.shape and self.atomic(scope, value):
            return
        dtype = value.dtype if self.pick((True, True, False)) else self.dtype()
        extents, index = self.place(scope, shape)
        if self.chance(4):
            planes = self.number(1, 3)
            extents, index = [planes, *extents], [self.run_time(scope, planes), *index]
        name = self.out.tensor("output", dtype, extents)
        self.out.tensors[-1]["init"] = 0
        scope.write("tile.store", name, index, value.ref, self.mask(scope, shape, 6))
        scope.stored.append((name, index, dtype, shape))

    def update(self, scope):
        """A tile of a tensor in place: loaded, changed, and stored."""
        if self.loops and not scope.is_root:
            return
        dtype = self.pick(("float32", "float32", "bfloat16", "int32"))
        shape = tuple(scope.symbols) or (self.pick(self.wholes),)
        extents, index = self.place(scope, shape)
        name = self.out.tensor("inout", dtype, extents, "normal")
        host = scope.host(name)
        old = scope.node("tile.load", [host, index], dtype, shape)
        more = self.like(scope, old, dtype)
        more = more if broadcast(more.shape, shape) == shape else old
        new = scope.node("aten.add.Tensor", [old.ref, more.ref], dtype, shape)
        scope.write("tile.store", name, index, new.ref)
        scope.stored.append((name, index, dtype, shape))

    def atomic(self, scope, value):
        """An atomic into a tensor that several grid points share."""
        if value.dtype not in ("float32", "int32"):
            return False
        shape, extents = value.shape, self.out.extents(value.shape)
        kinds = ("add", "max", "min", "and", "or", "xor")
        kind = self.pick(kinds[: 6 if value.dtype == "int32" else 3])
        name = self.out.tensor("output", value.dtype, extents)
        self.out.tensors[-1]["init"] = self.pick((0, 1))
        args = [scope.host(name), self.index(shape), value.ref]
        scope.node(f"tile.atomic_{kind}", args, value.dtype, shape, keep=False)
        return True
