"""Gathers and scatters: positions one after the other, wherever they are said to be."""

import kit
import numpy as np
import pallasc.execute
import pallasc.reference
import pytest

GATHERS = ("embedding", "odd_rows", "columns", "table_rows", "crossed", "gather_gemv")
SCATTERS = ("embedding_backward", "permute_rows", "histogram", "put_flagged")
INDICES = ("ids", "rows", "cols")  # parameters that are positions


def arrays(document, low, high, seed=0):
    """Inputs of a document: random ones, and positions from `low` on, below `high`."""
    rng = np.random.default_rng(seed)
    found = []
    for t in document["tensors"]:
        if t["role"] != "input":
            continue
        if t["name"] in INDICES:
            found.append(rng.integers(low, high, t["shape"], np.int32))
        elif t["dtype"] == "int32":
            found.append(rng.integers(-1, 2, t["shape"], np.int32))
        else:
            dtype = pallasc.reference.values.dtype_of(t["dtype"])
            found.append(rng.standard_normal(t["shape"]).astype(dtype))
    return found


def kernel_text(graph, *rest, **config):
    """The kernel of a graph as text."""
    return kit.emitted("kernel", graph, *rest, **config).out


@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize("odd", ["", "_odd"])
@pytest.mark.parametrize("name", GATHERS + SCATTERS)
def test_positions_outside(name, odd, rewritten):
    """A load gives the nearest element, a store does nothing; what comes later wins, or is added."""
    graph = name + odd
    document = kit.document(graph)
    text = kernel_text(graph, *([] if rewritten else ["--rewrites="]))
    for low, high in ((0, 20), (-5, 200), (-(2**31), 2**31 - 1)):
        inputs = arrays(document, low, high)
        (found,) = pallasc.execute.run(text, *inputs)
        (wanted,) = pallasc.reference.run(document, inputs)
        found, wanted = (np.asarray(x, np.float64) for x in (found, wanted))
        written = ~np.isnan(wanted)  # of an output that is not filled
        if graph.startswith("permute"):
            written &= wanted != 0
        np.testing.assert_allclose(found[written], wanted[written], rtol=2e-2, atol=2e-2)


def test_tables_stand_in_smem():
    """Positions that are a table are read where they stand."""
    text = kernel_text("embedding")
    assert "in ids_ref smem int32[64]" in text
    assert "positions = copy" not in text


def test_computed_positions_are_copied():
    """What the kernel computes goes to SMEM by way of VMEM."""
    text = kernel_text("odd_rows")
    assert "scratch add_vmem vmem int32[1, 32]" in text
    assert "scratch add_smem smem int32[1, 32]" in text
    assert "positions = copy add_vmem[...], add_smem[...], add_sem[0] : copy" in text


def test_plan_tells():
    """Each access says how it is done."""
    told = kit.emitted("none", "embedding").err
    assert "weight: one position after the other, each sliced from a block in VMEM" in told
    told = kit.emitted("none", "permute_rows").err
    assert "out: one position after the other, each changed where it lies in VMEM" in told


@pytest.mark.parametrize("graph", ["odd_rows", "embedding_backward", "put_flagged"])
def test_text_reads_back(graph, tmp_path):
    """The text of it gives the same text and the same Python."""
    text = kernel_text(graph)
    path = tmp_path / "k.kernel"
    path.write_text(text)
    assert kit.accepted(path, "--emit=kernel").out == text
    assert kit.accepted(path).out == kit.compiled(graph).source


def test_grid_points_that_may_meet_run_in_order():
    """Any of them may write any row."""
    grid = kit.plan("permute_rows")["grid"]
    assert [dim["semantics"] for dim in grid if dim["name"] == "tile_b"] == ["arbitrary"]
