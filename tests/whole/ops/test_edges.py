"""The simulated kernel of each op against the reference, on the edges of each dtype.

What may differ is the second table of docs/graph-format.md, "Where a kernel differs from torch";
python/tests_export/test_torch.py holds the reference to torch on the same inputs.
"""

import fnmatch
import re
import sys
import warnings
import zlib
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import cases as ops  # noqa: E402
import edges  # noqa: E402
import kit  # noqa: E402
import probe  # noqa: E402
from pallasc import reference  # noqa: E402
from pallasc.reference.values import is_float  # noqa: E402
from pallasc.simulate import simulate  # noqa: E402

PAGE = (HERE.parents[2] / "docs" / "graph-format.md").read_text()
SAMPLE, AT_ONCE = 240, 16
# One of each row of the table, beside the sample.
NAMED = (
    "aten.mul.Tensor float32 2d",
    "aten.amax.default float32 one dims [-1]",
    "aten.sign.default float32 2d",
    "aten.div.Scalar int32 2d",
    "aten.copysign.Tensor float8_e5m2 2d",
    "aten.rsub.Tensor float32 2d alpha=3",
    "aten.lerp.Tensor float32 2d",
    "aten.bitwise_right_shift.Tensor int32 2d",
    "aten.bitwise_left_shift.Tensor uint8 2d",
    "aten.argmax.default float32 one dim -1",
)


def listed():
    """{name: patterns of targets} of the table of the kernel."""
    section = PAGE.partition("The compiled kernel differs")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return {name.strip(" `"): re.findall(r"`([^`]*)`", targets) for name, targets, *_ in rows}


def _denormal(found, expected):
    limit = float(ml_dtypes.finfo(expected.dtype).tiny) if is_float(expected.dtype) else 0
    size = np.abs(expected.astype(np.float64))
    return (found == 0) & (size > 0) & (size < limit)


def _nan_of_max(found, expected):
    return np.isnan(expected.astype(np.float64))


def _sign_of_zero(found, expected):
    return (found == 0) & (expected == 0)


def _reciprocal(found, expected):
    a, b = found.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        return np.abs(a - b) <= 2.0**-22 * np.abs(b)


def _anything(found, expected):
    return np.ones(expected.shape, bool)


REASONS = {
    "denormal": _denormal,
    "NaN of max": _nan_of_max,
    "sign of zero": _sign_of_zero,
    "reciprocal": _reciprocal,
    "sign of NaN": _anything,
    "several steps": _anything,
}


def plain(case):
    """In the shapes that hold each pair of edges; softmax of ints is torch's error."""
    kind, target = ops.op_rows()[case.target].kind, case.target
    listed = kind in ("POINTWISE", "REDUCTION") or target == "tile.store"
    of_ints = "softmax" in target and case.dtype not in ops.FLOATS
    return listed and not of_ints and case.variant in ("2d", "one") and "float16" not in str(case)


def chosen():
    """{(variant, kind): cases that are accepted}: those named, and a share of all others."""
    found = [case for case in ops.all_cases() if plain(case)]
    ranked = sorted(found, key=lambda case: zlib.crc32(str(case).encode()))
    wanted = {str(case): case for case in ranked[:SAMPLE]}
    wanted |= {str(case): case for case in found if str(case) in NAMED}
    groups = {}
    for case, why in probe.refusals(list(wanted.values()), "v6e").items():
        if why is None:
            groups.setdefault((case.variant, edges.kind_of(case)), []).append(case)
    return groups


def differences(cases, needed):
    """What no row of the table excuses, a line each; `needed` gets the rows that excuse."""
    document, arrays = ops.document(cases), edges.arguments(cases, denormal=False)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        module = kit.compiled(document)
        outputs = simulate(module.load(), arrays, 1).outputs
        expected = reference.run(document, arrays, config=module.info["config"])
    for case, found, wanted in zip(cases, outputs, expected, strict=False):
        found = np.asarray(found)
        bad = ~edges.agrees(case, wanted, found)
        for name, globs in listed().items():
            if any(fnmatch.fnmatch(case.target, glob) for glob in globs) and bad.any():
                mask = REASONS[name](found, wanted)
                needed |= {name} if (bad & mask).any() else set()
                bad = bad & ~mask
        if bad.any():
            at = int(np.argmax(bad))
            given = [a.flat[at % a.size] for a in arrays if a.shape == wanted.shape]
            yield f"{case}: {found.flat[at]}, reference {wanted.flat[at]}, of {given[:4]}"


def test_kernels_compute_what_the_reference_does_on_edges():
    needed, groups = set(), chosen()
    cases = {str(case) for group in groups.values() for case in group}
    assert set(NAMED) <= cases and len(cases) > SAMPLE / 2
    problems = [
        line
        for group in groups.values()
        for start in range(0, len(group), AT_ONCE)
        for line in differences(group[start : start + AT_ONCE], needed)
    ]
    assert not problems, "\n".join(problems)
    assert listed().keys() == REASONS.keys()
    assert needed == REASONS.keys()


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float8_e4m3fn", "int8", "uint32", "bool"])
def test_edges_are_each_there_once(name):
    found = edges.of_dtype(name)
    bits = found.view(f"u{found.itemsize}") if name != "bool" else found
    assert len(set(bits.tolist())) == len(found) >= 2
