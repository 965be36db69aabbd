"""Today's compiler accepts what earlier versions did: docs/versions.md."""

import hashlib
import json
import subprocess

import kit
import pytest
from kit import ROOT, accepted

FOLDER = ROOT / "testdata" / "accepted"
VERSIONS = sorted(path.name for path in FOLDER.iterdir())
GRAPHS = sorted(FOLDER.glob("*/graphs/*.json"))
TARGETS = sorted(FOLDER.glob("*/targets/*.json"))
ATTENTION = kit.path("attention")


def of(path):
    return str(path.relative_to(FOLDER))


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_version_accepted_never_changes(version):
    folder = FOLDER / version
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    sums = {name.removeprefix("./"): digest for digest, name in map(str.split, lines)}
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "SHA256SUMS"]
    assert sums == {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


@pytest.mark.parametrize("path", GRAPHS, ids=of)
def test_graphs(path):
    assert accepted(path).out.startswith('"""')


@pytest.mark.parametrize("path", TARGETS, ids=of)
def test_target_files(path):
    accepted("--emit=none", f"--target={path}", ATTENTION)


def configurations():
    for version in VERSIONS:
        for key, values in json.loads((FOLDER / version / "config.json").read_text()).items():
            yield from (f"{key}={json.dumps(value)}" for value in values)


@pytest.mark.parametrize("setting", sorted(set(configurations())))
def test_configurations(setting):
    found = accepted("--emit=none", "--set", setting, ATTENTION)
    assert "error" not in found.err


def test_no_key_is_gone():
    text = (ROOT / "include" / "keys.def").read_text()
    keys = {line.split('"')[1] for line in text.splitlines() if line.startswith("KEY(")}
    known = json.loads((FOLDER / VERSIONS[-1] / "config.json").read_text())
    assert set(known) <= keys


@pytest.mark.parametrize("version", VERSIONS)
def test_the_library_still_exports_its_functions(version):
    """Of the same ABI: a new number is a new soname."""
    (library,) = (ROOT / "build").glob("libpallasc.so.?")
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    )
    names = {line.split()[-1] for line in listed.stdout.splitlines()}
    assert set((FOLDER / version / "symbols").read_text().split()) <= names
    assert all(name.startswith("pallasc_") for name in names)
