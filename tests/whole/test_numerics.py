"""Every accepted kernel of the matrix is right, race-free and reads nothing it should not."""

import numpy as np
import proof
import pytest
from pallasc import compare
from pallasc.errors import CompileError


@pytest.mark.parametrize("case", proof.accepted(), ids=lambda case: case.id)
def test_right(case, simulations):
    """Against the reference and the float64 formula, on random and on adversarial inputs."""
    assert simulations.problems(case) == []


@pytest.mark.parametrize("case", proof.variants(), ids=lambda case: case.id)
def test_right_under_other_keys(case, simulations):
    assert simulations.problems(case) == []


@pytest.mark.parametrize("target", proof.CHIPS)
@pytest.mark.parametrize("case", proof.refused(), ids=lambda case: case.id)
def test_refused(case, target):
    """With exactly the expected reason, and a hint; nothing is skipped silently."""
    with pytest.raises(CompileError) as refused:
        proof.module(case, target)
    assert [item["message"] for item in refused.value.diagnostics] == [proof.refusal(case)]
    assert refused.value.diagnostics[0]["hint"]
    assert refused.value.exit_status == 1


@pytest.mark.parametrize("target", proof.CHIPS)
@pytest.mark.parametrize("loop", proof.LOOPS)
@pytest.mark.parametrize("graph", proof.PRODUCTION)
def test_vmem_refusals(graph, loop, target):
    """Production attention fits each chip, but for what is listed: these name the chip's VMEM."""
    case = proof.Case(graph, loop)
    if not proof.too_large(case, target):
        assert proof.module(case, target).info["target"] == target
        return
    with pytest.raises(CompileError, match=f"bytes of VMEM and {target} has 16777216: "):
        proof.module(case, target)


def test_every_graph_is_covered():
    names = {path.stem for path in proof.GRAPH_DIRECTORY.glob("*.json")}
    assert names == set(proof.GRAPHS)
    assert names - set(proof.LARGE) == {case.graph for case in proof.accepted()}
    assert {case.graph.partition("@")[0] for case in proof.FULL} == set(proof.LARGE)


@pytest.mark.parametrize("graph", proof.SECOND_BLOCKS)
def test_two_block_sizes(graph):
    assert proof.SECOND_BLOCKS[graph] != proof.default_blocks(graph)


@pytest.mark.parametrize("graph", proof.SECOND_BLOCKS)
def test_the_answer_sits_at_the_edge(graph):
    """A kernel that dropped the last row or column would be far outside the tolerance."""
    kernel = proof.document(graph)["name"]
    arrays = proof.inputs(graph, "edge")
    document = proof.document(graph)
    right = proof.formulas.expected(document, arrays)
    wrong = proof.formulas.expected(document, drop_last(kernel, arrays))
    for index, (a, b) in enumerate(zip(wrong, right, strict=True)):
        tolerance = compare.tolerance_for(document, index)
        assert compare.compare(a, b, tolerance).ratio > 10


def drop_last(kernel, arrays):
    """The inputs as a kernel sees them that loses the last step of what it reduces."""
    arrays = [array.copy() for array in arrays]
    if "attention" in kernel:
        arrays[1][..., -1, :] = -8
    elif kernel.startswith("softmax"):
        for array in arrays:
            array[..., -1] = -np.inf
    else:
        arrays[0][..., -1] = 0
    return arrays


# Values along rows, met by widths that are whole registers of 128 lanes.
PRE_BROADCAST = (
    "attention",
    "attention_b1_h2_s421_d128",
    "attention_q_inloop",
    "attention_scaled_q",
    "causal_attention",
    "softmax_two_pass",
    "softmax_two_pass_odd",
    *proof.ROW_VALUES,
)


# Scores as they stand: transposed, they leave no column to widen.
ROWS = (("pallas_transposed_scores", "false"),)


@pytest.mark.parametrize("graph", proof.SECOND_BLOCKS)
def test_pre_broadcast_changes_what_it_should(graph):
    """So that "on" and "off" are not the same thing tested twice, unless there is nothing to do."""
    loop = "fori_loop" if proof.has_loops(graph) else None
    texts = [
        proof.kernel_text(proof.module(proof.Case(graph, loop, pre_broadcast, extra=ROWS)).source)
        for pre_broadcast in (False, True)
    ]
    assert (texts[0] != texts[1]) == (graph in PRE_BROADCAST)


@pytest.mark.parametrize("graph", PRE_BROADCAST)
def test_auto_widens_in_loops_that_are_not_unrolled(graph):
    """Unrolled, both ways have one schedule; see docs/passes/pre_broadcast.md."""
    for loop in proof.LOOPS:
        case = proof.Case(graph, loop, loop != "unroll", extra=ROWS)
        if not proof.refusal(case):
            auto = proof.module(proof.Case(graph, loop, extra=ROWS)).source
            assert proof.kernel_text(auto) == proof.kernel_text(proof.module(case).source)


@pytest.mark.parametrize("case", proof.variants(), ids=lambda case: case.id)
def test_other_keys_are_heard(case):
    """Some value of the key gives another kernel than leaving it out."""
    plain = proof.Case(case.graph, case.loop, None, case.blocks)
    key = case.extra[0][0]
    ours = [
        item
        for item in proof.variants()
        if (item.graph, item.loop, item.extra[0][0]) == (case.graph, case.loop, key)
    ]
    texts = {proof.kernel_text(proof.module(item).source) for item in (plain, *ours)}
    assert len(texts) > 1
