"""The proof can fail: each kind of mistake, planted in a pinned kernel, is found."""

import proof
import pytest
from pallasc.errors import KernelError
from pallasc.module import Module

PLAIN = (("pallas_loop_skew", "false"), ("pallas_transposed_scores", "false"))
RAGGED = proof.Case("attention_b1_h2_s421_d128", "fori_loop", extra=PLAIN)
PIPELINE = proof.Case("attention_b1_h2_s421_d128", "emit_pipeline", extra=PLAIN)
SKEWED = proof.Case("attention_b1_h2_s421_d128", "fori_loop")

# What goes wrong -> (case, options of the simulator, what the text has, what it gets instead).
MISTAKES = {
    "no tail": (RAGGED, {}, "ragged=True\n    )", "ragged=True\n    ) and (m_i_1, l_i_2, acc_2)"),
    "no mask": (RAGGED, {}, ", ragged=True", ""),
    "mask off by one": (RAGGED, {}, "_mask(exp2, 2, 37,", "_mask(exp2, 2, 38,"),
    "max off by one": (RAGGED, {"huge": True}, "_mask(scores, 2, 37,", "_mask(scores, 2, 38,"),
    "a step too few": (RAGGED, {}, "        3,\n        body", "        2,\n        body"),
    "no wait for k": (RAGGED, {"eager": True}, "        k_in_copy(j).wait()\n", ""),
    "late wait for k": (RAGGED, {}, "        k_in_copy(j).wait()\n", ""),
    "one buffer": (RAGGED, {"eager": True}, "jax.lax.rem(i, 2)", "0 * i"),
    "wrong window": (PIPELINE, {}, "lambda j: (tile_b, j, 0)", "lambda j: (tile_b, 0 * j, 0)"),
    "past the end": (RAGGED, {}, "pl.ds(i * 128, 128)", "pl.ds(i * 128 + 256, 128)"),
    "the step before": (SKEWED, {}, "jax.lax.rem(ahead, 3)]", "jax.lax.rem(j, 3)]"),
    "columns not rows": (SKEWED, {}, "_mask(exp2, 1, 37,", "_mask(exp2, 2, 37,"),
    "carry not set": (PIPELINE, {}, "    l_i_ref[...] = jnp.zeros(", "    l_i = jnp.zeros("),
}  # fmt: skip


def problems(case, text, options):
    """Yields what simulating and judging a module's text finds, on random and on edge inputs."""
    module = Module(text, f"{case.id}.py")
    blocks, options = proof.default_blocks(case.graph), dict(options)
    memory = "huge" if options.pop("huge", False) else ""
    options = {"seed": 7} if memory else options
    for kind in proof.QUICK_INPUTS:
        arguments = proof.inputs(case.graph, kind, blocks)
        try:
            ran = proof.run_once(module.load(), arguments, memory, options)
        except KernelError as error:
            yield str(error)
            continue
        yield from (*ran.races, *ran.complaints)
        rows = proof.judge(case.graph, module.info, kind, kind, blocks, ran.outputs)
        yield from (row.text for row in rows if not row.ok)


@pytest.mark.parametrize("name", MISTAKES)
def test_found(name):
    case, options, old, new = MISTAKES[name]
    text = proof.module(case).source
    assert old in text
    assert any(problems(case, text.replace(old, new), options))


@pytest.mark.parametrize("case", (RAGGED, PIPELINE, SKEWED), ids=lambda case: case.id)
@pytest.mark.parametrize("options", ({}, {"eager": True}, {"huge": True}), ids=str)
def test_nothing_found_where_nothing_is_wrong(case, options):
    assert list(problems(case, proof.module(case).source, options)) == []
