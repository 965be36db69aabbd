"""Sorts and the k greatest or least lanes: values and places, stable, NaN as the greatest."""

import kit
import numpy as np
import pytest
from builder import Doc, G, ref, sl, sym, t
from pallasc.execute import run as execute
from pallasc.reference.values import DTYPES, is_float
from pallasc.simulate import interpret_params, simulate
from simulated import wrong

SORTS = ("aten.sort.default", "aten.sort.stable")


def document(target, dtype, shape, dim=-1, rows=16, size=None, args=(), kwargs=None):
    """(values, places) of x's tiles of `rows` rows along `dim`, of which `size` lanes come out."""
    out = list(shape)
    out[dim] = size or shape[dim]
    tiled = [*(["u0"] if len(shape) > 1 else []), *shape[1:]] if rows else list(shape)
    tile = list(tiled)
    tile[dim] = size or tile[dim]
    doc = Doc({"block_sizes": [rows] if rows else []}, name="sorts", scalars=None)
    doc = doc.block(shape[0], None) if rows else doc
    doc.tensor("x", "input", dtype, shape)
    doc.tensor("values", "output", dtype, out).tensor("places", "output", "int32", out)
    g = G(0, grid=[0] if rows else [])
    index = [sym("u0") if rows else sl(), *[sl()] * (len(shape) - 1)]
    g.call("tile.load", g.host("x", name="x"), index, meta=t(dtype, *tiled), name="t")
    both = {"tuple": [t(dtype, *tile), t("int32", *tile)]}
    g.call(target, ref("t"), *args, meta=both, name="both")
    g.raw["nodes"][-1] |= {"kwargs": kwargs} if kwargs else {}
    for i, name in enumerate(("values", "places")):
        part = g.call("getitem", ref("both"), i, meta=both["tuple"][i], name=f"item_{i}")
        g.call("tile.store", g.host(name, name=name), index, part, name=f"store_{i}")
    return doc.add(g.out())


def hostile(dtype, shape, seed=0):
    """Few different values, most equal to others; zeros of both signs, NaN, infinities."""
    rng, kind = np.random.default_rng(seed), DTYPES[dtype]
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if not is_float(kind):
        least, most = np.iinfo(kind).min, np.iinfo(kind).max
        return rng.choice(np.array([least, least + 1, 0, 1, 5, most - 1, most], kind), shape)
    special = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5, 2.0, 0.25]
    return rng.choice(np.array(special, np.float32), shape).astype(kind)


def sorted_by_numpy(x, dim, descending):
    """(values, places) as torch orders them, of what NumPy orders by itself."""
    plain = x.astype(np.float64) if is_float(x.dtype) else x.astype(np.int64)
    key = -plain if descending else plain
    nan = np.isnan(plain) if is_float(x.dtype) else np.zeros(x.shape, bool)
    places = np.lexsort((np.where(nan, 0, key), ~nan if descending else nan), axis=dim)
    return np.take_along_axis(x, places, dim), places


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", [(32, 128), (50, 203), (24, 7), (16, 1)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_rows_are_sorted_as_numpy_sorts_them(dtype, shape, descending):
    x = hostile(dtype, shape)
    module = kit.compiled(document(SORTS[0], dtype, shape, args=[-1, descending]))
    values, places = simulate(module.load(), [x], interpret_params()).outputs
    wanted, order = sorted_by_numpy(x, -1, descending)
    np.testing.assert_array_equal(places, order)
    found, wanted = values.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_array_equal(found, wanted)
    plain = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[plain], np.signbit(wanted)[plain])


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    "dtype", ["float8_e4m3fn", "float8_e5m2", "int16", "int8", "uint32", "uint16", "uint8", "bool"]
)
def test_all_dtypes_are_sorted(dtype, descending):
    wanted = document(SORTS[0], dtype, (64, 140), rows=32, args=[-1, descending])
    assert wrong(wanted, given=[hostile(dtype, (64, 140))]) == []


@pytest.mark.parametrize("shape, dim", [((12, 40, 130), 0), ((12, 40, 130), 1), ((40, 130), 0)])
@pytest.mark.parametrize("target", SORTS)
def test_any_dim_is_sorted(target, shape, dim):
    stable = target == "aten.sort.stable"
    named = {"stable": True, "dim": dim, "descending": True}
    how = {"kwargs": named} if stable else {"args": [dim, True]}
    whole = document(target, "float32", shape, dim, rows=None, **how)
    assert wrong(whole, given=[hostile("float32", shape)]) == []


def test_a_vector_is_sorted():
    vector = document(SORTS[0], "float32", (300,), 0, rows=None)
    assert wrong(vector, given=[hostile("float32", (300,))]) == []


@pytest.mark.parametrize("rows", [16, 64])
def test_all_lanes_of_a_ragged_tile_are_sorted_and_others_are_zeros(rows):
    """Along the tile itself: lanes behind the end of the tensor are zeros, as the format has it."""
    ragged = document(SORTS[0], "float32", (50, 20), 0, rows=rows, args=[0])
    assert wrong(ragged, given=[hostile("float32", (50, 20))]) == []


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [1, 3, 8, 9, 60])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint32", "int8"])
def test_the_greatest_and_the_least_are_found(dtype, k, largest):
    topk = document("aten.topk.default", dtype, (40, 60), size=k, args=[k, -1, largest])
    assert wrong(topk, given=[hostile(dtype, (40, 60))]) == []


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("k", [2, 10])
def test_the_greatest_are_found_along_any_dim(dim, k):
    topk = document("aten.topk.default", "float32", (11, 21, 37), dim, None, k, [k, dim])
    assert wrong(topk, given=[hostile("float32", (11, 21, 37))]) == []


def test_rows_of_one_value_keep_their_places():
    """More lanes than are distinct: what was taken away is not found again."""
    x = np.full((16, 12), -(2**31), np.int32)
    module = kit.compiled(document("aten.topk.default", "int32", x.shape, size=5, args=[5]))
    values, places = simulate(module.load(), [x], interpret_params()).outputs
    assert (places == np.arange(5)).all()
    assert (values == -(2**31)).all()


def test_the_kernel_as_text_is_executed():
    x = hostile("float32", (16, 37))
    wanted, order = sorted_by_numpy(x, -1, True)
    text = kit.emitted("kernel", document(SORTS[0], "float32", x.shape, args=[-1, True])).out
    values, places = execute(text, x)
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, wanted)
