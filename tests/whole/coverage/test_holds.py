"""What docs/coverage.md says of kernels that stay below 80% of their floor."""

import pytest

from coverage import holds, results
from coverage import row as coverage

FOUND = results.Results()
ROWS = {row.name: row for row in coverage.rows()}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("random numbers, four words of a place", "vector arithmetic 9"),
        ("attention backward, dk and dv", "the matrix unit (67% of use) "),
        ("rows of flagged blocks", "waits for copies "),
        ("columns in another order", "moves and reductions across lanes "),
    ],
)
def test_what_holds_a_kernel(name, text):
    """What takes most stands first."""
    assert holds.row_cells(ROWS[name], FOUND)[3].startswith(text)


def test_a_kernel_near_its_floor_has_no_line():
    assert holds.row_cells(ROWS["add"], FOUND) == ["", "", "", ""]


def test_a_kernel_without_busy_units_waits_for_results():
    assert holds.row_cells(ROWS["attention, bias"], FOUND)[3].startswith("results that wait")
