"""`pallasc reduce`: a graph for which a command succeeds is made small."""

import functools
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import kit
import pytest
from pallasc.reduce import reduce, size
from pallasc.reduce.tidy import tidy

ATTENTION = kit.path("attention_q_inloop")
ADD = kit.path("add")
EXPONENTIAL = 'grep -q "aten.exp2.default"'


def reduced(path, test, *options, status=0):
    found = kit.run("reduce", path, "--if", test, *options, timeout=120)
    assert found.status == status, found.err
    return found


def targets(path):
    return [target for target in kit.targets(json.loads(path.read_text())) if target]


def test_what_the_command_does_not_ask_for_goes(tmp_path):
    small = tmp_path / "small.json"
    found = reduced(ATTENTION, EXPONENTIAL, "-o", small)
    document = json.loads(small.read_text())
    assert len(targets(small)) <= 9
    assert "aten.exp2.default" in targets(small)
    assert len(document["tensors"]) <= 1
    assert max(block["extent"] for block in document["block_sizes"]) == 1
    assert list(document["config"]) == ["block_sizes"]
    assert found.out.startswith(f"{small}: 59 nodes, 9 tensors -> ")
    kit.accepted(small, "--passes=", "--emit=json")


def test_the_path_stands_where_it_is_asked_for_and_the_output_beside_the_graph(tmp_path):
    graph = tmp_path / "it's a graph.json"
    graph.write_text(ADD.read_text())
    reduced(graph, f'test "$(basename {{}})" = "it\'s a graph.json" && {EXPONENTIAL[:7]} add {{}}')
    assert graph.read_text() == ADD.read_text()
    assert (tmp_path / "it's a graph.reduced.json").exists()


def test_a_command_that_fails_on_the_graph_itself(tmp_path):
    found = reduced(ADD, "false", "-o", tmp_path / "small.json", status=1)
    assert found.err.endswith(f"{ADD}: the command of --if exits with 1: nothing to keep\n")
    assert list(tmp_path.iterdir()) == []


def test_the_graph_is_never_overwritten(tmp_path):
    graph, link = tmp_path / "g.json", tmp_path / "link.json"
    graph.write_text(ADD.read_text())
    link.symlink_to(graph)
    for output in (graph, link):
        found = reduced(graph, "true", "-o", output, status=2)
        assert "is the graph that is reduced: name another file by -o" in found.err
    assert graph.read_text() == ADD.read_text()


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("{", 2, "not JSON"),
        ("[]", 2, "a graph is a JSON object"),
        ('{"tensors": []}', 2, "not a graph of the format fxtile"),
        (None, 3, "cannot read"),
    ],
)
def test_what_is_no_graph(tmp_path, text, status, message):
    graph = tmp_path / "g.json"
    if text is not None:
        graph.write_text(text)
    assert message in reduced(graph, "true", status=status).err


def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path):
    started = tmp_path / "pids"
    test = f"sleep 600 & echo $! >>{started}; wait; : {{}}"
    began = time.monotonic()
    found = reduced(ADD, test, "--timeout", 0.5, "-o", tmp_path / "small.json", status=1)
    assert time.monotonic() - began < 30
    assert "the command of --if did not end within 0.5 s (--timeout)" in found.err
    for pid in map(int, started.read_text().split()):
        for _ in range(100):
            if not is_running(pid):
                break
            time.sleep(0.05)
        assert not is_running(pid)


def is_running(pid):
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def test_time_ends_it_and_what_was_found_is_written(tmp_path):
    small = tmp_path / "small.json"
    found = reduced(ATTENTION, f"sleep 0.3; {EXPONENTIAL}", "-o", small, "--seconds", 2)
    assert found.out.endswith(", ended by --seconds 2\n")
    assert len(targets(small)) < len(targets(ATTENTION))


def test_an_interrupt_writes_what_was_found(tmp_path):
    small, begun = tmp_path / "small.json", tmp_path / "begun"
    test = f"{EXPONENTIAL} {{}} && echo x >>{begun} && sleep 0.2"
    words = [sys.executable, "-m", "pallasc", "reduce", ATTENTION, "--if", test, "-o", small]
    # What starts the tests may ignore the signal, as shells do for what runs behind them.
    heeded = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=heeded)
    while not begun.exists() or len(begun.read_text()) < 6:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert out.endswith(", interrupted\n")
    assert "aten.exp2.default" in targets(small)


def test_a_graph_that_is_not_valid_is_reduced_as_it_is(tmp_path):
    graph, small = tmp_path / "g.json", tmp_path / "small.json"
    document = json.loads(ATTENTION.read_text())
    kit.nodes(document, "root")[1]["target"] = "aten.none_such.default"
    graph.write_text(json.dumps(document))
    test = f"! {kit.PALLASC} {{}} 2>{tmp_path}/said && grep -q none_such {tmp_path}/said"
    reduced(graph, test, "-o", small)
    assert "none_such" in small.read_text()
    assert len(small.read_text()) < len(graph.read_text()) / 4


@pytest.mark.parametrize("name", ["gram", "nested_sums"])
def test_any_node_can_be_the_one_that_fails(name):
    """Whatever the target, it is what is left; and what is left is a document."""
    document = json.loads(kit.text(name))
    for target in sorted({t for t in kit.targets(document) if t and t.startswith("aten.")})[::3]:

        def fails(case, target=target):
            if target not in kit.targets(case["document"]):
                return False
            return kit.run("-", "--passes=", "--emit=json", text=case["document"]).status == 0

        small = reduce({"document": document}, fails, 60)
        assert size(small) < size({"document": document})
        assert fails(small)


@pytest.mark.parametrize("name", ["collatz_odd", "flagged_blocks_odd", "flagged_rows_odd"])
def test_graphs_that_are_called_stay(name):
    """Of branches and `tile.while` nothing goes that is used."""
    case = {"document": json.loads(kit.text(name))}
    before = size(case)
    tidy(case)
    assert size(case)[0] == before[0]
    kit.accepted("-", "--passes=", "--emit=json", text=case["document"])
