"""`make install` and `make demo`."""

import os
import re
import shlex

import pytest
from shared import BARE, GRAPH, ROOT, run
from test_wheels import PROGRAM


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def make(*arguments):
    return run("make", "--no-print-directory", "-C", ROOT, *arguments)


EXPECTED = {
    "bin/pallasc",
    "include/pallasc/pallasc.h",
    "lib/libpallasc.a",
    "lib/libpallasc.so",
    "lib/libpallasc.so.1",
    "lib/pkgconfig/pallasc.pc",
    "share/bash-completion/completions/pallasc",
    "share/doc/pallasc/CHANGELOG.md",
    "share/doc/pallasc/LICENSE",
    "share/doc/pallasc/README.md",
    "share/fish/vendor_completions.d/pallasc.fish",
    "share/man/man1/pallasc.1",
    "share/pallasc/fxtile.schema.json",
    "share/zsh/site-functions/_pallasc",
}


@pytest.fixture
def prefix(tmp_path):
    """A prefix that pallasc is installed under."""
    make("install", f"PREFIX={tmp_path / 'prefix'}")
    return tmp_path / "prefix"


def test_stage(tmp_path):
    """DESTDIR goes before each path and into no file; uninstall removes what install made."""
    stage = tmp_path / "stage"
    stage.mkdir()
    for prefix in ("/usr/local", "/opt/pallasc"):
        make(
            "install", f"DESTDIR={stage}", *([] if prefix == "/usr/local" else [f"PREFIX={prefix}"])
        )
        assert files(stage) == {f"{prefix[1:]}/{name}" for name in EXPECTED}
        assert (stage / prefix[1:] / "lib/libpallasc.so").readlink().name == "libpallasc.so.1"
        told = (stage / prefix[1:] / "lib/pkgconfig/pallasc.pc").read_text()
        assert told.startswith(f"prefix={prefix}\n") and str(stage) not in told
        make("uninstall", f"DESTDIR={stage}", f"PREFIX={prefix}")
        assert list(stage.iterdir()) == []


def test_uninstall_keeps_what_is_not_ours(prefix):
    (prefix / "share/doc/pallasc/notes.txt").write_text("mine")
    (prefix / "lib/libother.so").write_text("")
    make("uninstall", f"PREFIX={prefix}")
    assert files(prefix) == {"share/doc/pallasc/notes.txt", "lib/libother.so"}
    assert (prefix / "bin").is_dir() and not (prefix / "include/pallasc").exists()
    make("uninstall", f"PREFIX={prefix}")


def test_installed_command(prefix):
    assert run(prefix / "bin/pallasc", GRAPH) == run(ROOT / "pallasc", GRAPH)


def test_completion_of_zsh_and_fish(prefix):
    """bash's is tested where there is no need of other shells: tests/command/test_completion.py."""
    run("zsh", "-n", prefix / "share/zsh/site-functions/_pallasc")
    file = prefix / "share/fish/vendor_completions.d/pallasc.fish"
    asked = [f"source {file}; complete -C {shlex.quote(line)}" for line in LINES]
    for command, expected in zip(asked, LINES.values(), strict=True):
        found = run("fish", "--no-config", "-c", command, env=BARE)
        assert expected <= {line.split("\t")[0] for line in found.splitlines()}


# What is typed, and some of what may follow.
LINES = {
    "pallasc pro": {"profile"},
    "pallasc --emi": {"--emit"},
    "pallasc --target v": {"v4", "v5e", "v5p", "v6e", "v7x"},
    "pallasc check --adv": {"--adversarial"},
}


@pytest.mark.parametrize("static", [False, True])
def test_program_by_pkg_config(prefix, tmp_path, static):
    environment = {**BARE, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    asked = ["--static"] if static else []
    flags = run("pkg-config", "--cflags", "--libs", *asked, "pallasc", env=environment)
    version = run("pkg-config", "--modversion", "pallasc", env=environment)
    assert f"pallasc {version}" == run(ROOT / "pallasc", "--version")
    (tmp_path / "program.c").write_text(PROGRAM)
    program = tmp_path / "program"
    link = ["-static"] if static else []
    run("cc", *link, "-o", program, tmp_path / "program.c", *shlex.split(flags))
    there = BARE if static else {**BARE, "LD_LIBRARY_PATH": str(prefix / "lib")}
    text = run(program, env=there)
    assert text.splitlines()[0] == f"{version.strip()} 1" and '"severity"' in text
    loads = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", program))
    assert ("libpallasc.so.1" in loads) == (not static)


def test_demo_says_what_to_type_next():
    """Each command that stands at the end works as typed, in a shell that knows nothing of us."""
    text = make("demo")
    assert "\nPASS\n" in text
    _, _, after = text.partition("\nWhat to type next")
    commands = re.findall(r"^    (.+)$", after, re.MULTILINE)
    assert len(commands) == 3 and text.rstrip().endswith(commands[-1])
    fresh = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    outputs = [run("bash", "-c", command, cwd=ROOT, env=fresh) for command in commands]
    assert "What to try next" in outputs[0]
    assert outputs[1] == ""
    assert outputs[2].endswith("\nPASS\n")
