"""Hypothesis strategies: random well-typed documents of the graph format, with a configuration.

A block id has a role, which says where tiles have it and so which sizes a chip takes: "outer" dims
stand in front, "row" dims are second-last, "lane" dims last, a "point" is a position and no tile.
"""

import math

from choices import MOST_ELEMENTS, MOST_STEPS, ROLES, WHOLES
from document import Scope, Writer, broadcast, count
from drawn_branches import Branches
from drawn_forms import Forms
from drawn_irregular import Irregular
from drawn_loads import Loads
from drawn_ops import Ops
from drawn_patterns import Patterns
from drawn_views import Views

GRIDS = (
    ("row",),
    ("row", "lane"),
    ("lane",),
    ("outer", "row"),
    ("outer",),
    ("point", "row"),
    ("point",),
    ("outer", "row", "lane"),
    ("outer", "outer", "row"),
    ("point", "row", "lane"),
    ("outer", "lane"),
)
SWITCHES = (
    *("pallas_pre_broadcast", "pallas_inloop_loads", "pallas_scale_after_max"),
    *("pallas_transposed_scores", "pallas_row_split", "pallas_column_strips", "pallas_fori_dma"),
    *("pallas_straight_loops", "pallas_loop_skew", "pallas_back_and_forth", "pallas_step_pairs"),
    "pallas_fenced_steps",
)


# Targets that a kernel may hold and no document is drawn with: tests/devices has them.
DEVICES = "programs of several devices: one is simulated here"
NOT_DRAWN = {
    "tile.part": DEVICES,
    "tile.remote_copy": DEVICES,
    "tile.remote_wait": DEVICES,
    "tile.remote_barrier": DEVICES,
    "tile.device_id": DEVICES,
}


class Drawing(Loads, Ops, Views, Patterns, Branches, Irregular, Forms):
    """One document being drawn."""

    def case(self):
        """{"document", "values", "seed"}."""
        self.wholes = [self.pick(WHOLES) for _ in range(self.number(1, 2))]
        if self.chance(10):
            extent = self.pick((256, 300, 384))
            self.wholes.append(self.out.block(extent, "reduction", reduction=True))
        for _ in range(self.pick((1, 1, 1, 1, 2, 3))):
            self.root()
            self.earlier = [t["name"] for t in self.out.tensors if t["role"] != "input"]
        config = self.config()
        return {
            "document": self.out.document(config),
            "values": self.out.values,
            "seed": self.number(0, 3),
        }

    def root(self):
        """Adds a root graph."""
        grid = []
        for role in self.pick(GRIDS):
            grid.append(self.block(role, grid))
        root = Scope(self.out, "root", grid, grid=[self.out.find(s)["id"] for s in grid])
        self.grow(root, self.number(1, 10))
        for _ in range(self.number(1, 3)):
            self.store(root)
        root.finish()

    def block(self, role, around, **fields):
        """A new block id; gives its symbol. Its array with those `around` is not too large."""
        room = MOST_ELEMENTS * 4 // count(self.out.extents(around))
        extent = self.pick([size for size in ROLES[role] if size <= room] or [1])
        if role == "point":
            fields["size"] = 1
        elif role == "row" and extent > 8 and self.chance(6):
            fields["begin"] = self.pick((8, 1, extent - 1))
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
                + (self.view,) * 5
                + (self.pattern,) * 2
                + (self.positions, self.create, self.matmul, self.store, self.update, self.along)
                + (self.branch, self.irregular) * 2
                + (self.form,) * 4
            )
            step(scope)

    def loop(self, scope):
        """A loop over one or two new blocks, with carried values, invariants and stores."""
        if self.loops >= 3 or scope.depth >= 2:
            return None
        self.loops += 1
        used = {self.role(s) for s in scope.symbols}
        role = "row" if "lane" in used else self.pick(("lane", "row"))
        fixed = {"size": 128} if self.chance(25) else {}
        around = [*scope.points, *scope.symbols]
        blocks = [self.block(role, around, **fixed)]
        if self.chance(12):
            blocks.insert(0, self.block("outer", [*around, *blocks]))
        begins, ends = self.bounds(scope, blocks)
        ids = [self.out.find(s)["id"] for s in blocks]
        body = Scope(self.out, "for_loop", blocks, scope, block_ids=ids)
        initial = [self.initial(scope) for _ in range(self.number(0, 3))]
        passed = [v for v in [self.operand(scope)] if v is not None and self.chance(50)]
        holders = [body.argument(v) for v in initial]
        for value in passed:
            body.argument(value)
        self.grow(body, self.number(1, 6))
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
            how = self.pick(("all",) * 7 + ("part", "none", "loaded", "end", "scalar"))
            begin, end = 0, extent
            if how == "part":
                begin = min(self.pick((128, 0, 8)), extent)
                end = max(extent - self.pick((0, 1, 128)), 0)
            elif how == "none":
                begin, end = self.pick(((0, 0), (extent, 0)))
            elif how == "loaded":
                name = self.out.tensor("input", "int32", [3], f"bound:{extent}")
                args = [scope.host(name), [self.number(0, 2)]]
                end = scope.node("tile.load", args, "int32", (), keep=False).ref
            elif how == "scalar":
                begin = self.run_time(scope, extent) if self.chance(25) else 0
                end = self.run_time(scope, extent)
            elif how == "end" and (near := [s for s in scope.symbols if self.near(s, extent)]):
                end = scope.number("tile.end", [self.pick(near)])
            begins.append(begin)
            ends.append(end)
        return begins, ends

    def near(self, symbol, extent):
        """Whether a loop over `extent` in one tile that goes on to the symbol's end is not long."""
        return self.out.find(symbol)["extent"] <= 8 * extent

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
            found = holder
            if holder.shape:
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

    def config(self):
        """Block sizes that a chip is likely to take, how loops are lowered, and some switches."""
        config, steps, taken = {}, 1, []
        for block in self.out.blocks:
            extent = block["extent"]
            if block["role"] == "reduction":
                config["reduction_loops"] = [self.pick((None, 128))]
                continue
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
                ("default",) * 3 + ("fori_loop",) * 3 + ("emit_pipeline", "unroll")
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
        grids = [g["grid"] for g in self.out.graphs if g["kind"] == "root" and len(g["grid"]) > 1]
        if len(grids) == 1 and not self.loops and self.chance(15):
            order = self.permutation(len(grids[0]))
            if not self.scattered:  # which point writes a place last is open
                config["loop_orders"] = [order]
        inputs = sum(t["role"] == "input" for t in self.out.tensors)
        if self.chance(10):
            config["pallas_load_buffer_count"] = [self.pick((2, 1)) for _ in range(inputs)]
        if any(t["role"] == "inout" for t in self.out.tensors) and self.chance(60):
            config["pallas_in_place"] = self.pick(("on", "on", "off"))
        return config


MOST_REGISTERS = 1024  # of a tile: the TPU compiler unrolls it, for minutes where there are more
MOST_OF_AN_ARRAY = 1 << 24  # elements: the reference computes in float64, and copies what it loads


def drawn(random):
    """The first case of a random.Random whose tiles are few registers and arrays small."""
    while True:
        case = Drawing(random, Writer()).case()
        tensors = case["document"]["tensors"]
        if any(count(tensor["shape"]) > MOST_OF_AN_ARRAY for tensor in tensors):
            continue
        if _most_registers(case["document"]) <= MOST_REGISTERS:
            return case


def _most_registers(document):
    """Of all tiles, and of what is stored; a register holds 8 rows of 128 lanes.

    A block of a fixed size may be wider than its range.
    """
    extents = {
        block["symbol"]: max(block["extent"], block.get("size", 0))
        for block in document["block_sizes"]
    }
    shapes = [tensor["shape"] for tensor in document["tensors"] if tensor["role"] != "input"]
    shapes += [
        node["meta"]["shape"]
        for graph in document["graphs"]
        for node in graph["nodes"]
        if "shape" in node.get("meta", {}) and node.get("target") != "tile.host_tensor"
    ]
    found = 0
    for shape in shapes:
        *before, rows, lanes = (1, 1, *(extents.get(size, size) for size in shape))
        found = max(found, count(before) * -(-rows // 8) * -(-lanes // 128))
    return found
