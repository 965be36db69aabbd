"""`make graphs`: exports and builds every committed graph. Needs torch and helion.

testdata/kernels/graphs.json lists those of testdata/graphs, testdata/devices/devices.export.json
those of testdata/devices/graphs, testdata/coverage/*.export.json those of testdata/coverage/graphs,
which also has what testdata/coverage/*.build.py builds: a script's public functions each return the
document of the graph of their name. As many at once as there are cores.
"""

import argparse
import importlib.util
import inspect
import multiprocessing
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
KERNELS = ROOT / "testdata" / "kernels" / "graphs.json"
COVERAGE = ROOT / "testdata" / "coverage"
DEVICES = ROOT / "testdata" / "devices" / "devices.export.json"


def main():
    """Exit status 1 if an export is refused."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("match", nargs="?", help="only files of testdata/coverage so named")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "testdata", metavar="DIR")
    options = parser.parse_args()
    target = options.output / "coverage" / "graphs"
    found = [(path, target) for path in COVERAGE.glob("*.build.py")]
    found += [(path, target) for path in COVERAGE.glob("*.export.json")]
    found = [job for job in found if (options.match or "") in job[0].name]
    if not options.match:
        found += [(KERNELS, options.output / "graphs")]
        found += [(DEVICES, options.output / "devices" / "graphs")]
    found.sort(key=lambda job: -job[0].stat().st_size)  # the long ones first
    with multiprocessing.get_context("spawn").Pool() as pool:
        return max(pool.starmap(make, found, chunksize=1), default=0)


def make(path, target):
    """Writes the graphs of a manifest or a script; gives an exit status."""
    target.mkdir(parents=True, exist_ok=True)
    return build(path, target) if path.suffix == ".py" else export(path, target)


def export(manifest, target):
    """Exports what a manifest lists; gives the exit status of `pallasc export`."""
    from pallasc.export import main as run

    return run(["--manifest", str(manifest), "-o", str(target)])


def build(path, target):
    """Writes what each public function that a script defines returns; gives 0."""
    from pallasc.export import text
    from pallasc.files import write_file

    spec = importlib.util.spec_from_file_location(path.name.replace(".", "_"), path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for name, function in inspect.getmembers(script, inspect.isfunction):
        if function.__module__ == script.__name__ and not name.startswith("_"):
            write_file(str(target / f"{name}.json"), text(function()))
            print(name, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
