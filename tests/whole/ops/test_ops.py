"""Ops, one by one: what the kernel computes, and that the TPU compiler takes what pallasc accepts.

A bounded sample of tests/whole/ops/probe.py, which asks about all of it: `make probe-ops`.
"""

import importlib.util
import json
import sys
import zlib
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import cases as ops  # noqa: E402
import probe  # noqa: E402

TABLE = json.loads((HERE / "accepted.json").read_text())["ops"]
HAS_LIBTPU = importlib.util.find_spec("libtpu") is not None
WIDE = ("float32", "int32")


def _share(cases, size):
    """About `size` cases, spread evenly by a hash of their names: the same in each run."""
    ranked = sorted(cases, key=lambda case: zlib.crc32(str(case).encode()))
    return ranked[:size]


def _accepted(cases, target):
    return [case for case, why in probe.refusals(cases, target).items() if why is None]


@pytest.fixture(scope="module")
def plain():
    """One case for each op, in the widest dtype that it takes, and a share of all others."""
    first = {}
    for case in ops.all_cases():
        if case.dtype in WIDE or case.target not in first:
            first.setdefault(case.target, case)
    return list(first.values())


def test_each_op_computes_what_the_reference_does(plain):
    failures = probe.numeric_failures(_accepted(plain, "v6e"))
    assert not failures, "\n".join(f"{case}: {why}" for case, why in failures.items())


def test_a_share_of_all_dtypes_and_shapes_computes_what_the_reference_does():
    sample = _share([c for c in ops.all_cases() if c.variant != "3d"], 160)
    failures = probe.numeric_failures(_accepted(sample, "v6e"))
    assert not failures, "\n".join(f"{case}: {why}" for case, why in failures.items())


@pytest.mark.skipif(not HAS_LIBTPU, reason="needs libtpu")
@pytest.mark.parametrize("target", probe.TARGETS)
def test_the_tpu_compiler_takes_what_is_accepted(target):
    sample = _share(
        [c for c in ops.all_cases() if hash_of(c) % 5 == probe.TARGETS.index(target)], 150
    )
    failures = probe.aot_failures(_accepted(sample, target), target)
    assert not failures, "\n".join(f"{case}: {why}" for case, why in failures.items())


def hash_of(case):
    """A number that does not change from run to run."""
    return zlib.crc32(str(case).encode()) >> 8


def test_refusals_name_op_dtype_target_and_a_way_out():
    case = next(c for c in ops.all_cases() if str(c) == "aten.mm.default uint8 2d")
    with pytest.raises(probe.CompileError) as refused:
        probe.compile_graph(ops.document([case]), target="v5e")
    (diagnostic,) = refused.value.diagnostics
    assert diagnostic["code"] == "unsupported-op"
    assert diagnostic["message"] == "aten.mm.default of uint8 does not compile for v5e"
    assert "float32" in diagnostic["hint"]


def test_the_table_is_of_this_compiler():
    """accepted.json, which `make probe-ops` writes, says what the compiler says."""
    for case in _share(ops.all_cases(), 400):
        listed = next(
            verdict for names, verdict in TABLE[case.target].items() if case.dtype in names.split()
        )
        why = probe.refusal([case], "v6e")
        if listed == "ok":
            assert why is None, f"{case}: {why}"
        if why is not None:
            assert why[0] in listed, f"{case}: {why}, listed as {listed}"
