"""Rooms: the folders of src, passes and codegen, in the order of the table in docs/design.md.

What one room includes, declares and calls lies in rooms above it in that list.
"""

import re
import subprocess
from pathlib import Path

import pytest
from kit import ROOT

ROW = re.compile(r"^\| `((?:src|passes|codegen)/\w+)` \|", re.M)
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
# A function's declaration or definition, its name.
FUNCTION = re.compile(r"^(?!static|typedef|return|else|#)[a-z]\w*[\w *]*?\b(\w+)\(", re.M)
ROOMS = ROW.findall((ROOT / "docs/design.md").read_text())
FILES = [
    path.relative_to(ROOT)
    for top in ("src", "passes", "codegen")
    for path in sorted((ROOT / top).rglob("*.[chd]*"))
]


def room(path):
    return str(path.parent)


def header(name):
    """The one that others see."""
    return f"{name}/{Path(name).name}.h"


def below(name, other):
    """`other` is a room that `name` may use."""
    return ROOMS.index(other) < ROOMS.index(name)


@pytest.fixture(scope="module")
def symbols():
    """(file, symbols that it defines, that it needs), from the objects of the last build."""
    found = []
    for path in FILES:
        if path.suffix == ".c":
            nm = subprocess.run(
                ["nm", ROOT / "build" / path.with_suffix(".o")],
                capture_output=True,
                text=True,
                check=True,
            )
            rows = [line.split()[-2:] for line in nm.stdout.splitlines()]
            found.append(
                (
                    path,
                    {name for kind, name in rows if kind in "TDRB"},
                    {name for kind, name in rows if kind == "U"},
                )
            )
    return found


def test_every_file_stands_in_a_room():
    assert len(ROOMS) == len(set(ROOMS))
    assert {room(path) for path in FILES} == set(ROOMS)


def test_includes_run_down():
    wrong = []
    for path in FILES:
        for name in INCLUDE.findall((ROOT / path).read_text()):
            if "/" not in name:
                there = (ROOT / path.parent / name).is_file() or (ROOT / "include" / name).is_file()
                wrong += (
                    [] if there else [f"{path}: {name} stands neither beside it nor in include/"]
                )
            elif not name.startswith("pallasc/"):
                other = str(Path(name).parent)
                if name != header(other) or not below(room(path), other):
                    wrong.append(f"{path} includes {name}")
    assert wrong == []


def test_calls_run_down(symbols):
    home = {name: path for path, defined, _ in symbols for name in defined}
    wrong = []
    for path, _, needed in symbols:
        for name in sorted(needed & home.keys()):
            other = room(home[name])
            if other != room(path) and not below(room(path), other):
                wrong.append(f"{path} calls {name} of {home[name]}")
    assert wrong == []


def test_headers_declare_what_their_room_defines(symbols):
    home = {name: room(path) for path, defined, _ in symbols for name in defined}
    wrong = []
    for path in FILES:
        if path.suffix == ".h":
            for name in FUNCTION.findall((ROOT / path).read_text()):
                if home.get(name, room(path)) != room(path):
                    wrong.append(f"{path} declares {name} of {home[name]}")
    assert wrong == []


def test_the_plan_and_what_comes_after_change_no_module():
    """No cast takes `const` away, and no function of codegen takes a Module that it may change;
    but a search over sizes configures one again."""
    cast = re.compile(r"\((?:Module|Plan|Kernel|Program) \*\)\(uintptr_t\)")
    changed = re.compile(r"(?<!const )\bModule \*\w")
    assert [str(path) for path in FILES if cast.search((ROOT / path).read_text())] == []
    files = [path for path in FILES if path.parts[0] == "codegen" and path.parts[1] != "search"]
    assert [str(path) for path in files if changed.search((ROOT / path).read_text())] == []
