"""All ways of an indirect access give the same numbers, whichever is asked for."""

import json

import kit
import numpy as np
import pallasc.execute
import pallasc.reference
from builder import Doc, G, sl, sym
from builder import t as typed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

MODE = "pallas_indirect_access_mode"
CONFIGS = ({}, {MODE: "auto"}, {MODE: "one_hot"}, {MODE: "dma"})
DTYPES = ("float32", "bfloat16", "float16", "float8_e5m2", "int32", "int16", "int8")


def uniform(rng, count, extent):
    """Each position as often as the others."""
    return rng.integers(0, extent, count)


def zipf(rng, count, extent):
    """Few positions, most of the time."""
    return np.minimum(rng.zipf(1.5, count) - 1, extent - 1)


def outside(rng, count, extent):
    """Many that the tensor has not."""
    return rng.integers(-extent - 3, 3 * extent, count)


def document_of(kind, dtype, tile, extent, others, count):
    """out[i] = x[ids[i]], of rows or lanes; out[ids[i]] = or += x[i]."""
    rows, table = ["u0", others], [extent, others]
    values = [count, others]
    if kind == "lanes":
        rows, table, values = rows[::-1], table[::-1], values[::-1]
    gathers = kind in ("rows", "lanes")
    doc = Doc(config={"block_sizes": [tile]})
    doc.tensor("x", "input", dtype, table if gathers else values)
    doc.tensor("ids", "input", "int32", [count])
    doc.tensor(
        "out", "output", dtype, values if gathers else table, **({} if gathers else {"init": 0})
    )
    g = G(0, grid=[0])
    ids = g.load("ids", [sym("u0")], typed("int32", "u0"))
    at = [sl(), ids] if kind == "lanes" else [ids, sl()]
    tiled = [sl(), sym("u0")] if kind == "lanes" else [sym("u0"), sl()]
    found = g.load("x", at if gathers else tiled, typed(dtype, *rows))
    if kind == "add":
        g.call("tile.atomic_add", g.host("out"), at, found, meta=typed(dtype, *rows))
    else:
        g.store("out", tiled if gathers else at, found)
    return doc.block(count).add(g.out())


def wanted_of(kind, x, ids, extent):
    """What NumPy gives: a gather finds the nearest element, a scatter skips what lies outside."""
    if kind in ("rows", "lanes"):
        return np.take(x, np.clip(ids, 0, extent - 1), int(kind == "lanes"))
    out = np.zeros((extent, x.shape[1]), x.dtype)
    for value, place in zip(x, ids, strict=True):
        if 0 <= place < extent:
            out[place] = value + out[place] if kind == "add" else value
    return out


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(("rows", "lanes", "store", "add")),
    dtype=st.sampled_from(DTYPES),
    positions=st.sampled_from((uniform, zipf, outside)),
    tile=st.sampled_from((16, 64, 128)),
    extent=st.sampled_from((1, 7, 8, 50, 130, 300)),
    others=st.sampled_from((8, 128, 200)),
    count=st.sampled_from((5, 64, 150)),
    seed=st.integers(0, 99),
)
def test_all_ways_are_one(kind, dtype, positions, tile, extent, others, count, seed):
    """Bit for bit, in each way that the key accepts; what cannot be done so is refused by name."""
    rng = np.random.default_rng(seed)
    dtype = "float32" if kind == "add" and dtype != "int32" else dtype
    shape = (others, extent) if kind == "lanes" else (extent, others)
    shape = shape if kind in ("rows", "lanes") else (count, others)
    x = rng.integers(-7, 8, shape).astype(pallasc.reference.values.dtype_of(dtype))
    ids = positions(rng, count, extent).astype(np.int32)
    wanted = wanted_of(kind, x, ids, extent)
    document, ways = document_of(kind, dtype, tile, extent, others, count), set()
    for config in CONFIGS:
        arguments = ["--target=v6e", *kit.settings(config), "-"]
        done = kit.run("--emit=kernel", *arguments, text=document)
        if done.status:
            assert config.get(MODE, "auto") != "auto", done.err
            assert "indirect-access-mode" in done.err
            continue
        plan = json.loads(kit.accepted("--emit=plan", *arguments, text=document).out)
        ways.add(*(access["way"] for access in plan["indirect"]))
        (found,) = pallasc.execute.run(done.out, x, ids)
        assert np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(wanted).tobytes()
    assert ways
