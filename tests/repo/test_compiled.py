"""Which kept results of the TPU compiler hold, and what is recorded."""

import re

import compiled
import pytest
import verdicts
from pallasc import aot
from turns import day_of

KEY = "0123456789abcdef" * 4
LINE = f"{KEY[:16]} 1024 0 512,1024"


@pytest.fixture
def session(tmp_path, monkeypatch):
    """An own session with one kept line and an empty cache."""
    kept = tmp_path / "compiled.txt"
    kept.write_text(f"{LINE}\n")
    monkeypatch.setattr(compiled, "KEPT", kept)
    monkeypatch.setenv(verdicts.LOG, str(tmp_path / "log"))
    monkeypatch.setenv("PALLASC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(verdicts.DATE, day_of(KEY, due=False))
    monkeypatch.delenv(verdicts.AGAIN, raising=False)
    monkeypatch.setattr(aot, "CACHE", compiled.Answers())
    return tmp_path / "log"


def result(**said):
    return aot.AotResult("k.py", "v6e", **said)


def taken(vmem=1024):
    return result(ok=True, kind="ok", vmem_bytes=vmem, kernels=[512, vmem], temp_bytes=0)


def test_a_kept_line_answers(session):
    found = result()
    assert aot.CACHE.load(KEY, found)
    assert found.ok and found.cached and compiled.line_of(KEY, found) == LINE
    assert not aot.CACHE.load("f" * 64, result())
    assert compiled.summary(session) == [
        "modules to compile for a TPU: 1 were taken, 1 of them as it is kept"
    ]


@pytest.mark.parametrize("name", [verdicts.AGAIN, verdicts.DATE])
def test_on_its_day_a_module_is_compiled_again(session, monkeypatch, name):
    monkeypatch.setenv(name, "1" if name == verdicts.AGAIN else day_of(KEY, due=True))
    assert not aot.CACHE.load(KEY, result())
    aot.CACHE.store(KEY, taken())
    assert compiled.asked(session) == {LINE: "compiled"}
    with pytest.raises(AssertionError, match=r"the TPU compiler says .* 2048 .* 1024"):
        aot.CACHE.store(KEY, taken(vmem=2048))
    with pytest.raises(AssertionError, match=r"the TPU compiler says .* no room"):
        aot.CACHE.store(KEY, result(kind="vmem", message="no room"))


def test_what_a_session_asked_for_is_recorded(session):
    other = "f" * 64
    aot.CACHE.store(other, taken())
    aot.CACHE.store("e" * 64, result(kind="error", message="refused"))
    assert aot.CACHE.load(other, result())
    assert "1 are not in tests/compiled.txt" in compiled.summary(session)[1]
    assert compiled.record(session) == (1, 1, 1)
    assert compiled.KEPT.read_text() == f"{other[:16]} 1024 0 512,1024\n"
    assert compiled.record(session) == (1, 0, 0)


def test_another_line_is_refused(session):
    compiled.KEPT.write_text("<<<<<<< HEAD\n")
    with pytest.raises(ValueError, match=r"compiled.txt:1: not what is kept: '<<<<<<< HEAD'"):
        compiled.read(compiled.KEPT)


def test_the_file_is_sorted_and_without_doubles():
    lines = (verdicts.ROOT / "tests" / "compiled.txt").read_text().splitlines()
    assert all(re.match(f"[0-9a-f]{{{compiled.DIGITS}}} ", line) for line in lines)
    assert len(lines) > 1000 and lines == sorted({line.split()[0]: line for line in lines}.values())
