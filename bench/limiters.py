"""What was tried on rows of the race that miss a must or a goal, and what limits them.

Times of prototypes: kernels edited by hand and measured as those of the race, in its units. Change
an entry when a row changes; a row that reaches what it missed leaves the list.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Limiter:
    """A row, its chips, what was tried (with times in ms) and what limits it."""

    row: str
    chips: str
    tried: str
    limit: str


LIMITERS = (
    Limiter(
        "attention D=256, unroll",
        "v6e, v7x",
        "v6e [1, 512, 1024], 26.9 on two heads: the maximum ahead with the scores 29.5, two steps "
        "ahead 28.3, scores through two scratch buffers 26.9, chunks of 512 rows 28.7. Folding the "
        "scale into Q: 17.5 on v7x, but it rounds otherwise. fori_loop with the same blocks: 25.2",
        "spills: in straight code the compiler keeps several steps' scores alive, stores of spills "
        "fill 54% of the slots (27% in a loop of pairs) and MATMUL is at 73%",
    ),
    Limiter(
        "attention D=256, unroll [2, 512, 2048]",
        "v6e, v7x",
        "v6e: scores transposed 2% slower; and the maximum ahead with them 30.4, on two heads",
        "the same, with 8 MiB of scores a step: 31323 spills; 4 steps are too few for pairs",
    ),
    Limiter(
        "attention D=256, emit_pipeline and fori_loop: 16 MiB",
        "v7x",
        "windows copied in the loop: 8 MiB, but 23.9; pairs there gain nothing",
        "K and V whole are 16 MiB by themselves, for a loop that waits for copies cannot hide "
        "Q K^T: nothing is scheduled across a wait",
    ),
    Limiter(
        "attention, best of any configuration: 16.5 / 14.5",
        "v7x",
        "fori_loop of pairs, [1, 1024, 1024]: 17.2 / 14.7 (taken). [1, 512, 1024] 18.4 / 15.4; in "
        "chunks of 512 rows 18.9 (D=256), of 256 16.7 (D=128); on v6e D=256 a scratch chosen by "
        "the step's number 45, the last step's matmul ahead clamped instead of left out 32",
        "D=256: MATMUL 80%, and the first Q K^T and last softmax of each tile of Q, which nothing "
        "hides; D=128: VALU 75%",
    ),
    Limiter(
        "attention S=131072: 5% per FLOP",
        "v6e, v7x",
        "pairs where the loop copies K and V: v6e D=128 S=8192 26.8 / 26.6, v7x 19.8 / 18.9",
        "the goal moved with the loops on resident blocks; here each step waits for its copies, "
        "and nothing is scheduled across a wait. Per FLOP it is faster than before",
    ),
    Limiter(
        "softmax, two-pass",
        "v6e, v7x",
        "v6e [512, 1024]: unrolled 0.1299, emit_pipeline 0.1735, fori_loop 0.1229; on v7x strips "
        "inside loop steps 0.0657 for 0.068",
        "the first block's load and the last one's store, 10 MiB each, are not hidden: 26% of "
        "v6e's time is waiting, beside a VALU at 93%",
    ),
    Limiter(
        "matmul 4096^3",
        "v6e, v7x",
        "v6e: blocks back and forth 0.1647, as without; v7x: own copies of the first windows, a "
        "chunk at a time, 0.1218, straight code 0.1556 / 0.1247 (taken)",
        "the first 16 MiB of x and y: 7% (v6e) and 4% (v7x) of waiting before the first product; "
        "beyond that MATMUL is at 98% and 96%",
    ),
    Limiter(
        "split-K 8",
        "v6e, v7x",
        "v6e: own copies, three buffers 0.0302; the steps as a dim of the grid, so that no part "
        "starts empty, 0.0247, and the output transposed too 0.0241; v7x: output transposed 0.0118",
        "HBM: x and y take 0.0230 (v6e) and 0.0102 (v7x); each part's first window is waited for, "
        "and the partial sums are added by XLA",
    ),
    Limiter(
        "layer-norm backward, softmax whole row",
        "v7x",
        "strips of columns: 0.1281 / 0.0989; rows in sub-blocks 0.1729 and 0.0618",
        "VALU at 83% and 94%: arithmetic, not HBM",
    ),
)


def section():
    """The section of docs/results.md."""
    heads = ("row", "chip", "tried, ms", "what limits it")
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    lines += [f"| {x.row} | {x.chips} | {x.tried} | {x.limit} |" for x in LIMITERS]
    text = (
        "Rows that miss a must or a goal. Tried: kernels edited by hand, or a switch of ours; one "
        "that gained is a choice above."
    )
    return "\n".join(["## Limiters", "", text, "", *lines]) + "\n"
