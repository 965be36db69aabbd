"""Commands that Python runs: signals at any time, and outputs that cannot be written."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from faulty import left_whole
from kit import PALLASC, ROOT, accepted, path
from pallasc import files
from pallasc.errors import FileError

SMALL = path("softmax")
COMMANDS = {
    "check": ["check", SMALL],
    "run": ["run", "kernel.py", "--interpret"],
    "aot": ["aot", "kernel.py", "--no-cache"],
    "profile": ["profile", "kernel.py", "--no-cache"],
    "tune": ["tune", SMALL, "--compiles=3", "-o", "out", "--profile"],
    "self-test": ["profile", "--self-test", "--target=v6e"],
}
# Seconds from the start: Python's start, imports, the worker's, its compile.
MOMENTS = (0.3, 1.0, pytest.param(3.0, marks=pytest.mark.full))
ENDING = 1  # seconds that a command takes to end when all is done: a signal then comes too late


# ---- signals -------------------------------------------------------------------------------------


def alive(mark):
    """Processes whose environment has the mark, which all that a command starts inherit."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(folder.name)
        except OSError:
            continue
    return found


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """A folder with a module."""
    folder = tmp_path_factory.mktemp("kernel")
    accepted(SMALL, "-o", folder / "kernel.py")
    return folder


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_signal_ends_it_and_all_that_is_its_own(tmp_path, kernel, name, moment):
    number = signal.SIGTERM if moment == 1.0 else signal.SIGINT
    (tmp_path / "kernel.py").write_text((kernel / "kernel.py").read_text())
    (tmp_path / "out").write_text("old")
    (tmp_path / "tmp").mkdir()
    mark = f"FAULTS_MARK={tmp_path}"
    environment = {
        **os.environ,
        "FAULTS_MARK": str(tmp_path),
        "TMPDIR": str(tmp_path / "tmp"),
        "PALLASC_CACHE": str(tmp_path / "cache"),
        "PALLASC_PYTHON": sys.executable,
    }
    process = subprocess.Popen(
        [PALLASC, *COMMANDS[name]],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Shells start what runs in the background with SIGINT ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    time.sleep(moment)
    was_done = process.poll() is not None  # as on a fast machine
    process.send_signal(number)
    sent = time.monotonic()
    out, said = process.communicate(timeout=60)
    took = time.monotonic() - sent
    assert took < 20
    done = was_done or (process.returncode == 0 and took < ENDING)
    # Before main() the signal itself ends it: a shell tells the same of both.
    assert process.returncode in ((0,) if done else (128 + number, -number)), out + said
    assert "Traceback" not in said and "Error" not in said
    assert alive(mark) == []
    assert os.listdir(tmp_path / "tmp") == []
    assert done or (tmp_path / "out").read_text() == "old"
    assert [str(p) for p in tmp_path.rglob("*.tmp")] == []


def test_a_second_signal_ends_what_does_not_end():
    code = (
        "import os, signal, time\n"
        "from pallasc.limit import ending\n"
        "with ending():\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    except KeyboardInterrupt:\n"
        "        print('ending', flush=True)\n"
        "        time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout.readline() == "ending\n"
        process.send_signal(signal.SIGTERM)
        process.wait(20)
    assert process.returncode == -signal.SIGTERM


# ---- outputs -------------------------------------------------------------------------------------

GRAD = ["grad", path("layer_norm"), "-o", "out"]


def command(words, folder, **options):
    environment = {**os.environ, "PALLASC_PYTHON": sys.executable}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    done = subprocess.run([PALLASC, *words], cwd=folder, env=environment, text=True, **options)
    return done.returncode, done.stdout, done.stderr


def test_a_file_that_may_not_grow(tmp_path):
    (tmp_path / "out").write_text("old")
    limit = resource.RLIMIT_FSIZE
    status, _, said = command(
        GRAD, tmp_path, preexec_fn=lambda: resource.setrlimit(limit, (4096, 4096))
    )
    assert (status, said) == (3, "pallasc: error: cannot write out: File too large\n")
    left_whole(tmp_path)


def test_a_folder_in_place_of_the_file(tmp_path):
    (tmp_path / "out").mkdir()
    status, _, said = command(GRAD, tmp_path)
    assert (status, said) == (3, "pallasc: error: cannot write out: Is a directory\n")


@pytest.mark.parametrize("words", [["grad", path("layer_norm")], ["check", "--help"]])
def test_standard_output_is_full_or_closed(tmp_path, words):
    with open("/dev/full", "w") as full:
        status, _, said = command(words, tmp_path, stdout=full)
    assert status == 3
    assert "No space left on device" in said and "Traceback" not in said
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        status, _, said = command(words, tmp_path, stdout=pipe)
    assert (status, said) == (3, "")


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "nowhere").symlink_to("new")
    files.write_file(tmp_path / "link", "one")
    files.write_file(tmp_path / "nowhere", "two")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "nowhere").is_symlink()
    assert (tmp_path / "file").read_text() == "one"
    assert (tmp_path / "new").read_text() == "two"
    assert sorted(os.listdir(tmp_path)) == ["file", "link", "new", "nowhere"]


def test_a_fifo_gets_the_text_and_stays(tmp_path):
    os.mkfifo(tmp_path / "out")
    found = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "out").read_text()))
    reader.start()
    files.write_file(tmp_path / "out", "text")
    reader.join(20)
    assert found == ["text"]
    assert (tmp_path / "out").is_fifo()


def test_modes_are_those_of_the_old_file_or_of_the_mask(tmp_path):
    mask = os.umask(0o027)
    try:
        files.write_file(tmp_path / "new", "")
        (tmp_path / "old").write_text("")
        (tmp_path / "old").chmod(0o604)
        files.write_file(tmp_path / "old", "text")
    finally:
        os.umask(mask)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "old").stat().st_mode & 0o777 == 0o604


def test_what_cannot_be_written(tmp_path):
    for name, says in (
        ("no/file", "No such file or directory"),
        ("/dev/full", "No space left on device"),
        (".", "Is a directory"),
    ):
        with pytest.raises(FileError, match=f"cannot write .*: {says}"):
            files.write_file(tmp_path / name, "text")
    files.write_file("/dev/null", "text")
    assert Path("/dev/null").is_char_device()
    assert os.listdir(tmp_path) == []
