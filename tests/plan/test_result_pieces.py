"""pallas_result_pieces: what follows a matmul is computed of pieces of its result."""

import kit
import ml_dtypes
import numpy as np
import pallasc
import pytest
import simulated
from pallasc import aot, execute
from pallasc.build import Graph, ops

ON, OFF = {"pallas_result_pieces": "on"}, {"pallas_result_pieces": "off"}
ROWS, DEPTH, COLUMNS = 512, 256, 1024


def silu(x):
    return x / (1.0 + ops.exp(-x))


def followed(tail=silu, columns=COLUMNS, rows=256, step=DEPTH, matmuls=1):
    """tail(x @ w + b), or of two matmuls' product, rounded to bfloat16.

    Args:
      columns: of w.
      rows: of a tile, which has all columns.
      step: of the loop that sums products; None: there is no loop.
      matmuls: one or two.
    """
    g = Graph("followed")
    x = g.input("x", [ROWS, DEPTH], "bfloat16")
    w = [g.input(name, [DEPTH, columns], "bfloat16") for name in ("w", "v")[:matmuls]]
    b = g.input("b", [columns], "bfloat16")
    out = g.output("out", [ROWS, columns], "bfloat16")
    with g.grid(m=ROWS, n=columns) as (m, n):
        totals = [g.var(ops.zeros([m, n], dtype="float32")) for _ in w]
        if step is None:
            for total, factor in zip(totals, w, strict=True):
                total.set(ops.dot(x[m, :], factor[:, n], out_dtype="float32"))
        else:
            with g.loop("k", DEPTH) as k:
                row = x[m, k]
                for total, factor in zip(totals, w, strict=True):
                    total.set(ops.dot(row, factor[k, n], total))
        result = tail(totals[0] + b[n].to("float32")[None, :])
        for total in totals[1:]:
            result = result * tail(total + 0.5)
        out[m, n] = result.to("bfloat16")
    blocks = {"m": rows, "n": columns} | ({"k": step} if step else {})
    g.config(block_sizes=blocks, pallas_loop_type="unroll")
    return g


def compiled(graph, config=None, chip="v7x"):
    document = graph.document()
    return pallasc.compile(graph, document["config"] | (config or {}), chip)


def pieces(module):
    return [(buffer["ref"], buffer["shape"]) for buffer in module.plan["scratch"]]


def remark(graph, config=None, chip="v7x"):
    document = graph.document()
    document["config"] |= config or {}
    ran = kit.run("-", "--explain", "--emit=none", f"--target={chip}", text=document)
    found = [line for line in ran.err.splitlines() if "pallas_result_pieces" in line]
    return found[0].split("results: ")[1] if found else None


def test_where_results_add_up_in_the_matrix_unit():
    """On v7x by itself; elsewhere the vector unit takes what comes out as it comes."""
    graph = followed()
    assert pieces(compiled(graph)) == [("piece_ref", [128, 512])]
    assert compiled(graph).plan["vmem"]["scratch"] == 128 * 512 * 4
    assert pieces(compiled(graph, OFF)) == []
    assert [pieces(compiled(graph, chip=chip)) for chip in ("v5e", "v6e")] == [[], []]
    assert pieces(compiled(graph, ON, "v6e")) == [("piece_ref", [128, 512])]


@pytest.mark.parametrize("matmuls", [1, 2])
def test_without_a_loop(matmuls):
    """The same kernel, but for its name for the sum."""
    found, looped = (followed(step=step, matmuls=matmuls) for step in (None, DEPTH))
    assert pieces(compiled(found, ON)) == pieces(compiled(looped, ON)) != []
    assert "for row in range(2):" in compiled(found, ON).source


def test_more_rows_in_place_of_more_pieces():
    """Eight at most, of all matmuls together."""
    assert pieces(compiled(followed(rows=512), ON)) == [("piece_ref", [128, 512])]
    assert pieces(compiled(followed(rows=512, matmuls=2), ON)) == 2 * [("piece_ref", [256, 512])]
    assert pieces(compiled(followed(rows=512, columns=2048, matmuls=2), ON)) == 2 * [
        ("piece_ref", [512, 512])
    ]


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        (silu, "computed of pieces of them"),
        (lambda x: ops.relu(x), "that is too little"),
    ],
)
def test_what_follows_must_be_worth_it(tail, said):
    assert remark(followed(tail)) == said
    assert remark(followed(tail), ON) == "computed of pieces of them"
    assert remark(followed(tail), OFF) is None


@pytest.mark.parametrize(
    "graph",
    [
        followed(step=128),  # it is summed in steps
        followed(columns=384),  # columns of three quarters of the matrix units
        followed(lambda x: x - ops.amax(x, -1)[:, None]),  # a row's maximum needs all of it
    ],
)
def test_others_stay_whole(graph):
    assert pieces(compiled(graph, ON)) == []
    assert "piece_ref" not in compiled(graph, ON).source


@pytest.mark.parametrize("matmuls", [1, 2])
@pytest.mark.parametrize("chip", ["v6e", "v7x"])
def test_what_it_computes(matmuls, chip):
    """Simulated, and the kernel's text executed, beside float64."""
    graph, draw = followed(matmuls=matmuls), np.random.default_rng(0)
    shapes = [(ROWS, DEPTH), *matmuls * [(DEPTH, COLUMNS)], (COLUMNS,)]
    arrays = [(draw.standard_normal(s) / 8).astype(ml_dtypes.bfloat16) for s in shapes]
    config = graph.document()["config"] | ON
    assert simulated.wrong(graph.document(), config, chip, given=arrays) == []
    x, *factors, b = (array.astype(np.float64) for array in arrays)
    sums = [x @ factor + add for factor, add in zip(factors, (b, 0.5), strict=False)]
    wanted = np.prod([s / (1 + np.exp(-s)) for s in sums], axis=0)
    text = kit.emitted("kernel", graph.document() | {"config": config}, target=chip).out
    assert "for column in 2 from 0 slice columns 512 {" in text
    (executed,) = execute.run(text, *arrays)
    error = np.abs(executed.astype(np.float64) - wanted)
    assert (error <= 2.0**-7 * np.abs(wanted) + 1e-3).all()


@pytest.mark.parametrize("matmuls", [1, 2])
def test_the_tpu_compiler_takes_it(matmuls):
    """In no more VMEM than is predicted."""
    module = compiled(followed(matmuls=matmuls), ON)
    result = aot.compile_one(module, "v7x", timeout=200)
    assert result.kind == "ok", result.message
    assert result.vmem_bytes <= result.predicted_bytes
