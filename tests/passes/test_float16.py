"""float16: kept in memory as 16 bits, computed in float32, rounded where the graph rounds."""

import json

import executed
import kit
import numpy as np
import pytest
import tiles
from pallasc import aot, execute, reference
from pallasc.simulate import simulate

ALL = np.arange(65536, dtype=np.uint16).view(np.float16)
SHAPE = ["u0", ":"]


def kernel(size, source="float16", out="float16", **config):
    """A kernel of x and y, of one dtype, that gives z."""
    k = tiles.Kernel("half", [size[0]], {"block_sizes": [size[0]], **config})
    for name in ("x", "y"):
        k.tensor(name, "input", source, size)
    k.tensor("z", "output", out, size)
    return k


def right(document, *arrays):
    """What the simulated kernel gives, bit for bit what the executed one and the reference do."""
    module = kit.compiled(document)
    (found,) = simulate(module.load(), list(arrays), 1).outputs
    (expected,) = reference.run(json.loads(document), list(arrays))
    (executed,) = execute.run(kit.emitted("kernel", json.loads(document)).out, *arrays)
    for got in (found, executed):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
        number = ~np.isnan(expected)
        bits = f"u{expected.itemsize}"
        np.testing.assert_array_equal(got.view(bits)[number], expected.view(bits)[number])
    return found


def edges():
    """float32 at and beside all float16 and what lies halfway between two; and past them all."""
    exact = np.unique(ALL[np.isfinite(ALL)].astype(np.float64))
    middle = (exact[1:] + exact[:-1]) / 2
    past = [65519.996, 65520.0, 65520.004, 65536.0, 1e6, 3e38, np.inf, np.nan, 2.0**-26, 1e-40]
    x = np.concatenate([exact, middle, past, np.negative(past)]).astype(np.float32)
    x = np.concatenate([x, np.nextafter(x, np.float32(0)), np.nextafter(x, np.float32(np.inf))])
    return np.resize(x, (-(-x.size // 4096) * 8, 512))


def test_every_float16_becomes_its_float32():
    k = kernel((128, 512), out="float32")
    k.store("z", k.convert(k.load("x", *SHAPE), "float32"), *SHAPE)
    x = ALL.reshape(128, 512)
    found = right(k.json(), x, x)
    np.testing.assert_array_equal(found, x.astype(np.float32))


def test_every_float16_is_copied_bit_by_bit():
    k = kernel((128, 512))
    k.store("z", k.load("x", *SHAPE), *SHAPE)
    module = kit.compiled(k.json())
    x = ALL.reshape(128, 512)
    (found,) = simulate(module.load(), [x, x], 1).outputs
    np.testing.assert_array_equal(np.asarray(found).view(np.uint16), x.view(np.uint16))
    assert "float32" not in module.source.split("_half_kernel")[1].split("_half_jit")[0]


@pytest.mark.parametrize("again", [False, True])
def test_float32_rounds_to_the_nearest_float16(again):
    """Stored as float16, and as float32 after it was float16."""
    x = edges()
    k = kernel(x.shape, "float32", "float32" if again else "float16")
    half = k.convert(k.load("x", *SHAPE), "float16")
    k.store("z", k.convert(half, "float32") if again else half, *SHAPE)
    right(k.json(), x, x)


def test_each_result_is_rounded():
    k = kernel((8, 128))
    x, y = k.load("x", *SHAPE), k.load("y", *SHAPE)
    product = k.op("aten.mul.Tensor", x, y)
    k.store("z", k.op("aten.sub.Tensor", k.op("aten.add.Tensor", product, 1000.0), 1000.0), *SHAPE)
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((8, 128)).astype(np.float16) for _ in "xy")
    document = k.json()
    found = right(document, x, y)
    np.testing.assert_array_equal(found, x * y + np.float16(1000) - np.float16(1000))
    said = kit.emitted("none", json.loads(document), "--explain").err
    assert "float16: float16 is computed in float32, and 3 values are rounded to it" in said


def test_what_takes_lanes_rounds_none():
    k = kernel((8, 128))
    x, y = k.load("x", *SHAPE), k.load("y", *SHAPE)
    k.store("z", k.op("aten.neg.default", k.op("aten.maximum.default", x, y)), *SHAPE)
    after = kit.after("float16,dce", k.doc.add(k.g.out()))
    targets = [n["target"] for g in after["graphs"] for n in g["nodes"] if "target" in n]
    assert targets.count("prims.convert_element_type.default") == 2
    halves = [n for n in after["graphs"][0]["nodes"] if n.get("meta", {}).get("dtype") == "float16"]
    assert {n["target"] for n in halves} <= {"tile.load", "tile.host_tensor"}


def test_a_number_that_float16_does_not_hold_is_rounded():
    k = kernel((8, 128))
    shape = {"dtype": "float16", "shape": ["u0", 128]}
    tenth = k.node("tile.full", [[{"sym": "u0"}, 128], 0.1, {"dtype": "float16"}], shape)
    k.store("z", k.op("aten.maximum.default", k.load("x", *SHAPE), tenth), *SHAPE)
    x = np.full((8, 128), -1, np.float16)
    assert set(right(k.json(), x, x).ravel()) == {np.float16(0.1)}


def test_the_wrapper_gives_and_takes_bits():
    k = kernel((8, 128))
    k.store("z", k.op("aten.exp.default", k.load("x", *SHAPE)), *SHAPE)
    document = json.loads(k.json())
    before, text = (kit.emitted("kernel", document, *o).out for o in (["--rewrites="], []))
    assert "in x_ref vmem float16[8, 128]" in before
    assert "in x_ref vmem int16[8, 128]" in text
    assert "float16_value" in text
    assert "float16_bits" in text
    assert "= bitcast x : int16[8, 128]" in text.split("host(")[1]
    rng = np.random.default_rng(0)
    runs = executed.Runs([rng.standard_normal((8, 128)).astype(np.float16) for _ in "xy"])
    assert runs.rewrite_problems(before, text) == []


def pointwise(size, rows=8):
    """1 - x, and beside it x as it is, in blocks of `rows`."""
    k = tiles.Kernel("half", [size[0]], {"block_sizes": [rows]})
    k.tensor("x", "input", "float16", size)
    for name in ("z", "same"):
        k.tensor(name, "output", "float16", size)
    x = k.load("x", *SHAPE)
    k.store("z", k.op("aten.rsub.Scalar", x, 1), *SHAPE)
    k.store("same", x, *SHAPE)
    return k.json()


def test_bits_that_xla_makes_of_each_block_are_wide():
    """Strips of columns read them, as float32 and as 16 bits."""
    document = pointwise((128, 512))
    k = kit.emitted("kernel", json.loads(document)).out
    assert "in x_ref vmem int32[8, 512] of [128, 512] at (tile_0, 0) buffers 2 fused" in k
    assert "out same_ref vmem int16[8, 512]" in k
    assert "for strip in " in k
    assert "convert" in k.split("host(")[1]
    x = ALL.reshape(128, 512)
    with np.errstate(invalid="ignore"):
        expected = np.float16(1) - x
    simulated = simulate(kit.compiled(document).load(), [x], 1).outputs
    for found in (simulated, execute.run(k, x)):
        np.testing.assert_array_equal(np.asarray(found[1]).view(np.uint16), x.view(np.uint16))
        np.testing.assert_array_equal(np.asarray(found[0]), expected)


@pytest.mark.parametrize(
    ("rows", "columns", "fused"),
    [(8, 512, True), (8, 128, False), (256, 1024, True), (512, 1024, False), (8, 500, False)],
)
def test_pointwise_tiles_are_fused_in_strips(rows, columns, fused):
    """Of at least two strips, each of half of the registers at most, and whole registers."""
    k = kit.emitted("kernel", json.loads(pointwise((4 * rows, columns), rows))).out
    assert (" fused" in k, "strip" in k) == (fused, fused)


@pytest.mark.parametrize(("chip", "fused"), [("v5e", False), ("v6e", True), ("v7x", True)])
def test_a_chip_says_how_much_is_fused(chip, fused):
    """Two blocks of 1 MiB."""
    document = (kit.ROOT / "testdata/coverage/graphs/f16_layer_norm_bwd_4096_8192.json").read_text()
    assert ("allow_input_fusion" in kit.compiled(document, chip).source) == fused


@pytest.mark.parametrize("chip", ["v6e", "v7x"])
@pytest.mark.parametrize(
    ("graph", "copied"),
    [
        ("f16_layer_norm_4096_8192", 0),
        ("f16_layer_norm_bwd_4096_8192", 0),
        ("f16_softmax_4096_32768", 4096 * 32768 * 2),
        (None, 0),
    ],
)
def test_xla_copies_no_output_and_no_input_of_straight_code(graph, copied, chip):
    file = kit.ROOT / "testdata/coverage/graphs" / f"{graph}.json"
    document = file.read_text() if graph else pointwise((8192, 1024), 256)
    (result,) = aot.compile_many([(kit.compiled(document, chip), chip)], timeout=120)
    assert result.ok, result.message
    assert copied <= result.temp_bytes < copied + (1 << 20)


def test_ragged_rows_and_columns_are_masked():
    k = tiles.Kernel("half", [50], {"block_sizes": [32]})
    k.tensor("x", "input", "float16", [50, 200])
    k.tensor("s", "output", "float16", [50])
    top = k.op("aten.sum.dim_IntList", k.load("x", "u0", ":"), [-1], shape=["u0"])
    k.store("s", top, "u0")
    x = np.random.default_rng(1).integers(-8, 8, (50, 200)).astype(np.float16)
    module = kit.compiled(k.json())
    (found,) = simulate(module.load(), [x], 1).outputs
    np.testing.assert_array_equal(found, x.astype(np.float32).sum(1).astype(np.float16))


@pytest.mark.parametrize("chip", ["v5e", "v6e", "v7x"])
def test_tiles_that_wait_for_a_column_are_counted_in_vmem(chip):
    """A whole tile of [256, 1024], converted, beside a column that is spread along its lanes."""
    k = tiles.Kernel("half", [1024], {"block_sizes": [256], "pallas_column_strips": "off"})
    k.tensor("x", "input", "float16", [1024, 1024])
    k.tensor("c", "input", "float16", [1024, 1])
    k.tensor("z", "output", "float16", [1024, 1024])
    moved = k.op("aten.add.Tensor", k.load("x", *SHAPE), 1.0)
    k.store("z", k.op("aten.mul.Tensor", moved, k.load("c", *SHAPE)), *SHAPE)
    (result,) = aot.compile_many([(kit.compiled(k.json(), chip), chip)], timeout=120)
    assert result.ok, result.message
    assert result.vmem_bytes <= result.predicted_bytes
