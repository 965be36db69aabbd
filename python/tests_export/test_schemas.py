"""The op table against torch: names, order and which arguments are given by name alone."""

import re
from pathlib import Path

import pytest
import torch
import torch._inductor.inductor_prims  # registers prims.fma

ROOT = Path(__file__).resolve().parents[2]
# What says where a tensor lies, which a tile's graph has no use for.
IGNORED = {"device", "layout", "pin_memory", "memory_format"}
ROW = re.compile(r'^OP\(\w+,\s*"((?:aten|prims)\.[^"]+)",\s*KIND_\w+,\s*"((?:[^"\\]|\\.)*)"', re.M)
ROWS = dict(ROW.findall((ROOT / "include" / "ops.def").read_text()))


def schema_of(target):
    """torch's schema of a target as `include/ops.def` names it."""
    namespace, name, overload = target.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), name), overload)._schema


def torch_names(schema):
    """Names of a schema's arguments, a `*` before those that are given by name alone."""
    arguments = [a for a in schema.arguments if a.name not in IGNORED]
    names = [a.name for a in arguments]
    by_name = [i for i, a in enumerate(arguments) if a.kwarg_only]
    if by_name:
        names.insert(by_name[0], "*")
    return names


def test_the_table_is_read():
    assert len(ROWS) >= 230


@pytest.mark.parametrize("target", ROWS)
def test_arguments_are_those_of_torch(target):
    ours = [parameter.split(":")[0] for parameter in ROWS[target].split()]
    assert ours == torch_names(schema_of(target))
