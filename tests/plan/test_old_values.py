"""Old values of atomics at positions of int tensors: each lane finds what those before it left."""

import json

import kit
import numpy as np
import pallasc.execute
import pallasc.reference
import pytest
import simulated
from builder import Doc, G, sl, sym, t

COMBINE = {
    "add": lambda old, x, _: old + x,
    "max": lambda old, x, _: np.maximum(old, x),
    "min": lambda old, x, _: np.minimum(old, x),
    "xor": lambda old, x, _: old ^ x,
    "xchg": lambda old, x, _: x,
    "cas": lambda old, x, expected: np.where(old == expected, x, old),
}


def atomic(how, dtype, shape, count, block, rest=(), value_dtype=None, **keys):
    """old[i] = atomic_how(held[ids[i], ...], x[i]): `shape` the positions' dims, `rest` a slab's.

    cas replaces what equals e[i]; `number`: x of all lanes; `tiled`: blocks of the slab's last dim.
    """
    tiled, number = keys.pop("tiled", None), keys.pop("number", None)
    doc = Doc(config={"block_sizes": [block] + [tiled] * (tiled is not None), **keys})
    doc.block(count)
    if tiled:
        doc.block(rest[-1])
    lanes = [*rest[:-1], "u1"] if tiled else [*rest]
    whole = [sl() for _ in rest[:-1]] + [sym("u1") if tiled else sl() for _ in rest[-1:]]
    g = G(0, grid=[0, 1] if tiled else [0])
    ones = [1] if len(shape) > 1 else []  # two 1-D tensors over blocks would make a dim each

    def row(x, dtype, *rest):
        index = [None, sl(), *(sl() for _ in rest)]
        together = t(dtype, 1, "u0", *rest)
        return g.call("tile.subscript", x, index, meta=together) if ones else x

    index = []
    for i, _ in enumerate(shape):
        doc.tensor(f"ids{i}", "input", "int32", [count])
        index.append(row(g.load(f"ids{i}", [sym("u0")], t("int32", "u0")), "int32"))
    given = {}
    for name in ["x"] + ["e"] * (how == "cas"):
        of = value_dtype or dtype
        doc.tensor(name, "input", of, [count, *rest])
        x = g.load(name, [sym("u0"), *whole], t(of, "u0", *lanes))
        given[name] = row(x, of, *lanes)
    doc.tensor("held", "inout", dtype, [*shape, *rest])
    doc.tensor("old", "output", dtype, [*ones, count, *rest])
    values = [given["x"] if number is None else number]
    if how == "cas":
        values.insert(0, given["e"])
    result = t(dtype, *ones, "u0", *lanes)
    old = g.call(f"tile.atomic_{how}", g.host("held"), [*index, *whole], *values, meta=result)
    g.store("old", [*[sl() for _ in ones], sym("u0"), *whole], old)
    return doc.add(g.out())


DISTRIBUTIONS = ("uniform", "zipf", "empties", "outside")


def positions(rng, count, size, how):
    """Positions below `size`: evenly, most of them few, odd ones alone, or not in the tensor."""
    if how == "zipf":
        return np.minimum(rng.zipf(1.5, count) - 1, size - 1).astype(np.int32)
    if how == "empties":
        return (rng.integers(0, max(size // 2, 1), count, np.int32) * 2 + 1) % size
    if how == "outside":
        return rng.choice([-(2**31), -1, 0, size - 1, size, 2**31 - 1], count).astype(np.int32)
    return rng.integers(0, size, count, np.int32)


def drawn(document, distribution, seed=0):
    """Its inputs, by name."""
    rng = np.random.default_rng(seed)
    found = {}
    shapes = {x["name"]: x["shape"] for x in document["tensors"]}
    for tensor in document["tensors"]:
        name, shape = tensor["name"], tensor["shape"]
        if tensor["role"] == "output":
            continue
        if name.startswith("ids"):
            size = shapes["held"][int(name[3:])]
            found[name] = positions(rng, np.prod(shape), size, distribution).reshape(shape)
            continue
        dtype = pallasc.reference.values.dtype_of(tensor["dtype"])
        low, high = (-1, 2) if name in "eheld" and "e" in shapes else (-8, 9)
        quarters = 0.25 * (name == "x" and tensor["dtype"] != document["tensors"][-1]["dtype"])
        found[name] = (rng.integers(low, high, shape) + quarters).astype(dtype)
    return found


def in_order(document, how, arrays, number=None):
    """(held, old) of a sequential run, lane by lane."""
    held = np.array(arrays["held"])
    wide = arrays["x"].dtype == np.float32 and held.dtype != np.float32
    ids = [x for name, x in arrays.items() if name.startswith("ids")]
    old = np.zeros((len(ids[0]), *held.shape[len(ids) :]), held.dtype)
    for i, at in enumerate(zip(*ids, strict=True)):
        at = tuple(int(x) for x in at)
        if not all(0 <= x < size for x, size in zip(at, held.shape, strict=False)):
            continue
        x = arrays["x"][i] if number is None else number
        old[i] = held[at]
        with np.errstate(over="ignore"):
            expected = arrays["e"][i] if how == "cas" else None
            new = COMBINE[how](np.asarray(old[i], np.float32), x, expected) if wide else None
            held[at] = new if wide else COMBINE[how](old[i], x, expected)
    (shape,) = (x["shape"] for x in document["tensors"] if x["name"] == "old")
    return held, old.reshape(shape)


# Blocks of the slab's dim, values of another dtype, which combine in the wider one, numbers, many
# positions at once.
KEYS = [
    (("add", "int32", [20], 40, 16, [200]), {"tiled": 128}),
    (("cas", "int32", [20], 40, 16, [200]), {"tiled": 128}),
    (("add", "float32", [20], 40, 16, [8, 256]), {"tiled": 128}),
    (("add", "bfloat16", [20], 100, 32), {"value_dtype": "float32"}),
    (("max", "bfloat16", [20], 40, 40, [128]), {"value_dtype": "float32"}),
    (("add", "int32", [20], 100, 32), {"value_dtype": "float32"}),
    (("xchg", "int32", [20], 100, 32), {"value_dtype": "float32"}),
    (("add", "int32", [8], 200, 64), {"number": 1}),
    (("xchg", "float32", [8], 40, 40, [128]), {"number": 1.5}),
    (("add", "float32", [8], 1000, 1000), {}),
]

CASES = [
    ("add", "int32", [8], 256, 128),
    ("add", "int32", [130], 100, 32),
    ("add", "float32", [64], 130, 64),
    ("add", "bfloat16", [100], 64, 64),
    ("add", "int8", [300], 96, 32),
    ("max", "int32", [130], 100, 32),
    ("min", "float32", [64], 100, 100),
    ("xor", "int32", [64], 100, 100),
    ("xchg", "float32", [9], 96, 48),
    ("cas", "int32", [20], 96, 32),
    ("cas", "float32", [20], 100, 64),
    ("cas", "bfloat16", [20], 64, 64),
    ("add", "int32", [9, 5], 96, 48),
    ("cas", "int32", [3, 130], 64, 64),
    ("add", "float32", [20], 40, 16, [128]),
    ("add", "int32", [20], 40, 16, [200]),
    ("max", "bfloat16", [20], 32, 16, [256]),
    ("xchg", "int32", [20], 40, 40, [8, 128]),
    ("cas", "int32", [20], 40, 16, [128]),
    ("add", "int32", [5, 6], 40, 16, [128]),
]


def named(case):
    args, keys = case
    return "-".join(map(str, [*args, *keys.items()]))


ALL = [*((case, {}) for case in CASES), *KEYS]


@pytest.mark.parametrize("case", ALL, ids=named)
def test_in_order(case):
    """As a sequential run gives it: the reference, and the kernel before and after its rewrites."""
    args, keys = case
    document = atomic(*args, **keys)
    texts = [kit.emitted("kernel", json.dumps(document), *r).out for r in ((), ("--rewrites=",))]
    for distribution in DISTRIBUTIONS:
        arrays = drawn(document, distribution)
        wanted = in_order(document, args[0], arrays, keys.get("number"))
        said = pallasc.reference.run(document, list(arrays.values()))
        for x, y in zip(said, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(x, np.float64), np.asarray(y, np.float64))
        for text in texts:
            found = pallasc.execute.run(text, *arrays.values())
            for x, y in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(np.asarray(x, np.float64), np.asarray(y, np.float64))


@pytest.mark.parametrize("case", ALL, ids=named)
def test_simulated(case):
    document = atomic(*case[0], **case[1])
    for distribution in ("zipf", "outside"):
        arrays = drawn(document, distribution)
        assert simulated.wrong(document, given=list(arrays.values())) == []


@pytest.mark.parametrize("rest", [[], [128]])
def test_bits_stay(rest):
    """Zeros keep their sign, NaN and infinities come back as they are."""
    document = atomic("xchg", "float32", [8], 40, 40, rest)
    odd = np.array([-0.0, 0.0, np.nan, np.inf, -np.inf, 1e-40, 3.0], np.float32)
    arrays = drawn(document, "uniform")
    for name in ("x", "held"):
        arrays[name] = np.resize(odd, arrays[name].shape)
    _, wanted = in_order(document, "xchg", arrays)
    text = kit.emitted("kernel", json.dumps(document)).out
    for _, found in (
        pallasc.reference.run(document, list(arrays.values())),
        pallasc.execute.run(text, *arrays.values()),
    ):
        np.testing.assert_array_equal(np.asarray(found).view(np.int32), wanted.view(np.int32))


# ---- tables of positions -------------------------------------------------------------------------


def table(count, each, block, size, value=None, dtype="int32", rest=()):
    """old[i, k] = atomic_add(held[ids[i, k], ...], x): `value` is the shape of x."""
    doc = Doc(config={"block_sizes": [block]}).block(count)
    shape = [count, each] if value is None else value
    doc.tensor("ids0", "input", "int32", [count, each]).tensor("x", "input", dtype, shape)
    doc.tensor("held", "inout", dtype, [size, *rest])
    doc.tensor("old", "output", dtype, [count, each, *rest])
    g, whole = G(0, grid=[0]), [sl() for _ in rest]
    ids = g.load("ids0", [sym("u0"), sl()], t("int32", "u0", each))
    tiles = ["u0" if n == count else n for n in shape]
    x = g.load("x", [sym(n) if n == "u0" else sl() for n in tiles], t(dtype, *tiles))
    if rest:
        x = g.call("aten.unsqueeze.default", x, len(shape), meta=t(dtype, *tiles, 1))
    result = t(dtype, "u0", each, *rest)
    old = g.call("tile.atomic_add", g.host("held"), [ids, *whole], x, meta=result)
    g.store("old", [sym("u0"), sl(), *whole], old)
    return doc.add(g.out())


TABLES = [
    (40, 8, 16, 12),
    (40, 3, 16, 300),
    (37, 100, 8, 12),
    (40, 8, 16, 12, [8]),
    (40, 8, 16, 12, [40, 1]),
    (40, 8, 16, 12, [1, 40, 8]),
    (40, 8, 16, 12, [1]),
    (40, 8, 16, 12, None, "bfloat16"),
    (40, 8, 16, 12, None, "float32", (128,)),
    (40, 3, 16, 12, [3], "float32", (200,)),
]


@pytest.mark.parametrize("case", TABLES, ids=lambda case: "-".join(map(str, case)))
def test_tables(case):
    """Several positions of each token, row by row."""
    document = table(*case)
    text = kit.emitted("kernel", json.dumps(document)).out
    for distribution in ("zipf", "outside"):
        arrays = drawn(document, distribution)
        given = list(arrays.values())
        flat = dict(arrays, ids0=arrays["ids0"].reshape(-1))
        places = arrays["ids0"].shape
        x = np.broadcast_to(arrays["x"].reshape(arrays["x"].shape[-2:]), places).reshape(-1)
        flat["x"] = x.reshape(-1, *(1 for _ in arrays["held"].shape[1:]))
        wanted = in_order(document, "add", flat)
        for made in (pallasc.reference.run(document, given), pallasc.execute.run(text, *given)):
            for found, right in zip(made, wanted, strict=True):
                np.testing.assert_array_equal(np.float64(found), np.float64(right))
    assert simulated.wrong(document, given=given) == []


@pytest.mark.parametrize("is_loop", [False, True])
def test_a_tile_that_goes_on_finds_nothing_past_a_slice(is_loop):
    """0 in the lanes that it skips."""
    doc = Doc(config={"block_sizes": [8, 16]}).block(12).block(30)
    doc.tensor("x", "input", "int32", [12, 30]).tensor("base", "inout", "int32", [12, 30])
    cut = [[3, 12, 1], [5, 25, 1]]
    doc.tensor("held", "view", "int32", [9, 20], of="base", slice=cut)
    doc.tensor("old", "output", "int32", [12, 30], init=0)
    g = G(1, "for_loop", block_ids=[1]) if is_loop else G(0, grid=[0, 1])
    tile, meta = [sym("u0"), sym("u1")], t("int32", "u0", "u1")
    x = g.load("x", tile, meta)
    g.store("old", tile, g.call("tile.atomic_add", g.host("held"), tile, x, meta=meta))
    graphs = [g.out()]
    if is_loop:
        root = G(0, grid=[0])
        root.call("tile.for_loop", 1, [0], [30], [], meta={"tuple": []})
        graphs.append(root.out())
    document = doc.add(*graphs)
    arrays = {"x": np.arange(360).reshape(12, 30), "base": np.full((12, 30), 7)}
    given = [np.asarray(a, np.int32) for a in arrays.values()]
    right = np.zeros((12, 30), np.int32)
    right[:9, :20] = 7
    base, old = pallasc.reference.run(document, given)
    added = np.zeros((12, 30), np.int32)
    added[3:12, 5:25] = given[0][:9, :20]
    np.testing.assert_array_equal(base, 7 + added)
    np.testing.assert_array_equal(old, right)
    text = kit.emitted("kernel", json.dumps(document)).out
    for found, wanted in zip(pallasc.execute.run(text, *given), (base, right), strict=True):
        np.testing.assert_array_equal(found, wanted)
