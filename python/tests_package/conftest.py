"""What the tests of the packages share. `make check-package` builds dist/ and runs them."""

import subprocess
import sys
import zipfile

import pytest
from shared import BARE, DIST, GRAPH, run

ARCHES = ("x86_64", "aarch64")


def only(pattern):
    found = sorted(DIST.glob(pattern))
    assert len(found) == 1, f"one dist/{pattern} is expected, not {found}: make wheels sdist"
    return found[0]


@pytest.fixture(scope="session")
def wheels():
    """Paths of the wheels by machine."""
    return {arch: only(f"pallasc-*-py3-none-manylinux_2_28_{arch}.whl") for arch in ARCHES}


@pytest.fixture(scope="session")
def sdist():
    return only("pallasc-*.tar.gz")


@pytest.fixture(scope="session")
def unpacked(wheels, tmp_path_factory):
    """Folders with the files of the wheels, by machine."""
    folders = {}
    for arch, wheel in wheels.items():
        folders[arch] = tmp_path_factory.mktemp(arch)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folders[arch])
        for program in folders[arch].glob("*.data/scripts/*"):
            program.chmod(0o755)
    return folders


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """A folder that holds a virtual environment, `venv`, and a graph: nothing of the checkout."""
    folder = tmp_path_factory.mktemp("home")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    (folder / "graph.json").write_bytes(GRAPH.read_bytes())
    return folder


@pytest.fixture(scope="session")
def installed(home, wheels):
    """Runs commands in `home`, with no PATH but the environment's, after `pip install WHEEL`.

    With its dependencies: nothing is taken from the environment that runs the tests.
    """
    venv = home / "venv" / "bin"
    subprocess.run([venv / "python", "-m", "pip", "install", "-q", wheels["x86_64"]], check=True)

    def run_there(*command, **options):
        environment = {**BARE, "PATH": str(venv), "HOME": str(home)}
        return run(*command, cwd=home, env=environment, **options)

    return run_there
