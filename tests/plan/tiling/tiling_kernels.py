"""Small Pallas kernels, as text, that cut one dim of one array: what the probe compiles.

Each function gives a `pallasc` module of one kernel. A layout says which dim of what array is cut;
all other dims are whole.
"""

import dataclasses

from beside import beside
from pallasc.module import Module

HEAD = """import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {info!r}

HBM = pl.BlockSpec(memory_space=pl.ANY)
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
"""


@dataclasses.dataclass(frozen=True)
class Layout:
    """An array with one dim that is cut.

    Attributes:
      name: for the tables.
      around: extents of the dims; None is the one that is cut.
      largest: the largest multiple that is tried in it, a power of two.
      odd: an extent that no tile divides.
    """

    name: str
    around: tuple
    largest: int
    odd: int

    @property
    def dim(self):
        return self.around.index(None)

    @property
    def is_rows(self):
        """Whether the dim is the second-last."""
        return self.dim + 2 == len(self.around)

    def shape(self, extent):
        return tuple(extent if n is None else n for n in self.around)

    def cut(self, text):
        """The index of a ref that cuts the dim by `text`."""
        return ", ".join(text if n is None else ":" for n in self.around)

    @property
    def extent(self):
        """Divisible by 3 and 5 times each multiple that is tried."""
        return 15 * self.largest


LAYOUTS = (
    Layout("[n]", (None,), 4096, 300),
    Layout("[r, n]", (32, None), 256, 300),
    Layout("[1, n]", (1, None), 256, 300),
    Layout("[n, 256]", (None, 256), 64, 13),
    Layout("[n, 128]", (None, 128), 64, 13),
    Layout("[n, 1]", (None, 1), 64, 13),
    Layout("[b, r, n]", (2, 32, None), 256, 300),
    Layout("[b, 1, n]", (2, 1, None), 256, 300),
    Layout("[b, n, 256]", (2, None, 256), 64, 13),
    Layout("[n, r, 256]", (None, 32, 256), 2, 13),
)


def _module(body, inputs):
    names = ", ".join(f"x{i}" for i in range(len(inputs)))
    info = {"name": "probe", "target": "v6e", "outputs": [], "config": {}}
    info["inputs"] = [
        {"name": f"x{i}", "dtype": dtype, "shape": list(shape)}
        for i, (dtype, shape) in enumerate(inputs)
    ]
    text = HEAD.format(info=info) + "\n" + body.replace("NAMES", names)
    return beside(Module(text, "probe.py"))


def _index_map(layout, index):
    zeros = ", ".join(index if n is None else "0" for n in layout.around)
    return f"lambda i: ({zeros},)" if len(layout.around) == 1 else f"lambda i: ({zeros})"


def _block_spec(layout, block, buffers=None):
    mode = f", pipeline_mode=pl.Buffered({buffers})" if buffers else ""
    return f"pl.BlockSpec({layout.shape(block)}, {_index_map(layout, 'i')}{mode})"


def grid_block(layout, dtype, extent, block, buffers=None):
    """A grid over blocks of `block`, brought and taken away by Pallas' own pipeline."""
    shape = layout.shape(extent)
    body = f"""
def kernel(x, o):
    o[...] = x[...]


def probe(NAMES):
    return pl.pallas_call(
        kernel,
        grid=({-(-extent // block)},),
        in_specs=[{_block_spec(layout, block, buffers)}],
        out_specs={_block_spec(layout, block)},
        out_shape=jax.ShapeDtypeStruct({shape}, jnp.{jnp_name(dtype)}),
    )(NAMES)
"""
    return _module(body, [(dtype, shape)])


def pipeline_block(layout, dtype, extent, block, buffers=None):
    """The same by `emit_pipeline` within a kernel."""
    shape = layout.shape(extent)
    body = f"""
def step(x, o):
    o[...] = x[...]


def kernel(x, o):
    pltpu.emit_pipeline(
        step,
        grid=({-(-extent // block)},),
        in_specs=[{_block_spec(layout, block, buffers)}],
        out_specs=[{_block_spec(layout, block)}],
    )(x, o)


def probe(NAMES):
    return pl.pallas_call(
        kernel,
        in_specs=[HBM],
        out_specs=HBM,
        out_shape=jax.ShapeDtypeStruct({shape}, jnp.{jnp_name(dtype)}),
    )(NAMES)
"""
    return _module(body, [(dtype, shape)])


def copy(layout, dtype, extent, start, size, out=False):
    """`make_async_copy` of one slice between HBM and a VMEM buffer of two slots, in a loop over j.

    `start` is the text of the slice's start: an int, or of `j` and `begin`, an int32 from SMEM. For
    1-D arrays the buffer has no slots: they would be the rows of a 2-D one.
    """
    shape, slots = layout.shape(extent), (2,) if len(layout.around) > 1 else ()
    window = layout.cut(f"pl.ds({start}, {size})")
    buffer = "buffer.at[jax.lax.rem(j, 2)]" if slots else "buffer"
    ends = f"{buffer}, o.at[{window}]" if out else f"x.at[{window}], {buffer}"
    body = f"""
def kernel(begin_ref, x, o, buffer, semaphore):
    begin = begin_ref[0]

    def step(j, carry):
        copy = pltpu.make_async_copy({ends}, semaphore)
        copy.start()
        copy.wait()
        return carry

    jax.lax.fori_loop(0, 3, step, 0)


def probe(NAMES):
    return pl.pallas_call(
        kernel,
        in_specs=[SMEM, HBM],
        out_specs=HBM,
        out_shape=jax.ShapeDtypeStruct({shape}, jnp.{jnp_name(dtype)}),
        scratch_shapes=[
            pltpu.VMEM({(*slots, *layout.shape(size))}, jnp.{jnp_name(dtype)}),
            pltpu.SemaphoreType.DMA(()),
        ],
    )(NAMES)
"""
    return _module(body, [("int32", (1,)), (dtype, shape)])


LOAD = "o[...] = x[{window}]"
STORE = "o[{window}] = x[...]"
MASKED = "pltpu.store(o.at[{window}], x[...], mask=jnp.full(x.shape, True))"
# What an atomic add is where grid steps run in order.
UPDATE = "o[{window}] = (o[{window}].astype(jnp.float32) + 1.0).astype(o.dtype)"


def view(layout, dtype, extent, start, size, what):
    """A load, store or update (`what`) of one slice of a VMEM block, in a loop over j."""
    whole, part = layout.shape(extent), layout.shape(size)
    source, result = (whole, part) if what == LOAD else (part, whole)
    line = what.format(window=layout.cut(f"pl.ds({start}, {size})"))
    body = f"""
def kernel(begin_ref, x, o):
    begin = begin_ref[0]

    def step(j, carry):
        {line}
        return carry

    jax.lax.fori_loop(0, 3, step, 0)


def probe(NAMES):
    return pl.pallas_call(
        kernel,
        in_specs=[SMEM, pl.BlockSpec()],
        out_specs=pl.BlockSpec(),
        out_shape=jax.ShapeDtypeStruct({result}, jnp.{jnp_name(dtype)}),
    )(NAMES)
"""
    return _module(body, [("int32", (1,)), (dtype, source)])


def jnp_name(dtype):
    """The name of a dtype in jax.numpy."""
    return "bool_" if dtype == "bool" else dtype
