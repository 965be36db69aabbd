"""Shares the simulations between the tests, and tells which kernels were simulated."""

import datetime
import os
import tempfile
from pathlib import Path

import compiled
import proof
import pytest
import verdicts
import workers


class Simulations:
    """What is wrong with cases: each distinct kernel once, in other processes where it must run.

    Args:
      executor: see `workers.pool`.
      cases: what will be asked for.
      passing: those of them whose verdicts are not to be kept.
    """

    def __init__(self, executor, cases, passing=()):
        self._first = proof.distinct(cases)
        self._futures = {
            case: executor.submit(proof.problems, case, case not in passing)
            for case in dict.fromkeys(self._first.values())
            if not verdicts.is_settled(proof.question(case))
        }

    def problems(self, case):
        """Lines that say what is wrong with a case's kernel, or with the same one of another."""
        first = self._first[case]
        future = self._futures.get(first)
        return future.result() if future else proof.problems(first)


@pytest.fixture(scope="module")
def simulations(request):
    """The `Simulations` of the module's selected tests that ask for them by a parameter `case`."""
    cases = [
        item.callspec.params["case"]
        for item in request.session.items
        if item.path == request.path and "simulations" in item.fixturenames
    ]
    with workers.pool() as executor:
        yield Simulations(executor, cases, getattr(request.module, "PASSING", ()))


# ---- the session's log of verdicts ---------------------------------------------------------------

OWN = pytest.StashKey()


def pytest_configure(config):
    """Opens the session of verdicts, which the processes of pytest-xdist are of too."""
    if verdicts.LOG not in os.environ or not hasattr(config, "workerinput"):
        path = os.environ.get(verdicts.LOG)
        config.stash[OWN] = Path(path or tempfile.mkstemp(prefix="verdicts-")[1]), path is None
        verdicts.begin(config.stash[OWN][0], datetime.date.today())
    compiled.begin()


def pytest_terminal_summary(terminalreporter, config):
    """Says how many kernels were simulated or compiled, if any was asked about."""
    path, _ = config.stash.get(OWN, (None, None))
    if not path:
        return
    simulated = verdicts.summary(path) if verdicts.answers(path) else []
    for line in [*simulated, *compiled.summary(path)]:
        terminalreporter.write_line(line)


def pytest_unconfigure(config):
    """Removes a log that nobody asked for."""
    path, ours = config.stash.get(OWN, (None, False))
    if ours:
        for each in (path, verdicts.compiler_log(path)):
            each.unlink(missing_ok=True)
        del os.environ[verdicts.LOG]
