"""pallas_gather_across: rows that a grid point gathers are copied while the one before computes."""

import kit
import ml_dtypes
import numpy as np
import pallasc
import pytest
import simulated
from pallasc import aot, execute
from pallasc.build import Graph, ops

OFF = {"pallas_gather_across": "off"}
ROWS, NAMED, COLUMNS = 512, 128, 256


def gathered(dtype="float32", *, blocks=(32, 256), tables=1, rows=ROWS, ids=lambda x: x):
    """Rows of tables that ids name, added up.

    Args:
      dtype: of the tables.
      blocks: rows and columns of a tile.
      tables: how many there are, each with ids of its own.
      rows: of a table.
      ids: what is made of the ids first.
    """
    g = Graph("gathered")
    named = [g.input(f"ids_{i}", [NAMED], "int32") for i in range(tables)]
    of = [g.input(f"table_{i}", [rows, COLUMNS], dtype) for i in range(tables)]
    out = g.output("out", [NAMED, COLUMNS], dtype)
    with g.grid(m=NAMED, n=COLUMNS) as (m, n):
        found = [table[ids(name[m]), n] for table, name in zip(of, named, strict=True)]
        out[m, n] = sum(found[1:], found[0])
    g.config(
        block_sizes={"m": blocks[0], "n": blocks[1]},
        pallas_indirect_access_mode="dma",
    )
    return g


def compiled(graph, config=None, chip="v6e"):
    document = graph.document()
    return pallasc.compile(graph, document["config"] | (config or {}), chip)


def scratch(module):
    return {x["ref"]: (x["shape"], x["bytes"]) for x in module.plan["scratch"]}


def is_across(module):
    return "_start(" in module.source


def remark(graph, *options, chip="v6e", **config):
    document = graph.document()
    document["config"] |= config
    ran = kit.run("-", "--explain", "--emit=none", f"--target={chip}", *options, text=document)
    found = [line for line in ran.err.splitlines() if "pallas_gather_across" in line]
    return found[0].split("gathers are copied ")[1] if found else None


@pytest.mark.parametrize("chip", ["v5e", "v6e", "v7x"])
def test_two_slots(chip):
    """Of what is copied to, and of the semaphore; points run in order."""
    graph = gathered()
    one, two = (scratch(compiled(graph, config, chip)) for config in (OFF, {}))
    (rows,) = [name for name in one if name.endswith("_rows")]
    (arrived,) = [name for name in one if name.endswith("_arrived")]
    assert (one[rows][0], two[rows][0]) == ([32, 256], [2, 32, 256])
    assert two[rows][1] == 2 * one[rows][1]
    assert (one[arrived][0], two[arrived][0]) == ([1], [2])
    assert '"arbitrary", "arbitrary"' in compiled(graph, chip=chip).source
    assert '"parallel", "parallel"' in compiled(graph, OFF, chip).source
    assert remark(graph, chip=chip) == "while the point before computes"
    assert remark(graph, chip=chip, **OFF) is None


def test_words_of_several_rows():
    """What is kept of the ids has two slots, too."""
    found = scratch(compiled(gathered("bfloat16")))
    assert sorted(shape for shape, _ in found.values()) == [
        [2],
        [2, 4, 8, 128],
        [2, 4, 16, 256],
    ]


def test_the_next_point_in_all_dims():
    """Columns first, then rows; the function takes the dims that move what it copies."""
    source = compiled(gathered(blocks=(32, 128))).source
    assert "def found_start(m_1, n_1, slot):" in source
    assert "found_start(m, n, 0)" in source
    assert "jax.lax.div(next_point, 2)," in source
    assert "def found_start(m_1, slot):" in compiled(gathered()).source


@pytest.mark.parametrize(
    ("graph", "chip"),
    [
        (gathered(blocks=(128, 256)), "v6e"),  # one point
        (gathered(ids=lambda x: ops.maximum(x + 1, 2)), "v6e"),  # ids that the kernel computes
        (gathered("bfloat16", rows=ROWS - 1), "v6e"),  # the last row fills no word
        (gathered(), "v4"),  # cores share the grid
    ],
)
def test_others_copy_by_themselves(graph, chip):
    assert not is_across(compiled(graph, chip=chip))
    assert remark(graph, chip=chip) is None


def test_not_where_a_second_buffer_does_not_fit():
    graph = gathered()
    takes = compiled(graph, OFF).plan["vmem"]["total"]
    tight = f"--vmem={takes + (16 << 10)}", "--vmem-margin=0"
    assert remark(graph, *tight) == "by itself: a second buffer does not fit"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("blocks", [(32, 256), (64, 128), (48, 256)])
@pytest.mark.parametrize("tables", [1, 2])
def test_what_it_computes(dtype, blocks, tables):
    """Simulated with races looked for, and its text executed, with ids outside as well."""
    graph, draw = gathered(dtype, blocks=blocks, tables=tables), np.random.default_rng(0)
    kind = {"bfloat16": ml_dtypes.bfloat16}.get(dtype, dtype)
    ids = [draw.integers(-5, ROWS + 5, NAMED).astype("int32") for _ in range(tables)]
    of = [(draw.standard_normal((ROWS, COLUMNS)) * 8).astype(kind) for _ in range(tables)]
    assert is_across(compiled(graph))
    text = kit.emitted("kernel", graph.document()).out
    (found,) = execute.run(text, *ids, *of)
    (without,) = execute.run(kit.emitted("kernel", graph.document(), **OFF).out, *ids, *of)
    np.testing.assert_array_equal(found, without)
    wanted = [t[np.clip(i, 0, ROWS - 1)] for t, i in zip(of, ids, strict=True)]
    np.testing.assert_array_equal(found, sum(wanted[1:], wanted[0]))
    config = graph.document()["config"]
    assert simulated.wrong(graph.document(), config, "v6e", given=[*ids, *of]) == []


@pytest.mark.parametrize("chip", ["v5e", "v6e", "v7x"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_accepted(chip, dtype):
    """By the TPU compiler, in the VMEM that is predicted."""
    module = compiled(gathered(dtype, tables=2), chip=chip)
    result = aot.compile_one(module, chip, timeout=200)
    assert is_across(module)
    assert result.kind == "ok", result.message
    assert result.vmem_bytes <= result.predicted_bytes
