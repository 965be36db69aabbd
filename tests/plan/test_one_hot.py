"""Gathers by matmuls with a one-hot matrix: the same bits as slices and copies give."""

import json

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


@pytest.mark.parametrize("columns", [256, 40])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_from_registers(dtype, columns):
    """Rows of a small table, of each dtype, positions outside and a ragged tile too."""
    document = rows_of(dtype, 21, columns, 150, 128)
    text = kit.emitted("kernel", document).out
    assert "take_rows" in text and "positions = copy" not in text
    table = any_bits(dtype, (21, columns))
    for low, high in ((0, 21), (-5, 200), (-(2**31), 2**31 - 1)):
        ids = np.random.default_rng(low % 7).integers(low, high, 150, np.int32)
        (found,) = pallasc.execute.run(text, table, ids)
        np.testing.assert_array_equal(bits_of(found), bits_of(table[np.clip(ids, 0, 20)]))


def run(document, arrays, **config):
    """What the kernel of a document gives for those arrays, and what the reference does."""
    text = kit.emitted("kernel", document, **config).out
    (found,) = pallasc.execute.run(text, *arrays)
    (wanted,) = pallasc.reference.run(document, arrays)
    return np.asarray(found), np.asarray(wanted)


def pairs_of(dtype, positions, tile, rows=50, columns=200):
    """out[i, k, :] = table[ids[i, k], :]."""
    doc = Doc(config={"block_sizes": list(tile)}).tensor("table", "input", dtype, [rows, columns])
    doc.tensor("ids", "input", "int32", list(positions))
    doc.tensor("out", "output", dtype, [*positions, columns])
    g = G(0, grid=[0, 1])
    ids = g.load("ids", [sym("u0"), sym("u1")], typed("int32", "u0", "u1"))
    found = g.load("table", [ids, sl()], typed(dtype, "u0", "u1", columns))
    g.store("out", [sym("u0"), sym("u1"), sl()], found)
    return doc.block(positions[0]).block(positions[1]).add(g.out())


@pytest.mark.parametrize(
    ("dtype", "mode"),
    [(dtype, mode) for dtype in ("float32", "bfloat16", "float8_e5m2") for mode in DTYPES[dtype]],
)
def test_positions_of_two_dims(dtype, mode):
    """Ragged tiles of them, and positions outside."""
    document = pairs_of(dtype, (10, 21), (4, 8), columns=256)
    text = kit.emitted("kernel", document, pallas_indirect_access_mode=mode).out
    assert ("dot" in text) == (mode == "one_hot")
    table = any_bits(dtype, (50, 256))
    ids = np.random.default_rng(5).integers(-9, 99, (10, 21), np.int32)
    (found,) = pallasc.execute.run(text, table, ids)
    np.testing.assert_array_equal(bits_of(found), bits_of(table[np.clip(ids, 0, 49)]))


def test_positions_of_two_dims_at_once():
    """Many of them are found by a matmul (28,400 cycles on v6e; slices: 216,100)."""
    (access,) = indirect(pairs_of("bfloat16", (64, 128), (8, 128), 512, 512)).values()
    assert access["way"] == "one-hot matmul"
    (found,) = kit.refusal(pairs_of("float32", (64, 12), (8, 12)), **ONE_HOT)
    assert "its positions have several dims, and fill no whole registers" in found["message"]


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


WAYS = (
    "slice",
    "dynamic slice in VMEM",
    "one-hot matmul",
    "vector gather",
    "DMA gather",
    "SparseCore",
)


def indirect(graph, *options, **config):
    """{node: what the plan says of its way}."""
    found = json.loads(kit.emitted("plan", graph, *options, **config).out)
    return {access["node"]: access for access in found["indirect"]}


def ways(graph, **config):
    """{tensor: what --explain says of its way}, of all that are accessed where ints say."""
    lines = [line.split(": ", 2) for line in kit.emitted("none", graph, **config).err.splitlines()]
    return {line[1]: line[2] for line in lines if len(line) == 3 and "cycles a time" in line[2]}


@pytest.mark.parametrize(
    ("graph", "config", "tensor", "way"),
    [
        ("embedding", {}, "weight", "dynamic slice in VMEM, about 272 cycles a time; no slice: an"),
        ("embedding", ONE_HOT, "weight", "one-hot matmul, about 728 cycles a time; no slice: an"),
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
    told_of = [part.removeprefix("no ").split(":")[0] for part in found.split("; ")[1:6]]
    assert sorted([found.split(",")[0], *told_of]) == sorted(WAYS)


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


@pytest.mark.parametrize(
    ("graph", "config"),
    [("embedding", {}), ("embedding", ONE_HOT), ("embedding_odd", {}), ("columns", {})],
)
def test_ways_in_the_plan(graph, config, tmp_path):
    """The plan has what --explain says, and its configuration gives the same again."""
    (access,) = [a for a in indirect(graph, **config).values() if a["kind"] == "load"]
    (told,) = ways(graph, **config).values()
    assert told.startswith(f"{access['way']}, about {access['cycles']} cycles a time; ")
    assert {access["way"], *(other["way"] for other in access["others"])} == set(WAYS)
    for other in access["others"]:
        assert (other["cycles"] is None) == (other["why"] is not None)
        said = other["why"] if other["why"] else f"{other['cycles']}"
        assert f"{other['way']}: {said}" in told
    whole = kit.emitted("plan", graph, **config).out
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(whole)["config"]))
    assert kit.emitted("plan", graph, f"--config={path}").out == whole


@pytest.mark.parametrize(
    ("graph", "tensor", "way"),
    [
        ("chunk_scan_odd", "x", "dynamic slice in VMEM"),  # 59,800 cycles on v6e; matmuls: 70,600
        ("chunk_state_odd", "x", "one-hot matmul"),  # 42,900; slices: 99,900
        ("gather_gemv_odd", "weight", "vector gather"),  # 8,400; slices: 9,600, matmuls: 10,300
        ("embedding", "weight", "dynamic slice in VMEM"),  # 3,150; from registers: 3,600
    ],
)
def test_the_estimate_chooses_what_was_measured(graph, tensor, way):
    found = {a["tensor"]: a["way"] for a in indirect(graph, "--target=v6e").values()}
    assert found[tensor] == way


@pytest.mark.parametrize("graph", ["chunk_scan", "chunk_scan_odd", "causal_conv1d"])
def test_positions_that_count_up_are_no_matmul(graph):
    """Whatever is asked for, tile.index and ints added to it are a slice."""
    found = indirect(graph, **ONE_HOT).values()
    assert found
    assert not [a for a in found if a["way"] == "one-hot matmul"]
