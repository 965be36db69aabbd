"""Caches that hold anything, cannot be written, or are written by several at once."""

import json
import multiprocessing
import os
import zlib

import pytest
from pallasc import aot, files, tune
from pallasc.profile import dump, statements

KEPT = aot.AotResult("k.py", "v6e", ok=True, kind="ok", kernels=[1, 2], temp_bytes=3)
GARBAGE = [
    b"",
    b"{",
    b"\xff\xfe\x00",
    b"null",
    b"[]",
    b"7",
    b'{"ok": true}',
    b'"text"',
    b"[" * 100_000,
    b'{"ok": "yes", "kind": 1, "kernels": "x", "message": null}',
]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PALLASC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def stored():
    return aot.Cache().load("key", aot.AotResult("k.py", "v6e"))


def changed(**fields):
    """A verdict with other fields."""
    entry = {name: getattr(KEPT, name) for name in aot.Cache.FIELDS}
    return json.dumps({**entry, **fields}).encode()


WRONG = [changed(kernels=["x"]), changed(ok="yes"), changed(vmem_bytes="8"), changed(seconds=None)]


@pytest.mark.parametrize("content", GARBAGE + WRONG, ids=lambda content: str(content[:24]))
def test_a_verdict_that_is_none(cache, content):
    aot.Cache().store("key", KEPT)
    assert stored()
    (cache / "aot" / "key.json").write_bytes(content)
    assert not stored()
    aot.Cache().store("key", KEPT)
    assert stored()


@pytest.mark.parametrize("content", GARBAGE, ids=lambda content: str(content[:24]))
@pytest.mark.parametrize("packed", [False, True])
def test_a_dump_that_is_none(tmp_path, content, packed):
    path = tmp_path / "a.dump"
    path.write_bytes(zlib.compress(content) if packed else content)
    assert dump.load(path) is None
    dump.save(path, {"kernels": {}})
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    assert dump.load(path) is None


@pytest.mark.parametrize("content", GARBAGE, ids=lambda content: str(content[:24]))
def test_statements_that_are_none(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    assert not statements._cache_load(path)


def outcome(number, text=""):
    return tune.Outcome({"n": number}, {}, f"code {number}", cost=float(number), failure=text)


@pytest.mark.parametrize("content", GARBAGE, ids=lambda content: str(content[:24]))
def test_a_journal_goes_on_behind_anything(tmp_path, content):
    path = tmp_path / "a.jsonl"
    tune.Journal(path).put(outcome(1))
    with path.open("ab") as file:
        file.write(content)  # and no end of the line
    tune.Journal(path).put(outcome(2))
    assert set(tune.Journal(path).known) == {"code 1", "code 2"}


def test_a_journal_with_values_of_other_kinds(tmp_path):
    path = tmp_path / "a.jsonl"
    good = {"config": None, "settled": {}, "code": "c"}
    bad = [{"cost": "7"}, {"code": 7}, {"code": []}, {"settled": None}, {"config": [1]}]
    lines = [json.dumps({**good, **wrong}) for wrong in [*bad, {"new": 1}]]
    path.write_text("\n".join([*lines, json.dumps(good)]))
    assert list(tune.Journal(path).known) == ["c"]


# ---- places that cannot be written ---------------------------------------------------------------


def refuse(cache):
    cache.mkdir()
    (cache / "aot").write_text("a file in place of the folder")


def occupy(cache):
    (cache / "aot" / "key.json").mkdir(parents=True)


@pytest.mark.parametrize("spoil", [refuse, occupy])
def test_a_place_that_cannot_be_written_is_no_error(cache, spoil):
    spoil(cache)
    aot.Cache().store("key", KEPT)
    assert not stored()
    assert not [name for name in os.listdir(cache) if name.endswith(".tmp")]
    if (cache / "aot").is_dir():
        assert os.listdir(cache / "aot") == ["key.json"]


def test_a_journal_that_cannot_be_written_is_kept_in_memory(tmp_path):
    (tmp_path / "a.jsonl").mkdir()
    journal = tune.Journal(tmp_path / "a.jsonl")
    journal.put(outcome(1))
    assert "code 1" in journal.known


# ---- several at once -----------------------------------------------------------------------------


def write_many(path, number):
    for _ in range(200):
        files.write_whole(path, str(number) * 50_000)


def add_many(path, number):
    journal = tune.Journal(path)
    for i in range(100):
        journal.put(outcome(number * 1000 + i, "x" * 3000))


def at_once(function, path):
    """Runs it in four processes, and yields while they run."""
    spawn = multiprocessing.get_context("fork")
    running = [spawn.Process(target=function, args=(path, n)) for n in range(1, 5)]
    for process in running:
        process.start()
    while any(process.is_alive() for process in running):
        yield
    assert [process.exitcode for process in running] == [0] * 4


def test_one_file_by_several_is_always_whole(tmp_path):
    path = tmp_path / "file"
    path.write_text("0" * 50_000)
    for _ in at_once(write_many, path):
        text = path.read_text()
        assert len(text) == 50_000 and len(set(text)) == 1
    assert os.listdir(tmp_path) == ["file"]


def test_one_journal_by_several_loses_nothing(tmp_path):
    for _ in at_once(add_many, tmp_path / "a.jsonl"):
        pass
    assert len(tune.Journal(tmp_path / "a.jsonl").known) == 400
