"""The same output whatever built the compiler and wherever it runs.

    make same                       # every module of tests/modules.txt, of all builds: minutes

Each build's libpallasc prints every case of modules.py, on one thread and on several, in another
folder, under a locale whose decimal point is a comma. `tests/whole/test_same.py` does a part of it.
"""

import argparse
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LOCALE = "de_DE.UTF-8"
# name: make's variables. The build that is there already is what the others are compared with.
BUILDS = {
    "gcc-O0": {"CC": "gcc", "CFLAGS": "-O0"},
    "gcc-O3": {"CC": "gcc", "CFLAGS": "-O3 -march=native"},
    "clang-O1": {"CC": "clang", "CFLAGS": "-O1"},
    "clang-O3": {"CC": "clang", "CFLAGS": "-O3"},
}
PRINTER = """
import locale, os, sys
if sys.argv[3]:
    locale.setlocale(locale.LC_ALL, sys.argv[3])
if sys.argv[4]:
    os.cpu_count = lambda: int(sys.argv[4])
import printed
printed.main()
"""


def locale_folder(folder):
    """A LOCPATH that has LOCALE, made in the folder; None where it cannot be made."""
    if not shutil.which("localedef"):
        return None
    command = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(folder / LOCALE)]
    done = subprocess.run(command, capture_output=True, check=False)
    return folder if done.returncode == 0 else None


def printed_by(library, some, locpath=None, threads=None, folder=None, **environment):
    """(accepted, text) of each `printed.Case`, as a library prints it in a process of its own.

    Args:
      locpath: of `locale_folder`: then the process is in that locale.
      threads: how many print at the same time.
      folder: where it runs.

    """
    path = os.pathsep.join([str(HERE), str(ROOT / "python")])
    added = {"PALLASC_LIBRARY": str(library), "PYTHONPATH": path, **environment}
    added |= {"LOCPATH": str(locpath)} if locpath else {}
    with tempfile.TemporaryDirectory() as directory:
        given, made = Path(directory, "cases"), Path(directory, "printed")
        given.write_bytes(pickle.dumps([tuple(case) for case in some]))
        words = [given, made, LOCALE if locpath else "", threads or ""]
        command = [sys.executable, "-c", PRINTER, *map(str, words)]
        subprocess.run(command, env=os.environ | added, cwd=folder or directory, check=True)
        return pickle.loads(made.read_bytes())


def build(name):
    """The libpallasc of one of BUILDS, made where it is missing; None without its compiler."""
    variables = BUILDS[name]
    if not shutil.which(variables["CC"]):
        return None
    library = ROOT / "build" / "same" / name / "libpallasc.so"
    where = f"BUILD=build/same/{name}"
    words = [f"{key}={value}" for key, value in variables.items()]
    command = ["make", f"-j{os.cpu_count()}", where, *words, str(library.relative_to(ROOT))]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return library


def ways(folder):
    """{name: arguments of `printed_by`} of all that is compared with the library that is there."""
    library = ROOT / "build" / "libpallasc.so"
    found = {"again": (library, {}), "one thread": (library, {"threads": 1})}
    found["eight threads"] = (library, {"threads": 8})
    if locpath := locale_folder(folder):
        found[LOCALE] = (library, {"locpath": locpath})
    found |= {name: (made, {}) for name in BUILDS if (made := build(name))}
    return found


def main():
    """Exit status 1 if something differs."""
    sys.path[:0] = [str(HERE), str(ROOT / "python")]
    import modules

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--match", default="", metavar="TEXT", help="only cases so named")
    options = parser.parse_args()
    some = [case for case in modules.cases() if options.match in case.name]
    differ = 0
    with tempfile.TemporaryDirectory() as directory:
        expected = printed_by(ROOT / "build" / "libpallasc.so", some)
        for name, (library, how) in ways(Path(directory)).items():
            found = printed_by(library, some, **how)
            names = [c.name for c, a, b in zip(some, expected, found, strict=True) if a != b]
            print(
                f"{name}: {len(some) - len(names)} of {len(some)} modules equal",
                *names[:5],
                sep="\n  ",
            )
            differ += len(names)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
