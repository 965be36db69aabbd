"""Which kept verdicts hold, on which day a kernel is simulated again, and what is recorded."""

import datetime

import executed
import numpy as np
import pytest
import simulated
import verdicts
from builder import Doc, G, f32, sl, sym
from coverage import row as coverage
from pallasc import execute
from turns import day_of

KERNEL = """KERNEL_INFO = {
    "name": "k",
    "config": {},
    "flops": 1,
    "estimate": {
        "cycles": 2,
    },
    "compiler": "pallasc 0",
    "jax": ">=0",
}
# note
call(
    run(),
    cost_estimate=pl.CostEstimate(
        flops=3, transcendentals=0, bytes_accessed=0
    ),
)
"""


@pytest.fixture
def session(tmp_path, monkeypatch):
    """An own session with empty files, on a day on which nothing named "kernel" is due."""
    monkeypatch.setattr(verdicts, "KEPT", tmp_path / "kept.txt")
    monkeypatch.setattr(verdicts, "KEPT_EXECUTED", tmp_path / "executed.txt")
    monkeypatch.setattr(verdicts, "LOCAL", tmp_path / "local.txt")
    monkeypatch.setenv(verdicts.DATE, day_of("kernel", due=False))
    monkeypatch.delenv(verdicts.AGAIN, raising=False)
    monkeypatch.setenv(verdicts.LOG, str(tmp_path / "log"))
    verdicts.known.cache_clear()
    yield tmp_path / "log"
    verdicts.known.cache_clear()


def question(
    kernel=KERNEL, runs=("random",), judges=("def f",), arrays=((1.0, 2.0),), name="kernel"
):
    made = [np.array(array, np.float32) for array in arrays]
    return verdicts.Question(name, kernel, runs, judges, lambda: made)


def settled(asked, lines=()):
    """(what is wrong, whether it was simulated), as a process finds it that begins now."""
    ran = []
    verdicts.known.cache_clear()

    def simulate():
        ran.append(1)
        return list(lines), [0.25]

    return verdicts.settle(asked, simulate), bool(ran)


def test_a_verdict_holds_until_the_kernel_changes(session):
    assert settled(question()) == ([], True)
    assert settled(question()) == ([], False)
    assert settled(question(KERNEL.replace("run()", "run(1)"))) == ([], True)
    assert settled(question(runs=("edge",))) == ([], True)


def test_comments_and_estimates_are_no_part_of_a_kernel(session):
    settled(question())
    told = KERNEL.replace("# note", "# another").replace(
        '"compiler": "pallasc 0"', '"compiler": ""'
    )
    told = told.replace('"flops": 1', '"flops": 2').replace("flops=3", "flops=4")
    told = told.replace('"cycles": 2', '"cycles": 3').replace(">=0", ">=1")
    assert settled(question(told)) == ([], False)


def test_changed_code_that_gives_the_same_arrays_changes_nothing(session):
    settled(question())
    assert settled(question(judges=("def g",))) == ([], False)
    assert settled(question(judges=("def g",), arrays=((1.0, 2.5),))) == ([], True)
    assert settled(question(arrays=((1.0, 2.5),))) == ([], False)


def test_what_is_off_is_never_kept(session):
    assert settled(question(), ["off"]) == (["off"], True)
    assert settled(question(), ["off"]) == (["off"], True)
    assert not verdicts.LOCAL.exists()
    assert session.exists() is False


def test_a_kernel_has_its_turn_once_in_thirty_days(session, monkeypatch):
    settled(question())
    first, ran = datetime.date(2026, 11, 22), []
    for number in range(2 * verdicts.DAYS):
        day = first + datetime.timedelta(number)
        monkeypatch.setenv(verdicts.DATE, day.isoformat())
        if settled(question())[1]:
            ran.append(number)
    assert len(ran) == 2 and ran[1] - ran[0] == verdicts.DAYS


def test_all_are_simulated_again_when_asked(session, monkeypatch):
    settled(question())
    monkeypatch.setenv(verdicts.AGAIN, "1")
    assert settled(question(), ["off"]) == (["off"], True)
    assert verdicts.is_settled(question()) is False


def test_without_a_session_everything_is_simulated(session, monkeypatch):
    settled(question())
    monkeypatch.delenv(verdicts.LOG)
    assert settled(question()) == ([], True)
    assert len(verdicts.LOCAL.read_text().splitlines()) == 1


def test_what_a_session_asked_is_recorded_and_the_rest_dropped(session):
    verdicts.KEPT.write_text("old 0000000000000000 1 2 0.5\n")
    settled(question())
    settled(question(runs=("edge",)), ["off"])
    asked = question(runs=("today",))
    verdicts.settle(asked, lambda: ([], [0.5]), remember=False)
    assert verdicts.unrecorded(session) == 1
    assert verdicts.record(session) == (1, 1, 1)
    (line,) = verdicts.KEPT.read_text().splitlines()
    assert line == " ".join(question().verdict([0.25]))
    assert verdicts.unrecorded(session) == 0
    assert verdicts.record(session) == (1, 0, 0)
    found = "kernels to simulate or execute: 2; 0 have a kept verdict that holds, 2 were run"
    assert verdicts.summary(session)[0].startswith(found)


def test_kernels_executed_as_text_have_a_file_of_their_own(session, monkeypatch):
    asked = question(name=f"{verdicts.EXECUTED}kernel", runs=("text",))
    monkeypatch.setenv(verdicts.DATE, day_of(asked.name, due=False))
    assert settled(asked) == ([], True)
    assert verdicts.record(session) == (0, 0, 0)
    assert verdicts.record(session, executed=True) == (1, 1, 0)
    verdicts.LOCAL.unlink()
    assert settled(asked) == ([], False)


def test_the_text_of_a_kernel_is_executed_until_it_changes(session, monkeypatch):
    """Of `executed.case_problems`: what is built and what the compiler makes of it decide."""
    (case,) = (case for case in coverage.accepted() if case.id == "rms_norm_odd-32")
    monkeypatch.setenv(verdicts.DATE, day_of(f"{verdicts.EXECUTED}{case.id}", due=False))
    ran, run = [], execute.run
    monkeypatch.setattr(execute, "run", lambda *given: ran.append(1) or run(*given))

    def found():
        ran.clear()
        executed.runs.cache_clear()
        verdicts.known.cache_clear()
        return executed.case_problems(case), bool(ran)

    assert found() == ([], True)
    assert found() == ([], False)
    text = executed.kernel_text
    monkeypatch.setattr(
        executed, "kernel_text", lambda *given, **how: text(*given, **how).replace("mul ", "sub ")
    )
    lines, again = found()
    assert lines and again


def test_lines_may_be_merged(session):
    """Two lines of one kernel, as a merge line by line may leave them: each holds by itself."""
    one, other = question(), question(judges=("def g",), arrays=((3.0,),))
    lines = [" ".join(asked.verdict([0.5])) + "\n" for asked in (one, other)]
    verdicts.KEPT.write_text("".join(lines))
    assert settled(one) == settled(other) == ([], False)


def test_a_line_that_is_none_is_told(session):
    verdicts.KEPT.write_text("<<<<<<< ours\n")
    with pytest.raises(ValueError, match=r"kept.txt:1: no verdict: '<<<<<<< ours'"):
        verdicts.known()


def test_each_file_is_sorted_and_holds_each_kernel_once():
    for path in (verdicts.KEPT, verdicts.KEPT_EXECUTED):
        lines = path.read_text().splitlines()
        keys = [line.split()[1] for line in lines]
        assert lines == sorted(lines) and len(set(keys)) == len(keys)
        assert sum(map(len, verdicts.read(path).values())) == len(lines)


def test_a_simulated_kernel_is_asked_about_with_all_that_decides(session, monkeypatch):
    """Of `simulated.wrong`: the document, the inputs and what is expected; a wrong one is told."""
    doc = Doc(config={"block_sizes": [8]}).tensor("x", "input", "float32", [16, 128])
    doc.tensor("out", "output", "float32", [16, 128])
    g = G(0, grid=[0])
    x = g.load("x", [sym("u0"), sl()], meta=f32("u0", 128))
    g.store("out", [sym("u0"), sl()], g.call("aten.mul.Tensor", x, 2.0, meta=f32("u0", 128)))
    document = doc.block(16).add(g.out())
    assert simulated.wrong(document) == []
    assert session.read_text().startswith("new test_verdicts.py::test_a_simulated_kernel")
    monkeypatch.setattr(simulated.reference, "run", lambda *_, **__: [np.zeros((16, 128), "f4")])
    assert simulated.wrong(document) == []  # the code that was hashed is on disk, unchanged
    (off,) = simulated.wrong(document, given=[np.ones((16, 128), "f4")])
    assert "OFF" in off
