"""A copy of the sources in which faults are planted: built once, then an object and a link each.

The whole compiler is one shared library there, which the command, the unit tests and Python load,
so that a fault is in all of them after one link. Its functions tell which of them a run enters.
"""

import functools
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TREE = ROOT / "build" / "planted" / "tree"
LIBRARY = TREE / "build" / "libpallasc.so.1"
REACHED = "tests/planted/reached.c"
EXPLAIN_TEXT = "build/explain_text.o"  # of the command
# A kernel takes milliseconds; a fault may take all of time and memory.
WRAPPER = """#!/bin/sh
exec prlimit --as=4000000000 --cpu=20 {} "$@"
"""
# What has no value yet is no value that happens to be right.
FILLED = "-DVEC_FILLED=1 -ftrivial-auto-var-init=pattern"
FLAGS = f"-fvisibility=default -finstrument-functions {FILLED}"
WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Werror"


def sh(*words, **options):
    """Runs a command in the tree; gives the finished process."""
    return subprocess.run(words, cwd=TREE, text=True, capture_output=True, **options)


def must(*words, **options):
    """The same of one that must succeed."""
    done = sh(*words, **options)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))[:300]}\n{done.stdout}{done.stderr}")
    return done.stdout


def copy():
    """Brings the tree to what stands in the checkout."""
    listed = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        there, here = TREE / name, ROOT / name
        if here.is_symlink() or not here.is_file():
            continue
        if not there.exists() or here.read_bytes() != there.read_bytes():
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(here, there)
    for name in (".venv", ".cache"):
        if (ROOT / name).exists() and not (TREE / name).exists():
            (TREE / name).symlink_to(ROOT / name)


def build(jobs=1):
    """The library, the command and the unit tests."""
    TREE.mkdir(parents=True, exist_ok=True)
    copy()
    commands = [f"build/{path.relative_to(TREE).with_suffix('.o')}" for path in commands_sources()]
    commands.append(EXPLAIN_TEXT)
    settings = [f"EXTRA_CFLAGS={FLAGS}", "CFLAGS=-O1", f"EXTRA_SOURCES={REACHED}"]
    plain = ("env", "-u", "MAKEFLAGS", "-u", "MAKELEVEL")  # `make planted` runs this
    must(*plain, "make", f"-j{jobs}", *settings, "build/libpallasc.so", *commands)
    if not LIBRARY.exists():
        raise SystemExit(f"no {LIBRARY}")
    link()
    programs = {"build/command": commands}
    for path in sorted((TREE / "tests/unit").glob("test_*.c")):
        programs[f"build/unit/{path.stem}"] = [f"tests/unit/{path.name}"]
    for name, sources in programs.items():
        newest = max((TREE / source).stat().st_mtime for source in sources)
        if (TREE / name).exists() and (TREE / name).stat().st_mtime > newest:
            continue
        (TREE / name).parent.mkdir(parents=True, exist_ok=True)
        libraries = [
            LIBRARY,
            f"-Wl,-rpath,{LIBRARY.parent}",
            "-lcmocka",
            "-ljansson",
            "-lm",
            "-pthread",
        ]
        must("cc", "-std=c11", "-O0", "-I.", "-Iinclude", "-o", name, *sources, *libraries)
    command = TREE / "pallasc"
    command.write_text(WRAPPER.format(TREE / "build" / "command"))
    command.chmod(0o755)


def commands_sources():
    """The command's own."""
    return sorted((TREE / "src/command").glob("*.c"))


def objects():
    """Those of the library."""
    paths = (str(path.relative_to(TREE)) for path in (TREE / "build").rglob("*.o"))
    return sorted(path for path in paths if "src/command" not in path and path != EXPLAIN_TEXT)


def link():
    """The library of the objects."""
    must(
        "cc",
        "-shared",
        "-Wl,-soname,libpallasc.so.1",
        "-o",
        LIBRARY,
        *objects(),
        "-ljansson",
        "-lm",
    )


def plant(path, text):
    """The library with another text of a file; False where the C compiler does not take it."""
    source, built = TREE / path, TREE / "build" / Path(path).with_suffix(".o")
    source.write_text(text)
    flags = f"-std=c11 -ffp-contract=off -O0 {WARNINGS} -fPIC -I. -Iinclude {FLAGS}".split()
    if sh("cc", *flags, "-c", "-o", built, path).returncode:
        return False
    link()
    return True


@functools.cache
def optimized(path, text):
    """The code of a text of a file."""
    source = TREE.parent / "compared.c"
    source.write_text(text)
    flags = "-std=c11 -ffp-contract=off -O2 -fPIC -I. -Iinclude -w -c -o /dev/stdout -S".split()
    return must("cc", *flags, "-iquote", Path(path).parent, source)


def same_code(path, text):
    """Whether the optimizer makes the same code of another text: then it means the same."""
    return optimized(path, (ROOT / path).read_text()) == optimized(path, text)


def mend(path):
    """The file and its object as they were; the next fault links the library."""
    source, built = TREE / path, TREE / "build" / Path(path).with_suffix(".o")
    source.write_text((ROOT / path).read_text())
    shutil.copy(KEPT / Path(path).with_suffix(".o"), built)


KEPT = TREE.parent / "objects"


def keep():
    """Keeps the objects as they are without a fault: those that are newer than what is kept."""
    for name in objects():
        built, kept = TREE / name, KEPT / Path(name).relative_to("build")
        if not kept.exists() or kept.stat().st_mtime < built.stat().st_mtime:
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(built, kept)


def names():
    """{offset in the library: the function's name}."""
    found = {}
    for line in must("nm", LIBRARY).splitlines():
        words = line.split()
        if len(words) == 3 and words[1] in "tT":
            found[int(words[0], 16)] = words[2].split(".")[0]
    return found


def reached(log, known):
    """The functions that a log of `reached.c` names, in `names()`."""
    if not log.exists():
        return []
    return sorted(
        {known[int(line, 16)] for line in log.read_text().split() if int(line, 16) in known}
    )


def environment(log=None):
    """Of a test in the tree."""
    found = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": "python"}
    found |= {"PALLASC": str(TREE / "pallasc"), "PALLASC_LIBRARY": str(LIBRARY)}
    return found | ({"PLANTED_REACHED": str(log)} if log else {})
