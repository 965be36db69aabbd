"""Memory that is not there, at every allocation in turn: no crash, no half of an output.

`make faults` asks the library about all allocations, in a build with sanitizers.
"""

import os
import resource
import subprocess

import pytest
from faulty import GRAPHS, built, left_whole, words
from kit import PALLASC, path

SAMPLE = 60
OUTPUTS = [["--emit=python"], ["--emit=json"], ["--emit=html"], ["--emit=report", "--explain"]]
OUTPUTS += [["--emit=kernel", "--diagnostics=json"]]
NO_MEMORY = {
    "pallasc: error: out of memory",
    '{"severity": "error", "code": "out-of-memory", "message": "out of memory"}',
}


def test_the_library_says_so_and_goes_on():
    graphs = [path(name) for name in GRAPHS]
    done = subprocess.run(
        [built("allocations"), "--sample", str(SAMPLE), *graphs], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def allocations(command, folder, log):
    """How many a command makes."""
    environment = {**os.environ, "LD_PRELOAD": built("failing_malloc.so"), "FAULTS_COUNT": log}
    subprocess.run(command, cwd=folder, env=environment, check=True, stderr=subprocess.DEVNULL)
    return int(log.read_text())


def failing(command, folder, number, on):
    """(exit status, standard error) of a command whose n-th allocation fails."""
    environment = {**os.environ, "LD_PRELOAD": built("failing_malloc.so"), "FAULTS_AT": str(number)}
    environment |= {"FAULTS_ON": "1"} if on else {}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stderr


@pytest.mark.parametrize("options", OUTPUTS, ids=" ".join)
def test_the_command_leaves_the_output_whole(tmp_path, options):
    folder = tmp_path / "there"
    folder.mkdir()
    for graph in GRAPHS:
        command = words(graph, *options)
        count = allocations(command, folder, tmp_path / "count")
        new = (folder / "out").read_text()
        seen = set()
        for number in range(1, count + 1):
            for on in (False, True):
                (folder / "out").write_text("old")
                status, said = failing(command, folder, number, on)
                seen.add(status)
                # Without its buffer, stdio writes at once: nothing is lost.
                left_whole(folder, old=new if status == 0 else "old")
                assert status in (0, 3), said
                assert status == 0 or said.splitlines()[-1] in NO_MEMORY
        assert 3 in seen


def test_a_sweep_leaves_nothing_half_done(tmp_path):
    folder = tmp_path / "there"
    folder.mkdir()
    command = [PALLASC, "sweep", "-j1", path("softmax"), "--sample=50", "-o", "out"]
    count = allocations(command, folder, tmp_path / "count")
    assert count > 20
    for number in range(1, count + 1):
        (folder / "out").write_text("old")
        status, said = failing(command, folder, number, number % 2)
        assert status in (0, 3), said
        if status:
            assert "out of memory" in said or "no thread can be started" in said
            left_whole(folder)


def test_an_address_space_that_is_too_small(tmp_path):
    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (24 << 20, 24 << 20))

    (tmp_path / "g.json").write_text('{"a": [' + "1, " * 2_000_000 + "1]}")
    command = [PALLASC, tmp_path / "g.json"]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limited)
    assert (done.returncode, done.stdout) == (3, "")
    assert "out of memory" in done.stderr
