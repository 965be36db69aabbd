"""The Debian packages of `make deb`: what they hold, and that it works where they are unpacked."""

import re

import pytest
from shared import BARE, DIST, GRAPH, ROOT, run
from test_wheels import PROGRAM

HELD = {
    "pallasc": {
        "usr/bin/pallasc",
        "usr/share/bash-completion/completions/pallasc",
        "usr/share/doc/pallasc/CHANGELOG.md.gz",
        "usr/share/doc/pallasc/README.md.gz",
        "usr/share/doc/pallasc/changelog.gz",
        "usr/share/doc/pallasc/copyright",
        "usr/share/fish/vendor_completions.d/pallasc.fish",
        "usr/share/man/man1/pallasc.1.gz",
        "usr/share/zsh/site-functions/_pallasc",
    },
    "libpallasc1": {
        "usr/lib/ARCH/libpallasc.so.1",
        "usr/share/doc/libpallasc1/changelog.gz",
        "usr/share/doc/libpallasc1/copyright",
    },
    "libpallasc-dev": {
        "usr/include/pallasc/pallasc.h",
        "usr/lib/ARCH/libpallasc.a",
        "usr/lib/ARCH/libpallasc.so",
        "usr/lib/ARCH/pkgconfig/pallasc.pc",
        "usr/share/doc/libpallasc-dev/changelog.gz",
        "usr/share/doc/libpallasc-dev/copyright",
        "usr/share/pallasc/fxtile.schema.json",
    },
}


@pytest.fixture(scope="module")
def packages():
    """The one .deb of each package."""
    found = {name: list(DIST.glob(f"{name}_*.deb")) for name in HELD}
    assert all(len(files) == 1 for files in found.values()), f"{found}: make deb"
    return {name: files[0] for name, files in found.items()}


@pytest.fixture(scope="module")
def root(packages, tmp_path_factory):
    """A folder that all of them are unpacked into."""
    folder = tmp_path_factory.mktemp("root")
    for package in packages.values():
        run("dpkg-deb", "-x", package, folder)
    return folder


@pytest.fixture(scope="module")
def arch():
    return run("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()


def test_what_they_hold(packages, arch):
    for name, package in packages.items():
        listed = run("dpkg-deb", "-c", package)
        files = set(re.findall(r"^[^d].* \./(\S+)", listed, re.MULTILINE))
        assert files == {path.replace("ARCH", arch) for path in HELD[name]}


def test_what_they_need(packages):
    needed = {name: run("dpkg-deb", "-f", file, "Depends") for name, file in packages.items()}
    assert re.fullmatch(r"libc6 \(>= [\d.]+\), libjansson4 \(>= [\d.]+\)\n", needed["pallasc"])
    version = run("dpkg-deb", "-f", packages["pallasc"], "Version").strip()
    assert f"pallasc {version}\n" == run(ROOT / "pallasc", "--version")
    assert f"libpallasc1 (= {version})" in needed["libpallasc-dev"]


def test_command(root):
    assert run(root / "usr/bin/pallasc", GRAPH) == run(ROOT / "pallasc", GRAPH)


def test_library(root, arch, tmp_path):
    (tmp_path / "program.c").write_text(PROGRAM)
    folder = root / "usr/lib" / arch
    there = {
        **BARE,
        "PKG_CONFIG_PATH": str(folder / "pkgconfig"),
        "PKG_CONFIG_SYSROOT_DIR": str(root),
    }
    flags = run("pkg-config", "--cflags", "--libs", "pallasc", env=there).split()
    run("cc", "-o", tmp_path / "program", tmp_path / "program.c", *flags, f"-L{folder}")
    text = run(tmp_path / "program", env={**BARE, "LD_LIBRARY_PATH": str(folder)})
    assert text.splitlines()[0].endswith(" 1")
