"""The wheels: what is in them, and what they need."""

import re
import shutil
import subprocess
import zipfile
from email.parser import Parser

import pytest
from shared import PACKAGING, ROOT, run

MACHINES = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}


@pytest.fixture(params=MACHINES)
def arch(request):
    return request.param


def programs(folder):
    (command,) = folder.glob("pallasc-*.data/scripts/pallasc")
    return [folder / "pallasc" / "libpallasc.so", command]


def test_files(arch, wheels):
    with zipfile.ZipFile(wheels[arch]) as archive:
        modes = {item.filename: item.external_attr >> 16 & 0o777 for item in archive.infolist()}
    version = wheels[arch].name.split("-")[1]
    extra = {
        "pallasc/libpallasc.so",
        "pallasc/libpallasc.LICENSE",
        f"pallasc-{version}.data/scripts/pallasc",
        *(
            f"pallasc-{version}.dist-info/{name}"
            for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
        ),
    }
    package = ROOT / "python" / "pallasc"
    files = [*package.rglob("*.py"), *(package / "on_tpu" / "race").glob("*.json")]
    files.append(package / "py.typed")
    assert modes.keys() == {f"pallasc/{path.relative_to(package)}" for path in files} | extra
    assert modes[f"pallasc-{version}.data/scripts/pallasc"] == 0o755


def test_metadata(arch, unpacked):
    (folder,) = unpacked[arch].glob("*.dist-info")
    wheel = Parser().parsestr((folder / "WHEEL").read_text())
    assert wheel.get_all("Tag") == [f"py3-none-manylinux_2_28_{arch}"]
    assert wheel["Root-Is-Purelib"] == "false"
    about = Parser().parsestr((folder / "METADATA").read_text())
    assert about["License-Expression"] == "Apache-2.0"
    assert set(about.get_all("Provides-Extra")) == {"tpu", "export", "test"}
    assert (folder / "licenses" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert "Petri Lehtinen" in (unpacked[arch] / "pallasc" / "libpallasc.LICENSE").read_text()


def test_machine_code(arch, unpacked):
    """The right machine; it needs glibc 2.28 or older, whose threads (of a sweep) are a library of
    their own, and nothing else; no path of the build."""
    parts = {"libc.so.6", "libm.so.6", "libpthread.so.0"}
    for path in programs(unpacked[arch]):
        text = run("readelf", "--wide", "--file-header", "--dynamic", "--version-info", path)
        assert re.search(r"Machine: +(.*)", text)[1] == MACHINES[arch]
        assert set(re.findall(r"NEEDED.*\[(.*)\]", text)) <= parts
        versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", text)}
        assert versions and max(versions) <= (2, 28)
        assert str(ROOT).encode() not in path.read_bytes()


def test_auditwheel_agrees(arch, wheels):
    """The platform that auditwheel finds is that of the tag, or one of an older glibc."""
    text = run(PACKAGING / "python", "-m", "auditwheel", "show", wheels[arch])
    (minor,) = re.findall(rf'following platform tag:\s+"manylinux_2_([0-9]+)_{arch}"', text)
    assert int(minor) <= 28


def test_only_our_symbols_are_exported(arch, unpacked):
    header = (ROOT / "include" / "pallasc" / "pallasc.h").read_text()
    declared = set(re.findall(r"^PALLASC_API .*?\b(pallasc_\w+)\(", header, re.MULTILINE))
    text = run("nm", "--dynamic", "--defined-only", programs(unpacked[arch])[0])
    assert {line.split()[-1] for line in text.splitlines()} == declared


def arm64(*command, status=0):
    """Runs a program for aarch64 under qemu, with Debian's libc for it."""
    return run(
        ROOT / "build/qemu/usr/bin/qemu-aarch64-static",
        "-L",
        ROOT / "build/arm64",
        *command,
        status=status,
    )


def test_aarch64_compiles_as_x86_64_does(unpacked):
    """Each graph: the module, the plan, and the refusals are byte-identical."""
    ours, theirs = programs(unpacked["x86_64"])[1], programs(unpacked["aarch64"])[1]
    assert arm64(theirs, "--version") == run(ours, "--version")
    graphs = sorted((ROOT / "testdata" / "graphs").glob("*.json"))
    assert graphs
    for graph in graphs:
        for emit in ("python", "report"):
            mine = subprocess.run([ours, graph, f"--emit={emit}"], capture_output=True, text=True)
            other = arm64(theirs, graph, f"--emit={emit}", status=mine.returncode)
            assert other == mine.stdout + mine.stderr, graph


PROGRAM = """
#include <pallasc/pallasc.h>
#include <stdio.h>
#include <string.h>
int main(void) {
	pallasc_context *context = pallasc_context_new();
	pallasc_result *result = pallasc_compile(context, "{}", 2, NULL);
	printf("%s %d\\n", pallasc_version(), (int)pallasc_result_status(result));
	fputs(pallasc_result_diagnostics(result, NULL), stdout);
	pallasc_result_free(result);
	pallasc_context_free(context);
	return 0;
}
"""


def test_aarch64_library(unpacked, tmp_path):
    """The shared library for aarch64 loads and answers as that for x86_64 does."""
    answers = {}
    (tmp_path / "program.c").write_text(PROGRAM)
    for arch in MACHINES:
        library = tmp_path / arch / "libpallasc.so.1"
        library.parent.mkdir()
        shutil.copy(programs(unpacked[arch])[0], library)
        program = tmp_path / f"program-{arch}"
        zig = [
            PACKAGING / "python",
            "-m",
            "ziglang",
            "cc",
            "-target",
            f"{arch}-linux-gnu.2.28",
            "-O2",
        ]
        run(
            *zig,
            f"-I{ROOT / 'include'}",
            "-o",
            program,
            tmp_path / "program.c",
            library,
            f"-Wl,-rpath,{library.parent}",
        )
        answers[arch] = run(program) if arch == "x86_64" else arm64(program)
    assert answers["aarch64"] == answers["x86_64"]
    version, status = answers["x86_64"].splitlines()[0].split()
    assert (version, status) == (run(ROOT / "pallasc", "--version").split()[1], "1")
