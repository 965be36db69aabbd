"""tile.if: what a branch that is not taken computes, stores and loops over is not to be seen."""

import kit
import numpy as np
import pytest
from builder import Doc, G, dt, f32, sl, sym, t
from kit import targets
from pallasc import judge, reference
from pallasc.errors import CompileError
from simulated import wrong

U0, U1, ALL = sym("u0"), sym("u1"), sl()
BOOL = {"sym": None, "dtype": "bool"}


def odd_block(g):
    """Whether the number of the grid's tile is odd: a symbolic bool."""
    return g.call(
        "eq", g.call("mod", g.call("tile.id", U0, meta=sym(None)), 2, meta=sym(None)), 1, meta=BOOL
    )


def grid_document(dtype="float32", rows=300, block=64, **out):
    """x and out [rows, 200], a grid over the rows."""
    doc = Doc(config={"block_sizes": [block]})
    doc.tensor("x", "input", dtype, [rows, 200]).tensor("out", "output", dtype, [rows, 200], **out)
    return doc.block(rows)


def choose(dtype="float32"):
    """Odd blocks are negated, the others doubled."""
    doc = grid_document(dtype)
    meta = t(dtype, "u0", 200)
    yes, no, g = G(1, "if"), G(2, "else"), G(0, grid=[0])
    yes.out(yes.call("aten.neg.default", yes.arg(meta), meta=meta))
    no.out(no.call("aten.mul.Tensor", no.arg(meta), 2, meta=meta))
    x = g.load("x", [U0, ALL], meta)
    both = g.call("tile.if", odd_block(g), 1, 2, [x], [x], meta={"tuple": [meta]})
    g.store("out", [U0, ALL], g.call("getitem", both, 0, meta=meta))
    return doc.add(yes, no, g.out())


def store_where_all():
    """A block is stored if all of its lanes are above -3: a bool of the run time."""
    doc = grid_document(init=0, block=8)
    yes, g = G(1, "if"), G(0, grid=[0])
    yes.store("out", [U0, ALL], yes.arg(f32("u0", 200)))
    yes.out()
    x = g.load("x", [U0, ALL], f32("u0", 200))
    above = g.call("aten.gt.Scalar", x, -3.0, meta=t("bool", "u0", 200))
    pred = g.call("aten.all.default", above, meta=t("bool"))
    g.call("tile.if", pred, 1, None, [x], [], meta={"tuple": []})
    return doc.add(yes, g.out())


def skipped_loop():
    """out[m] = the sum of x[n] for blocks n up to m, if m is odd: else of the first rows alone.

    A loop in a branch, with a branch in the loop.
    """
    doc = Doc(config={"block_sizes": [64, 32]})
    doc.tensor("x", "input", "float32", [256, 128]).tensor("out", "output", "float32", [256, 128])
    doc.block(256).block(256)
    tile = f32("u1", 128)
    add, keep, loop = G(5, "if"), G(3, "else"), G(4, "for_loop", block_ids=[1], carried=[[0, 0]])
    s = add.call("aten.sum.dim_IntList", add.arg(tile), [0], True, meta=f32(1, 128))
    add.out(add.call("aten.add.Tensor", add.arg(f32(1, 128)), s, meta=f32(1, 128)))
    keep.out(keep.arg(f32(1, 128)))
    acc, last = loop.arg(f32(1, 128)), loop.arg(sym(None))
    rows = loop.load("x", [U1, ALL], tile)
    before = loop.call("lt", loop.call("tile.begin", U1, meta=sym(None)), last, meta=BOOL)
    found = loop.call("tile.if", before, 5, 3, [rows, acc], [acc], meta={"tuple": [f32(1, 128)]})
    loop.out(loop.call("getitem", found, 0, meta=f32(1, 128)))
    yes, no, g = G(1, "if"), G(2, "else"), G(0, grid=[0])
    zero, end = yes.arg(f32(1, 128)), yes.arg(sym(None))
    sums = yes.call("tile.for_loop", 4, [0], [256], [zero, end], meta={"tuple": [f32(1, 128)]})
    yes.out(yes.call("getitem", sums, 0, meta=f32(1, 128)))
    first = no.load("x", [sl(0, 1), ALL], f32(1, 128))
    no.out(first)
    zero = g.call("tile.full", [1, 128], 0.0, dt("float32"), meta=f32(1, 128))
    end = g.call("tile.end", U0, meta=sym(None))
    both = g.call("tile.if", odd_block(g), 1, 2, [zero, end], [], meta={"tuple": [f32(1, 128)]})
    row = g.call("getitem", both, 0, meta=f32(1, 128))
    wide = g.call("aten.expand.default", row, [U0, 128], meta=f32("u0", 128))
    g.store("out", [U0, ALL], wide)
    return doc.add(add, keep, loop, yes, no, g.out())


def nested(dtype="float32"):
    """Odd blocks: x where the next block begins before row 200, else -x; the others: 1.

    An atomic adds up the first.
    """
    doc = grid_document(dtype)
    doc.tensor("count", "output", dtype, [200], init=3)
    meta = t(dtype, "u0", 200)
    inner, other = G(3, "if"), G(4, "else")
    x = inner.arg(meta)
    total = inner.call("aten.sum.dim_IntList", x, [0], meta=t(dtype, 200))
    inner.call("tile.atomic_add", inner.host("count"), [ALL], total, meta=t(dtype, 200))
    inner.out(x)
    other.out(other.call("aten.neg.default", other.arg(meta), meta=meta))
    yes, no, g = G(1, "if"), G(2, "else"), G(0, grid=[0])
    x = yes.arg(meta)
    low = yes.call("lt", yes.call("tile.end", U0, meta=sym(None)), 200, meta=BOOL)
    got = yes.call("tile.if", low, 3, 4, [x], [x], meta={"tuple": [meta]})
    yes.out(yes.call("getitem", got, 0, meta=meta))
    no.out(no.call("tile.full", [U0, 200], 1, dt(dtype), meta=meta))
    x = g.load("x", [U0, ALL], meta)
    both = g.call("tile.if", odd_block(g), 1, 2, [x], [], meta={"tuple": [meta]})
    g.store("out", [U0, ALL], g.call("getitem", both, 0, meta=meta))
    return doc.add(inner, other, yes, no, g.out())


def chosen_row():
    """Odd blocks add the row before them, the others row 69; both, the row after that.

    A symbolic int comes out of a branch, and the predicate keeps a position inside its tensor.
    """
    doc = grid_document()
    doc.raw["assume_in_bounds"] = True
    yes, no, g = G(1, "if"), G(2, "else"), G(0, grid=[0])
    at = yes.call("sub", yes.call("tile.begin", U0, meta=sym(None)), 1, meta=sym(None))
    yes.out(at, yes.load("x", [at, ALL], f32(200)))
    five = no.call("add", no.call("tile.block_size", U0, meta=sym("u0")), 5, meta=sym("u0 + 5"))
    no.out(five, no.load("x", [five, ALL], f32(200)))
    both = g.call("tile.if", odd_block(g), 1, 2, [], [], meta={"tuple": [sym(None), f32(200)]})
    at, row = g.call("getitem", both, 0, meta=sym(None)), g.call("getitem", both, 1, meta=f32(200))
    again = g.load("x", [g.call("add", at, 1, meta=sym(None)), ALL], f32(200))
    x = g.load("x", [U0, ALL], f32("u0", 200))
    x = g.call("aten.add.Tensor", x, row, meta=f32("u0", 200))
    g.store("out", [U0, ALL], g.call("aten.add.Tensor", x, again, meta=f32("u0", 200)))
    return doc.add(yes, no, g.out())


DOCUMENTS = {
    "choose": choose(),
    "choose_bf16": choose("bfloat16"),
    "choose_i32": choose("int32"),
    "store_where_all": store_where_all(),
    "skipped_loop": skipped_loop(),
    "nested": nested(),
    "nested_i32": nested("int32"),
    "chosen_row": chosen_row(),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_right(name):
    assert wrong(DOCUMENTS[name]) == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_pass_keeps_the_meaning(name):
    document = DOCUMENTS[name]
    made = kit.after("branches", document)
    assert "tile.if" not in targets(made)
    assert not {"if", "else"} & {graph["kind"] for graph in made["graphs"]}
    arrays = judge.make_arguments(document, 0, None, None, document["config"])
    before, after = reference.run(document, arrays), reference.run(made, arrays)
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(before, after, strict=True))


def test_a_tile_that_both_store_is_stored_once():
    doc = grid_document()
    yes, no, g = G(1, "if"), G(2, "else"), G(0, grid=[0])
    for side, target in ((yes, "aten.neg.default"), (no, "aten.exp.default")):
        x = side.arg(f32("u0", 200))
        side.store("out", [U0, ALL], side.call(target, x, meta=f32("u0", 200)))
        side.out()
    x = g.load("x", [U0, ALL], f32("u0", 200))
    g.call("tile.if", odd_block(g), 1, 2, [x], [x], meta={"tuple": []})
    document = doc.add(yes, no, g.out())
    made = kit.nodes(kit.after("branches", document), "root")
    stores = [n for n in made if n.get("target") == "tile.store"]
    assert [len(n["args"]) for n in stores] == [3]  # no mask
    assert wrong(document) == []


def test_a_known_predicate_leaves_one_branch():
    document = choose()
    for node in document["graphs"][2]["nodes"]:
        if node.get("target") == "eq":  # 1 == 1
            node["args"] = [1, 1]
    made = kit.after("branches", kit.after("const_fold", document))
    assert "aten.neg.default" in targets(made)
    assert not {"aten.mul.Tensor", "aten.where.self"} & set(targets(made))


@pytest.mark.parametrize(
    "compare, number, negated",
    [("eq", 0, True), ("ne", 0, False), ("lt", 1, True), ("ge", 1, False), ("gt", 0, False)],
)
def test_where_the_only_tile_begins_is_known(compare, number, negated):
    """Of 300 rows in one block of 512; in blocks of 64 it is compared."""
    document = choose()
    nodes = {node.get("target"): node for node in document["graphs"][2]["nodes"]}
    begin, test = nodes["tile.id"], nodes["eq"]
    begin["target"], test["target"] = "tile.begin", compare
    test["args"] = [{"ref": begin["name"]}, number]
    document["config"] = {"block_sizes": [512]}
    found = targets(kit.after("branches", document))
    assert ("aten.neg.default" in found) == negated
    assert ("aten.mul.Tensor" in found) != negated
    assert wrong(document) == []
    document["config"] = {"block_sizes": [64]}
    assert {"aten.neg.default", "aten.mul.Tensor"} < set(targets(kit.after("branches", document)))


@pytest.mark.parametrize("target", ["tile.atomic_xchg", "tile.atomic_cas"])
def test_effects_that_nothing_hides_are_refused(target):
    doc = grid_document(init=0)
    yes, g = G(1, "if"), G(0, grid=[0])
    values = [yes.arg(f32("u0", 200))] * (2 if target.endswith("cas") else 1)
    yes.call(target, yes.host("out"), [U0, ALL], *values, meta=f32("u0", 200))
    yes.out()
    x = g.load("x", [U0, ALL], f32("u0", 200))
    g.call("tile.if", odd_block(g), 1, None, [x], [], meta={"tuple": []})
    with pytest.raises(CompileError, match="move atomic_xchg, atomic_cas"):
        kit.compiled(doc.add(yes, g.out()))


# ---- branches that are left out ------------------------------------------------------------------


def product(h, x, scale):
    """x @ w * scale."""
    w = h.load("w", [ALL, ALL], f32(128, 256))
    y = h.call("aten.mm.default", x, w, meta=f32("u0", 256))
    return h.call("aten.mul.Tensor", y, scale, meta=f32("u0", 256))


def experts(other):
    """Blocks of x with a flag times w; the others: 1.5 in a branch, times -w, or as they were."""
    doc = Doc(config={"block_sizes": [64]}).tensor("x", "input", "float32", [300, 128])
    doc.tensor("w", "input", "float32", [128, 256]).tensor("flags", "input", "int32", [5])
    doc.tensor("out", "output", "float32", [300, 256], init=0 if other == "none" else "empty")
    wide = f32("u0", 256)
    yes, no, g = G(1, "if"), G(2, "else"), G(0, grid=[0])
    y = product(yes, yes.arg(f32("u0", 128)), 2.0)
    x = g.load("x", [U0, ALL], f32("u0", 128))
    flag = g.load("flags", [g.call("tile.id", U0, meta=sym(None))], t("int32"))
    pred = g.call("aten.gt.Scalar", flag, 0, meta=t("bool"))
    if other == "none":
        yes.store("out", [U0, ALL], y)
        yes.out()
        g.call("tile.if", pred, 1, None, [x], [], meta={"tuple": []})
        return doc.block(300).add(yes, g.out())
    yes.out(y)
    if other == "full":
        no.out(no.call("tile.full", [U0, 256], 1.5, dt("float32"), meta=wide))
    else:
        no.out(product(no, no.arg(f32("u0", 128)), -1.0))
    more = [x] if other == "product" else []
    both = g.call("tile.if", pred, 1, 2, [x], more, meta={"tuple": [wide]})
    g.store("out", [U0, ALL], g.call("getitem", both, 0, meta=wide))
    return doc.block(300).add(yes, no, g.out())


@pytest.mark.parametrize("other, loops", [("none", 1), ("full", 1), ("product", 2)])
def test_a_branch_with_a_matmul_is_left_out_where_it_is_not_taken(other, loops):
    document = experts(other)
    assert targets(kit.after("branches", document)).count("tile.while") == loops
    arrays = judge.make_arguments(document, 0, None, None, document["config"])
    arrays[2] = np.array([1, 0, -1, 2, 0], np.int32)
    assert wrong(document, given=arrays) == []
    arrays[2] = np.array([0, 3, 0, 0, 1], np.int32)
    assert wrong(document, {"block_sizes": [64]}, given=arrays) == []


# ---- loops that end early ------------------------------------------------------------------------


def running_sum(rows, begin, compare, extra):
    """out[m] = the sum of x[n] for the blocks n that begin below the end of m, from `begin` on."""
    doc = Doc(config={"block_sizes": [64, 32]})
    doc.tensor("x", "input", "float32", [rows, 128]).tensor("out", "output", "float32", [rows, 128])
    doc.block(rows).block(rows)
    then, other, loop = G(1, "if"), G(2, "else"), G(3, "for_loop", block_ids=[1], carried=[[0, 0]])
    tile, row = f32("u1", 128), f32(1, 128)
    acc = then.arg(row)
    x = then.load("x", [U1, ALL], tile)
    s = then.call("aten.sum.dim_IntList", x, [0], True, meta=row)
    then.out(then.call("aten.add.Tensor", acc, s, meta=row))
    other.out(other.arg(row))
    acc, limit = loop.arg(row), loop.arg(sym(None))
    here = loop.call("tile.begin", U1, meta=sym(None))
    limit = loop.call("add", limit, extra, meta=sym(None))
    test = loop.call(compare, *((limit, here) if compare[0] == "g" else (here, limit)), meta=BOOL)
    found = loop.call("tile.if", test, 1, 2, [acc], [acc], meta={"tuple": [row]})
    loop.out(loop.call("getitem", found, 0, meta=row))
    g = G(0, grid=[0])
    zero = g.call("tile.full", [1, 128], 0.0, dt("float32"), meta=row)
    end = g.call("tile.end", U0, meta=sym(None))
    sums = g.call("tile.for_loop", 3, [begin], [rows], [zero, end], meta={"tuple": [row]})
    sums = g.call("getitem", sums, 0, meta=row)
    wide = g.call("aten.expand.default", sums, [U0, 128], meta=f32("u0", 128))
    g.store("out", [U0, ALL], wide)
    return doc.add(then, other, loop, g.out())


@pytest.mark.parametrize("compare", ["lt", "le", "gt", "ge"])
@pytest.mark.parametrize(
    "rows, begin, extra", [(256, 0, 0), (256, 32, -1), (300, 0, 1), (300, 64, -70)]
)
def test_a_loop_ends_where_its_condition_does(rows, begin, extra, compare):
    document = running_sum(rows, begin, compare, extra)
    made = kit.after("const_fold,branches,trim", document)
    assert "aten.where.self" not in targets(made) and "sym_min" in targets(made)
    arrays = judge.make_arguments(document, 0, None, None, document["config"])
    before, after = reference.run(document, arrays), reference.run(made, arrays)
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert wrong(document) == []


def test_unroll_keeps_all_steps():
    document = running_sum(256, 0, "lt", 0)
    assert wrong(document, {"pallas_loop_type": "unroll"}) == []


# ---- tables in SMEM ------------------------------------------------------------------------------


def table(dtype, shape, index):
    """x times an element of a table, at a position that the grid moves."""
    doc = Doc(config={"block_sizes": [8]}).block(64).tensor("t", "input", dtype, shape)
    doc.tensor("x", "input", "float32", [64, 256]).tensor("out", "output", "float32", [64, 256])
    g = G(0, grid=[0])
    number = g.call("tile.id", U0, meta=sym(None))
    factor = g.load("t", [number if i is None else i for i in index], t(dtype))
    x = g.load("x", [U0, ALL], f32("u0", 256))
    g.store("out", [U0, ALL], g.call("aten.mul.Tensor", x, factor, meta=f32("u0", 256)))
    return doc.add(g.out())


@pytest.mark.parametrize(
    "dtype, shape, index",
    [
        ("int32", [8], [None]),
        ("float32", [421], [None]),
        ("uint32", [1000, 3], [None, 2]),
        ("int32", [2, 8, 5], [1, None, 4]),
    ],
)
def test_elements_at_computed_positions_are_read_from_smem(dtype, shape, index):
    document = table(dtype, shape, index)
    operands = kit.plan(document)["operands"]
    assert {o["tensor"]: o["space"] for o in operands} == {"t": "smem", "x": "vmem", "out": "vmem"}
    assert wrong(document) == []


def test_a_table_that_smem_does_not_hold_is_read_from_vmem():
    document = table("float32", [1 << 20], [None])
    assert "t_ref = " not in kit.compiled(document).source
    assert wrong(document) == []


def test_what_only_a_branch_never_taken_stores_is_filled():
    """What such an output holds is not defined; it is no error, for another block size takes it."""
    doc = grid_document()
    no, g = G(1, "if"), G(0, grid=[0])
    no.store("out", [U0, ALL], no.arg(f32("u0", 200)))
    no.out()
    x = g.load("x", [U0, ALL], f32("u0", 200))
    later = g.call("gt", g.call("tile.begin", U0, meta=sym(None)), 0, meta=BOOL)
    g.call("tile.if", later, 1, None, [x], [], meta={"tuple": []})
    document = doc.add(no, g.out())
    assert kit.compiled(document, block_sizes=[64]).info["outputs"][0]["shape"] == [300, 200]
    assert "return jnp.full((300, 200), 0.0" in kit.compiled(document, block_sizes=[512]).source
