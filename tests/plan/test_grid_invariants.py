"""pallas_grid_invariants: what the grid's innermost dim does not change is computed once."""

import kit
import ml_dtypes
import numpy as np
import pallasc
import pytest
import simulated
from pallasc import aot, execute
from pallasc.build import Graph, ops
from pallasc.simulate import interpret_params, simulate

ON, OFF = {"pallas_grid_invariants": "on"}, {"pallas_grid_invariants": "off"}
ROWS, DEPTH, COLUMNS = 200, 256, 512


def normed(epilogue=False, looped=False, columns=COLUMNS):
    """x over its root mean square, times w: [200, columns], in tiles of [64, 128].

    Args:
      epilogue: the rows' scale is applied to the result as well.
      looped: the tile of w is read in a loop, 128 rows of it at a time.
      columns: of w.
    """
    g = Graph("normed")
    x = g.input("x", [ROWS, DEPTH], "bfloat16")
    w = g.input("w", [DEPTH, columns], "bfloat16")
    out = g.output("out", [ROWS, columns], "float32")
    with g.grid(m=ROWS, n=columns) as (m, n):
        wide = x[m, :].to("float32")
        scale = ops.rsqrt(ops.mean(wide * wide, -1) + 1e-5)[:, None]
        rows = (wide * scale).to("bfloat16")
        if looped:
            acc = g.var(ops.zeros([m, n], dtype="float32"))
            with g.loop("k", DEPTH) as k:
                row_part = x[m, k].to("float32") * scale
                acc.set(ops.dot(row_part.to("bfloat16"), w[k, n], acc))
            result = acc + 0
        else:
            result = ops.dot(rows, w[:, n], out_dtype="float32")
        out[m, n] = result * scale if epilogue else result
    blocks = {"m": 64, "n": 128} | ({"k": 128} if looped else {})
    g.config(block_sizes=blocks)
    return g


def expected(x, w, epilogue):
    wide = x.astype(np.float64)
    scale = 1 / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-5)
    rows = (wide * scale).astype(ml_dtypes.bfloat16).astype(np.float64)
    result = rows @ w.astype(np.float64)
    return result * scale if epilogue else result


def arrays(columns=COLUMNS):
    draw = np.random.default_rng(0)
    return [
        draw.standard_normal(shape).astype(ml_dtypes.bfloat16)
        for shape in ((ROWS, DEPTH), (DEPTH, columns))
    ]


def scratch(plan):
    return plan["vmem"]["scratch"]


def branches(document):
    """The texts of the branches of the first step of a grid dim and of the others."""
    text = kit.emitted("kernel", document).out
    first = text.split("  when (first(1)) first_step {\n")[1]
    first, rest = first.split("  }\n", 1)
    others, rest = rest.split("  when (later(1)) other_steps {\n")[1].split("  }\n", 1)
    assert rest.startswith("}\n")
    return first, others


def ops_of(text):
    """The ops of a region's lines."""
    return [line.split(" = ")[-1].split()[0] for line in text.splitlines()]


def test_a_norm_before_a_matmul():
    """[128, 512] bfloat16, computed in 2 of 8 grid points; the columns are walked in order."""
    kept, again = (kit.plan("norm_matmul", "v6e", **keys) for keys in ({}, OFF))
    assert (scratch(kept), scratch(again)) == (128 * 512 * 2, 0)
    assert [(x["ref"], x["shape"], x["bytes"]) for x in kept["scratch"]] == [
        ("rows_ref", [128, 512], 128 * 512 * 2)
    ]
    assert again["scratch"] == []
    assert [dim["semantics"] for dim in again["grid"]] == ["parallel", "parallel"]
    assert [dim["semantics"] for dim in kept["grid"]] == ["parallel", "arbitrary"]
    assert kept["grid"][1]["why"] == (
        "its first step computes what the others find, beside the rest of it"
    )
    first, others = branches(kit.document("norm_matmul"))
    assert ops_of(first) == (
        "load convert mul mean add rsqrt load mul convert mul store load dot convert store".split()
    )
    assert ops_of(others) == "load load dot convert store".split()
    assert "rows_1 = load rows_ref[...]" in others
    assert "dot rows, load_2 " in first
    assert "dot rows_1, load_2_1 " in others


def test_the_rest_behind_the_branch():
    """`pallas_first_step` off: all steps have the rest, and the first one computes before it."""
    config = kit.document("norm_matmul")["config"] | {"pallas_first_step": "off"}
    text = kit.emitted("kernel", kit.document("norm_matmul") | {"config": config}).out
    inside, rest = text.split("when (first(1)) invariants {\n")[1].split("  }\n", 1)
    assert ops_of(inside) == ("load convert mul mean add rsqrt load mul convert mul store".split())
    assert rest.splitlines()[0].startswith("  rows_1 = load rows_ref[...]")
    assert "later" not in text


@pytest.mark.parametrize("walk", ["on", "off"])
def test_a_grid_that_turns(walk):
    """What runs first of a row is its last tile of columns in every other row."""
    config = {**ON, "pallas_back_and_forth": walk}
    found = kit.plan("norm_matmul", "v6e", **config)
    assert found["grid"][1]["back_and_forth"] == (walk == "on")
    source = pallasc.compile(kit.document("norm_matmul"), config, "v6e").source
    assert "@pl.when(pl.program_id(1) == 0)" in source


@pytest.mark.parametrize("epilogue", [False, True])
@pytest.mark.parametrize("looped", [False, True])
@pytest.mark.parametrize("walk", ["on", "off"])
@pytest.mark.parametrize("first", ["on", "off"])
def test_what_it_computes(epilogue, looped, walk, first):
    """Simulated, and the kernel's text executed: 200 rows are three tiles and an eighth."""
    graph, (x, w) = normed(epilogue, looped), arrays()
    ways = {"pallas_back_and_forth": walk, "pallas_first_step": first}
    config = graph.document()["config"] | ON | ways
    module = pallasc.compile(graph, config, "v6e")
    assert scratch(module.plan) > 0
    assert simulated.wrong(graph.document(), config, given=[x, w]) == []
    text = kit.emitted("kernel", graph.document() | {"config": config}).out
    assert "first(1)" in text
    assert ("later(1)" in text) == (first == "on" and not looped)
    (executed,) = execute.run(text, x, w)
    error = np.abs(executed.astype(np.float64) - expected(x, w, epilogue))
    assert error.max() <= 0.06  # rows are rounded to bfloat16, here and there from either side


def weighted(columns=COLUMNS, step=DEPTH, number=False):
    """A root mean square of rows behind their matmul with w, of rows times a gain.

    Args:
      columns: of w.
      step: of the loop that sums up squares and products.
      number: the result is multiplied by the sum of its tile of w.
    """
    g = Graph("weighted")
    x = g.input("x", [ROWS, DEPTH], "bfloat16")
    w = g.input("w", [DEPTH, columns], "bfloat16")
    gain = g.input("gain", [DEPTH], "bfloat16")
    out = g.output("out", [ROWS, columns], "float32")
    with g.grid(m=ROWS, n=columns) as (m, n):
        acc, squares = g.var(ops.zeros([m, n], dtype="float32")), g.var(ops.zeros([m]))
        with g.loop("k", DEPTH) as k:
            wide = x[m, k].to("float32")
            squares.set(squares + ops.sum(wide * wide, -1))
            rows = (wide * gain[k].to("float32")[None, :]).to("bfloat16")
            acc.set(ops.dot(rows, w[k, n], acc))
        result = acc * ops.rsqrt(squares / DEPTH + 1e-5)[:, None]
        out[m, n] = result * ops.sum(w[:, n].to("float32"), [0, 1]) if number else result
    g.config(block_sizes={"m": 64, "n": 128, "k": step})
    return g


def weighted_in_float64(x, w, gain, number):
    wide, factor = x.astype(np.float64), w.astype(np.float64)
    rows = (wide * gain.astype(np.float64)).astype(ml_dtypes.bfloat16).astype(np.float64)
    result = rows @ factor / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-5)
    tiles = factor.reshape(DEPTH, -1, 128).sum((0, 2))
    return result * np.repeat(tiles, 128) if number else result


@pytest.mark.parametrize("number", [False, True])
@pytest.mark.parametrize("how", ["on", "off"])
def test_a_loop_of_one_step(how, number):
    """It is straight code, of which rows and squares are kept; zeros are added to nothing.

    A number that is made of a tile of the rest cannot stand before the branches: the rest stays.
    """
    graph, draw = weighted(number=number), np.random.default_rng(0)
    x, w = arrays()
    gain = draw.standard_normal(DEPTH).astype(ml_dtypes.bfloat16)
    config = graph.document()["config"] | {"pallas_grid_invariants": how}
    module = pallasc.compile(graph, config, "v6e")
    assert simulated.wrong(graph.document(), config, given=[x, w, gain]) == []
    wanted = weighted_in_float64(x, w, gain, number)
    text = kit.emitted("kernel", graph.document() | {"config": config}).out
    (executed,) = execute.run(text, x, w, gain)
    np.testing.assert_allclose(executed, wanted, rtol=2e-3, atol=2e-3 * np.abs(wanted).max())
    assert ("first(1)" in text) == (how == "on")
    assert ("later(1)" in text) == (how == "on" and not number)
    assert ("zeros" in text) == (how == "off")
    kept = [(buffer["ref"], buffer["shape"]) for buffer in module.plan["scratch"]]
    assert kept == ([("rows_ref", [64, DEPTH]), ("rsqrt_ref", [64, 1])] if how == "on" else [])


def test_a_loop_of_steps_stays():
    """Rows and squares change from step to step."""
    config = weighted(step=128).document()["config"] | ON
    assert pallasc.compile(weighted(step=128), config, "v6e").plan["scratch"] == []


def test_a_number_in_between():
    """A sum of all of a tile is a number, of which a tile that is kept is made again."""
    g = Graph("scaled")
    x = g.input("x", [8, 128], "float32")
    y = g.input("y", [64, 128], "float32")
    out = g.output("out", [64, 128], "float32")
    with g.grid(m=64) as (m,):
        total = ops.sum(ops.exp(x[:, :]), [0, 1])
        out[m, :] = y[m, :] * ops.sum(ops.exp(x[:, :] / total), 0)[None, :]
    module = pallasc.compile(g, {"block_sizes": [16]} | ON, "v6e")
    assert "def invariants():" in module.source
    draw = np.random.default_rng(0)
    values = [draw.standard_normal(shape).astype(np.float32) for shape in ((8, 128), (64, 128))]
    ran = simulate(module.load(), values, interpret_params())
    assert not ran.races
    assert not ran.complaints
    wide, rows = (array.astype(np.float64) for array in values)
    wanted = rows * np.exp(wide / np.exp(wide).sum()).sum(0)
    np.testing.assert_allclose(ran.outputs[0], wanted, rtol=1e-5)


def test_what_it_would_not_save():
    """One tile of columns: no step finds what another computed. And conversions are cheap."""
    (line,) = [
        line
        for line in kit.run(
            *("-", "--explain", "--emit=none", "--set", "pallas_grid_invariants=on"),
            text=normed().document(),
        ).err.splitlines()
        if "pallas_grid_invariants" in line
    ]
    assert line.endswith(": kept, and the first step has code of its own")
    one = pallasc.compile(normed(columns=128), normed().document()["config"] | ON, "v6e")
    assert "program_id(1)" not in one.source
    converts = [kit.plan("int8_weight_matmul", "v6e", **keys) for keys in (ON, OFF)]
    assert scratch(converts[0]) == scratch(converts[1])


@pytest.mark.parametrize("chip", ["v4", "v5p"])
def test_two_cores_share_the_rows(chip):
    """Four tiles of rows are for two cores; one is not, and its columns stay parallel."""
    blocks = normed().document()["config"]["block_sizes"]
    config = {"block_sizes": blocks} | ON
    assert scratch(pallasc.compile(normed(), config, chip).plan) > 0
    one = {"block_sizes": [256, 128]} | ON
    assert scratch(pallasc.compile(normed(), one, chip).plan) == 0


def test_the_estimate():
    """The norm is counted in the steps that compute it: two of eight."""
    kept, again = (
        pallasc.compile(kit.document("norm_matmul"), config, "v6e").info["estimate"]
        for config in (ON, OFF)
    )
    assert kept["eup"] == again["eup"] / 4
    assert kept["cycles"] < 0.95 * again["cycles"]


def gathered(dtype):
    """Rows of a table [1032, 256] at 96 places, 32 in a tile, columns in two tiles."""
    g = Graph("gathered")
    table = g.input("table", [1032, 256], dtype)
    ids = g.input("ids", [96], "int32")
    out = g.output("out", [96, 256], dtype)
    with g.grid(m=96, n=256) as (m, n):
        out[m, n] = table[ids[m], n]
    g.config(block_sizes={"m": 32, "n": 256})
    return g


@pytest.mark.parametrize("dtype", ["bfloat16", "int16"])
def test_a_table_is_widened_once(dtype):
    """Rows of 16 bits are sliced from 32; places outside are clamped as ever."""
    config = {"block_sizes": [32, 256], "pallas_indirect_access_mode": "auto"} | ON
    module = pallasc.compile(gathered(dtype), config, "v6e")
    assert "def tables():" in module.source
    assert "pltpu.roll" not in module.source
    draw = np.random.default_rng(0)
    table = (draw.standard_normal((1032, 256)) * 99).astype(np.dtype(dtype))
    ids = draw.integers(-30, 1080, 96).astype(np.int32)
    ran = simulate(module.load(), [table, ids], interpret_params())
    assert not ran.races
    assert not ran.complaints
    np.testing.assert_array_equal(ran.outputs[0], table[np.clip(ids, 0, 1031)])
    text = kit.emitted("kernel", gathered(dtype).document() | {"config": config}).out
    (executed,) = execute.run(text, table, ids)
    np.testing.assert_array_equal(executed, ran.outputs[0])


@pytest.mark.parametrize(("dtype", "chip"), [("float32", "v6e"), ("bfloat16", "v5p")])
def test_tables_that_stay_as_they_are(dtype, chip):
    """Of 32 bits rows are sliced anyway; two cores would widen a table each."""
    module = pallasc.compile(gathered(dtype), {"block_sizes": [32, 256]} | ON, chip)
    assert "def tables():" not in module.source


@pytest.mark.parametrize("chip", ["v5e", "v6e", "v7x"])
def test_what_a_table_saves(chip):
    """8192 rows of a table of 8192: 32 MiB more, and fewer than 3/5 of the cycles."""
    kept, again = (
        pallasc.compile(kit.document("embedding_8192_1024"), config, chip) for config in ({}, OFF)
    )
    assert scratch(kept.plan) - scratch(again.plan) == 8192 * 1024 * 4
    assert kept.info["estimate"]["cycles"] < 0.6 * again.info["estimate"]["cycles"]


@pytest.mark.parametrize("name", ["first", "later"])
@pytest.mark.parametrize("dim", ["2", "0 - 1"])
def test_no_such_dim(name, dim):
    text = kit.emitted("kernel", kit.document("norm_matmul")).out
    ran = kit.run("-", "--emit=kernel", text=text.replace(f"{name}(1)", f"{name}({dim})"))
    assert ran.status == 1
    assert f"error: {name}() takes the number of a grid dim [kernel-range]" in ran.err


@pytest.mark.parametrize("chip", ["v6e", "v7x"])
def test_the_tpu_compiler_takes_it(chip):
    """In no more VMEM than is predicted."""
    module = pallasc.compile(kit.document("norm_matmul"), ON, chip)
    result = aot.compile_one(module, chip, timeout=200)
    assert result.kind == "ok", result.message
    assert result.vmem_bytes <= result.predicted_bytes
