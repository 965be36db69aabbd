"""A wheel in an empty environment, with no compiler and no checkout, and the sdist."""

import ast
import shutil
import sys
import tarfile
import zipfile

import pytest
from shared import BARE, GRAPH, PACKAGING, ROOT, run


def test_command(installed, home):
    version = run(ROOT / "pallasc", "--version")
    assert installed("pallasc", "--version") == version
    assert installed("python", "-m", "pallasc", "--version") == version
    assert installed("pallasc-py", "--version") == version
    assert installed("pallasc", "graph.json", "-o", "kernel.py") == ""
    ours = home / "ours.py"
    run(ROOT / "pallasc", GRAPH, "-o", ours)
    assert (home / "kernel.py").read_text() == ours.read_text()


def test_run(installed):
    installed("pallasc", "graph.json", "-o", "run.py")
    assert installed("python", "-m", "pallasc", "run", "run.py", "--graph", "graph.json").endswith(
        "\nPASS\n"
    )
    assert "PASS" in installed("pallasc-py", "check", "graph.json")
    installed("python", "-m", "pallasc", "lint", "run.py")


CODE = """
import pallasc, shutil, sys
from pallasc import binding
module = pallasc.compile("graph.json", target="v7x")
module.load()
print([shutil.which(name) for name in ("cc", "gcc", "clang", "make")])
prefixes = (sys.prefix, sys.base_prefix)
print([path for path in sys.path if path and not path.startswith(prefixes)])
print((pallasc.__file__, binding.find_library().path, module.info["target"], pallasc.__version__))
"""


def test_library(installed, home):
    compilers, paths, told = map(ast.literal_eval, installed("python", "-c", CODE).splitlines())
    assert compilers == [None] * 4 and paths == []
    package, library, target, version = told
    for path in (package, library):
        assert path.startswith(str(home / "venv"))
    assert (target, f"pallasc {version}\n") == ("v7x", installed("pallasc", "--version"))


def test_pip_uninstall_leaves_nothing(wheels, tmp_path):
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", venv)

    def files():
        return {path for path in venv.rglob("*") if path.is_file() and path.suffix != ".pyc"}

    before = files()
    pip = [venv / "bin" / "python", "-m", "pip"]
    run(*pip, "install", "-q", "--no-deps", wheels["x86_64"])
    assert len(files() - before) > 20
    run(*pip, "uninstall", "-q", "-y", "pallasc")
    assert files() == before


def test_sdist_is_the_checkout(sdist):
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = set(run("git", "-C", ROOT, "ls-files", "-co", "--exclude-standard").splitlines())
    assert names == tracked | {"PKG-INFO"}


@pytest.fixture(scope="session")
def source(sdist, tmp_path_factory):
    """The unpacked sdist."""
    folder = tmp_path_factory.mktemp("source")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (inner,) = folder.iterdir()
    return inner


WHEEL = [PACKAGING / "python", "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]


def test_wheel_of_the_sdist(source, tmp_path):
    """It holds the library and the command, and its tag names this platform only."""
    run(*WHEEL, "-w", tmp_path, source)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stem.endswith("-py3-none-linux_x86_64")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    (command,) = tmp_path.glob("*.data/scripts/pallasc")
    command.chmod(0o755)
    assert run(command, "--version") == run(ROOT / "pallasc", "--version")
    assert run(command, GRAPH) == run(ROOT / "pallasc", GRAPH)
    code = "import pallasc; print(pallasc.compile('graph.json').source, end='')"
    shutil.copy(GRAPH, tmp_path / "graph.json")
    python = ROOT / ".venv" / "bin" / "python"
    there = {**BARE, "PYTHONPATH": str(tmp_path)}
    assert run(python, "-c", code, cwd=tmp_path, env=there) == run(command, GRAPH)


NO_HEADERS = "there are no headers of libc or of such a jansson"
NEEDED = (
    "needed are a C compiler, GNU make and jansson 2.13 or later"
    " (Debian: apt-get install gcc libc6-dev make libjansson-dev)"
)


@pytest.mark.parametrize(
    ("tools", "variables", "reason"),
    [
        ((), {}, "GNU make is missing"),
        (("make",), {}, "there is no C compiler 'cc'"),
        (("make",), {"CC": "no-such-cc -m64"}, "there is no C compiler 'no-such-cc'"),
        (("make", "cc"), {"CPPFLAGS": "-nostdinc"}, NO_HEADERS),
        (("make", "cc"), {"CPPFLAGS": "-DJANSSON_H -DJANSSON_VERSION_HEX=0x020c00"}, NO_HEADERS),
    ],
)
def test_what_a_build_needs_is_said_in_one_line(source, tmp_path, tools, variables, reason):
    for tool in tools:
        (tmp_path / tool).symlink_to(shutil.which(tool))
    environment = {**BARE, **variables, "PATH": str(tmp_path)}
    text = run(*WHEEL, "-w", tmp_path, source, env=environment, status=1)
    assert "Traceback" not in text
    assert [line.strip() for line in text.splitlines() if "pallasc:" in line] == [
        f"pallasc: cannot build: {reason}; {NEEDED}"
    ]
