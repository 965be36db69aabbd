"""Calls in processes of their own: values, exceptions, and processes that die."""

import os
import signal

import pytest
import workers


def fail():
    raise ValueError("no")


def crash_once(marker):
    """Dies as a crash of the JIT does, but only the first time."""
    if marker.exists():
        return os.getpid()
    marker.touch()
    os.kill(os.getpid(), signal.SIGSEGV)


def die(number):
    os.kill(os.getpid(), number)


def test_values_come_in_the_order_of_the_calls():
    with workers.pool() as executor:
        futures = [executor.submit(pow, number, 2) for number in range(9)]
        assert [future.result() for future in futures] == [n * n for n in range(9)]


def test_an_exception_comes_with_its_traceback():
    with workers.pool() as executor, pytest.raises(ValueError, match="no") as caught:
        executor.submit(fail).result()
    assert "in fail" in caught.value.__notes__[0]


def test_a_crash_is_made_good_once_and_told(tmp_path):
    worker = workers.Worker()
    first = worker.call(os.getpid)
    with pytest.warns(UserWarning, match="exit code -11 in crash_once"):
        second = worker.call(crash_once, tmp_path / "crashed")
    assert second != first and worker.call(os.getpid) == second
    worker.close()


def test_a_process_makes_so_many_calls_and_no_more(monkeypatch):
    monkeypatch.setattr(workers, "CALLS", 3)
    worker = workers.Worker()
    made = [worker.call(os.getpid) for _ in range(7)]
    worker.close()
    assert [made.count(process) for process in dict.fromkeys(made)] == [3, 3, 1]


@pytest.mark.filterwarnings("ignore:the process ended")
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
def test_a_call_that_always_dies_fails_and_the_next_goes_on(number):
    with workers.pool() as executor:
        with pytest.raises(workers.Died, match=f"exit code -{number.value}"):
            executor.submit(die, number).result()
        assert executor.submit(abs, -3).result() == 3
