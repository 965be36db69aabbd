"""tile.while: loops whose steps nobody counts."""

import kit
import numpy as np
import pytest
from builder import Doc, G, dt, f32, sl, sym, t
from kit import targets
from pallasc import execute, judge, reference
from pallasc.errors import CompileError
from simulated import wrong

U0, U1, ALL = sym("u0"), sym("u1"), sl()
BOOL, INT = {"sym": None, "dtype": "bool"}, t("int32")


def items(g, call, *metas):
    """The results of a call."""
    return [g.call("getitem", call, i, meta=meta) for i, meta in enumerate(metas)]


def newton(rows=300, columns=200, block=64, tolerance=1e-5, dtype="float32"):
    """out = sqrt(|x| + 0.5) by Newton's iteration, until none of a tile moves; steps: how often."""
    doc = Doc(config={"block_sizes": [block]}).tensor("x", "input", dtype, [rows, columns])
    doc.tensor("out", "output", dtype, [rows, columns]).tensor(
        "steps", "output", "int32", [-(-rows // block), 128]
    )
    doc.block(rows)
    wide = f32("u0", columns)
    cond, body = G(1, "cond"), G(2, "while", carried=[[0, 0], [1, 1], [2, 2]])
    cond.arg(wide)
    moved = cond.arg(wide)
    cond.arg(INT)
    cond.arg(wide)
    moved = cond.call("tile.mask_to", moved, 0.0, meta=wide)
    top = cond.call("aten.amax.default", moved, [], meta=f32())
    cond.out(cond.call("aten.gt.Scalar", top, tolerance, meta=t("bool")))
    y = body.arg(wide)
    body.arg(wide)
    n, x = body.arg(INT), body.arg(wide)
    quotient = body.call("aten.div.Tensor", x, y, meta=wide)
    total = body.call("aten.add.Tensor", y, quotient, meta=wide)
    new = body.call("aten.mul.Tensor", total, 0.5, meta=wide)
    change = body.call(
        "aten.abs.default", body.call("aten.sub.Tensor", new, y, meta=wide), meta=wide
    )
    body.out(new, change, body.call("aten.add.Tensor", n, 1, meta=INT))
    g = G(0, grid=[0])
    x = g.load("x", [U0, ALL], t(dtype, "u0", columns))
    x = g.call("prims.convert_element_type.default", x, dt("float32"), meta=wide)
    x = g.call("aten.add.Tensor", g.call("aten.abs.default", x, meta=wide), 0.5, meta=wide)
    one = g.call("tile.full", [U0, columns], 1.0, dt("float32"), meta=wide)
    zero = g.call("tile.full", [], 0, dt("int32"), meta=INT)
    loop = g.call("tile.while", 1, 2, [x, one, zero, x], meta={"tuple": [wide, wide, INT]})
    y, _, n = items(g, loop, wide, wide, INT)
    g.store("out", [U0, ALL], y)
    g.store("steps", [g.call("tile.id", U0, meta=sym(None)), ALL], n)
    return doc.add(cond, body, g.out())


def collatz(count=40):
    """How often each number is halved, or tripled and added one to, until it is 1: ints alone."""
    doc = (
        Doc().tensor("x", "input", "int32", [count]).tensor("out", "output", "int32", [count, 128])
    )
    doc.block(count, size=1)
    cond, body = G(1, "cond"), G(2, "while", carried=[[0, 0], [1, 1]])
    n = cond.arg(INT)
    cond.arg(INT)
    cond.out(cond.call("aten.gt.Scalar", n, 1, meta=t("bool")))
    n, steps = body.arg(INT), body.arg(INT)
    odd = body.call("aten.bitwise_and.Scalar", n, 1, meta=INT)
    odd = body.call("aten.eq.Scalar", odd, 1, meta=t("bool"))
    up = body.call("aten.add.Tensor", body.call("aten.mul.Tensor", n, 3, meta=INT), 1, meta=INT)
    half = body.call("aten.bitwise_right_shift.Tensor_Scalar", n, 1, meta=INT)
    n = body.call("aten.where.self", odd, up, half, meta=INT)
    body.out(n, body.call("aten.add.Tensor", steps, 1, meta=INT))
    g = G(0, grid=[0])
    here = g.call("tile.begin", U0, meta=sym(None))
    n = g.load("x", [here], INT)
    zero = g.call("tile.full", [], 0, dt("int32"), meta=INT)
    loop = g.call("tile.while", 1, 2, [n, zero], meta={"tuple": [INT, INT]})
    g.store("out", [here, ALL], items(g, loop, INT, INT)[1])
    return doc.add(cond, body, g.out())


def chain(nodes=24, columns=200, heads=5):
    """out[h] = the sum of the rows x[n] of a list: first[h], then link[n], to -1."""
    doc = Doc().tensor("x", "input", "float32", [nodes, columns])
    doc.tensor("link", "input", "int32", [nodes]).tensor("first", "input", "int32", [heads])
    doc.tensor("out", "output", "float32", [heads, columns]).block(heads, size=1)
    row = f32(columns)
    cond, body = G(1, "cond"), G(2, "while", carried=[[0, 0], [1, 1]])
    at = cond.arg(INT)
    cond.arg(row)
    cond.out(cond.call("aten.ge.Scalar", at, 0, meta=t("bool")))
    at, acc = body.arg(INT), body.arg(row)
    acc = body.call("aten.add.Tensor", acc, body.load("x", [at, ALL], row), meta=row)
    body.out(body.load("link", [at], INT), acc)
    g = G(0, grid=[0])
    here = g.call("tile.begin", U0, meta=sym(None))
    at = g.load("first", [here], INT)
    zero = g.call("tile.full", [columns], 0.0, dt("float32"), meta=row)
    loop = g.call("tile.while", 1, 2, [at, zero], meta={"tuple": [INT, row]})
    g.store("out", [here, ALL], items(g, loop, INT, row)[1])
    return doc.add(cond, body, g.out())


def chain_inputs(nodes=24, columns=200, heads=5):
    """Lists of several lengths, one of them empty, one of all nodes but one."""
    rng = np.random.default_rng(3)
    link = np.arange(1, nodes + 1, dtype=np.int32)
    link[-1] = -1
    first = np.array([0, nodes - 1, -1, nodes // 2, 3][:heads], np.int32)
    return [rng.standard_normal((nodes, columns)).astype(np.float32), link, first]


def rows_until(rows=64, columns=128, limit=20):
    """out[i] = x[i] * 2 up to the first i whose flag is set; the others stay: stores in a while."""
    doc = (
        Doc()
        .tensor("x", "input", "float32", [rows, columns])
        .tensor("flags", "input", "int32", [rows])
    )
    doc.tensor("out", "inout", "float32", [rows, columns])
    row = f32(columns)
    cond, body = G(1, "cond"), G(2, "while", carried=[[0, 0], [1, 1]])
    i, flag = cond.arg(sym(None)), cond.arg(INT)
    low = cond.call("lt", i, limit, meta=BOOL)
    unset = cond.call("aten.eq.Scalar", flag, 0, meta=t("bool"))
    cond.out(cond.call("aten.logical_and.default", unset, low, meta=t("bool")))
    i = body.arg(sym(None))
    body.arg(INT)
    x = body.load("x", [i, ALL], row)
    body.store("out", [i, ALL], body.call("aten.mul.Tensor", x, 2.0, meta=row))
    body.out(body.call("add", i, 1, meta=sym(None)), body.load("flags", [i], INT))
    g = G(0, grid=[])
    zero = g.call("tile.full", [], 0, dt("int32"), meta=INT)
    g.call("tile.while", 1, 2, [0, zero], meta={"tuple": [sym(None), INT]})
    return doc.add(cond, body, g.out())


def doubling(size=384):
    """For each block of columns a large carried tile doubles until all of it is above 10."""
    doc = Doc(config={"block_sizes": [128]}).tensor("x", "input", "float32", [size, size])
    doc.tensor("out", "output", "float32", [size, size]).block(size)
    tile = f32(size, size)
    cond, body = G(1, "cond"), G(2, "while", carried=[[0, 0]])
    low = cond.call("aten.amin.default", cond.arg(tile), [], meta=f32())
    cond.out(cond.call("aten.lt.Scalar", low, 10.0, meta=t("bool")))
    body.out(body.call("aten.mul.Tensor", body.arg(tile), 2.0, meta=tile))
    loop = G(3, "for_loop", block_ids=[0], carried=[[0, 0]])
    acc = loop.arg(tile)
    x = loop.load("x", [ALL, U0], f32(size, "u0"))
    x = loop.call("aten.sum.dim_IntList", x, [1], True, meta=f32(size, 1))
    x = loop.call("aten.abs.default", x, meta=f32(size, 1))
    x = loop.call("aten.add.Tensor", x, 1.0, meta=f32(size, 1))
    acc = loop.call("aten.div.Tensor", acc, x, meta=tile)
    found = loop.call("tile.while", 1, 2, [acc], meta={"tuple": [tile]})
    loop.out(*items(loop, found, tile))
    g = G(0, grid=[])
    one = g.call("tile.full", [size, size], 1.0, dt("float32"), meta=tile)
    out = g.call("tile.for_loop", 3, [0], [size], [one], meta={"tuple": [tile]})
    g.store("out", [ALL, ALL], *items(g, out, tile))
    return doc.add(cond, body, loop, g.out())


def growing(rows=256):
    """Sums of the first n rows, n = 8, 16, ... until above 40: a loop of carried end in a while."""
    doc = Doc(config={"block_sizes": [8]}).tensor("x", "input", "float32", [rows, 128])
    doc.tensor("out", "output", "float32", [1, 128]).block(rows)
    row = f32(1, 128)
    loop = G(3, "for_loop", block_ids=[0], carried=[[0, 0]])
    acc, x = loop.arg(row), loop.load("x", [U0, ALL], f32("u0", 128))
    part = loop.call("aten.sum.dim_IntList", x, [0], True, meta=row)
    loop.out(loop.call("aten.add.Tensor", acc, part, meta=row))
    cond, body = G(1, "cond"), G(2, "while", carried=[[0, 0], [1, 1]])
    n, total = cond.arg(sym(None)), cond.arg(row)
    low = cond.call("lt", n, rows, meta=BOOL)
    top = cond.call("aten.amax.default", total, [], meta=f32())
    small = cond.call("aten.lt.Scalar", top, 40.0, meta=t("bool"))
    cond.out(cond.call("aten.logical_and.default", small, low, meta=t("bool")))
    n = body.arg(sym(None))
    body.arg(row)
    zero = body.call("tile.full", [1, 128], 0.0, dt("float32"), meta=row)
    n = body.call("mul", n, 2, meta=sym(None))
    sums = body.call("tile.for_loop", 3, [0], [n], [zero], meta={"tuple": [row]})
    body.out(n, *items(body, sums, row))
    g = G(0, grid=[])
    zero = g.call("tile.full", [1, 128], 0.0, dt("float32"), meta=row)
    found = g.call("tile.while", 1, 2, [4, zero], meta={"tuple": [sym(None), row]})
    g.store("out", [ALL, ALL], items(g, found, sym(None), row)[1])
    return doc.add(cond, loop, body, g.out())


def in_a_branch(rows=300):
    """Odd blocks are halved until their largest element is below 1, the others are left."""
    doc = Doc(config={"block_sizes": [64]}).tensor("x", "input", "float32", [rows, 200])
    doc.tensor("out", "output", "float32", [rows, 200]).block(rows)
    tile = f32("u0", 200)
    cond, body = G(3, "cond"), G(4, "while", carried=[[0, 0]])
    inside = cond.call("tile.mask_to", cond.arg(tile), {"float": "-inf"}, meta=tile)
    top = cond.call("aten.amax.default", inside, [], meta=f32())
    cond.out(cond.call("aten.gt.Scalar", top, 1.0, meta=t("bool")))
    body.out(body.call("aten.mul.Tensor", body.arg(tile), 0.5, meta=tile))
    yes, no, g = G(1, "if"), G(2, "else"), G(0, grid=[0])
    found = yes.call("tile.while", 3, 4, [yes.arg(tile)], meta={"tuple": [tile]})
    yes.out(*items(yes, found, tile))
    no.out(no.arg(tile))
    x = g.load("x", [U0, ALL], tile)
    number = g.call("tile.id", U0, meta=sym(None))
    odd = g.call("eq", g.call("mod", number, 2, meta=sym(None)), 1, meta=BOOL)
    both = g.call("tile.if", odd, 1, 2, [x], [x], meta={"tuple": [tile]})
    g.store("out", [U0, ALL], *items(g, both, tile))
    return doc.add(cond, body, yes, no, g.out())


def counted():
    """x times 1.5 ** 7 where a step was above 2: bools carried, and a condition known at first."""
    doc = Doc(config={"block_sizes": [64]}).tensor("x", "input", "float32", [128, 128])
    doc.tensor("out", "output", "float32", [128, 128]).block(128)
    tile, mask = f32("u0", 128), t("bool", "u0", 128)
    cond, body = G(1, "cond"), G(2, "while", carried=[[0, 0], [1, 1], [2, 2], [3, 3]])
    i = cond.arg(sym(None))
    cond.arg(t("bool"))
    cond.arg(tile)
    cond.arg(mask)
    cond.out(cond.call("lt", i, 7, meta=BOOL))
    i, done = body.arg(sym(None)), body.arg(t("bool"))
    x, seen = body.arg(tile), body.arg(mask)
    x = body.call("aten.mul.Tensor", x, 1.5, meta=tile)
    above = body.call("aten.gt.Scalar", x, 2.0, meta=mask)
    seen = body.call("aten.logical_or.default", seen, above, meta=mask)
    done = body.call("aten.logical_not.default", done, meta=t("bool"))
    body.out(body.call("add", i, 1, meta=sym(None)), done, x, seen)
    g = G(0, grid=[0])
    x = g.load("x", [U0, ALL], tile)
    none = g.call("tile.full", [U0, 128], False, dt("bool"), meta=mask)
    no = g.call("tile.full", [], False, dt("bool"), meta=t("bool"))
    metas = [sym(None), t("bool"), tile, mask]
    loop = g.call("tile.while", 1, 2, [0, no, x, none], meta={"tuple": metas})
    _, done, y, seen = items(g, loop, *metas)
    y = g.call("aten.where.self", done, y, x, meta=tile)
    g.store("out", [U0, ALL], g.call("aten.where.self", seen, y, x, meta=tile))
    return doc.add(cond, body, g.out())


DOCUMENTS = {
    "counted": (counted(), None),
    "newton": (newton(), None),
    "newton_no_step": (newton(tolerance=2.0), None),
    "newton_bf16": (newton(rows=137, columns=256, dtype="bfloat16"), None),
    "collatz": (collatz(), [np.arange(-3, 37, dtype=np.int32)]),
    "chain": (chain(), chain_inputs()),
    "rows_until": (rows_until(), None),
    "doubling": (doubling(), None),
    "growing": (growing(), None),
    "in_a_branch": (in_a_branch(), None),
}


def arguments(name):
    document, given = DOCUMENTS[name]
    return given or judge.make_arguments(document, 0, None, None, document.get("config"))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_right(name):
    document, given = DOCUMENTS[name]
    assert wrong(document, given=given) == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_pass_keeps_the_meaning(name):
    document, _ = DOCUMENTS[name]
    made = kit.after("whiles", document)
    (cond,) = (graph for graph in made["graphs"] if graph["kind"] == "cond")
    assert {node["op"] for node in cond["nodes"]} == {"placeholder", "output"}
    arrays = arguments(name)
    before, after = reference.run(document, arrays), reference.run(made, arrays)
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(before, after, strict=True))
    assert targets(kit.after("whiles", made)) == targets(made)


def test_a_row_that_no_step_reaches_stays():
    document, _ = DOCUMENTS["rows_until"]
    x, flags, out = arguments("rows_until")
    flags = np.zeros_like(flags)
    flags[7] = 1
    assert wrong(document, given=[x, flags, out]) == []


def test_a_condition_that_calls_graphs_is_refused():
    document = collatz(4)
    cond = next(graph for graph in document["graphs"] if graph["kind"] == "cond")
    yes, no = G(5, "if"), G(6, "else")
    yes.out(yes.arg(t("bool")))
    no.out(no.call("aten.logical_not.default", no.arg(t("bool")), meta=t("bool")))
    inner, other = G(7, "cond"), G(8, "while", carried=[[0, 0]])
    inner.out(inner.arg(t("bool")))
    other.out(other.call("aten.logical_not.default", other.arg(t("bool")), meta=t("bool")))
    last = cond["nodes"].pop()
    flag = last["args"][0][0]
    cond["nodes"] += [
        {
            "name": "w",
            "target": "tile.while",
            "args": [7, 8, [flag]],
            "meta": {"tuple": [t("bool")]},
        },
        {"name": "i", "target": "getitem", "args": [{"ref": "w"}, 0], "meta": t("bool")},
        {"name": "output", "op": "output", "args": [[{"ref": "i"}]]},
    ]
    document["graphs"][:0] = [inner.raw, other.raw]
    with pytest.raises(CompileError, match="condition calls graphs"):
        kit.compiled(document)


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("rewrites", [(), ("--rewrites=",), ("--rewrites=split",)])
def test_the_kernel_as_text_computes_the_same(name, rewrites):
    document, _ = DOCUMENTS[name]
    arrays = arguments(name)
    found = execute.run(kit.emitted("kernel", document, *rewrites).out, *arrays)
    for one, expected in zip(found, reference.run(document, arrays), strict=True):
        assert np.allclose(one.astype(np.float64), expected.astype(np.float64), 1e-5, 1e-5)


@pytest.mark.parametrize("rewrites", [(), ("--rewrites=",), ("--rewrites=split",)])
def test_a_row_at_a_scalar_is_no_window_of_a_while(rewrites):
    """It has no steps that could move one: kernel text is read again, and computes the same."""
    doc = Doc(config={"block_sizes": [128]}).tensor("x", "input", "float32", [3, 128])
    doc.tensor("out", "output", "float32", [128]).scalar("at", "int32").block(128)
    cond, body = G(1, "cond"), G(2, "while", carried=[[0, 0], [1, 1]])
    row = f32("u0")
    cond.arg(row)
    n = cond.arg(INT)
    cond.out(cond.call("aten.lt.Scalar", n, 3, meta=t("bool")))
    total, n = body.arg(row), body.arg(INT)
    at = body.call("tile.scalar", "at", meta=INT)
    total = body.call("aten.add.Tensor", total, body.load("x", [at, U0], row), meta=row)
    body.out(total, body.call("aten.add.Tensor", n, 1, meta=INT))
    g = G(0, grid=[0])
    start = g.call("tile.full", [U0], 1.0, dt("float32"), meta=row)
    zero = g.call("tile.full", [], 0, dt("int32"), meta=INT)
    loop = g.call("tile.while", 1, 2, [start, zero], meta={"tuple": [row, INT]})
    g.store("out", [U0], items(g, loop, row, INT)[0])
    document = doc.add(cond, body, g.out())
    text = kit.emitted("kernel", document, *rewrites).out
    assert "x_win" not in text
    x = np.arange(384, dtype=np.float32).reshape(3, 128)
    (found,) = execute.run(text, x, np.int32(2))
    assert np.array_equal(found, 1 + 3 * x[2])
