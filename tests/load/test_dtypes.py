"""A dtype is a row of include/dtypes.def: what Python says of it is the same, and jax knows it."""

import re

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from kit import ROOT
from pallasc.execute.values import common_dtype
from pallasc.exporter.argspec import argument_parse
from pallasc.reference.values import DTYPES, is_float

ROWS = {
    name: (kind, dict(re.findall(r"\.(\w+) = ([^,)]+)", rest)))
    for name, kind, rest in re.findall(
        r'^DTYPE\(\w+, "(\w+)", (\w+), (.*)\)$',
        (ROOT / "include" / "dtypes.def").read_text(),
        re.MULTILINE,
    )
}
FLOATS = [name for name, (kind, _) in ROWS.items() if kind == "FLOAT"]


def test_python_has_all():
    assert list(ROWS) == [*DTYPES, "int64"]
    assert len(ROWS) >= 14


@pytest.mark.parametrize("name", DTYPES)
def test_jax_and_the_exporter_have_it(name):
    kind, row = ROWS[name]
    assert np.dtype(eval(row["jnp"].strip('"'), {"jnp": jnp})) == DTYPES[name]
    assert argument_parse(f"{name}[8,128]") == ("tensor", name, (8, 128), None)
    assert is_float(DTYPES[name]) == (kind == "FLOAT")
    assert common_dtype([DTYPES[name]]) == DTYPES[name]


@pytest.mark.parametrize("name", FLOATS)
def test_floats_are_as_ml_dtypes_has_them(name):
    row, info = ROWS[name][1], ml_dtypes.finfo(DTYPES[name])
    assert int(row["bits"]) == info.bits
    assert int(row["significant"]) == info.nmant + 1
    assert (float.fromhex if "0x" in row["largest"] else float)(row["largest"]) == float(info.max)
