"""Gathers by matmuls with a one-hot matrix: the same bits as slices and copies give."""

import json

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
    if dtype == bool:
        return rng.integers(0, 2, shape).astype(bool)
    raw = rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]
    if dtype.kind in "iu":
        raw.flat[:2] = np.iinfo(dtype).min, np.iinfo(dtype).max
        return raw
    quiet = raw == raw  # noqa: PLR0124 - a signalling NaN becomes quiet wherever it is converted
    raw = np.where(quiet, raw, np.asarray(np.nan, dtype))
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
