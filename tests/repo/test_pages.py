"""README.md and the other pages: excerpts are real, links lead somewhere, pins are in force."""

import re

import kit
import pytest
from kit import ROOT

README = (ROOT / "README.md").read_text()
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def test_the_nodes_are_those_of_the_graph():
    (text,) = blocks("json")
    graph = kit.text("attention")
    for line in text.splitlines():
        assert f"   {line}\n" in graph


def bare_lines(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


def test_the_lines_are_those_of_the_kernel():
    (text,) = blocks("python")
    kernel = kit.accepted(kit.path("attention")).out
    # The page's excerpt stands at the margin.
    assert "\n".join(bare_lines(text)) in "\n".join(bare_lines(kernel))


def test_the_pins_are_those_of_the_requirements():
    pins = dict(
        line.split("==")
        for name in (f"requirements{part}.txt" for part in ("", "-export", "-bench", "-package"))
        for line in (ROOT / name).read_text().splitlines()
        if "==" in line and not line.startswith("#")
    )
    section = README.split("## Dependencies")[1]
    for names, versions in re.findall(r"^\| ([\w, ]+) \| ([\d., ]+) \|", section, re.M):
        names, versions = names.split(", "), versions.split(", ")
        if len(versions) == 1:
            versions *= len(names)
        for name, version in zip(names, versions, strict=True):
            assert pins[name] == version


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_paths(page):
    text = page.read_text()
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        if "://" not in link:
            assert (page.parent / link).exists(), link
    assert not re.search(r"(?<![\w.])/(?:home|root|work|tmp|usr)/", text), "an absolute path"


NAMED = re.compile(
    r"`((?:src|passes|codegen|include|python|tests|testdata|tools|bench|docs)/[\w./*-]+)`"
)
EXAMPLES = ("FAMILY", "NAME", "double_neg")


# CHANGELOG.md names what stood where then.
NOW = [page for page in PAGES if page.name != "CHANGELOG.md"]


@pytest.mark.parametrize("page", NOW, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_are_there(page):
    for path in NAMED.findall(page.read_text()):
        assert any(word in path for word in EXAMPLES) or list(ROOT.glob(path.rstrip("/"))), path
