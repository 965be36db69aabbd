"""The floor of each row of the race: what no kernel can be below, in cycles of a chip.

By the model of `pallasc.profile` (profile/machine.py): HBM moves one copy at a time at full
bandwidth, and a copy is there, or is done, `dma_latency` after its last byte. The longest of three
ways through a kernel counts, each with the latency of the last store behind it:

- all bytes through HBM;
- all reads, the latency of the last of them, and the smallest store;
- the smallest first fetch and its latency, all matmuls at the peak of the matrix units, and the
  smallest store.

The smallest fetch is that of the first matmul: a matrix unit's weights and the rows that one
`vmatmul` enters; without matmuls, and as a store, it is a vector register.
"""

import sys

from measure import ROOT, document
from pallasc.profile import chips, floor

REGISTER_BYTES = 8 * 128 * 4


def cycles(chip, needs):
    """The floor of what `needs_of` gives, in cycles."""
    its = chips.CHIPS[chip]
    read, written, first, last = (
        size / its.hbm_bytes_per_cycle
        for size in (needs["read"], needs["written"], needs["first"][chip], REGISTER_BYTES)
    )
    matmuls = floor.matmul_cycles(chip, needs["flops"])
    ways = [read + written, read + its.dma_latency + last]
    if matmuls:
        ways.append(first + its.dma_latency + matmuls + last)
    return max(ways) + its.dma_latency


def needs_of(contest):
    """What a row needs: bytes "read" and "written", {dtype: "flops"}, the "first" bytes by chip.

    All but the first fetch is of as many runs as the row stands for.
    """
    if contest.serving:
        return needs_of_serving(contest.serving)
    if contest.parts and not contest.ours:
        return added([needs_of(part) for part in contest.parts])
    run = contest.ours[0]
    found = needs_of_document(document(run.kernel, run.args), contest.flops, contest.moved)
    for name in ("read", "written"):
        found[name] *= run.scale
    found["flops"] = {dtype: count * run.scale for dtype, count in found["flops"].items()}
    return found


def needs_of_document(graph, flops=None, moved=None):
    """The same of a document; FLOP and bytes that are given are not counted."""
    flops = floor.matmul_flops(graph) if flops is None else flops
    if moved is None:
        roles = {tensor["name"]: tensor["role"] for tensor in graph["tensors"]}
        moved = {"read": 0, "written": 0}
        for name, size in floor.moved(graph).items():
            if roles[name] == "inout":
                size /= 2
                moved["written"] += size
            moved["written" if roles[name] == "output" else "read"] += size
    return {**moved, "flops": dict(flops), "first": first_bytes(graph, flops)}


def first_bytes(graph, flops):
    """{chip: bytes} of the smallest fetch that lets the first operation begin."""
    factors = floor.first_factors(graph) if flops else []
    found = {}
    for chip in ("v6e", "v7x"):
        side = chips.CHIPS[chip].mxu
        sizes = [
            min(side, depth) * min(side, columns) * floor.array_bytes(weights, ())
            + rows_of(rows) * min(side, depth) * floor.array_bytes(rows, ())
            for rows, weights, depth, columns in factors
        ]
        found[chip] = int(min(sizes, default=REGISTER_BYTES))
    return found


def rows_of(dtype):
    """Rows of a dtype that one `vmatmul` enters: those of a register."""
    return int(REGISTER_BYTES / 128 / floor.array_bytes(dtype, ()))


def needs_of_serving(name):
    """The same of a row of docs/serving.md: its data say what is done."""
    sys.path[:0] = [str(ROOT / part) for part in ("tests", "tests/whole")]
    import proof
    from coverage import floors
    from coverage import row as coverage

    row = next(row for row in coverage.rows() if row.name == name)
    graph = proof.document(row.production)
    moved, flops = floors.work(row)
    roles = {tensor["name"]: tensor["role"] for tensor in graph["tensors"]}
    written = sum(size for tensor, size in floor.moved(graph).items() if roles[tensor] == "output")
    return needs_of_document(graph, flops, {"read": moved - written, "written": written})


def added(needs):
    """What several kernels need, one after another."""
    flops = {}
    for found in needs:
        for dtype, count in found["flops"].items():
            flops[dtype] = flops.get(dtype, 0) + count
    return {
        "read": sum(found["read"] for found in needs),
        "written": sum(found["written"] for found in needs),
        "flops": flops,
        "first": needs[0]["first"],
    }
