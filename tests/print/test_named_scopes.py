"""--named-scopes: a scope of each source line in the kernel, which changes nothing else."""

import ast
import base64
import re

import kit
import numpy as np
import pallasc
import pytest
from pallasc import aot
from pallasc.inputs import make_tensors
from test_transformations import lowered

GRAPHS = (
    "attention",
    "softmax_two_pass",
    "layer_norm_odd",
    "matmul_split_k_odd",
    "causal_attention",
)


class WithoutScopes(ast.NodeTransformer):
    """Takes the scopes away and leaves what is in them."""

    def visit_With(self, node):
        self.generic_visit(node)
        return node.body if "jax.named_scope" in ast.unparse(node.items[0]) else node


def scoped(graph, **options):
    """The module with scopes."""
    return pallasc.compile(kit.path(graph), named_scopes=True, **options)


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_statements_are_the_same(graph):
    module, plain = scoped(graph), kit.compiled(graph)
    without = WithoutScopes().visit(ast.parse(module.source))
    assert ast.dump(without) == ast.dump(ast.parse(plain.source))
    names = re.findall(r'with jax.named_scope\("(.*)"\):', module.source)
    assert len(names) > 2 and all(re.fullmatch(r"\w+\.py:\d+ \w+", name) for name in names)


def test_a_scope_is_of_a_line_and_what_it_gives():
    """Statements of a line that stand together are in one; kernel text gives the same module."""
    module = scoped("attention")
    assert module.source == kit.accepted("--named-scopes", kit.path("attention")).out
    assert module.source == kit.accepted("--named-scopes", "-", text=module.kernel).out
    assert (
        '        with jax.named_scope("attention.py:40 m_new"):\n'
        "            m_new = jnp.maximum(m_i, amax)\n"
        '        with jax.named_scope("attention.py:41 exp2"):\n'
    ) in module.source
    assert module.source.count("attention.py:39 scores") == 1
    assert "named_scope" not in kit.compiled("attention").source


def test_names_are_text():
    """Whatever a document calls its file, the scope is a string; a line without a file has none."""
    document = kit.document("softmax")
    for node in kit.nodes(document):
        if "loc" in node:
            node["loc"]["file"] = 'folder/a"b\\n.py'
    source = pallasc.compile(document, named_scopes=True).source
    assert r'jax.named_scope("a\"b\\n.py:' in source
    for node in kit.nodes(document):
        node.get("loc", {}).pop("file", None)
    assert 'jax.named_scope("line ' in pallasc.compile(document, named_scopes=True).source


def test_mosaic_gets_them():
    """The kernel that XLA gets has the names; the call has the kernel's own, with or without."""
    for module, there in ((scoped("softmax"), True), (kit.compiled("softmax"), False)):
        text = lowered(module)
        (body,) = re.findall(r"\\22body\\22: \\22([^\\]*)", text)
        assert (b"row_max" in base64.b64decode(body)) == there
        assert 'kernel_name = "softmax"' in text


def test_the_values_are_the_same():
    arrays = make_tensors(kit.compiled("softmax").info, 0)
    with_scopes, plain = (
        np.asarray(module.load().softmax(*arrays, interpret=True))
        for module in (scoped("softmax"), kit.compiled("softmax"))
    )
    assert np.array_equal(with_scopes, plain)


@pytest.mark.parametrize("chip", ("v5e", "v6e", "v7x"))
def test_the_tpu_compiler_takes_them(chip):
    modules = [scoped(graph, target=chip) for graph in GRAPHS]
    for verdict in aot.compile_many([(module, chip) for module in modules], timeout=120):
        assert (verdict.kind, verdict.message) == ("ok", "")
        assert verdict.vmem_bytes <= verdict.predicted_bytes
