"""Blocks that several steps change: atomics, initial values, tensors that are read and written."""

import re

import kit
import numpy as np
import pytest
import simulated
from builder import Doc, G, dt, f32, sym, t
from kit import plan
from pallasc import aot, reference

LOOP_TYPES = ("unroll", "fori_loop", "emit_pipeline")


class Kernel:
    """A document in the making: tensors known by name, one root graph `g` over `grid`."""

    def __init__(self, blocks, grid, **config):
        self.doc = Doc(config={"block_sizes": list(blocks), **config})
        self.metas, self.g = {}, G(9, grid=list(grid))
        self.loops = []

    def tensor(self, name, role, dtype, *shape, **fields):
        self.doc.tensor(name, role, dtype, shape, **fields)
        self.metas[name] = t(dtype, *shape)
        return self

    def block(self, extent, **fields):
        self.doc.block(extent, **fields)
        return self

    def loop(self, block, args=(), carried=()):
        """A loop's graph over one block, called by `call_loop`."""
        graph = G(len(self.loops), "for_loop", block_ids=[block], carried=list(carried))
        self.loops.append(graph)
        return graph

    def call_loop(self, graph, begin, end, args=(), metas=(), inside=None):
        inside = inside or self.g
        return inside.call(
            "tile.for_loop", graph.id, [begin], [end], list(args), meta={"tuple": list(metas)}
        )

    def load(self, name, index, *shape, inside=None):
        meta = t(self.metas[name]["dtype"], *shape)
        inside = inside or self.g
        host = inside.host(name, self.metas[name])
        return inside.call("tile.load", host, index, meta=meta)

    def write(self, op, name, index, value, *shape, inside=None):
        inside = inside or self.g
        host = inside.host(name, self.metas[name])
        meta = None if op == "store" else t(self.metas[name]["dtype"], *shape)
        inside.call(f"tile.{op}", host, index, value, meta=meta)

    def done(self):
        self.g.out()
        return self.doc.add(*self.loops, self.g)


def operand(found, name):
    return kit.by_ref(found["operands"])[name]


def wrong(document, target="v6e", **config):
    """What is wrong with the kernel in interpret mode; [] if nothing. Inputs must stay."""
    kinds = (None, "last_row")
    return [
        line
        for kind in kinds
        for line in simulated.wrong(document, config, target, adversarial=kind, seed=1)
    ]


def refusal(document, **config):
    return kit.refusal(document, **config)[0]


U0, U1 = sym("u0"), sym("u1")
WHOLE = {"slice": [None, None, None]}


# ---- documents -----------------------------------------------------------------------------------


def column_sums(dtype="float32", kind="add", order=None, init=0.5, shape=(96, 256)):
    """out[n] = init combined with the sum (or maximum) of each tile of rows: grid (m, n)."""
    k = Kernel([32, 128], [0, 1], **({"loop_orders": [order]} if order else {}))
    k.tensor("x", "input", "float32", *shape)
    k.tensor("out", "output", dtype, shape[1], init=init).block(shape[0]).block(shape[1])
    x = k.load("x", [U0, U1], "u0", "u1")
    op = {"add": "aten.sum.dim_IntList", "max": "aten.amax.default", "min": "aten.amin.default"}
    total = k.g.call(op[kind], x, [0], meta=f32("u1"))
    k.write(f"atomic_{kind}", "out", [U1], total, "u1")
    return k.done()


def bits(kind, dtype="int32"):
    """out[n] combined with every row tile's x[m, n], rows m of size 8: grid (n, m)."""
    k = Kernel([128], [1, 0])
    k.tensor("x", "input", dtype, 32, 256).tensor("out", "output", dtype, 8, 256, init=5)
    k.block(32, size=8).block(256)
    x = k.load("x", [U0, U1], "u0", "u1")
    k.write(f"atomic_{kind}", "out", [WHOLE, U1], x, 8, "u1")
    return k.done()


def loop_moves(dtype="float32", rows=96, columns=384, block=128, **config):
    """out[n] += column sums of x[m, n], n in an inner loop: the block is out whole."""
    k = Kernel([32, block], [0], **config)
    k.tensor("x", "input", "float32", rows, columns)
    k.tensor("out", "output", dtype, columns, init=0).block(rows).block(columns)
    body = k.loop(1)
    x = k.load("x", [U0, U1], "u0", "u1", inside=body)
    s = body.call("aten.sum.dim_IntList", x, [0], meta=f32("u1"))
    k.write("atomic_add", "out", [U1], s, "u1", inside=body)
    body.out()
    k.call_loop(body, 0, columns)
    return k.done()


def loop_repeats(dtype="bfloat16", **config):
    """out[m, :] += x[m, n] + x[m, n] in an inner loop over n of 128 columns each."""
    k = Kernel([32], [0], **config)
    k.tensor("x", "input", "float32", 64, 512)
    k.tensor("out", "output", dtype, 64, 128, init=1).block(64).block(512, size=128)
    body = k.loop(1)
    x = k.load("x", [U0, U1], "u0", "u1", inside=body)
    y = body.call("aten.add.Tensor", x, x, meta=f32("u0", "u1"))
    k.write("atomic_add", "out", [U0, WHOLE], y, "u0", 128, inside=body)
    body.out()
    k.call_loop(body, 0, 512)
    return k.done()


def update(extent=64, block=32, width=256):
    """y += x of the first `extent` rows of y [80, 256]; the rest of y stays."""
    k = Kernel([block, 128], [0, 1])
    k.tensor("y", "inout", "float32", 80, width).tensor("x", "input", "float32", 80, width)
    k.block(extent).block(width)
    y, x = k.load("y", [U0, U1], "u0", "u1"), k.load("x", [U0, U1], "u0", "u1")
    total = k.g.call("aten.add.Tensor", y, x, meta=f32("u0", "u1"))
    k.write("store", "y", [U0, U1], total)
    return k.done()


def store_then_load(role="output"):
    """out = (2 x) stored, loaded back, plus 1, stored again."""
    k = Kernel([32, 128], [0, 1])
    k.tensor("x", "input", "bfloat16", 64, 256).tensor("out", role, "bfloat16", 64, 256)
    k.block(64).block(256)
    meta = t("bfloat16", "u0", "u1")
    x = k.load("x", [U0, U1], "u0", "u1")
    k.write("store", "out", [U0, U1], k.g.call("aten.add.Tensor", x, x, meta=meta))
    back = k.load("out", [U0, U1], "u0", "u1")
    k.write("store", "out", [U0, U1], k.g.call("aten.add.Tensor", back, 1, meta=meta))
    return k.done()


def running_rows(**config):
    """y[m, n] = 2 y[m, n], then out[m] the sum of y[m, :] read back by a second loop."""
    k = Kernel([64, 128, 128], [0], **config)
    k.tensor("y", "inout", "float32", 64, 512).tensor("out", "output", "float32", 64)
    k.block(64).block(512).block(512)
    double, total = k.loop(1), k.loop(2, carried=[[0, 0]])
    y = k.load("y", [U0, U1], "u0", "u1", inside=double)
    y = double.call("aten.add.Tensor", y, y, meta=f32("u0", "u1"))
    k.write("store", "y", [U0, U1], y, inside=double)
    double.out()
    total.raw["carried"] = [[0, 0]]
    acc = total.arg(f32("u0"))
    y = k.load("y", [U0, sym("u2")], "u0", "u2", inside=total)
    s = total.call("aten.sum.dim_IntList", y, [1], meta=f32("u0"))
    total.out(total.call("aten.add.Tensor", acc, s, meta=f32("u0")))
    k.call_loop(double, 0, 512)
    zero = k.g.call("tile.full", [U0], 0.0, dt("float32"), meta=f32("u0"))
    done = k.call_loop(total, 0, 512, [zero], [f32("u0")])
    k.write("store", "out", [U0], k.g.call("getitem", done, 0, meta=f32("u0")))
    return k.done()


def two_parts(split=100, **config):
    """out[0:split] = x, out[split:] = -x, each by a loop of its own."""
    k = Kernel([32, 32, 32], [2], **config)
    k.tensor("x", "input", "float32", 300, 128).tensor("out", "output", "float32", 300, 128)
    k.block(split).block(300, begin=split).block(1, size=1)
    for block, begin, end, sign in ((0, 0, split, 1.0), (1, split, 300, -1.0)):
        body = k.loop(block)
        index = [sym(f"u{block}"), WHOLE]
        x = k.load("x", index, f"u{block}", 128, inside=body)
        x = body.call("aten.mul.Tensor", x, sign, meta=f32(f"u{block}", 128))
        k.write("store", "out", index, x, inside=body)
        body.out()
        k.call_loop(body, begin, end)
    document = k.done()
    document["config"]["block_sizes"] = [32, 32]
    return document


def two_tilings():
    """out[m, :] = 1, then out[m, n] = x[m, n] for the first 256 of 512 columns."""
    k = Kernel([32, 128], [0])
    k.tensor("x", "input", "float32", 64, 256).tensor("out", "output", "float32", 64, 512)
    k.block(64).block(256)
    ones = k.g.call("tile.full", [U0, 512], 1.0, dt("float32"), meta=f32("u0", 512))
    k.write("store", "out", [U0, WHOLE], ones)
    body = k.loop(1)
    x = k.load("x", [U0, U1], "u0", "u1", inside=body)
    k.write("store", "out", [U0, U1], x, inside=body)
    body.out()
    k.call_loop(body, 0, 256)
    return k.done()


LOOPED = {
    "loop_moves": loop_moves,
    "loop_moves_bf16": lambda **c: loop_moves("bfloat16", **c),
    "loop_repeats": loop_repeats,
    "running_rows": running_rows,
    "two_parts": two_parts,
    "two_parts_whole": lambda **c: two_parts(96, **c),
}
PLAIN = {
    "column_sums": column_sums,
    "column_sums_bf16": lambda: column_sums("bfloat16"),
    "column_sums_ragged": lambda: column_sums(shape=(90, 200)),
    "column_sums_given_order": lambda: column_sums(order=[0, 1]),
    "column_max": lambda: column_sums(kind="max"),
    "column_min_bf16": lambda: column_sums("bfloat16", kind="min"),
    **{f"bits_{kind}": lambda kind=kind: bits(kind) for kind in ("and", "or", "xor", "add", "max")},
    "bits_int8": lambda: bits("xor", "int8"),
    "update": update,
    "update_ragged": lambda: update(extent=77),
    "update_partial": lambda: update(extent=70),
    "store_then_load": store_then_load,
    "store_then_load_inout": lambda: store_then_load("inout"),
    "two_tilings": two_tilings,
}
DOCUMENTS = {
    **{name: (make, {}) for name, make in PLAIN.items()},
    **{
        f"{name}-{loop}": (make, {"pallas_loop_type": loop})
        for name, make in LOOPED.items()
        for loop in LOOP_TYPES
        if loop != "emit_pipeline" or name not in ("running_rows", "two_parts")
    },
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_right(name):
    make, config = DOCUMENTS[name]
    assert wrong(make(), **config) == []


@pytest.fixture(scope="module")
def verdicts():
    """{(name, chip): AotResult} of all documents, compiled in one worker."""
    pairs = [(name, chip) for chip in ("v4", "v7x") for name in DOCUMENTS]
    jobs = []
    for name, chip in pairs:
        make, config = DOCUMENTS[name]
        jobs.append((kit.compiled(make(), chip, **config), chip))
    return dict(zip(pairs, aot.compile_many(jobs, timeout=120), strict=True))


@pytest.mark.parametrize("chip", ["v4", "v7x"])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_tpu_compiler_takes_it(name, chip, verdicts):
    result = verdicts[name, chip]
    assert (result.kind, result.message) == ("ok", "")
    assert result.vmem_bytes <= result.predicted_bytes  # 0 where XLA keeps all arrays in VMEM


# ---- what is decided -----------------------------------------------------------------------------


def test_revisits_come_last_and_are_sequential():
    found = plan(column_sums())
    assert [(g["name"], g["semantics"]) for g in found["grid"]] == [
        ("b1", "parallel"),
        ("b0", "arbitrary"),
    ]
    out = operand(found, "out_ref")
    assert (out["block"], out["index_map"]) == ([1, 128], ["0", "b1"])
    assert out["held"] == {
        "initial": "value",
        "from": None,
        "revisited_by": ["b0"],
        "accumulator": None,
    }


def test_a_given_order_is_kept_with_the_output_whole():
    found = plan(column_sums(order=[0, 1]))
    assert [(g["name"], g["semantics"]) for g in found["grid"]] == [
        ("b0", "arbitrary"),
        ("b1", "arbitrary"),
    ]
    out = operand(found, "out_ref")
    assert (out["block"], out["held"]["revisited_by"]) == ([1, 256], ["b0", "b1"])


def test_narrow_sums_are_rounded_once():
    found = plan(column_sums("bfloat16"))
    assert operand(found, "out_ref")["held"]["accumulator"] == "out_acc_ref"
    scratch = found["scratch"][0]
    assert (scratch["ref"], scratch["dtype"], scratch["shape"]) == (
        "out_acc_ref",
        "float32",
        [1, 128],
    )
    assert found["vmem"]["scratch"] == scratch["bytes"] == 128 * 4


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_sums_of_blocks_with_a_third_buffer(dtype):
    """The grid is a pipeline in the kernel, which finds the same block of sums at several steps."""
    three = {"pallas_load_buffer_count": [3]}
    module = kit.compiled(column_sums(dtype), "v6e", **three)
    assert operand(module.plan, "x_ref")["buffers"] == 3
    assert module.source.count("pipeline_mode=pl.Buffered(3)") == 1
    assert operand(module.plan, "out_ref")["held"]["revisited_by"] == ["b0"]
    assert wrong(column_sums(dtype), **three) == []
    (result,) = aot.compile_many([(module, "v6e")], timeout=120)
    assert (result.kind, result.message) == ("ok", "")
    assert 0 < result.vmem_bytes <= result.predicted_bytes


def test_one_visit_needs_no_scratch():
    document = column_sums("bfloat16", shape=(32, 256))
    found = plan(document)
    assert operand(found, "out_ref")["held"]["initial"] == "folded"
    assert found["scratch"] == []
    assert [g["semantics"] for g in found["grid"]] == ["parallel", "parallel"]
    assert wrong(document) == []


@pytest.mark.parametrize("loop", LOOP_TYPES)
def test_a_moved_atomic_writes_slices_of_the_resident_block(loop):
    found = plan(loop_moves(), pallas_loop_type=loop)
    assert operand(found, "out_ref")["block"] == [1, 384]
    access = next(a for a in found["accesses"] if a["kind"] == "atomic_add")
    assert access["ref"] == "out_ref"
    assert access["slices"] == "[:, pl.ds(128*j, 128)]"


def test_only_what_is_not_visited_is_aliased():
    filled, left = plan(update(extent=80)), plan(update(extent=64, block=16))
    assert operand(filled, "y_ref")["alias_of"] is None
    assert operand(left, "y_ref")["alias_of"] == "y_in_ref"
    assert operand(left, "y_ref")["held"]["initial"] == "copy"
    assert wrong(update(extent=64, block=16)) == []


def test_partial_stores_are_masked():
    source = kit.compiled(update(extent=70), "v6e").source
    assert "_mask(" in source
    assert "_mask(" not in kit.compiled(update(extent=64), "v6e").source


def test_an_initial_value_that_is_stored_over_is_none():
    k = Kernel([32, 128], [0, 1])
    k.tensor("x", "input", "float32", 64, 256).tensor("out", "output", "float32", 64, 256, init=7)
    k.block(64).block(256)
    k.write("store", "out", [U0, U1], k.load("x", [U0, U1], "u0", "u1"))
    found = plan(k.done())
    assert operand(found, "out_ref")["held"] is None


# ---- refusals ------------------------------------------------------------------------------------


# ---- old values ----------------------------------------------------------------------------------


def old_values(kind, values, dtype="int32", shape=(64, 256), value_dtype=None):
    """old[i] = atomic_kind(held, values), tile i of rows; held is one tile that all share."""
    k = Kernel([], [0])
    k.tensor("x", "input", value_dtype or dtype, *shape)
    k.tensor("held", "inout", dtype, 32, shape[1]).tensor("old", "output", dtype, *shape)
    k.block(shape[0], size=32)
    x = k.load("x", [U0, WHOLE], "u0", shape[1])
    host = k.g.host("held", k.metas["held"])
    arguments = [x if v is None else v for v in values]
    meta = t(dtype, 32, shape[1])
    old = k.g.call(f"tile.atomic_{kind}", host, [WHOLE, WHOLE], *arguments, meta=meta)
    k.write("store", "old", [U0, WHOLE], old)
    return k.done()


def tiles_apart(rows=64, columns=256):
    """old = atomic_add(sums, x), each tile its own place; the last of 72 rows is a ragged one."""
    k = Kernel([32, 128], [0, 1])
    k.tensor("x", "input", "int32", rows, columns)
    k.tensor("sums", "output", "int32", rows, columns, init=3)
    k.tensor("out", "output", "int32", rows, columns)
    k.block(rows).block(columns)
    x = k.load("x", [U0, U1], "u0", "u1")
    host = k.g.host("sums", k.metas["sums"])
    old = k.g.call("tile.atomic_add", host, [U0, U1], x, meta=t("int32", "u0", "u1"))
    k.write("store", "out", [U0, U1], old)
    return k.done()


def tickets(dims=()):
    """ticket[i] = atomic_add(count[x[i]], 1): the places of each group, in order."""
    k = Kernel([], [0])
    k.tensor("x", "input", "int32", 40).tensor("count", "output", "int32", 8, *dims, init=0)
    k.tensor("ticket", "output", "int32", 40, *dims)
    k.block(40, size=1)
    begin = k.g.call("tile.begin", U0, meta={"sym": None})
    x = k.load("x", [begin])
    host = k.g.host("count", k.metas["count"])
    rest = [WHOLE] * len(dims)
    old = k.g.call("tile.atomic_add", host, [x, *rest], 1, meta=t("int32", *dims))
    k.write("store", "ticket", [begin, *rest], old)
    return k.done()


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("add", [None]),
        ("max", [None]),
        ("min", [None]),
        ("and", [None]),
        ("or", [None]),
        ("xor", [None]),
        ("xchg", [None]),
        ("add", [1]),
        ("cas", [3, None]),
        ("cas", [None, 7]),
    ],
)
def test_old_values_of_a_shared_tile(kind, values):
    assert wrong(old_values(kind, values)) == []


@pytest.mark.parametrize(("dtype", "of"), [("float32", "float32"), ("bfloat16", "float32")])
@pytest.mark.parametrize("kind", ["add", "max", "xchg"])
def test_old_values_of_floats(kind, dtype, of):
    assert wrong(old_values(kind, [None], dtype, value_dtype=of)) == []


@pytest.mark.parametrize("rows", [64, 72])
def test_old_values_of_tiles_apart(rows):
    assert wrong(tiles_apart(rows)) == []


@pytest.mark.parametrize("dims", [(), (128,), (200,)])
def test_tickets_count_up_in_each_group(dims):
    """Positions outside the tensor give 0, and change nothing."""
    document = tickets(dims)
    x = np.random.default_rng(0).integers(-2, 10, 40).astype(np.int32)
    inside = (x >= 0) & (x < 8)
    expected = [int(inside[i] and (x[:i] == x[i]).sum()) for i in range(40)]
    shape = (40, *[1 for _ in dims])
    ticket = np.broadcast_to(np.reshape(expected, shape), (40, *dims))
    made = reference.run(document, [x], config=document["config"])
    assert np.array_equal(made[1], ticket)
    counted = np.bincount(x[inside], minlength=8).reshape(8, *shape[1:])
    assert np.array_equal(made[0], np.broadcast_to(counted, (8, *dims)))
    assert simulated.wrong(document, given=[x]) == []
    assert simulated.wrong(document, given=[x], cores=2, target="v7x") == []


@pytest.mark.parametrize("loop_type", LOOP_TYPES)
def test_old_values_in_a_loop_follow_each_other(loop_type):
    """Two atomics a step on one tile: each gives what the one before left."""
    k = Kernel([32], [0], pallas_loop_type=loop_type)
    k.tensor("x", "input", "int32", 64, 512).tensor("sums", "output", "int32", 64, 128, init=1)
    k.tensor("first", "output", "int32", 64, 512).tensor("second", "output", "int32", 64, 512)
    k.block(64).block(512, size=128)
    body = k.loop(1)
    x = k.load("x", [U0, U1], "u0", "u1", inside=body)
    for name in ("first", "second"):
        host = body.host("sums", k.metas["sums"])
        meta = t("int32", "u0", 128)
        before = body.call("tile.atomic_add", host, [U0, WHOLE], x, meta=meta)
        k.write("store", name, [U0, U1], before, inside=body)
    body.out()
    k.call_loop(body, 0, 512)
    document = k.done()
    rng = np.random.default_rng(0)
    drawn = rng.integers(-9, 9, (64, 512)).astype(np.int32)
    parts = drawn.reshape(64, 4, 128)
    before = 1 + 2 * (np.cumsum(parts, 1) - parts)
    made = reference.run(document, [drawn], config=document["config"])
    assert np.array_equal(made[1], before.reshape(64, 512))
    assert np.array_equal(made[2], (before + parts).reshape(64, 512))
    assert simulated.wrong(document, given=[drawn]) == []


def test_old_values_of_computed_slices_are_refused():
    k = Kernel([], [0])
    k.tensor("x", "input", "int32", 64).tensor("count", "output", "int32", 64, init=0)
    k.tensor("out", "output", "int32", 64).block(64, size=1)
    begin = k.g.call("tile.begin", U0, meta={"sym": None})
    x = k.load("x", [begin])
    host = k.g.host("count", k.metas["count"])
    old = k.g.call("tile.atomic_add", host, [{"slice": [x, None, None]}], 1, meta=t("int32", 8))
    total = k.g.call("aten.sum.dim_IntList", old, [0], meta=t("int32"))
    k.write("store", "out", [begin], total)
    found = refusal(k.done())
    assert found["message"] == "the old value that tile.atomic_add gives is not lowered yet"
    assert found["hint"]


def test_two_views_of_a_written_tensor_are_refused():
    k = Kernel([32, 128], [0, 1])
    k.tensor("y", "inout", "float32", 64, 256)
    k.tensor("flat", "view", "float32", 128, 128, of="y")
    k.block(64).block(128)
    x = k.load("flat", [U0, U1], "u0", "u1")
    k.write("store", "y", [U0, U1], x)
    found = refusal(k.done())
    assert found["message"] == "tensor y is written, and accessed as flat and as y"


def test_pipelining_what_is_written_is_refused():
    found = refusal(running_rows(), pallas_loop_type="emit_pipeline")
    assert found["message"].endswith("nothing to pipeline (y: the kernel writes it)")
    assert found["hint"]


# ---- bounds computed in the kernel ---------------------------------------------------------------


def later_rows(rows=504, width=256, block=64, dtype="float32", **config):
    """out[m, :] = x[m, :] + the sum of the rows after tile m: a loop from tile.end to the last."""
    k = Kernel([block, block], [0], **config)
    k.tensor("x", "input", dtype, rows, width).tensor("out", "output", "float32", rows, width)
    k.block(rows).block(rows)
    end = k.g.call("tile.end", U0, meta={"sym": None})
    zero = k.g.call("tile.full", [width], 0.0, dt("float32"), meta=f32(width))
    body = k.loop(1, carried=[[0, 0]])
    acc = body.arg(f32(width))
    x = k.load("x", [U1, WHOLE], "u1", width, inside=body)
    x = body.call("prims.convert_element_type.default", x, dt("float32"), meta=f32("u1", width))
    s = body.call("aten.sum.dim_IntList", x, [0], meta=f32(width))
    body.out(body.call("aten.add.Tensor", acc, s, meta=f32(width)))
    done = k.call_loop(body, end, rows, [zero], [f32(width)])
    acc = k.g.call("getitem", done, 0, meta=f32(width))
    x = k.load("x", [U0, WHOLE], "u0", width)
    y = k.g.call("aten.add.Tensor", x, acc, meta=f32("u0", width))
    k.write("store", "out", [U0, WHOLE], y)
    return k.done()


def parts_of(columns, outer, inner, **config):
    """out[0] += row sums of x[8, n] by tiles of `outer` columns, each in a loop of `inner`."""
    k = Kernel([outer, inner], [0], **config)
    k.tensor("x", "input", "float32", 8, columns)
    k.tensor("out", "output", "float32", 8, 128, init=0).block(columns).block(None)
    begin = k.g.call("tile.begin", U0, meta={"sym": None})
    end = k.g.call("tile.end", U0, meta={"sym": None})
    zero = k.g.call("tile.full", [8], 0.0, dt("float32"), meta=f32(8))
    body = k.loop(1, carried=[[0, 0]])
    acc = body.arg(f32(8))
    x = k.load("x", [WHOLE, U1], 8, "u1", inside=body)
    s = body.call("aten.sum.dim_IntList", x, [1], meta=f32(8))
    body.out(body.call("aten.add.Tensor", acc, s, meta=f32(8)))
    done = k.call_loop(body, begin, end, [zero], [f32(8)])
    acc = k.g.call("getitem", done, 0, meta=f32(8))
    wide = k.g.call("aten.unsqueeze.default", acc, 1, meta=f32(8, 1))
    k.write("atomic_add", "out", [WHOLE, WHOLE], wide, 8, 128)
    return k.done()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_computed_start_is_told_to_the_compiler(dtype):
    document = later_rows(dtype=dtype)
    for chip in ("v4", "v7x"):
        module = kit.compiled(document, chip)
        assert re.search(r"pl\.ds\(pl\.multiple_of\(\w+ \+ j \* 64, 8\), 64\)", module.source)
        (result,) = aot.compile_many([(module, chip)], timeout=120)
        assert (result.kind, result.message) == ("ok", "")
    assert wrong(document) == []


def test_a_start_off_the_rows():
    assert wrong(later_rows(rows=500)) == []


@pytest.mark.parametrize(
    ("columns", "outer", "inner", "computed", "masked"),
    [
        (4096, 2048, 512, False, False),
        (3072, 2048, 512, True, False),
        (4096, 2048, 640, False, True),
        (3000, 2048, 512, True, True),
    ],
)
def test_the_number_of_steps_is_exact(columns, outer, inner, computed, masked):
    document = parts_of(columns, outer, inner, pallas_loop_type="fori_loop")
    found = plan(document)
    assert found["loops"][0]["dims"][0]["computed"] == computed
    assert ("_mask(" in kit.compiled(document, "v6e").source) == masked
    assert wrong(document) == []


@pytest.mark.parametrize(("columns", "inner"), [(4096, 512), (3072, 512)])
def test_aligned_parts_are_pipelined(columns, inner):
    document = parts_of(columns, 2048, inner, pallas_loop_type="emit_pipeline")
    assert plan(document)["loops"][0]["windows"][0]["dma"]
    assert wrong(document) == []
    for chip in ("v4", "v7x"):
        (result,) = aot.compile_many([(kit.compiled(document, chip), chip)], timeout=120)
        assert (result.kind, result.message) == ("ok", "")


@pytest.mark.parametrize(("columns", "inner"), [(3000, 512), (2176, 512), (2049, 2048)])
def test_ragged_parts_are_pipelined(columns, inner):
    """Windows of the last step are cut at the tensor's end, and each step masks."""
    document = parts_of(columns, 2048, inner, pallas_loop_type="emit_pipeline")
    assert plan(document)["loops"][0]["windows"][0]["dma"]
    assert "_mask(" in kit.compiled(document, "v6e").source
    assert wrong(document) == []
    for chip in ("v4", "v7x"):
        (result,) = aot.compile_many([(kit.compiled(document, chip), chip)], timeout=120)
        assert (result.kind, result.message) == ("ok", "")


def test_computed_bounds_are_not_unrolled():
    found = refusal(parts_of(4096, 2048, 512), pallas_loop_type="unroll")
    assert "the begin of 'b1' is known only at run time (tile.begin" in found["message"]


def test_an_inout_that_is_only_read_comes_back_as_it_is():
    k = Kernel([32, 128], [0, 1])
    k.tensor("y", "inout", "float32", 64, 256).tensor("out", "output", "float32", 64, 256)
    k.block(64).block(256)
    k.write("store", "out", [U0, U1], k.load("y", [U0, U1], "u0", "u1"))
    assert wrong(k.done()) == []
