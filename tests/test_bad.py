"""Refused documents: testdata/bad/NAME.json is refused with exactly the diagnostics in NAME.err.

After a change of wording: PALLASC_REGENERATE=1 pytest tests/test_bad.py, then read the diff.
"""

import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BAD = ROOT / "testdata" / "bad"
PALLASC = os.environ.get("PALLASC", str(ROOT / "pallasc"))
CASES = sorted(p.stem for p in BAD.glob("*.json"))


def run(*args, text=None, cwd=BAD):
    return subprocess.run([PALLASC, *args], input=text, cwd=cwd, capture_output=True, timeout=60)


@pytest.mark.parametrize("name", CASES)
def test_text(name):
    result = run("--emit=none", f"{name}.json")
    assert result.returncode == 1
    assert result.stdout == b""
    expected = BAD / f"{name}.err"
    if os.environ.get("PALLASC_REGENERATE"):
        expected.write_bytes(result.stderr)
    assert result.stderr == expected.read_bytes()


@pytest.mark.parametrize("name", CASES)
def test_json_lines(name):
    result = run("--emit=none", "--diagnostics=json", f"{name}.json")
    assert result.returncode == 1
    for line in result.stderr.decode("utf-8").splitlines():
        record = json.loads(line)
        assert set(record) == {
            "severity",
            "code",
            "file",
            "pointer",
            "line",
            "column",
            "message",
            "hint",
        }
        assert record["severity"] in ("error", "warning", "note")
        if record["severity"] == "error":
            assert record["line"] >= 1 and record["column"] >= 1


def test_every_case_has_its_diagnostics():
    assert sorted(p.stem for p in BAD.glob("*.err")) == CASES
    assert len(CASES) >= 60


@pytest.mark.parametrize("brackets", [b"[", b'{"a":', b'[{"a":'])
def test_nesting(brackets):
    """Too large to keep as a file."""
    result = run("--emit=none", "-", text=brackets * 100_000)
    assert result.returncode == 1
    assert b"nested deeper than 2048 levels [json-depth]" in result.stderr


def test_long_line():
    """A line of ten megabytes is not printed whole."""
    result = run("--emit=none", "-", text=b'{"format": "' + b"x" * 10_000_000 + b'"}')
    assert result.returncode == 1
    assert len(result.stderr) < 4000
