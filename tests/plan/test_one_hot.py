"""Gathers by matmuls with a one-hot matrix: the same bits as slices and copies give."""

import kit
import numpy as np
import pallasc.execute
import pallasc.reference
import pytest
from builder import Doc, G, sl, sym
from builder import t as typed

MODE = "pallas_indirect_access_mode"
ONE_HOT = {MODE: "one_hot"}
MODES = ("auto", "dma", "one_hot")
DTYPES = {  # and the ways that take them, beside slices
    "float32": MODES,
    "bfloat16": MODES,
    "float16": ("auto", "one_hot"),
    "float8_e4m3fn": ("auto", "one_hot"),
    "float8_e5m2": ("auto", "one_hot"),
    "int32": MODES,
    "uint32": MODES,
    "int16": MODES,
    "uint16": MODES,
    "int8": MODES,
    "uint8": MODES,
    "bool": ("one_hot",),
}


def rows_of(dtype, rows=40, columns=256, positions=32, tile=16):
    """out[i, :] = table[ids[i], :]."""
    doc = Doc(config={"block_sizes": [tile]}).tensor("table", "input", dtype, [rows, columns])
    doc.tensor("ids", "input", "int32", [positions])
    doc.tensor("out", "output", dtype, [positions, columns])
    g = G(0, grid=[0])
    ids = g.load("ids", [sym("u0")], typed("int32", "u0"))
    found = g.load("table", [ids, sl()], typed(dtype, "u0", columns))
    g.store("out", [sym("u0"), sl()], found)
    return doc.block(positions).add(g.out())


def bits_of(x):
    """An array as unsigned ints."""
    x = np.asarray(x)
    return x.view(f"uint{8 * x.dtype.itemsize}")


def any_bits(dtype, shape, seed=0):
    """Whatever may stand in memory: NaN, infinities, -0.0, the least and the largest ints."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(pallasc.reference.values.dtype_of(dtype))
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    raw = rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]
    if dtype.kind in "iu":
        raw.flat[:2] = np.iinfo(dtype).min, np.iinfo(dtype).max
        return raw
    # a signalling NaN becomes quiet wherever it is converted
    raw = np.where(np.isnan(raw.astype(np.float32)), np.asarray(np.nan, dtype), raw)
    raw.flat[:3] = -0.0, np.nan, 0.0
    if dtype.name != "float8_e4m3fn":
        raw.flat[3:5] = np.inf, -np.inf
    return raw


@pytest.mark.parametrize(
    ("dtype", "mode"), [(dtype, mode) for dtype, modes in DTYPES.items() for mode in modes]
)
def test_same_bits(dtype, mode):
    """Of each dtype and way, positions outside too."""
    document = rows_of(dtype)
    text = kit.emitted("kernel", document, pallas_indirect_access_mode=mode).out
    assert ("dot" in text) == (mode == "one_hot")
    table = any_bits(dtype, (40, 256))
    for low, high in ((0, 40), (-5, 200), (-(2**31), 2**31 - 1)):
        ids = np.random.default_rng(low % 7).integers(low, high, 32, np.int32)
        (found,) = pallasc.execute.run(text, table, ids)
        np.testing.assert_array_equal(bits_of(found), bits_of(table[np.clip(ids, 0, 39)]))


def run(document, arrays, **config):
    """What the kernel of a document gives for those arrays, and what the reference does."""
    text = kit.emitted("kernel", document, **config).out
    (found,) = pallasc.execute.run(text, *arrays)
    (wanted,) = pallasc.reference.run(document, arrays)
    return np.asarray(found), np.asarray(wanted)


def lanes_of(rank, positions=40, rows=24):
    """out[..., i] = x[..., ids[i]] of a tensor of one or two dims, in ragged tiles."""
    shape = [8, rows][2 - rank :]
    doc = Doc(config={"block_sizes": [128]}).tensor("x", "input", "int32", shape)
    doc.tensor("ids", "input", "int32", [positions])
    doc.tensor("out", "output", "int32", [*shape[:-1], positions])
    g = G(0, grid=[0])
    ids = g.load("ids", [sym("u0")], typed("int32", "u0"))
    before = [sl()] * (rank - 1)
    found = g.load("x", [*before, ids], typed("int32", *shape[:-1], "u0"))
    g.store("out", [*before, sym("u0")], found)
    return doc.block(positions).add(g.out())


@pytest.mark.parametrize("rank", [1, 2])
def test_lanes(rank):
    """Of positions in the last dim the table stands before the matrix."""
    document = lanes_of(rank)
    x = any_bits("int32", (8, 24)[2 - rank :])
    ids = np.random.default_rng(1).integers(-3, 30, 40, np.int32)
    found, wanted = run(document, (x, ids), **ONE_HOT)
    np.testing.assert_array_equal(found, wanted)


def summed_rows(positions=24, rows=20):
    """out = the sum of table[ids[i], :] over ragged tiles of i."""
    doc = Doc(config={"block_sizes": [16]}).tensor("table", "input", "int32", [rows, 128])
    doc.tensor("ids", "input", "int32", [positions])
    doc.tensor("out", "output", "int32", [128], init=0)
    g = G(0, grid=[0])
    ids = g.load("ids", [sym("u0")], typed("int32", "u0"))
    found = g.load("table", [ids, sl()], typed("int32", "u0", 128))
    total = g.call("aten.sum.dim_IntList", found, [0], meta=typed("int32", 128))
    g.call("tile.atomic_add", g.host("out"), [sl()], total, meta=typed("int32", 128))
    return doc.block(positions).add(g.out())


def test_lanes_outside_are_zero():
    """A position that no tile has gives zeros, not the first row."""
    table = any_bits("int32", (20, 128))
    ids = np.random.default_rng(2).integers(0, 20, 24, np.int32)
    found, wanted = run(summed_rows(), (table, ids), **ONE_HOT)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        ("crossed", "x cannot be gathered so: several int tensors say where"),
        ("table_rows", "weight cannot be gathered so: its positions have several dims"),
        ("permute_rows", "out cannot be written so: each position is changed in VMEM"),
    ],
)
def test_refused(graph, why):
    """What is no matmul is refused where that is asked for; without gathers all is accepted."""
    (found,) = kit.refusal(graph, **ONE_HOT)
    assert found["code"] == "indirect-access-mode"
    assert why in found["message"]
    kit.plan("softmax", **ONE_HOT)


def told(*sizes):
    """What --explain says was taken."""
    lines = kit.emitted("none", rows_of(*sizes)).err.splitlines()
    return [line.split(": about")[0] for line in lines if ": taken: " in line]


def test_chosen_where_it_is_faster():
    """Many positions in a small table; else slices."""
    at_once = ["choose: taken: rows gathered by matmuls with a one-hot matrix"]
    assert told("bfloat16", 512, 512, 2048, 128) == at_once
    assert told("float32", 128, 512, 2048, 512) == at_once
    sliced = ["plan: taken: rows gathered from blocks in VMEM"]
    assert told("bfloat16", 512, 512, 2048, 16) == sliced
    assert told("bfloat16", 4096, 512, 2048, 128) == sliced


def ways(graph, **config):
    """{tensor: what --explain says of its way}, of all that are accessed where ints say."""
    lines = [line.split(": ", 2) for line in kit.emitted("none", graph, **config).err.splitlines()]
    return {line[1]: line[2] for line in lines if len(line) == 3 and "cycles a time" in line[2]}


@pytest.mark.parametrize(
    ("graph", "config", "tensor", "way"),
    [
        ("embedding", {}, "weight", "dynamic slice in VMEM, about 272 cycles a time; no slice: an"),
        ("embedding", ONE_HOT, "weight", "one-hot matmul, about 568 cycles a time; no slice: an"),
        ("embedding", {MODE: "dma"}, "weight", "DMA gather, about 1724 cycles a time; no slice: a"),
        ("columns", {}, "x", "vector gather, about 16 cycles a time; no slice: an int tensor says"),
        ("crossed", {}, "x", "dynamic slice in VMEM, about 8196 cycles a time"),
        ("permute_rows", {}, "out", "dynamic slice in VMEM, about 272 cycles a time"),
        ("histogram", {}, "out", "dynamic slice in VMEM, about 256 cycles a time"),
        ("chunk_state", {}, "x", "slice, about 8 cycles a time"),
        ("paged_decode", {}, "k_pages", "DMA gather, about 828 cycles a time"),
    ],
)
def test_ways_are_told(graph, config, tensor, way):
    """Each access names its way, what it takes, and what the others would, or why not."""
    found = ways(graph, **config)[tensor]
    assert found.startswith(way)
    others = ("slice", "dynamic slice in VMEM", "one-hot matmul", "vector gather", "DMA gather")
    told_of = [part.removeprefix("no ").split(":")[0] for part in found.split("; ")[1:5]]
    assert sorted([found.split(",")[0], *told_of]) == sorted(others)


def test_every_indirect_access_is_told():
    """Of each graph with positions that int tensors give, each tensor that they are in."""
    for graph in ("embedding_backward", "put_flagged", "table_rows", "gather_gemv", "odd_rows"):
        document = kit.document(graph)
        of = {n["name"]: n for n in kit.nodes(document)}
        tensors = set()
        for node in of.values():
            if not str(node.get("target", "")).startswith(
                ("tile.load", "tile.store", "tile.atomic")
            ):
                continue
            entries = [e["ref"] for e in node["args"][1] if isinstance(e, dict) and "ref" in e]
            if any(of[e].get("meta", {}).get("shape") for e in entries if e in of):
                tensors.add(of[node["args"][0]["ref"]]["args"][0])
        assert tensors
        assert tensors <= set(ways(graph)), graph
