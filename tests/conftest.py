"""Shares the simulations between the tests."""

import proof
import pytest
import workers


class Simulations:
    """Outcomes of simulated cases, computed in other processes, each distinct kernel once."""

    def __init__(self, executor, cases):
        self._first = proof.distinct(cases)
        self._futures = {
            case: executor.submit(proof.simulate_case, case)
            for case in dict.fromkeys(self._first.values())
        }

    def outcome(self, case):
        return self._futures[self._first[case]].result()


@pytest.fixture(scope="session")
def simulations(request):
    """The `Simulations` of all selected tests that ask for them by a parameter `case`."""
    cases = [
        item.callspec.params["case"]
        for item in request.session.items
        if "simulations" in item.fixturenames and "case" in item.callspec.params
    ]
    with workers.pool() as executor:
        yield Simulations(executor, cases)
