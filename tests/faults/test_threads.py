"""The library in many threads, and in a process that lives long; what it exports."""

import subprocess

from faulty import GRAPHS, built
from kit import ROOT, path

# `make threads` makes 10,000; `make tsan` looks at each access.
COMPILATIONS = 1600


def test_threads_at_once_get_the_texts_of_one_and_memory_stays():
    done = subprocess.run(
        [built("threads"), str(COMPILATIONS), *map(path, GRAPHS), path("add"), path("gram")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def listed(*command):
    (library,) = (ROOT / "build").glob("libpallasc.so.?")
    found = subprocess.run([*command, library], capture_output=True, text=True, check=True)
    return [line.split() for line in found.stdout.splitlines()]


def test_the_library_exports_what_is_listed_and_no_more():
    """Also no data: a variable would be its state."""
    known = (ROOT / "testdata/accepted/0.1.0/symbols").read_text().split()
    rows = listed("nm", "-D", "--defined-only")
    assert sorted(row[-1] for row in rows) == sorted(known)
    assert {row[-2] for row in rows} == {"T"}


def test_the_library_has_no_state():
    """No variable that can be written, but what the compiler and libc put there."""
    mutable = {row[-1] for row in listed("objdump", "-t") if {".data", ".bss"} & set(row[:-1])}
    theirs = {".data", ".bss", "completed.0", "__dso_handle", "__TMC_END__"}
    assert mutable <= theirs
