"""The table of docs/jit.md: how long `pallasc.jit` takes from a graph to what XLA compiles.

    PYTHONPATH=python .venv/bin/python bench/jit_times.py

Attention of any length, one graph; the least of 20 runs. `again` is what a call adds whose length
is compiled.
"""

import sys
import time
from pathlib import Path

from pallasc import chips

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("tests", "tests/jit", "python/tests")]
LENGTHS = (512, 2048, 8192)
CONFIG = {"block_sizes": [1, 256, 512], "pallas_loop_type": "fori_loop"}
RUNS = 20


def main():
    """Print the rows."""
    chips.choose_platform(simulate=True)
    import kit
    import pallasc
    from named import sized

    document = sized(kit.document("attention_b8_h32_s8192_d128"), S=8192)
    print("| length, blocks | pallasc | module loaded | traced | lowered | again |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for config, told in ((CONFIG, "given"), ({}, "chosen by pallasc")):
        attention = pallasc.jit({**document, "config": config}, target="v6e")
        for length in LENGTHS:
            print(row(attention, length, told))


def row(attention, length, told):
    """One line of the table."""
    import jax

    q = jax.ShapeDtypeStruct((8, 32, length, 128), "bfloat16")
    runs = [attention.timings(q, q, q)[:4] for _ in range(RUNS)]
    parts = [f"{min(part) * 1e3:.2f} ms" for part in zip(*runs, strict=True)]
    attention.module_for(q, q, q)
    started = time.perf_counter()
    for _ in range(1000):
        attention.module_for(q, q, q)
    again = f"{(time.perf_counter() - started) * 1e3:.0f} us"
    return f"| {length}, {told} | {' | '.join([*parts, again])} |"


if __name__ == "__main__":
    main()
