"""CONTRIBUTING.md's sections "Add a ..." have patches in docs/examples, and each patch works.

A patch begins with lines of free text. It is applied to a copy of the tree, which is built; then
each command behind a `Proof:` among these lines is run there by bash.
"""

import os
import re
import shutil
import subprocess

import pytest
from kit import ROOT

PATCHES = sorted((ROOT / "docs" / "examples").glob("*.patch"))
# The one that `make check` tries; `make check-full` tries all.
QUICK = "add-a-pass"
CASES = [
    pytest.param(path, id=path.stem, marks=[] if path.stem == QUICK else [pytest.mark.full])
    for path in PATCHES
]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
SECTIONS = re.findall(r"^## (Add an? [^\n]*)\n(.*?)(?=^## )", PAGE, re.M | re.S)
# Of the run that this test is of; a copy has its own.
OURS = ("PALLASC", "PYTEST", "MAKE", "MFLAGS", "GIT_")


def patches_of(section):
    return re.findall(r"\(docs/examples/([\w-]+)\.patch\)", section)


@pytest.mark.parametrize(("title", "section"), SECTIONS, ids=[title for title, _ in SECTIONS])
def test_section_has_a_patch(title, section):
    assert patches_of(section)


def test_each_patch_has_a_section_and_a_proof():
    assert {name for _, text in SECTIONS for name in patches_of(text)} == {p.stem for p in PATCHES}
    assert [path.name for path in PATCHES if not proofs(path)] == []


@pytest.mark.parametrize("path", PATCHES, ids=lambda path: path.stem)
def test_each_patch_applies(path):
    run(ROOT, "git", "apply", "--check", "-C1", path)


def proofs(path):
    """The commands that a patch's first lines name."""
    head = path.read_text().partition("\ndiff --git ")[0]
    return re.findall(r"^Proof: (.+)$", head, re.M)


def run(tree, *command):
    """Runs a command in a tree, as somebody would who has just cloned it; it must succeed."""
    env = {name: text for name, text in os.environ.items() if not name.startswith(OURS)}
    env |= {"CFLAGS": "-O0", "JAX_PLATFORMS": "cpu", "GIT_CEILING_DIRECTORIES": str(tree.parent)}
    done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{command}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A copy of the tree as it is, committed or not, built without optimisation."""
    tree = tmp_path_factory.mktemp("contributing") / "tree"
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    for name in (".venv", ".cache"):
        if (ROOT / name).exists():
            (tree / name).symlink_to((ROOT / name).resolve())
    run(tree, "make", f"-j{os.cpu_count()}", "all")
    return tree


@pytest.mark.parametrize("path", CASES)
def test_patch(path, built):
    tree = built.with_name(path.stem)
    shutil.copytree(built, tree, symlinks=True)
    try:
        run(tree, "git", "apply", "-C1", path)
        run(tree, "make", f"-j{os.cpu_count()}", "all")
        for command in proofs(path):
            run(tree, "bash", "-euo", "pipefail", "-c", command)
    finally:
        shutil.rmtree(tree)
