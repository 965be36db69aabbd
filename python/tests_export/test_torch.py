"""The reference interpreter against torch on a CPU: each lowered op on the edges of each dtype.

Both sides run the one-op documents of tests/whole/ops/cases.py on the inputs of edges.py beside it.
Where they differ, docs/graph-format.md has a row in "Where a kernel differs from torch"; a row that
nothing needs is an error too.
"""

import fnmatch
import json
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import oracle
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "whole" / "ops"))

import cases as ops  # noqa: E402
import edges  # noqa: E402
from pallasc import reference  # noqa: E402
from pallasc.reference.values import DTYPES, int_range, is_float  # noqa: E402

VERDICTS = json.loads((ROOT / "tests" / "whole" / "ops" / "accepted.json").read_text())["ops"]
# One shape of each family: torch knows no tiles.
VARIANTS = ("2d", "one", "sq", "3d")
AT_ONCE = 20


def lowered(case):
    """Whether a kernel may hold the case."""
    for names, verdict in VERDICTS[case.target].items():
        if case.dtype in names.split():
            return verdict != "unsupported-op"
    return True


def chosen():
    """{(variant, kind): cases}: those that one document can hold."""
    groups = {}
    for case in ops.all_cases():
        if case.variant in VARIANTS and lowered(case):
            groups.setdefault((case.variant, edges.kind_of(case)), []).append(case)
    return groups


def judged(cases):
    """(case, input arrays, torch's value or Silent, the reference's value) of each case."""
    document, arrays = ops.document(cases), edges.arguments(cases)
    document["config"] = {"block_sizes": [ops.VARIANTS[cases[0].variant].shape[0]]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = oracle.run(document, arrays)
    with np.errstate(all="ignore"):
        found = reference.run(document, arrays)
    owners = [case for case in cases for _ in range(outputs_of(case))]
    return [(c, arrays, a, b) for c, a, b in zip(owners, expected, found, strict=False)]


def outputs_of(case):
    """How many outputs a case stores to."""
    builder = ops.Builder(ops.VARIANTS[case.variant])
    case.build(builder)
    return len(builder.returns)


# ---- where they may differ ----------------------------------------------------------------------


def listed():
    """{name: patterns of targets} of the table in docs/graph-format.md."""
    text = (ROOT / "docs" / "graph-format.md").read_text()
    _, _, section = text.partition("## Where a kernel differs from torch")
    section = section.partition("The compiled kernel")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return {name.strip(" `"): re.findall(r"`([^`]*)`", targets) for name, targets, *_ in rows}


def _float_to_int(case, arrays, expected, found):
    source = next((a for a in arrays if a.dtype == DTYPES[case.dtype]), None)
    if source is None or not is_float(source.dtype) or is_float(found.dtype):
        return np.zeros(found.shape, bool)
    low, high = int_range(found.dtype) if found.dtype != bool else (0, 1)
    whole = np.trunc(source.astype(np.float64))
    return ~((whole >= low) & (whole <= high))


def _float8_overflow(case, arrays, expected, found):
    limit = np.abs(expected.astype(np.float64)) == 448
    return (found.dtype == DTYPES["float8_e4m3fn"]) & limit & np.isnan(found.astype(np.float64))


def _number(case, arrays, expected, found):
    narrow = case.dtype in ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")
    of_number = "number" in case.what or "Scalar" in case.target
    return np.full(found.shape, narrow and of_number)


def _zero_sign(case, arrays, expected, found):
    return (expected == 0) & (found == 0)


def _steps(case, arrays, expected, found):
    several = any(word in case.what for word in ("alpha", "value", "rounding_mode"))
    named = re.search(r"addcmul|addcdiv|lerp|floor_divide", case.target) is not None
    return np.full(found.shape, several or named)


def _float16(case, arrays, expected, found):
    return np.full(found.shape, case.dtype == "float16")


def _mean_of_inf(case, arrays, expected, found):
    return np.isnan(expected.astype(np.float64)) & np.isinf(found.astype(np.float64))


REASONS = {
    "float to int": _float_to_int,
    "float8 overflow": _float8_overflow,
    "number": _number,
    "sign of zero": _zero_sign,
    "several steps": _steps,
    "float16": _float16,
    "mean of inf": _mean_of_inf,
}


def excused(case, arrays, expected, found):
    """{row of the table: mask of the elements that it excuses}."""
    names = [
        n for n, globs in listed().items() if any(fnmatch.fnmatch(case.target, g) for g in globs)
    ]
    return {name: REASONS[name](case, arrays, expected, found) for name in names}


def first(case, arrays, expected, found, bad):
    """The first element that differs, for people."""
    at = int(np.argmax(bad))
    given = [a.flat[at % a.size] for a in arrays if a.shape == found.shape]
    return f"{case}: torch {expected.flat[at]}, reference {found.flat[at]}, of {given[:4]}"


@pytest.fixture(scope="module")
def needed():
    """The rows of the table that something needed."""
    return set()


@pytest.mark.parametrize("group", chosen(), ids=" ".join)
def test_the_reference_computes_what_torch_does(group, needed):
    cases, problems, spoken = chosen()[group], [], 0
    for start in range(0, len(cases), AT_ONCE):
        for case, arrays, expected, found in judged(cases[start : start + AT_ONCE]):
            if isinstance(expected, oracle.Silent):
                continue
            spoken += 1
            bad = ~edges.agrees(case, expected, found)
            for name, mask in excused(case, arrays, expected, found).items() if bad.any() else ():
                if (bad & mask).any():
                    needed.add(name)
                bad &= ~mask
            if bad.any():
                problems.append(first(case, arrays, expected, found, bad))
    assert not problems, "\n".join(problems)
    assert spoken > len(cases) / 3


def test_the_table_lists_no_more_than_is_so(needed):
    """After the others: run the file whole."""
    assert listed().keys() == REASONS.keys() == needed
