"""Conditions: `tile.if` with values, stores and loops in its branches."""

from choices import Choices
from document import Scope


class Branches(Choices):
    """Draws branches."""

    def branch(self, scope):
        """A `tile.if` with one branch or two; gives nothing: its results are operands."""
        if self.branches >= 2 or scope.depth >= 2:
            return
        self.branches += 1
        test = self.predicate(scope)
        passed = [self.initial(scope) for _ in range(self.number(0, 2))]
        sides = ("if", "else") if passed or self.chance(50) else ("if",)
        graphs = [self.side(scope, side, passed) for side in sides]
        values = [v.ref for v in passed]
        other = [graphs[1], values, values] if len(sides) == 2 else [None, values, []]
        name, metas = f"n{len(scope.nodes)}", [v.meta for v in passed]
        scope.add(name, target="tile.if", args=[test, graphs[0], *other], meta={"tuple": metas})
        for i, value in enumerate(passed):
            scope.node("getitem", [{"ref": name}, i], value.dtype, value.shape)

    def side(self, scope, kind, passed):
        """One branch: gives its graph's id. It gives a value like each that it takes."""
        body = Scope(self.out, kind, [], scope)
        holders = [body.argument(value) for value in passed]
        if kind == "if" or self.chance(70):
            self.grow(body, self.number(0, 4))
        results = [self.carry(body, holder, []) for holder in holders]
        if not results or self.chance(25):
            self.store(body)
        return body.finish(results)

    def predicate(self, scope):
        """A symbolic bool, or a bool of the run time; a reference to it."""
        around = [*scope.symbols, *scope.points]
        how = self.pick(("place", "table", "lanes")) if around else "lanes"
        if how == "lanes":
            value = self.operand(scope, lambda v: v.shape and v.dtype != "bool")
            value = value or self.create(scope, (), "float32")
            above = scope.node("aten.gt.Scalar", [value.ref, 0], "bool", value.shape)
            return scope.node("aten.any.default", [above.ref], "bool", ()).ref
        symbol = self.pick(around)
        if how == "table":
            name = self.out.tensor("input", "int32", [self.out.find(symbol)["extent"]], "any")
            args = [scope.host(name), [scope.number("tile.id", [symbol])]]
            found = scope.node("tile.load", args, "int32", (), keep=False)
            return scope.node("aten.gt.Scalar", [found.ref, 0], "bool", (), keep=False).ref
        place = scope.number(self.pick(("tile.id", "tile.begin", "tile.end")), [symbol])
        target, with_ = self.pick(("lt", "ge", "eq", "ne", "le", "gt")), self.pick((0, 1, 2, 128))
        name = f"n{len(scope.nodes)}"
        meta = {"sym": None, "dtype": "bool"}
        test = {"ref": scope.add(name, target=target, args=[place, with_], meta=meta)}
        return self.tested(scope, test, test) if self.chance(25) else test
