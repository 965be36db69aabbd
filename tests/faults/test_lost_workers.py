"""Compiler processes that are killed, fill memory, or are left alone."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from kit import ROOT
from pallasc import aot, tune

HERE = Path(__file__).resolve().parent
PATH = os.pathsep.join([str(ROOT / "python"), str(HERE)])


@pytest.fixture
def worker(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", PATH)
    found = aot.Worker(256 << 20, "sleeping_worker")
    yield found
    found.close()


def is_there(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def gone(pid):
    """Whether a process ends soon."""
    deadline = time.monotonic() + 20
    while is_there(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_there(pid)


@pytest.mark.parametrize(
    ("job", "kind", "says"),
    [
        ({"do": "kill"}, "crash", "ended with signal 9, as for want of memory"),
        ({"do": "fill", "bytes": 300 << 20}, "memory", "took more than 256.00 MiB"),
        ({"do": "garbage"}, "crash", "the compiler process"),
        ({"do": "sleep"}, "timeout", "no result after 1.5 s"),
    ],
)
def test_what_is_said_of_a_lost_worker(worker, job, kind, says):
    with pytest.raises(aot.WorkerLost, match=says) as lost:
        worker.request(job, 1.5 if job["do"] == "sleep" else 60)
    assert lost.value.kind == kind


def test_its_temporary_files_go_with_it(worker):
    folder = Path(worker.request({"do": "answer"}, 60)["folder"])
    assert (folder / "left").exists()
    with pytest.raises(aot.WorkerLost):
        worker.request({"do": "kill"}, 60)
    worker.close()
    assert not folder.exists()


def test_it_ends_with_its_parent():
    """Which is killed, so that it can end nothing itself."""
    code = (
        "import os, time; from pallasc import aot\n"
        "worker = aot.Worker(program='sleeping_worker')\n"
        "print(worker.request({'do': 'answer'}, 60)['pid'], flush=True)\n"
        "worker.request({'do': 'sleep'}, 600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": PATH}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        pid = int(parent.stdout.readline())
        assert is_there(pid)
        parent.send_signal(signal.SIGKILL)
    assert gone(pid)


def test_all_are_ended_and_none_starts(worker):
    """What is asked of them then is answered at once."""
    said = []

    def ask():
        try:
            worker.request({"do": "sleep"}, 600)
        except aot.WorkerLost as lost:
            said.append(str(lost))

    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(0.3)
    with aot.Worker.ended():
        asking.join(20)
        with pytest.raises(aot.WorkerLost, match="interrupted"):
            aot.Worker(program="sleeping_worker")
    assert "signal 9" in said[0]
    aot.Worker(program="sleeping_worker").close()


def test_a_tuner_tries_again_what_was_lost(tmp_path):
    """A refusal is kept; that a process was killed says nothing of the configuration."""
    journal = tune.Journal(tmp_path / "journal.jsonl")
    journal.put(tune.Outcome({}, {}, "refused", failure="over VMEM"))
    journal.put(tune.Outcome({}, {}, "killed", failure="signal 9", lost=True))
    known = tune.Journal(tmp_path / "journal.jsonl").known
    assert list(known) == ["refused"]
