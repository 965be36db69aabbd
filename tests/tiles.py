"""Small documents for the tests of tilings: loads, pointwise ops and stores over blocks."""

import json

import kit
from builder import Doc, G, ref, sl, sym, t
from pallasc.build import Graph, ops


class Kernel:
    """A document with one root graph. A block is named by its symbol: "u0", "u1", ..."""

    def __init__(self, name, blocks, config):
        """blocks: the extents of u0, u1, ..., outermost first, all of them the grid's."""
        config = {"pallas_wide_blocks": "off", **config}  # tiles of this size are tried
        self.doc, self.g = Doc(config, name=name, scalars=None), G(0, grid=[*range(len(blocks))])
        for i, extent in enumerate(blocks):
            self.doc.block(extent, f"tile_{i}")
        self.shapes = {}

    def tensor(self, name, role, dtype, shape):
        self.doc.tensor(name, role, dtype, shape)
        self.node("tile.host_tensor", [name], t(dtype, *shape), f"{name}_host")

    def node(self, target, args, meta=None, name=None):
        """Appends a node; gives a reference to it."""
        name = name or f"v{self.g.count}"
        self.shapes[name] = meta
        return self.g.call(target, *args, meta=meta, name=name)

    def index(self, entries):
        return [sl() if e == ":" else e if isinstance(e, int) else sym(e) for e in entries]

    def load(self, name, *entries):
        """entries: "u0" for a block's tile, ":" for a whole dim, an int for one position."""
        host = self.shapes[f"{name}_host"]
        shape = [
            d if e == ":" else e
            for d, e in zip(host["shape"], entries, strict=True)
            if not isinstance(e, int)
        ]
        meta = t(host["dtype"], *shape)
        return self.node("tile.load", [ref(f"{name}_host"), self.index(entries)], meta)

    def op(self, target, *args, dtype=None, shape=None):
        """A node of the first argument's type, where dtype and shape do not say another."""
        like = self.shapes[args[0]["ref"]]
        return self.node(target, args, t(dtype or like["dtype"], *(shape or like["shape"])))

    def convert(self, value, dtype):
        return self.op("prims.convert_element_type.default", value, {"dtype": dtype}, dtype=dtype)

    def store(self, name, value, *entries):
        self.node("tile.store", [ref(f"{name}_host"), self.index(entries), value])

    def json(self):
        """The document as text."""
        return json.dumps(self.doc.add(self.g.out()))


def row_maxima(rows, columns, block, dtype="float32", outs=("float32",), **config):
    """s0[m], s1[m], ... = max over d of x[m, d], each 1-D of its dtype; y = x + x."""
    k = Kernel("row_maxima", [rows], {"block_sizes": [block], **config})
    k.tensor("x", "input", dtype, [rows, columns])
    k.tensor("y", "output", dtype, [rows, columns])
    for i, out in enumerate(outs):
        k.tensor(f"s{i}", "output", out, [rows])
    x = k.load("x", "u0", ":")
    k.store("y", k.op("aten.add.Tensor", x, x), "u0", ":")
    top = k.op("aten.amax.default", x, [-1], shape=["u0"])
    for i, out in enumerate(outs):
        k.store(f"s{i}", top if out == dtype else k.convert(top, out), "u0")
    return k.json()


def statistic(heads, length, columns, blocks, **config):
    """lse[b, s] = delta[b, s] + max over d of x[b, s, d]: float32 statistics, bfloat16 x."""
    k = Kernel("statistic", [heads, length], {"block_sizes": blocks, **config})
    k.tensor("x", "input", "bfloat16", [heads, length, columns])
    k.tensor("delta", "input", "float32", [heads, length])
    k.tensor("lse", "output", "float32", [heads, length])
    top = k.op("aten.amax.default", k.load("x", "u0", "u1", ":"), [-1], shape=["u0", "u1"])
    delta = k.load("delta", "u0", "u1")
    k.store("lse", k.op("aten.add.Tensor", delta, k.convert(top, "float32")), "u0", "u1")
    return k.json()


def statistic_3d(batch, heads, length, blocks, **config):
    """lse[b, h, s] = max over d of x[b, h, s, d], 128 wide."""
    k = Kernel("statistic_3d", [batch, heads, length], {"block_sizes": blocks, **config})
    k.tensor("x", "input", "bfloat16", [batch, heads, length, 128])
    k.tensor("lse", "output", "float32", [batch, heads, length])
    tile = ["u0", "u1", "u2"]
    top = k.op("aten.amax.default", k.load("x", *tile, ":"), [-1], shape=tile)
    k.store("lse", k.convert(top, "float32"), *tile)
    return k.json()


def widened(dtype, shape, blocks, **config):
    """y = float32(x), tile by tile."""
    k = Kernel("widened", shape, {"block_sizes": blocks, **config})
    k.tensor("x", "input", dtype, shape)
    k.tensor("y", "output", "float32", shape)
    tile = [f"u{i}" for i in range(len(shape))]
    k.store("y", k.convert(k.load("x", *tile), "float32"), *tile)
    return k.json()


def positions(dtype, shape, blocks, **config):
    """y[m, n] = x[m, 1, n] + x[m, 0, n], of x [M, P, N]; N is not tiled if there is one block."""
    k = Kernel("positions", [shape[0], shape[2]][: len(blocks)], {"block_sizes": blocks, **config})
    k.tensor("x", "input", dtype, shape)
    k.tensor("y", "output", dtype, [shape[0], shape[2]])
    lanes = "u1" if len(blocks) == 2 else ":"
    one, two = k.load("x", "u0", 1, lanes), k.load("x", "u0", 0, lanes)
    k.store("y", k.op("aten.add.Tensor", one, two), "u0", lanes)
    return k.json()


def two_tilings(stored, **config):
    """x [256, 256] read by rows and by columns; y stored by rows, and by columns if `stored`."""
    k = Kernel("two_tilings", [256], {"block_sizes": [128], **config})
    k.tensor("x", "input", "float32", [256, 256])
    k.tensor("y", "output", "float32", [256, 256])
    rows, columns = k.load("x", "u0", ":"), k.load("x", ":", "u0")
    if stored:
        k.store("y", rows, "u0", ":")
        k.store("y", columns, ":", "u0")
    else:
        turned = k.op("aten.permute.default", columns, [1, 0], shape=["u0", 256])
        k.store("y", k.op("aten.add.Tensor", rows, turned), "u0", ":")
    return k.json()


def statistic_in_loop(heads, length, columns, blocks, **config):
    """The same as statistic(), its second block iterated by an inner loop that stores each tile."""
    k = json.loads(statistic(heads, length, columns, blocks, **config))
    loop, root = G(1, "for_loop", block_ids=[1]), G(0, grid=[0])
    loop.raw["nodes"] = kit.nodes(k)
    root.call("tile.for_loop", 1, [0], [length], [], meta={"tuple": []}, name="loop")
    return json.dumps(k | {"graphs": [loop.raw, root.out().raw]})


def columns(rows, width, dtype, blocks, *ops, **config):
    """y = x * x, then each op ("sub", "mul", ...) with a column [M, 1] of its own, in float32."""
    k = Kernel("columns", [rows, width], {"block_sizes": blocks, **config})
    k.tensor("x", "input", dtype, [rows, width])
    for i in range(len(ops)):
        k.tensor(f"c{i}", "input", "float32", [rows, 1])
    k.tensor("y", "output", dtype, [rows, width])
    x = k.load("x", "u0", "u1")
    x = x if dtype == "float32" else k.convert(x, "float32")
    y = k.op("aten.mul.Tensor", x, x)
    for i, op in enumerate(ops):
        y = k.op(f"aten.{op}.Tensor", y, k.load(f"c{i}", "u0", ":"))
    k.store("y", y if dtype == "float32" else k.convert(y, dtype), "u0", "u1")
    return k.json()


def chain(rows, width, late, values=0, rounds=0, call=None, **config):
    """z = f(x) times what comes late: a sum of each row of x ("sum"), or y, a column or an element.

    f keeps `values` tiles in each of `rounds` rounds of a sum and a square, or is the op `call`, or
    else draws random numbers.
    """
    k = Kernel("chain", [rows], {"block_sizes": [rows], **config})
    k.tensor("x", "input", "float32", [rows, width])
    k.tensor("y", "input", "float32", [rows if late == "column" else 1, 1])
    k.tensor("z", "output", "float32", [rows, width])
    x, tile = k.load("x", "u0", ":"), t("float32", "u0", width)
    f = [k.op("aten.mul.Scalar", x, 1.5 + i) for i in range(values)]
    for _ in range(rounds):
        f = [k.op("aten.add.Tensor", f[i], f[(i + 1) % values]) for i in range(values)]
        f = [k.op("aten.mul.Tensor", v, v) for v in f]
    if call:
        f = [k.op(call, x)]
    elif not values:
        f = [k.node("tile.rand", [[sym("u0"), width], 5], tile)]
    total = f[0]
    for v in f[1:]:
        total = k.op("aten.add.Tensor", total, v)
    if late == "sum":
        last = k.op("aten.sum.dim_IntList", x, [-1], True, shape=["u0", 1])
    else:
        last = k.load("y", "u0" if late == "column" else ":", ":")
    k.store("z", k.op("aten.mul.Tensor", total, last), "u0", ":")
    return k.json()


def normed_product(rows, depth, columns, scaled, **config):
    """Rows over their root mean square, times a gain, by a matrix: a document as text.

    scaled: "rows", before the matmul, which waits for their sums; or "products", behind it.
    """
    g = Graph("normed_product")
    x = g.input("x", [4 * rows, depth], "bfloat16")
    gain = g.input("gain", [depth], "bfloat16")
    w = g.input("w", [depth, 4 * columns], "bfloat16")
    out = g.output("out", [4 * rows, 4 * columns], "bfloat16")
    with g.grid(m=4 * rows, n=4 * columns) as (m, n):
        wide = x[m, :].to("float32")
        scale = ops.rsqrt(ops.mean(wide * wide, -1) + 1e-5)[:, None]
        factor = (wide * scale if scaled == "rows" else wide * gain[:].to("float32")).to("bfloat16")
        product = ops.dot(factor, w[:, n], out_dtype="float32")
        out[m, n] = (product if scaled == "rows" else product * scale).to("bfloat16")
    g.config(block_sizes={"m": rows, "n": columns}, **config)
    return json.dumps(g.document())
