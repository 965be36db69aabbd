"""Refused documents: testdata/bad/NAME.json is refused with exactly the diagnostics in NAME.err.

After a change of wording: PALLASC_REGENERATE=1 pytest tests/load/test_bad.py, then read the diff.
"""

import json
import os

import kit
import pytest

BAD = kit.ROOT / "testdata" / "bad"
CASES = sorted(p.stem for p in BAD.glob("*.json"))


def diagnostics(*arguments, text=None):
    """The bytes that are printed about what is refused."""
    return kit.refused(1, "--emit=none", *arguments, text=text, cwd=BAD, encoding=None)


@pytest.mark.parametrize("name", CASES)
def test_text(name):
    found = diagnostics(f"{name}.json")
    expected = BAD / f"{name}.err"
    if os.environ.get("PALLASC_REGENERATE"):
        expected.write_bytes(found)
    assert found == expected.read_bytes()


PLACE = {"file", "pointer", "line", "column", "message"}
WHERE = {"node", "loc"}  # where the document knows them


@pytest.mark.parametrize("name", CASES)
def test_json_lines(name):
    for line in diagnostics("--diagnostics=json", f"{name}.json").decode("utf-8").splitlines():
        record = json.loads(line)
        assert set(record) - WHERE - {"related"} == PLACE | {"severity", "code", "hint"}
        assert record["severity"] in ("error", "warning", "note")
        if record["severity"] == "error":
            assert record["line"] >= 1 and record["column"] >= 1
        for other in record.get("related", []):
            assert set(other) - WHERE == PLACE
            assert other["line"] >= 1 and other["column"] >= 1


def test_every_case_has_its_diagnostics():
    assert sorted(p.stem for p in BAD.glob("*.err")) == CASES
    assert len(CASES) >= 60


@pytest.mark.parametrize("brackets", [b"[", b'{"a":', b'[{"a":'])
def test_nesting(brackets):
    """Too large to keep as a file."""
    found = diagnostics("-", text=brackets * 100_000)
    assert b"nested deeper than 2048 levels [json-depth]" in found


def test_long_line():
    """A line of ten megabytes is not printed whole."""
    assert len(diagnostics("-", text=b'{"format": "' + b"x" * 10_000_000 + b'"}')) < 4000
