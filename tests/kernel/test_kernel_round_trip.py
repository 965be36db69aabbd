import kernel_round_trip
import modules


def test_kernel_text_says_all_that_python_needs():
    every = modules.tabled()
    assert len(every) > 6000
    assert kernel_round_trip.problems(every) == {}
