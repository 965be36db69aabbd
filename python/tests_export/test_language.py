"""The whole of Helion's language: each kernel of language.py is exported, or refused in one line.

What is exported is well formed, passes the compiler's verifier, and gives in the reference
interpreter what Helion's own eager mode gives.
"""

import importlib.metadata

import helion
import language
import numpy
import pytest
import torch
from pallasc import reference
from pallasc.binding import Graph
from pallasc.export import ExportError, arrays, from_helion, text
from structure import document_check
from torch.utils import _pytree


def exported(found):
    """Return a probe's document."""
    return from_helion(found.kernel, language.arguments(found), found.config)


def eager(found):
    """Return what Helion's eager mode gives of a probe."""
    settings = helion.Settings(ref_mode=helion.RefMode.EAGER, backend="triton")
    kernel = helion.Kernel(found.kernel.fn, configs=[], settings=settings)
    return kernel(*language.arguments(found))


def tensors_of(found):
    """Return the tensors that a probe's document takes: of the arguments, then captured ones."""
    leaves = _pytree.tree_leaves(list(language.arguments(found)))
    given = [a for a in leaves if isinstance(a, torch.Tensor)]
    return [*given, *found.captured]


FOUND = tuple(int(part) for part in importlib.metadata.version("helion").split("."))


def lacking(found):
    """Return whether this Helion lacks a probe's feature."""
    return tuple(int(part) for part in found.since.split(".")) > FOUND


EXPORTED = [n for n, p in language.PROBES.items() if not p.refused and not lacking(p)]
REFUSED = [n for n in language.PROBES if n not in EXPORTED]


@pytest.mark.parametrize("name", EXPORTED)
def test_an_export_is_what_helion_computes(name):
    found = language.PROBES[name]
    document = exported(found)
    document_check(document)
    Graph(text(document))
    given = listed(reference.run(document, arrays(document, tensors_of(found))))
    wanted = listed(found.wanted(*language.arguments(found)) if found.wanted else eager(found))
    assert len(given) == len(wanted)
    for one, other in zip(given, wanted, strict=True):
        torch.testing.assert_close(
            torch.from_numpy(numpy.array(one)), other, rtol=2e-5, atol=2e-5, check_dtype=False
        )


def listed(outputs):
    """Return outputs as a list, of one and of nested ones as well."""
    return [leaf for leaf in _pytree.tree_leaves(outputs) if leaf is not None]


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_exported_is_refused_at_its_line(name):
    found = language.PROBES[name]
    with pytest.raises(
        ExportError, match=rf"language.py:\d+: .*{found.refused or 'Helion'}"
    ) as caught:
        exported(found)
    assert "\n" not in str(caught.value)
