import kernel_round_trip
import modules

EACH = 20  # one of so many of the tables' cases; kernel_round_trip.py as a program takes all


def test_kernel_text_says_all_that_python_needs():
    some = modules.tabled()[::EACH]
    assert len(some) > 200
    assert kernel_round_trip.problems(some) == {}
