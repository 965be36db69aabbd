"""One copy written three ways, in the instrument and in libtpu's own simulator (docs/profile.md).

    python bench/profile_copies.py          a table, about a minute

The same blocks of an array in HBM are brought into VMEM, two buffers, by the grid of a pallas_call,
by emit_pipeline and by make_async_copy in a loop. Bytes and strides are the same; Mosaic encodes
the first as `dma.hbm_to_vmem` and the others as `dma.general`.
"""

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

from pallasc import aot

STEPS = 64
BLOCKS = ((512, 256), (512, 512), (1024, 512), (512, 2048))


def main():
    """Prints the table."""
    os.environ.update(aot.worker_environment())
    from pallasc.profile import chips, dump, selftest
    from pallasc.profile.estimate import estimate

    chip = chips.CHIPS["v7x"]
    print("| block, bfloat16 | HBM alone | way | here | libtpu's simulator |")
    print("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        dump.prepare(folder, simulate=True)
        for rows, columns in BLOCKS:
            for way, build in (("grid", grid), ("emit_pipeline", pipeline), ("loop", loop)):
                case = build(rows, columns)
                found = selftest.compiled(case, chip.name, folder)
                ((name, facts),) = estimate(found)["kernels"].items()
                alone = rows * columns * 2 / chip.hbm_bytes_per_cycle
                ours, theirs = facts["cycles"] / STEPS, found["libtpu_cycles"][name] / STEPS
                print(f"| {rows}x{columns} | {alone:,.0f} | {way} | {ours:,.0f} | {theirs:,.0f} |")


def grid(rows, columns):
    """The blocks are windows of the grid's steps."""
    from jax.experimental import pallas as pl

    def kernel(x, out):
        add(x[:8, :128], out)

    block = pl.BlockSpec((rows, columns), lambda j: (0, j))
    return case_of(kernel, (STEPS,), block, rows, columns)


def pipeline(rows, columns):
    """The blocks are windows of an inner pipeline."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    def kernel(x, out):
        def body(window):
            add(window[:8, :128], out)

        block = pl.BlockSpec((rows, columns), lambda j: (0, j))
        pltpu.emit_pipeline(body, grid=(STEPS,), in_specs=[block])(x)

    return case_of(kernel, (1,), None, rows, columns)


def loop(rows, columns):
    """A loop copies the blocks itself, one step ahead."""
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    def kernel(x, out, buffers, semaphores):
        def at(j):
            block = x.at[:, pl.ds(pl.multiple_of(j * columns, columns), columns)]
            slot = jax.lax.rem(j, 2)
            return pltpu.make_async_copy(block, buffers.at[slot], semaphores.at[slot])

        def body(j, _):
            pl.when(j + 1 < STEPS)(lambda: at(j + 1).start())
            at(j).wait()
            add(buffers[jax.lax.rem(j, 2), :8, :128], out)
            return 0

        at(0).start()
        jax.lax.fori_loop(0, STEPS, body, 0)

    scratch = [pltpu.VMEM((2, rows, columns), jnp.bfloat16), pltpu.SemaphoreType.DMA((2,))]
    return case_of(kernel, (1,), None, rows, columns, scratch)


def add(part, out):
    """What uses a block."""
    out[...] += part.astype(out.dtype)


def case_of(kernel, steps, block, rows, columns, scratch=()):
    """The `cases.Case` of a kernel over [rows, STEPS * columns]."""
    import jax.numpy as jnp
    from pallasc.profile import cases

    out = cases.shape((8, 128), jnp.float32)
    ins = [block or cases.ANYWHERE]
    function = cases.call(kernel, steps, ins, cases.whole((8, 128)), out, scratch)
    return cases.Case(function, [cases.shape((rows, STEPS * columns))])


if __name__ == "__main__":
    main()
