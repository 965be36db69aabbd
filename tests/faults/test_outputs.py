"""Outputs of the command that cannot be written, or not to their end; signals that come amid."""

import os
import resource
import signal
import subprocess
import threading
import time

import kit
import pytest
from faulty import left_whole, words
from kit import PALLASC, accepted, path, refused, run

ATTENTION = path("attention")
SWEEP = [PALLASC, "sweep", path("attention_b8_h32_s8192_d256"), "-j", "1", "-o", "out"]


@pytest.fixture
def old(tmp_path):
    """A folder with an output of old."""
    (tmp_path / "out").write_text("old")
    return tmp_path


@pytest.fixture(scope="module")
def whole():
    """What is written where nothing fails."""
    return accepted(ATTENTION).out


def limited(number, size):
    """What gives a process such a limit."""
    return lambda: resource.setrlimit(number, (size, size))


# ---- places that cannot be written ---------------------------------------------------------------


@pytest.mark.parametrize("command", [words("attention"), SWEEP], ids=["compile", "sweep"])
def test_a_file_that_may_not_grow(old, command):
    """As on a full disk, and the signal that comes of it is no end."""
    done = subprocess.run(
        command,
        cwd=old,
        capture_output=True,
        text=True,
        preexec_fn=limited(resource.RLIMIT_FSIZE, 4096),
    )
    assert done.returncode == 3
    assert "cannot write out: File too large" in done.stderr
    left_whole(old)


def test_a_full_disk(old):
    """A file system of 16 KiB, where one may be mounted."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "none", old], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("no file system may be mounted here")
    try:
        (old / "out").write_text("old")
        assert "No space left" in refused(3, ATTENTION, "--emit=html", "-o", old / "out")
        left_whole(old)
    finally:
        subprocess.run(["umount", old], check=True)


@pytest.mark.parametrize("option", ["--emit=python", "--emit=html", "sweep"])
def test_standard_output_is_full_or_closed(option):
    with open("/dev/full", "w") as full:
        found = run(option, ATTENTION, stdout=full)
    assert found.status == 3
    assert "cannot write standard output: No space left" in found.err
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        found = run(option, ATTENTION, stdout=pipe)
    assert found.status == 3
    assert "cannot write standard output: Broken pipe" in found.err


def test_a_folder_that_may_not_be_written(old):
    old.chmod(0o555)
    (old / "out").chmod(0o444)
    nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    if nobody and run("--version", **nobody).status:
        pytest.skip("nobody else may run the command here")
    for name in ("out", "new"):
        assert "Permission denied" in refused(3, ATTENTION, "-o", old / name, **nobody)
    old.chmod(0o755)
    left_whole(old)


def test_a_folder_in_place_of_the_file(tmp_path):
    (tmp_path / "out").mkdir()
    assert "Is a directory" in refused(3, ATTENTION, "-o", tmp_path / "out")
    assert os.listdir(tmp_path) == ["out"]


# ---- links and pipes -----------------------------------------------------------------------------


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_a_link(tmp_path, whole, there):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "second").symlink_to("file")
    (tmp_path / "out").symlink_to("far/second")
    if there:
        (tmp_path / "far" / "file").write_text("old")
    accepted(ATTENTION, "-o", tmp_path / "out")
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "far" / "second").is_symlink()
    assert (tmp_path / "far" / "file").read_text() == whole
    assert sorted(os.listdir(tmp_path / "far")) == ["file", "second"]


def test_a_link_to_itself(tmp_path):
    (tmp_path / "out").symlink_to("out")
    accepted(ATTENTION, "-o", tmp_path / "new")
    assert run(ATTENTION, "-o", tmp_path / "out").status in (0, 3)
    assert sorted(os.listdir(tmp_path)) == ["new", "out"]


def test_a_fifo_gets_the_text_and_stays(tmp_path, whole):
    os.mkfifo(tmp_path / "out")
    found = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "out").read_text()))
    reader.start()
    accepted(ATTENTION, "-o", tmp_path / "out")
    reader.join(20)
    assert found == [whole]
    assert (tmp_path / "out").is_fifo()
    assert os.listdir(tmp_path) == ["out"]


# ---- several at once, and signals ----------------------------------------------------------------


def test_processes_at_one_output(old, whole):
    """Whoever is last wins; nobody ever sees half of it."""
    running = [subprocess.Popen(words("attention"), cwd=old) for _ in range(8)]
    while any(process.poll() is None for process in running):
        assert (old / "out").read_text() in ("old", whole)
    assert {process.returncode for process in running} == {0}
    left_whole(old, old=whole)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_amid_a_sweep(old, number):
    """It writes for seconds: the signal comes while the file is half there."""
    process = subprocess.Popen(
        SWEEP,
        cwd=old,
        stderr=subprocess.PIPE,
        text=True,
        # What starts the tests may ignore it, as nohup and shells do for what runs behind them.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 20
    while len(os.listdir(old)) < 2 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert len(os.listdir(old)) == 2
    process.send_signal(number)
    assert process.communicate(timeout=20)[1] == ""
    assert process.returncode == -number  # of a shell: 128 and the number
    left_whole(old)


def test_a_killed_process_leaves_the_old_file(old):
    process = subprocess.Popen(SWEEP, cwd=old)
    time.sleep(0.3)
    process.kill()
    process.wait(20)
    assert (old / "out").read_text() == "old"


def test_an_ignored_signal_stays_ignored(old):
    process = subprocess.Popen(
        [PALLASC, "sweep", path("softmax"), "--sample=2000", "-o", "out"],
        cwd=old,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)
    assert process.returncode == 0
    assert os.listdir(old) == ["out"]
    assert (old / "out").read_text() != "old"


def test_a_write_that_is_late(whole):
    """A reader that pauses: the text comes whole."""
    process = subprocess.Popen([kit.PALLASC, ATTENTION], stdout=subprocess.PIPE, text=True)
    time.sleep(0.2)
    assert process.communicate(timeout=20)[0] == whole
    assert process.returncode == 0
