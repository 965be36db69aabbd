"""pallas_factor_chunks: a grid dim's first step makes what it keeps in chunks, beside a matmul."""

import kit
import ml_dtypes
import numpy as np
import pallasc
import pytest
import simulated
from pallasc import aot, execute
from pallasc.build import Graph, ops

ON, OFF = {"pallas_factor_chunks": "on"}, {"pallas_factor_chunks": "off"}
KEPT = {"pallas_grid_invariants": "on", "pallas_first_step": "on"}
ROWS, DEPTH, COLUMNS = 200, 768, 512


def normed(matmuls=1, before=False, depth=DEPTH):
    """A root mean square of rows behind their matmul with w, of rows times a gain.

    Args:
      matmuls: two add up what they give.
      before: the rows' scale is applied to the rows too.
      depth: columns of x.
    """
    g = Graph("normed")
    x = g.input("x", [ROWS, depth], "bfloat16")
    gain = g.input("gain", [depth], "bfloat16")
    w = [g.input(name, [depth, COLUMNS], "bfloat16") for name in ("w", "v")[:matmuls]]
    out = g.output("out", [ROWS, COLUMNS], "float32")
    with g.grid(m=ROWS, n=COLUMNS) as (m, n):
        wide = x[m, :].to("float32")
        scale = ops.rsqrt(ops.sum(wide * wide, -1) / depth + 1e-5)[:, None]
        rows = wide * scale if before else wide
        rows = (rows * gain[:].to("float32")[None, :]).to("bfloat16")
        result = sum(ops.dot(rows, factor[:, n], out_dtype="float32") for factor in w)
        out[m, n] = result * scale
    g.config(block_sizes={"m": 64, "n": 128})
    return g


def inputs(matmuls):
    draw = np.random.default_rng(0)
    shapes = [(ROWS, DEPTH), (DEPTH,), *matmuls * [(DEPTH, COLUMNS)]]
    return [(draw.standard_normal(shape) / 4).astype(ml_dtypes.bfloat16) for shape in shapes]


def configured(graph, config, chip="v6e"):
    return pallasc.compile(graph, graph.document()["config"] | KEPT | config, chip)


def has_chunks(module):
    return "for chunk in range(3):" in module.source


def test_where_the_vector_unit_adds_products_up():
    """Not on v7x: results stay in its matrix units while all that they sum goes by."""
    found = {
        chip: [has_chunks(configured(normed(), config, chip)) for config in ({}, ON, OFF)]
        for chip in ("v5e", "v6e", "v7x")
    }
    assert found == {
        "v5e": [True, True, False],
        "v6e": [True, True, False],
        "v7x": [False, True, False],
    }


def test_it_is_said():
    document = normed().document()
    document["config"] |= KEPT
    for config, end in (({}, ", which computes it in chunks"), (OFF, "has code of its own")):
        text = document | {"config": document["config"] | config}
        ran = kit.run("-", "--explain", "--emit=none", "--target=v6e", text=text)
        (line,) = [line for line in ran.err.splitlines() if "pallas_grid_invariants" in line]
        assert line.endswith(end)


@pytest.mark.parametrize(
    ("graph", "config"),
    [
        (normed(before=True), {}),  # a factor that waits for a sum
        (normed(depth=320), {}),  # no whole chunks
        (normed(), {"pallas_first_step": "off"}),  # it multiplies in all steps alike
    ],
)
def test_others_stay_whole(graph, config):
    assert "for chunk" not in configured(graph, ON | config).source


@pytest.mark.parametrize("matmuls", [1, 2])
@pytest.mark.parametrize("chip", ["v6e", "v7x"])
def test_what_it_computes(matmuls, chip):
    """Simulated, and its text executed, beside float64: 200 rows are three tiles and some."""
    graph, arrays = normed(matmuls), inputs(matmuls)
    config = graph.document()["config"] | KEPT | ON
    assert has_chunks(configured(graph, ON, chip))
    assert simulated.wrong(graph.document(), config, chip, given=arrays) == []
    x, gain, *factors = (array.astype(np.float64) for array in arrays)
    rows = (x * gain).astype(ml_dtypes.bfloat16).astype(np.float64)
    wanted = rows @ sum(factors) / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
    text = kit.emitted("kernel", graph.document() | {"config": config}, target=chip).out
    (executed,) = execute.run(text, *arrays)
    np.testing.assert_allclose(executed, wanted, rtol=2e-3, atol=2e-3 * np.abs(wanted).max())


@pytest.mark.parametrize("matmuls", [1, 2])
@pytest.mark.parametrize("chip", ["v5e", "v6e"])
def test_the_tpu_compiler_takes_it(matmuls, chip):
    """In no more VMEM than is predicted."""
    module = configured(normed(matmuls), ON, chip)
    result = aot.compile_one(module, chip, timeout=200)
    assert result.kind == "ok", result.message
    assert result.vmem_bytes <= result.predicted_bytes
