"""What holds the kernels of docs/coverage.md that stay below 80% of their floor.

Not measured: the plan's estimate (docs/plan.md) says which units and waits the cycles go to. It is
of the kernel as it is compiled now; where data steer it, of the model's guess of them.
"""

import proof
from pallasc.profile import floor

from coverage import floors, results

CHIPS = ("v6e", "v7x")
NEAR = 0.8
# A unit that is busy for more than this share of the cycles is what holds a kernel.
BUSY = 0.65
UNITS = {
    "mxu": "the matrix unit",
    "weights": "weights into the matrix unit",
    "results": "results off the units",
    "vector": "vector arithmetic",
    "xlu": "moves and reductions across lanes",
    "eup": "transcendentals",
    "load": "loads of registers",
    "store": "stores of registers",
    "scalar": "scalars and addresses",
}
WAITS = {
    "waits": "waits for copies",
    "start": "first blocks and last ones, which nothing hides",
    "steps": "what comes between steps",
}
HEAD = """
## What holds those below 80% of their floor

The share of its floor that a kernel reaches on v6e and v7x, where that is less than 80%, and where
the cycles go to by the plan's [estimate](plan.md#the-estimate), which is of shapes alone: where
data steer a kernel it takes some of its own. First what takes most. A unit that is busy for
{busy:.0%} of the cycles holds a kernel: the floor does not count it, or the kernel asks more of it
than the floor does (the matrix unit, "n% of use": operands that fill half its width, float32 in
several passes). Where no unit is, results wait for one another: chains of ops that no others run
beside.

"""
COLUMNS = ("kernel", "v6e", "what holds it", "v7x", "what holds it")


def section(rows, found):
    """The section of the page."""
    lines = [[row.name, *cells] for row in rows if any(cells := row_cells(row, found))]
    table = [COLUMNS, ["---"] * len(COLUMNS), *lines]
    text = "".join(f"| {' | '.join(cell or '-' for cell in line)} |\n" for line in table)
    return HEAD.format(busy=BUSY) + text


def row_cells(row, found):
    """For each chip the share of the floor and what holds the kernel; empty where it is near."""
    cells = []
    for chip in CHIPS:
        count = found.part(row, "cycles").get(chip, {}).get("cycles")
        share = floors.cycles(row, chip) / count if count else 1
        case = results.compilations(row)[chip][0] if share < NEAR else None
        cells += [f"{share:.0%}", cause(row, case, chip)] if case else ["", ""]
    return cells


def cause(row, case, chip):
    """Where a kernel's cycles go, the most first."""
    estimate = proof.module(results.expecting(row, case), chip).plan["estimate"]
    shares = {key: estimate[key] / estimate["cycles"] for key in (*UNITS, *WAITS)}
    waits = {key: shares[key] for key in WAITS if shares[key] >= 0.1}
    units = sorted(UNITS, key=lambda key: -shares[key])[:2]
    parts = {WAITS[key]: share for key, share in waits.items()}
    parts |= {
        unit_text(row, estimate, key, chip): shares[key] for key in units if shares[key] >= 0.1
    }
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    text = ", ".join(f"{name} {share:.0%}" for name, share in ordered)
    held = shares[units[0]] >= BUSY or sum(waits.values()) >= 1 - BUSY
    return text if held else f"results that wait for one another; {text or 'no unit is busy'}"


def unit_text(row, estimate, unit, chip):
    """The name of a unit; of the matrix unit with how much of what it does is of use."""
    _, flops = floors.work(row)
    needed = floor.cycles(chip, 0, flops)
    if unit != "mxu" or needed > 0.9 * estimate["mxu"]:
        return UNITS[unit]
    return f"{UNITS[unit]} ({needed / estimate['mxu']:.0%} of use)"
