"""Kernels whose figures are known: what `pallasc profile --self-test` executes.

Each case says how many matmuls its kernel enters and how many bytes it copies, from its shapes and
trip counts alone. Blocks are whole tiles of every chip, but for those that test what is not.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BF16, F32, I32 = jnp.bfloat16, jnp.float32, jnp.int32
ANYWHERE = pl.BlockSpec(memory_space=pl.ANY)


@dataclasses.dataclass
class Case:
    """A kernel and what is known of it.

    Attributes:
      function, arguments: the arguments are arrays where their data steers the kernel.
      products: matmuls, in products of [16, 256] by [256, 256]; {chip: products} where it differs.
      read, written: bytes from HBM to VMEM, and back; None: not known.
      bound: HBM alone takes 77 to 105% of the time: nothing else can be what the run counts.
      error: what an error must say; the other figures are not known then.
      limit: blocks after which the run is cut, None for the usual.
    """

    function: object
    arguments: list
    products: object = 0
    read: int | None = None
    written: int | None = None
    bound: bool = False
    error: str | None = None
    limit: int | None = None


def shape(dims, dtype=BF16):
    """An array of which only shape and dtype are known."""
    return jax.ShapeDtypeStruct(dims, dtype)


def size(*arrays):
    """Bytes of arrays."""
    return sum(math.prod(a.shape) * a.dtype.itemsize for a in arrays)


def dot(a, b, contract=((1,), (0,))):
    """A matmul of bfloat16 that accumulates in float32."""
    return lax.dot_general(a, b, (contract, ((), ())), preferred_element_type=F32)


def work(m, k, n):
    """A matmul in products of [16, 256] by [256, 256]."""
    return m // 16 * (k // 256) * (n // 256)


def call(kernel, grid, ins, outs, out, scratch=()):
    """A pallas_call of up to 60 MiB of VMEM."""
    return pl.pallas_call(
        kernel,
        grid=grid,
        in_specs=ins,
        out_specs=outs,
        out_shape=out,
        scratch_shapes=list(scratch),
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=60 << 20),
        name="kernel",
    )


def rows(block, index=lambda i: (i, 0)):
    """A block, by default of whole rows, one for each step."""
    return pl.BlockSpec(block, index)


def whole(block):
    """The same block in every step."""
    return pl.BlockSpec(block, lambda *_: (0,) * len(block))


CASES = {}


def case(function):
    """Registers a function that gives a `Case`."""
    CASES[function.__name__] = function
    return function


# ---- loops on resident blocks


def resident(unroll, steps):
    """A loop over the columns of a resident block, two batches of four steps."""
    columns = steps * 256

    def kernel(q, k, out):
        def body(j, total):
            part = k[0, :, pl.ds(pl.multiple_of(j * 256, 256), 256)]
            return total + jnp.tanh(dot(q[0], part))

        out[0] = lax.fori_loop(0, steps, body, jnp.zeros((256, 256), F32), unroll=unroll)

    block = pl.BlockSpec((1, 256, 256), lambda b, i: (b, i, 0))
    resident = pl.BlockSpec((1, 256, columns), lambda b, i: (b, 0, 0))
    q, k, out = shape((2, 1024, 256)), shape((2, 256, columns)), shape((2, 1024, 256), F32)
    function = call(kernel, (2, 4), [block, resident], block, out)
    return Case(function, [q, k], 8 * steps * work(256, 256, 256), size(q, k), size(out))


@case
def loop_resident():
    """A loop of 8 steps."""
    return resident(1, 8)


@case
def loop_unrolled_twice():
    """A loop of 8 steps, two in its body."""
    return resident(2, 8)


@case
def loop_unrolled():
    """4 steps without a loop."""
    return resident(True, 4)


def attention(block, step, skew, unroll, length=2048, width=256, heads=4):
    """Attention on resident K and V; `skew`: the scores of the next step are computed ahead."""
    steps = length // step

    def kernel(q, k, v, out):
        def scores(j):
            return dot(q[0], k[0, pl.ds(j * step, step), :], ((1,), (1,)))

        def update(j, tile, largest, total, acc):
            new = jnp.maximum(largest, tile.max(-1, keepdims=True))
            weights = jnp.exp2(tile - jnp.tile(new, (1, step // 128)))
            scale = jnp.exp2(largest - new)
            total = total * scale + weights.sum(-1, keepdims=True)
            part = dot(weights.astype(BF16), v[0, pl.ds(j * step, step), :])
            return new, total, acc * jnp.tile(scale, (1, width // 128)) + part

        first = jnp.full((block, 128), -jnp.inf, F32), jnp.zeros((block, 128), F32)
        carried = (*first, jnp.zeros((block, width), F32))
        if skew:

            def ahead(j, carried):
                *rest, tile = carried
                following = scores(j + 1)
                return (*update(j, tile, *rest), following)

            *rest, tile = lax.fori_loop(0, steps - 1, ahead, (*carried, scores(0)), unroll=unroll)
            carried = update(steps - 1, tile, *rest)
        else:
            carried = lax.fori_loop(
                0, steps, lambda j, c: update(j, scores(j), *c), carried, unroll=unroll
            )
        out[0] = (carried[2] / jnp.tile(carried[1], (1, width // 128))).astype(BF16)

    tile = pl.BlockSpec((1, block, width), lambda b, i: (b, i, 0))
    resident = pl.BlockSpec((1, length, width), lambda b, i: (b, 0, 0))
    array = shape((heads, length, width))
    function = call(kernel, (heads, length // block), [tile, resident, resident], tile, array)
    products = 2 * heads * work(length, width, length)
    return Case(function, [array] * 3, products, 3 * size(array), size(array))


@case
def attention_loop():
    """A loop over K and V."""
    return attention(512, 512, False, 1)


@case
def attention_unrolled_twice():
    """Two steps in the body."""
    return attention(512, 256, False, 2)


@case
def attention_skewed():
    """Matmuls of two steps in one body."""
    return attention(256, 512, True, 1)


@case
def attention_that_spills():
    """Too many values for the registers."""
    return attention(512, 1024, True, 1)


@case
def loop_in_a_loop():
    """3 times 5 inner steps, in each of 4 steps of the grid."""

    def kernel(x, y, out):
        def outer(i, total):
            def inner(j, total):
                return total + dot(x[pl.ds(i * 128, 128), :], y[pl.ds(j * 256, 256), :])

            return jnp.tanh(lax.fori_loop(0, 5, inner, total))

        out[...] = lax.fori_loop(0, 3, outer, jnp.zeros((128, 256), F32))

    x, y, out = shape((1536, 256)), shape((1280, 256)), shape((512, 256), F32)
    ins = [rows((384, 256)), whole((1280, 256))]
    function = call(kernel, (4,), ins, rows((128, 256)), out)
    return Case(function, [x, y], 4 * 15 * work(128, 256, 256), size(x, y), size(out))


# ---- copies that the kernel makes


def copies(conditional, grid):
    """Two buffers, filled a step ahead, by `pl.when` or by `lax.cond`."""
    width, steps, block, columns = 512, 6, 256, 512

    def kernel(x, y, out, x_buffer, y_buffer, acc, semaphores):
        i = pl.program_id(0)

        def at(j, slot):
            left = x.at[pl.ds(i * block, block), pl.ds(j * width, width)]
            right = y.at[pl.ds(j * width, width), :]
            return (
                pltpu.make_async_copy(left, x_buffer.at[slot], semaphores.at[0, slot]),
                pltpu.make_async_copy(right, y_buffer.at[slot], semaphores.at[1, slot]),
            )

        def start(j, slot):
            for copy in at(j, slot):
                copy.start()

        def body(j, _):
            slot = lax.rem(j, 2)
            if conditional:
                lax.cond(j + 1 < steps, lambda: start(j + 1, 1 - slot), lambda: None)
            else:
                pl.when(j + 1 < steps)(lambda: start(j + 1, 1 - slot))
            for copy in at(j, slot):
                copy.wait()
            acc[...] += dot(x_buffer[slot], y_buffer[slot])
            return 0

        start(0, 0)
        acc[...] = jnp.zeros_like(acc)
        lax.fori_loop(0, steps, body, 0)
        out[...] = acc[...]

    x, y = shape((block * grid, width * steps)), shape((width * steps, columns))
    out = shape((block * grid, columns), F32)
    scratch = [pltpu.VMEM((2, block, width), BF16), pltpu.VMEM((2, width, columns), BF16)]
    scratch += [pltpu.VMEM((block, columns), F32), pltpu.SemaphoreType.DMA((2, 2))]
    function = call(kernel, (grid,), [ANYWHERE] * 2, rows((block, columns)), out, scratch)
    products = grid * steps * work(block, width, columns)
    return Case(function, [x, y], products, size(x) + grid * size(y), size(out))


@case
def copies_ahead():
    """`pl.when` starts them."""
    return copies(False, 3)


@case
def copies_under_a_condition():
    """`lax.cond` starts them."""
    return copies(True, 2)


@case
def pipeline():
    """An inner pipeline of five steps, three times."""

    def kernel(x, y, out, acc):
        i = pl.program_id(0)
        acc[...] = jnp.zeros_like(acc)

        def body(x_window, y_window):
            acc[...] += dot(x_window[...], y_window[...])

        left = pl.BlockSpec((256, 256), lambda k: (i, k))
        right = pl.BlockSpec((256, 256), lambda k: (k, 0))
        pltpu.emit_pipeline(body, grid=(5,), in_specs=[left, right])(x, y)
        out[...] = acc[...]

    x, y, out = shape((768, 1280)), shape((1280, 256)), shape((768, 256), F32)
    scratch = [pltpu.VMEM((256, 256), F32)]
    function = call(kernel, (3,), [ANYWHERE] * 2, rows((256, 256)), out, scratch)
    read = size(x) + 3 * size(y)
    return Case(function, [x, y], work(768, 1280, 256), read, size(out))


@case
def pipeline_that_stores():
    """An inner pipeline over two dims that writes its result."""

    def kernel(x, y, out):
        i = pl.program_id(0)

        def body(x_window, y_window, out_window):
            out_window[...] = dot(x_window[...], y_window[...])

        left = pl.BlockSpec((128, 256), lambda m, n: (i * 2 + m, 0))
        right = pl.BlockSpec((256, 256), lambda m, n: (0, n))
        result = pl.BlockSpec((128, 256), lambda m, n: (i * 2 + m, n))
        pltpu.emit_pipeline(body, grid=(2, 3), in_specs=[left, right], out_specs=[result])(
            x, y, out
        )

    x, y, out = shape((512, 256)), shape((256, 768)), shape((512, 768), F32)
    function = call(kernel, (2,), [ANYWHERE] * 2, ANYWHERE, out)
    return Case(function, [x, y], work(512, 256, 768), size(x) + 4 * size(y), size(out))


# ---- branches and bounds


@case
def one_branch_in_three():
    """8 steps; 0, 3 and 6 contract 512, the others 256."""

    def kernel(x, y, out):
        out[...] = lax.cond(
            lax.rem(pl.program_id(0), 3) == 0,
            lambda: dot(x[...], y[...]),
            lambda: dot(x[:, :256], y[:256, :]),
        )

    x, y, out = shape((2048, 512)), shape((512, 256)), shape((2048, 256), F32)
    function = call(kernel, (8,), [rows((256, 512)), whole((512, 256))], rows((256, 256)), out)
    products = 3 * work(256, 512, 256) + 5 * work(256, 256, 256)
    return Case(function, [x, y], products, size(x, y), size(out))


@case
def bound_by_the_position():
    """As many inner steps as a causal mask leaves."""

    def kernel(q, k, out):
        def body(j, total):
            part = k[0, pl.ds(pl.multiple_of(j * 256, 256), 256), :]
            return total + jnp.tanh(dot(q[0], part))

        steps = pl.program_id(1) + 1
        out[0] = lax.fori_loop(0, steps, body, jnp.zeros((256, 256), F32))

    array, out = shape((2, 1536, 256)), shape((2, 1536, 256), F32)
    block = pl.BlockSpec((1, 256, 256), lambda b, i: (b, i, 0))
    resident = pl.BlockSpec((1, 1536, 256), lambda b, i: (b, 0, 0))
    function = call(kernel, (2, 6), [block, resident], block, out)
    return Case(function, [array] * 2, 2 * 21 * work(256, 256, 256), 2 * size(array), size(out))


@case
def bound_by_a_division():
    """From i // 3 to i * 7 % 5 + 3."""
    grid = 11

    def kernel(q, k, out):
        i = pl.program_id(0)

        def body(j, total):
            return total + jnp.tanh(dot(q[...], k[pl.ds(pl.multiple_of(j * 256, 256), 256), :]))

        first, last = lax.div(i, 3), lax.rem(i * 7, 5) + 3
        out[...] = lax.fori_loop(first, last, body, jnp.zeros((128, 256), F32))

    q, k, out = shape((128 * grid, 256)), shape((2048, 256)), shape((128 * grid, 256), F32)
    function = call(kernel, (grid,), [rows((128, 256)), whole((2048, 256))], rows((128, 256)), out)
    steps = sum(max(0, i * 7 % 5 + 3 - i // 3) for i in range(grid))
    return Case(function, [q, k], steps * work(128, 256, 256), size(q, k), size(out))


@case
def while_in_a_loop():
    """j doubles from 1 on while it is at most i, for i from 0 to 8."""

    def kernel(q, k, out):
        def outer(i, total):
            def body(state):
                j, total = state
                return j * 2, jnp.tanh(total + dot(q[...], k[...]))

            return lax.while_loop(lambda state: state[0] <= i, body, (I32(1), total))[1]

        out[...] = lax.fori_loop(0, 9, outer, jnp.zeros((128, 256), F32))

    array, out = shape((256, 256)), shape((256, 256), F32)
    function = call(kernel, (2,), [rows((128, 256)), whole((256, 256))], rows((128, 256)), out)
    products = 2 * sum(i.bit_length() for i in range(9)) * work(128, 256, 256)
    return Case(function, [array] * 2, products, 2 * size(array), size(out))


@case
def matmul_over_the_grid():
    """The accumulator is zeroed in the first step of k and stored in the last."""

    def kernel(x, y, out, acc):
        k = pl.program_id(2)

        @pl.when(k == 0)
        def _():
            acc[...] = jnp.zeros_like(acc)

        acc[...] += dot(x[...], y[...])

        @pl.when(k == pl.num_programs(2) - 1)
        def _():
            out[...] = acc[...].astype(BF16)

    x, y, out = shape((768, 1024)), shape((1024, 1024)), shape((768, 1024))
    left = pl.BlockSpec((256, 256), lambda i, j, k: (i, k))
    right = pl.BlockSpec((256, 512), lambda i, j, k: (k, j))
    result = pl.BlockSpec((256, 512), lambda i, j, k: (i, j))
    scratch = [pltpu.VMEM((256, 512), F32)]
    function = call(kernel, (3, 2, 4), [left, right], result, out, scratch)
    read = 2 * size(x) + 3 * size(y)
    return Case(function, [x, y], work(768, 1024, 1024), read, size(out))


@case
def half_a_tile():
    """Dims of 128: a matrix unit of 256 is half full, and takes the product transposed."""

    def kernel(x, y, out):
        out[...] = dot(x[...], y[...])

    x, y, out = shape((1024, 128)), shape((128, 128)), shape((1024, 128), F32)
    function = call(kernel, (4,), [rows((256, 128)), whole((128, 128))], rows((256, 128)), out)
    products = {"v5e": 16, "v5p": 16, "v6e": 32, "v7x": 32}
    return Case(function, [x, y], products, size(x, y), size(out))


# ---- copies that take all the time: XLA brings smaller arrays into VMEM beforehand


def bound(kernel, grid, ins, outs, arrays, out):
    """A case without matmuls that reads and writes each array once."""
    return Case(call(kernel, grid, ins, outs, out), arrays, 0, size(*arrays), size(out), True)


@case
def sum_of_three():
    """On v7x its loop ends `branch {} {} {} copy {}`: the last `{}` stands for two delay slots."""

    def kernel(x, y, z, out):
        out[...] = x[...] + y[...] + z[...]

    block, array = rows((128, 4096)), shape((8192, 4096))
    return bound(kernel, (64,), [block] * 3, block, [array] * 3, array)


@case
def sum_with_the_transpose():
    """Two orders of the blocks."""

    def kernel(x, y, out):
        out[...] = x[...] + y[...].T

    block = pl.BlockSpec((512, 512), lambda i, j: (i, j))
    other = pl.BlockSpec((512, 512), lambda i, j: (j, i))
    array = shape((4096, 4096), F32)
    return bound(kernel, (8, 8), [block, other], block, [array] * 2, array)


@case
def copy_of_heads():
    """Rows of several heads: copies with two strides."""

    def kernel(x, out):
        out[...] = x[...]

    block = pl.BlockSpec((2, 8, 256, 256), lambda b, h, i: (b, h, i, 0))
    array = shape((4, 16, 2048, 256))
    return bound(kernel, (2, 2, 8), [block], block, [array], array)


@case
def clipped_rows():
    """The last block has 40 rows of 256: the kernel itself credits what the copy lacks."""

    def kernel(x, out):
        out[...] = x[...] * 2

    block, array = rows((256, 4096)), shape((9000, 4096), F32)
    return bound(kernel, (36,), [block], block, [array], array)


# ---- scalars that steer a kernel


def group_sizes(sizes):
    """Trip counts that are read from SMEM."""

    def kernel(counts, q, k, out):
        def body(_, total):
            return total + jnp.tanh(dot(q[...], k[...]))

        steps = counts[pl.program_id(0)]
        out[...] = lax.fori_loop(0, steps, body, jnp.zeros((128, 256), F32))

    block = pl.BlockSpec((128, 256), lambda i, counts: (i, 0))
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(4,),
        in_specs=[block, pl.BlockSpec((256, 256), lambda i, counts: (0, 0))],
        out_specs=block,
    )
    out = shape((512, 256), F32)
    function = pl.pallas_call(kernel, grid_spec=spec, out_shape=out, name="kernel")
    return function, [sizes, shape((512, 256)), shape((256, 256))]


@case
def trip_counts_that_are_given():
    """10 steps in all."""
    sizes = np.array([3, 0, 2, 5], np.int32)
    return Case(*group_sizes(sizes), products=10 * work(128, 256, 256))


@case
def trip_counts_that_are_not():
    """The run must say that it guesses."""
    return Case(*group_sizes(shape((4,), I32)), error="run-time data")


@case
def tables():
    """Trip counts from a scalar, a table of bytes, a block in SMEM and a row copied there."""
    rng = np.random.default_rng(0)
    scalar, narrow = np.array([2], np.int32), rng.integers(0, 9, (5, 300), dtype=np.int8)
    block, copied = (rng.integers(0, 9, dims, dtype=np.int32) for dims in ((8, 8), (4, 128)))

    def kernel(scalar, narrow, block, copied, q, k, out, here, semaphore):
        i = pl.program_id(0)
        copy = pltpu.make_async_copy(copied.at[i], here.at[1], semaphore)
        copy.start()
        copy.wait()
        steps = block[i, 1] + here[1, 2] + scalar[0] + narrow[i, 3].astype(I32)

        def body(_, total):
            return total + jnp.tanh(dot(q[...], k[...]))

        out[...] = lax.fori_loop(0, steps, body, jnp.zeros((128, 256), F32))

    tile = pl.BlockSpec((128, 256), lambda i, *_: (i, 0))
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=2,
        grid=(4,),
        in_specs=[
            pl.BlockSpec(memory_space=pltpu.SMEM),
            ANYWHERE,
            tile,
            pl.BlockSpec((256, 256), lambda *_: (0, 0)),
        ],
        out_specs=tile,
        scratch_shapes=[pltpu.SMEM((2, 128), I32), pltpu.SemaphoreType.DMA(())],
    )
    out = shape((512, 256), F32)
    function = pl.pallas_call(kernel, grid_spec=spec, out_shape=out, name="kernel")
    arguments = [scalar, narrow, block, copied, shape((512, 256)), shape((256, 256))]
    steps = sum(int(block[i, 1]) + int(copied[i, 2]) + 2 + int(narrow[i, 3]) for i in range(4))
    return Case(function, arguments, steps * work(128, 256, 256))


@case
def splash():
    """jax's splash attention: 20 of 32 blocks of [512, 1024] are not masked, for each head.

    It contracts K's width of 128 in a matrix unit of 256 and computes p V in float32.
    """
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as kernels
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

    length, heads = 4096, 2
    mask = masks.MultiHeadMask([masks.CausalMask((length, length))] * heads)
    sizes = kernels.BlockSizes(block_q=512, block_kv=1024, block_kv_compute=512)
    kernel = kernels.make_splash_mha_single_device(mask=mask, block_sizes=sizes)
    array = shape((heads, length, 128))
    return Case(lambda q, k, v: kernel(q, k, v), [array] * 3, SPLASH)


# Of each of the two matmuls: 2 heads, 20 blocks of [512, 1024]; with a width of 128 a unit of 256
# is half full. p V is of float32, two `vmatmul`s for one of bfloat16.
SPLASH = {
    "v5e": 2 * 20 * (512 // 16 * 8 + 2 * (512 // 16 * 8)) / 4,
    "v6e": 2 * 20 * (512 // 16 * 4 + 2 * (512 // 16 * 4)),
    "v7x": 2 * 20 * (512 // 16 * 4 + 2 * (512 // 16 * 4)),
}


# ---- runs that must be refused


@case
def run_that_is_cut():
    """Its figures are of a part of the kernel."""
    found = resident(1, 8)
    return Case(found.function, found.arguments, error="CUT", limit=20)
