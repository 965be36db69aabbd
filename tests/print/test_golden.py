"""The pinned modules: each is what the compiler prints, was simulated, and was compiled."""

import golden
import proof
import pytest
from coverage import results


@pytest.fixture(scope="module")
def old():
    return golden.stored()


@pytest.mark.parametrize("name", proof.goldens())
def test_unchanged(name, old):
    new = proof.module(proof.goldens()[name]).source
    assert golden.difference(name, old.get(name), new) == "", "make golden writes it again"


def test_no_other_files(old):
    assert set(old) == set(proof.goldens())


def test_each_graph_in_each_loop_type():
    pinned = {(case.graph, case.loop) for case in proof.goldens().values()}
    wanted = {
        (case.graph, case.loop)
        for case in proof.accepted()
        if case.loop != "resident" and case.blocks == proof.default_blocks(case.graph)
    }
    assert wanted <= pinned


def test_each_was_simulated(old):
    """The very text: test_numerics or test_coverage runs it."""
    rows = set(results.quick()).intersection(proof.goldens().values())
    cases = (*proof.accepted(), *proof.variants(), *rows)
    ran = {proof.digest(proof.module(case).source) for case in cases}
    assert {proof.digest(text) for text in old.values()} <= ran


def test_each_was_compiled_for_a_tpu(old):
    """The very text: test_aot compiles it."""
    ran = {
        proof.digest(proof.module(case, chip).source)
        for case, chip in proof.aot_quick()
        if chip == "v6e"
    }
    assert {proof.digest(text) for text in old.values()} <= ran
