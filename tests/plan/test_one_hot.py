"""Gathers by matmuls with a one-hot matrix: the same bits as slices and copies give."""

import kit
import numpy as np
import pallasc.execute
import pallasc.reference
import pytest
from builder import Doc, G, sl, sym
from builder import t as typed

ONE_HOT = {"pallas_indirect_access_mode": "one_hot"}
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
