"""What kernels do often, in variants: sums of products, online softmax, normalised rows.

Passes look for such patterns, and ops drawn one by one hardly ever make them.
"""

from choices import Choices
from document import WHOLE, Scope, sizes

FLOAT = "float32"
CONVERT = "prims.convert_element_type.default"


class Patterns(Choices):
    """Draws patterns."""

    def pattern(self, scope):
        """One of the patterns, where it fits."""
        return self.pick((self.products, self.online_softmax, self.norm))(scope)

    def rows_of(self, scope):
        """A block of rows around, not of lanes; or a whole dim."""
        rows = [s for s in scope.symbols if self.role(s) == "row"]
        return self.pick(rows) if rows else self.pick((8, 64, 128))

    def inner_block(self, scope):
        """A new block for a loop, whose tiles are columns or rows."""
        around = [*scope.points, *scope.symbols]
        return self.block("lane", around, **({"size": 128} if self.chance(20) else {}))

    def call(self, scope, body, initial, results, block, passed=()):
        """Ends `body` and calls it over the whole range; gives its results.

        `passed` are arguments that it does not carry, after those that it does.
        """
        body.graph["carried"] = [[i, i] for i in range(len(results))]
        number, name = body.finish(results), f"n{len(scope.nodes)}"
        values = [v.ref for v in (*initial, *passed)]
        args = [number, [0], [self.out.find(block)["extent"]], values]
        scope.add(
            name, target="tile.for_loop", args=args, meta={"tuple": [v.meta for v in initial]}
        )
        return [
            scope.node("getitem", [{"ref": name}, i], v.dtype, v.shape)
            for i, v in enumerate(initial)
        ]

    def full(self, scope, shape, number):
        args = [sizes(shape), number, {"dtype": FLOAT}]
        return scope.node("tile.full", args, FLOAT, shape)

    def products(self, scope):
        """acc + a @ b over a loop, a and b as they are or transposed; an epilogue may follow."""
        if self.loops >= 2 or scope.depth:
            return
        self.loops += 1
        m, k = self.rows_of(scope), self.inner_block(scope)
        n = self.pick([s for s in scope.symbols if s != m] + self.wholes)
        ids = [self.out.find(k)["id"]]
        body = Scope(self.out, "for_loop", [k], scope, block_ids=ids)
        acc = self.full(scope, (m, n), self.pick((0.0, 1.0)))
        held = body.argument(acc)
        dtype = self.pick((FLOAT, "bfloat16", "bfloat16"))
        a = self.matrix(body, m, k, dtype)
        b = self.matrix(body, k, n, dtype)
        if self.chance(25):
            a = body.node("aten.mul.Tensor", [a.ref, self.pick((0.5, 2.0))], dtype, (m, k))
        if self.chance(50):
            new = body.node("tile.dot", [a.ref, b.ref, held.ref], FLOAT, (m, n))
        else:
            dot = body.node("aten.mm.dtype", [a.ref, b.ref, {"dtype": FLOAT}], FLOAT, (m, n))
            new = body.node("aten.add.Tensor", [held.ref, dot.ref], FLOAT, (m, n))
        self.call(scope, body, [acc], [new], k)

    def matrix(self, scope, rows, columns, dtype):
        """A tile [rows, columns], loaded so or transposed."""
        if self.chance(35):
            turned = self.load(scope, (columns, rows), dtype, "normal")
            return scope.node("aten.permute.default", [turned.ref, [1, 0]], dtype, (rows, columns))
        return self.load(scope, (rows, columns), dtype, "normal")

    def online_softmax(self, scope):
        """Attention's loop: a running maximum and sum of rows, and a weighted sum of values."""
        if self.loops >= 2 or scope.depth:
            return
        self.loops += 1
        m, n, d = self.rows_of(scope), self.inner_block(scope), self.pick((64, 128, 96))
        dtype, keep = self.pick((FLOAT, "bfloat16")), self.chance(30)
        stat = (m, 1) if keep else (m,)
        q = self.load(scope, (m, d), dtype, "normal")
        body = Scope(self.out, "for_loop", [n], scope, block_ids=[self.out.find(n)["id"]])
        start = {"float": "-inf"} if self.chance(70) else -1e30
        initial = [self.full(scope, stat, start), self.full(scope, stat, self.pick((0.0, 1.0)))]
        weighted = self.chance(80)
        initial += [self.full(scope, (m, d), 0.0)] if weighted else []
        held = [body.argument(v) for v in initial]
        query = body.argument(q)
        scores = self.scores(scope, body, query, m, n, d, dtype)
        inside = self.chance(60)
        if inside:
            args = [scores.ref, {"float": "-inf"}]
            scores = body.node("tile.mask_to", args, FLOAT, (m, n))
        args = [scores.ref, [-1], *([True] if keep else [])]
        top = body.node("aten.amax.default", args, FLOAT, stat)
        scale = self.pick((None, None, 0.125))
        if scale:
            top = body.node("aten.mul.Tensor", [top.ref, scale], FLOAT, stat)
            scores = body.node("aten.mul.Tensor", [scores.ref, scale], FLOAT, (m, n))
        best = body.node("aten.maximum.default", [held[0].ref, top.ref], FLOAT, stat)
        exp = self.pick(("aten.exp.default", "aten.exp2.default"))
        less = body.node("aten.sub.Tensor", [scores.ref, self.column(body, best, m)], FLOAT, (m, n))
        p = body.node(exp, [less.ref], FLOAT, (m, n))
        if not inside:
            p = body.node("tile.mask_to", [p.ref, 0.0], FLOAT, (m, n))
        shift = body.node("aten.sub.Tensor", [held[0].ref, best.ref], FLOAT, stat)
        alpha = body.node(exp, [shift.ref], FLOAT, stat)
        args = [p.ref, [-1], *([True] if keep else [])]
        part = body.node("aten.sum.dim_IntList", args, FLOAT, stat)
        faded = body.node("aten.mul.Tensor", [held[1].ref, alpha.ref], FLOAT, stat)
        results = [best, body.node("aten.add.Tensor", [faded.ref, part.ref], FLOAT, stat)]
        if weighted:
            v = self.load(body, (n, d), dtype, "normal")
            args = [held[2].ref, self.column(body, alpha, m)]
            faded = body.node("aten.mul.Tensor", args, FLOAT, (m, d))
            if dtype != FLOAT:
                p = body.node(CONVERT, [p.ref, {"dtype": dtype}], dtype, (m, n))
            results.append(body.node("tile.dot", [p.ref, v.ref, faded.ref], FLOAT, (m, d)))
        found = self.call(scope, body, initial, results, n, [q])
        if weighted and self.chance(70):
            args = [found[2].ref, self.column(scope, found[1], m)]
            scope.node("aten.div.Tensor", args, FLOAT, (m, d))

    def column(self, scope, stat, m):
        """The argument that broadcasts a row statistic against tiles."""
        if len(stat.shape) == 2:
            return stat.ref
        args = [stat.ref, [WHOLE, None]]
        return scope.node("tile.subscript", args, FLOAT, (m, 1), keep=False).ref

    def scores(self, scope, body, query, m, n, d, dtype):
        """q @ k.T, scaled before or not, with a bias or a causal mask or not."""
        k = self.matrix(body, d, n, dtype)
        args = [query.ref, k.ref, {"dtype": FLOAT}]
        scores = body.node("aten.mm.dtype", args, FLOAT, (m, n))
        how = self.pick(("plain", "scaled", "scaled", "bias", "causal"))
        if how == "scaled":
            return body.node("aten.mul.Tensor", [scores.ref, 0.18], FLOAT, (m, n))
        if how == "bias":
            bias = self.load(body, self.pick(((m, n), (1, n))), FLOAT, "normal")
            return body.node("aten.add.Tensor", [scores.ref, bias.ref], FLOAT, (m, n))
        if how == "causal" and isinstance(m, str):
            row = body.node("tile.index", [m], "int32", (m,), keep=False)
            args = [row.ref, [WHOLE, None]]
            row = body.node("tile.subscript", args, "int32", (m, 1), keep=False)
            column = body.node("tile.index", [n], "int32", (n,), keep=False)
            seen = body.node("aten.ge.Tensor", [row.ref, column.ref], "bool", (m, n), keep=False)
            args = [seen.ref, scores.ref, {"float": "-inf"}]
            return body.node("aten.where.ScalarOther", args, FLOAT, (m, n))
        return scores

    def norm(self, scope):
        """Rows less their mean, over the root of their mean square; of a whole dim."""
        m, n = self.rows_of(scope), self.pick(self.wholes)
        x = self.load(scope, (m, n), self.pick((FLOAT, "bfloat16")), "normal")
        if x.dtype != FLOAT:
            x = scope.node(CONVERT, [x.ref, {"dtype": FLOAT}], FLOAT, (m, n))
        if self.chance(60):
            mean = scope.node("aten.mean.dim", [x.ref, [-1], True], FLOAT, (m, 1))
            x = scope.node("aten.sub.Tensor", [x.ref, mean.ref], FLOAT, (m, n))
        square = scope.node("aten.mul.Tensor", [x.ref, x.ref], FLOAT, (m, n))
        power = scope.node("aten.mean.dim", [square.ref, [-1], True], FLOAT, (m, 1))
        power = scope.node("aten.add.Tensor", [power.ref, 1e-5], FLOAT, (m, 1))
        root = scope.node("aten.rsqrt.default", [power.ref], FLOAT, (m, 1))
        x = scope.node("aten.mul.Tensor", [x.ref, root.ref], FLOAT, (m, n))
        weight = self.load(scope, (n,), FLOAT, "normal")
        scope.node("aten.mul.Tensor", [x.ref, weight.ref], FLOAT, (m, n))
