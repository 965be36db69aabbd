"""The pinned effects of the passes on the IR, before and after."""

import golden
import golden_ir as ir
import kit
import pytest

NAMES = {name: case for name, *case in ir.names()}


@pytest.mark.parametrize("name", NAMES)
def test_unchanged(name):
    new = ir.text(*NAMES[name])
    old = golden.stored(ir.DIRECTORY).get(name)
    assert golden.difference(name, old, new) == "", "make golden writes it again"


def test_no_other_files():
    assert set(golden.stored(ir.DIRECTORY)) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_what_the_pass_leaves_is_a_document(name):
    """The IR after the pass loads again, facts and all, and its graphs are printed as they were."""
    pass_name, graph, settings = NAMES[name]
    after = ir.printed(pass_name, graph, settings)[1]
    assert kit.after("const_fold", after)["graphs"] == after["graphs"]
