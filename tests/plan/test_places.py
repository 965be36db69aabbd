"""Gathers and scatters: positions one after the other, wherever they are said to be."""

import json

import kit
import numpy as np
import pallasc.execute
import pallasc.reference
import pytest
from builder import Doc, G, sl, sym
from builder import t as typed

GATHERS = ("embedding", "odd_rows", "columns", "table_rows", "crossed", "gather_gemv")
SCATTERS = ("embedding_backward", "permute_rows", "histogram", "put_flagged")
INDICES = ("ids", "rows", "cols")  # parameters that are positions


def arrays(document, low, high, seed=0):
    """Inputs of a document: random ones, and positions from `low` on, below `high`."""
    rng = np.random.default_rng(seed)
    found = []
    for t in document["tensors"]:
        if t["role"] != "input":
            continue
        if t["name"] in INDICES:
            found.append(rng.integers(low, high, t["shape"], np.int32))
        elif t["dtype"] == "int32":
            found.append(rng.integers(-1, 2, t["shape"], np.int32))
        else:
            dtype = pallasc.reference.values.dtype_of(t["dtype"])
            found.append(rng.standard_normal(t["shape"]).astype(dtype))
    return found


def kernel_text(graph, *rest, **config):
    """The kernel of a graph as text."""
    return kit.emitted("kernel", graph, *rest, **config).out


@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize("odd", ["", "_odd"])
@pytest.mark.parametrize("name", GATHERS + SCATTERS)
def test_positions_outside(name, odd, rewritten):
    """A load gives the nearest element, a store does nothing; the last one wins, sums add up."""
    graph = name + odd
    document = kit.document(graph)
    text = kernel_text(graph, *([] if rewritten else ["--rewrites="]))
    for low, high in ((0, 20), (-5, 200), (-(2**31), 2**31 - 1)):
        inputs = arrays(document, low, high)
        (found,) = pallasc.execute.run(text, *inputs)
        (wanted,) = pallasc.reference.run(document, inputs)
        found, wanted = (np.asarray(x, np.float64) for x in (found, wanted))
        written = ~np.isnan(wanted)  # of an output that is not filled
        if graph.startswith("permute"):
            written &= wanted != 0
        np.testing.assert_allclose(found[written], wanted[written], rtol=2e-2, atol=2e-2)


def test_tables_stand_in_smem():
    """Positions that are a table are read where they stand."""
    text = kernel_text("embedding")
    assert "in ids_ref smem int32[64]" in text
    assert "positions = copy" not in text


def test_computed_positions_are_copied():
    """What the kernel computes goes to SMEM by way of VMEM."""
    text = kernel_text("odd_rows", pallas_indirect_access_mode="dma")
    assert "scratch add_vmem vmem int32[1, 32]" in text
    assert "scratch add_smem smem int32[1, 32]" in text
    assert "positions = copy add_vmem[...], add_smem[...], add_sem[0] : copy" in text


def test_plan_tells():
    """Each access says how it is done."""
    told = kit.emitted("none", "embedding").err
    assert "weight: one position after the other, each sliced from a block in VMEM" in told
    told = kit.emitted("none", "permute_rows").err
    assert "out: one position after the other, each changed where it lies in VMEM" in told


@pytest.mark.parametrize("graph", ["odd_rows", "embedding_backward", "put_flagged"])
def test_text_reads_back(graph, tmp_path):
    """The text of it gives the same text and the same Python."""
    text = kernel_text(graph)
    path = tmp_path / "k.kernel"
    path.write_text(text)
    assert kit.accepted(path, "--emit=kernel").out == text
    assert kit.accepted(path).out == kit.compiled(graph).source


def test_grid_points_that_may_meet_run_in_order():
    """Any of them may write any row."""
    grid = kit.plan("permute_rows")["grid"]
    assert [dim["semantics"] for dim in grid if dim["name"] == "tile_b"] == ["arbitrary"]


# ---- rows copied from HBM ------------------------------------------------------------------------

DMA = {"pallas_indirect_access_mode": "dma"}
COPIED = [
    ("embedding", "float32"),
    ("embedding", "bfloat16"),
    ("embedding", "int8"),
    ("odd_rows", "float32"),
    ("odd_rows", "bfloat16"),
    ("table_rows", "int32"),
    ("table_rows", "int8"),
    ("table_rows_odd", "float32"),
    ("table_rows_odd", "bfloat16"),
]
LAST = [
    ("bfloat16", 127),
    ("int8", 125),
    ("int8", 126),
    ("int8", 127),
    ("bfloat16", 3),
    ("int8", 5),
]


def of_dtype(graph, dtype):
    """The document with tensors of another dtype."""
    found = kit.document(graph)
    (old,) = {x["dtype"] for x in found["tensors"] if x["name"] == "weight"}
    return json.loads(json.dumps(found).replace(f'"{old}"', f'"{dtype}"'))


def rows_of_slabs(dtype, crossed=False):
    """Row 3 of some matrices of a tensor of three dims, or as many rows as matrices."""
    doc = Doc(config={"block_sizes": [8]}).tensor("weight", "input", dtype, [20, 8, 128])
    doc.tensor("ids", "input", "int32", [32]).tensor("rows", "input", "int32", [32])
    doc.tensor("out", "output", dtype, [32, 128])
    g = G(0, grid=[0])
    ids = g.load("ids", [sym("u0")], typed("int32", "u0"))
    row = g.load("rows", [sym("u0")], typed("int32", "u0")) if crossed else 3
    if crossed:
        ids, row = (g.call("aten.add.Tensor", x, 0, meta=typed("int32", "u0")) for x in (ids, row))
        ids, row = (
            g.call("tile.subscript", x, [None, sl()], meta=typed("int32", 1, "u0"))
            for x in (ids, row)
        )
        found = g.load("weight", [ids, row, sl()], typed(dtype, 1, "u0", 128))
        found = g.call(
            "aten.reshape.default", found, [sym("u0"), 128], meta=typed(dtype, "u0", 128)
        )
    else:
        found = g.load("weight", [ids, row, sl()], typed(dtype, "u0", 128))
    g.store("out", [sym("u0"), sl()], found)
    return doc.block(32).add(g.out())


def rows_of_rows():
    """Rows at positions that are picked, not one after the other, out of a table."""
    doc = Doc(config={"block_sizes": [8]}).tensor("x", "input", "float32", [40, 128])
    doc.tensor("ids", "input", "int32", [64]).tensor("out", "output", "float32", [32, 128])
    g = G(0, grid=[0])
    ids = typed("int32", "u0")
    lanes = g.call("tile.index", sym("u0"), meta=ids)
    few = g.call("aten.lt.Scalar", lanes, 13, meta=typed("bool", "u0"))
    picked = g.call("aten.where.self", few, lanes, 0, meta=ids)
    places = g.load("ids", [picked], ids)
    rows = g.load("x", [places, sl()], typed("float32", "u0", 128))
    g.store("out", [sym("u0"), sl()], rows)
    return doc.block(32).add(g.out())


def test_rows_of_rows():
    """The table's own elements are gathered first."""
    document = rows_of_rows()
    text = kernel_text(json.dumps(document))
    for low, high in ((0, 40), (-5, 200)):
        rng = np.random.default_rng(0)
        x = rng.standard_normal((40, 128), np.float32)
        inputs = [x, rng.integers(low, high, 64, np.int32)]
        (found,) = pallasc.execute.run(text, *inputs)
        (wanted,) = pallasc.reference.run(document, inputs)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


def slabs(dtype):
    """Matrices of a tensor of three dims, by number."""
    doc = Doc(config={"block_sizes": [8]}).tensor("weight", "input", dtype, [20, 6, 128])
    doc.tensor("ids", "input", "int32", [32]).tensor("out", "output", dtype, [32, 6, 128])
    g = G(0, grid=[0])
    ids = g.load("ids", [sym("u0")], typed("int32", "u0"))
    g.store(
        "out",
        [sym("u0"), sl(), sl()],
        g.load("weight", [ids, sl(), sl()], typed(dtype, "u0", 6, 128)),
    )
    return doc.block(32).add(g.out())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("crossed", [False, True])
def test_rows_of_slabs(crossed, dtype):
    """A row at a place known or gathered, copied or sliced: the one that was asked for."""
    document = rows_of_slabs(dtype, crossed)
    mode = DMA if crossed or dtype == "float32" else {}
    text = kernel_text(json.dumps(document), **mode)
    for low, high in ((0, 6), (-5, 200)):
        inputs = arrays(document, low, high)
        (found,) = pallasc.execute.run(text, *inputs)
        (wanted,) = pallasc.reference.run(document, inputs)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


def table(dtype, rows=96, columns=256, positions=72, tile=24):
    """Rows of a table, as many in a word as fit."""
    doc = Doc(config={"block_sizes": [tile]}).tensor("weight", "input", dtype, [rows, columns])
    doc.tensor("ids", "input", "int32", [positions])
    doc.tensor("out", "output", dtype, [positions, columns])
    g = G(0, grid=[0])
    ids = g.load("ids", [sym("u0")], typed("int32", "u0"))
    found = g.load("weight", [ids, sl()], typed(dtype, "u0", columns))
    g.store("out", [sym("u0"), sl()], found)
    return json.dumps(doc.block(positions).add(g.out()))


@pytest.mark.parametrize("dtype", ["bfloat16", "int16", "uint16", "int8", "uint8", "float8_e5m2"])
@pytest.mark.parametrize("positions", [72, 70])
def test_packed_rows(dtype, positions):
    """Each position's row, bit by bit, taken from words all at once; ragged tiles too."""
    document = table(dtype, positions=positions)
    text = kernel_text(document, **DMA)
    assert "words" in text
    assert "words" not in kernel_text(document, **DMA, pallas_packed_rows="off")
    size = pallasc.reference.values.dtype_of(dtype).itemsize
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 256, (96, 256 * size), np.uint8)
    for low, high in ((0, 96), (-5, 200), (-(2**31), 2**31 - 1)):
        ids = rng.integers(low, high, positions, np.int32)
        inputs = [weight.view(pallasc.reference.values.dtype_of(dtype)), ids]
        (found,) = pallasc.execute.run(text, *inputs)
        wanted = weight[np.clip(ids, 0, 95)]
        np.testing.assert_array_equal(np.ascontiguousarray(found).view(np.uint8), wanted)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (table("bfloat16", rows=97), "the table's last rows fill no word"),
        (table("bfloat16", columns=192), "a tile of it does not fill registers"),
        (table("bfloat16", positions=60, tile=20), "a tile of it does not fill registers"),
        (json.dumps(rows_of_slabs("bfloat16")), None),
        (table("float32"), None),
    ],
    ids=["odd-table", "columns", "positions", "slabs", "words-of-one"],
)
def test_rows_that_are_not_packed(document, why):
    """They are copied one by one, and the plan says why."""
    config = DMA if why or "float32" in document else {}
    emitted = kit.emitted("kernel", document, **config)
    assert "words" not in emitted.out
    told = kit.emitted("none", document, **config).err
    assert (f"packed rows: none of weight: {why}" in told) if why else ("packed rows" not in told)


@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize(
    "document",
    [*(of_dtype(*x) for x in COPIED), *(slabs(d) for d in ("float32", "bfloat16", "int8"))],
    ids=["-".join(x) for x in COPIED] + ["slabs-float32", "slabs-bfloat16", "slabs-int8"],
)
def test_rows_are_copied(document, rewritten):
    """Bit by bit what the reference says, wherever the rows are said to be."""
    text = kernel_text(json.dumps(document), *([] if rewritten else ["--rewrites="]), **DMA)
    assert "in weight_hbm hbm" in text
    for low, high in ((0, 20), (-5, 200), (-(2**31), 2**31 - 1)):
        inputs = arrays(document, low, high)
        (found,) = pallasc.execute.run(text, *inputs)
        (wanted,) = pallasc.reference.run(document, inputs)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


@pytest.mark.parametrize(("dtype", "rows"), LAST)
def test_last_rows(dtype, rows):
    """Rows that fill no word of 32 bits are copied by themselves."""
    document = of_dtype("embedding", dtype)
    document = json.loads(json.dumps(document).replace("[128, 256]", f"[{rows}, 256]"))
    text = kernel_text(json.dumps(document), **DMA)
    assert f"last = copy weight_hbm[{rows // 4 * 4 if dtype == 'int8' else rows - 1} +:" in text
    for low, high in ((0, rows), (rows - 4, rows), (-5, 200), (-(2**31), 2**31 - 1)):
        inputs = arrays(document, low, high)
        (found,) = pallasc.execute.run(text, *inputs)
        (wanted,) = pallasc.reference.run(document, inputs)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


def test_rows_of_any_table():
    """A tensor of a gigabyte stays in HBM; the plan tells what was compared."""
    document = kit.document("embedding")
    text = json.dumps(document).replace("[128, 256]", "[1048576, 256]")
    told = kit.emitted("none", text).err
    assert "weight: one position after the other, each copied from HBM" in told
    assert "rows gathered from HBM: about" in told
    assert "rows gathered from blocks in VMEM: about" in told


def test_slices_stay_where_they_are_faster():
    """A small table comes to VMEM once for all rows."""
    told = kit.emitted("none", "embedding_8192_1024").err
    assert "plan: taken: rows gathered from blocks in VMEM" in told


@pytest.mark.parametrize("assumed", [False, True])
def test_copies_stay_inside(assumed):
    """Whatever is assumed of indices: past a tile's end there may be anything."""
    document = kit.document("odd_rows") | {"assume_in_bounds": assumed}
    assert "held = int (min(max(place, 0), 127))" in kernel_text(json.dumps(document), **DMA)


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        ("gather_gemv_odd", "weight cannot be gathered so: its last tile reaches past the tensor"),
        ("columns", "x cannot be gathered so: it gathers single elements of rows"),
        ("permute_rows", "out cannot be written so: each position is changed in VMEM"),
    ],
)
def test_copies_refused(graph, why):
    """What cannot be copied is refused where copies are asked for, else it is sliced."""
    (found,) = kit.refusal(graph, **DMA)
    assert found["code"] == "indirect-access-mode"
    assert why in found["message"]
    kit.plan(graph, pallas_indirect_access_mode="auto")


def test_four_positions_at_a_time():
    """Where they wait for nothing, or write in order without a branch; one position is no four."""
    assert "fori (32) unroll 4 body" in kernel_text("embedding")
    assert "unroll 4" in kernel_text("embedding", "--rewrites=")
    assert kit.compiled("embedding").source.count("None, unroll=4)") == 1
    assert kit.compiled("embedding", **DMA).source.count("None, unroll=4)") == 1
    assert "unroll 4" in kernel_text("permute_rows")
    assert "when" not in kernel_text("permute_rows")
    assert "unroll" not in kernel_text("embedding", block_sizes=[1, 128])
