"""How long a kernel takes on a TPU: what `run`, `tune` and `on-tpu` measure.

A kernel is compiled once, inside a loop on the device whose number of calls is an argument. A
sample is the time of many calls less that of one, so that neither the launch nor the way back to
the host counts; samples are taken until their median is known well enough.

A device has four methods, so that tests can have one that costs nothing:

    devices()               kinds of the devices that there are, as jax prints them
    compile(module, arrays) a program of a module on these arguments
    run(program, calls)     its outputs after so many calls, once they are there
    clock()                 seconds
"""

import dataclasses
import math
import statistics
import time

from . import mesh
from .errors import FileError, KernelError
from .simulate import telling_line

# A sample's calls take at least so long: the clock and the host's noise are some 10 us.
SAMPLE_S = 0.05
# So many samples at least and at most; the median is known well enough once it lies, with 95%
# confidence, in an interval of this share of it.
LEAST, MOST, STEADY = 7, 50, 0.01
# Of a sample: a kernel that takes no time must come to an end.
MOST_CALLS = 1 << 20


@dataclasses.dataclass(frozen=True)
class Timing:
    """Seconds of one call of a kernel.

    Attributes:
      samples: seconds a call, in the order in which they were taken.
      calls: so many in each sample.
    """

    samples: tuple
    calls: int

    @property
    def median(self):
        """The median of the samples."""
        return statistics.median(self.samples)

    @property
    def quartiles(self):
        """(the first, the third) quartile of the samples."""
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return low, high

    @property
    def uncertainty(self):
        """The width of the interval in which the median lies, as a share of it."""
        low, high = interval(self.samples)
        return (high - low) / self.median if self.median > 0 else math.inf

    @property
    def stable(self):
        """Whether the median is known well enough."""
        return len(self.samples) >= LEAST and self.uncertainty <= STEADY


def interval(samples):
    """The interval in which the median lies with 95% confidence, whatever the noise is like.

    Its ends are samples: how many lie below the median is a binomial count.
    """
    ordered, count = sorted(samples), len(samples)
    low = max(0, math.floor((count - 1.96 * math.sqrt(count)) / 2))
    return ordered[low], ordered[count - 1 - low]


def time_program(device, program):
    """The `Timing` of a compiled program that has run before."""
    calls, samples = enough_calls(device, program), []
    while len(samples) < MOST:
        samples.append((elapsed(device, program, calls + 1) - elapsed(device, program, 1)) / calls)
        if Timing(tuple(samples), calls).stable:
            break
    timing = Timing(tuple(samples), calls)
    if not timing.median > 0:
        raise KernelError("the device's clock does not tell one call from many")
    return timing


def enough_calls(device, program):
    """As many calls as take SAMPLE_S longer than one."""
    one, calls = elapsed(device, program, 1), 1
    while calls < MOST_CALLS:
        rest = elapsed(device, program, calls + 1) - one
        if rest >= SAMPLE_S:
            break
        # At most ten times as many, as few are mostly noise; one in ten more than it looks.
        wanted = calls * SAMPLE_S * 1.1 / max(rest, SAMPLE_S / 10)
        calls = min(max(math.ceil(wanted), calls + 1), MOST_CALLS)
    return calls


def elapsed(device, program, calls):
    """Seconds from asking for so many calls until their outputs are there."""
    started = device.clock()
    device.run(program, calls)
    return device.clock() - started


# ---- the TPU of this machine ---------------------------------------------------------------------


class Tpu:
    """The first TPU of this machine, through jax; a kernel for a mesh takes as many as it needs."""

    clock = staticmethod(time.perf_counter)

    def devices(self):
        """Kinds of the devices. Raises FileError if jax finds no TPU."""
        import jax

        try:
            return [device.device_kind for device in jax.devices("tpu")]
        except RuntimeError as error:
            raise FileError(f"jax finds no TPU: {telling_line(error)}") from None

    def compile(self, module, arrays):
        """A program: a function of a number of calls. Raises KernelError."""
        import jax

        try:
            if mesh.has_mesh(module.info):
                return _from_the_host(mesh.on_this_machine(module, False), jax.device_put(arrays))
            placed = jax.device_put(arrays, jax.devices("tpu")[0])
            compiled = jax.jit(chained(module.load())).lower(0, *placed).compile()
            return lambda calls: compiled(calls, *placed)
        except Exception as error:
            raise _named(error) from error

    def run(self, program, calls):
        """The outputs, jax arrays. Raises KernelError."""
        import jax

        try:
            return jax.block_until_ready(program(calls))
        except Exception as error:
            raise _named(error) from error


def chained(kernel):
    """A function of a number of calls and a kernel's arguments: the outputs of the last call.

    Each call waits for the one before: XLA is told that its arguments depend on those outputs, and
    neither copies anything for that nor takes the kernel out of the loop (libtpu 0.0.51).
    """
    import jax
    import jax.numpy as jnp

    def call(arrays):
        made = kernel(*arrays)
        return tuple(made) if isinstance(made, tuple | list) else (made,)

    def step(_, carried):
        arrays, _ = jax.lax.optimization_barrier(carried)
        return arrays, call(arrays)

    def run(calls, *arrays):
        shapes = jax.eval_shape(call, arrays)
        nothing = tuple(jnp.zeros(shape.shape, shape.dtype) for shape in shapes)
        return jax.lax.fori_loop(0, calls, step, (arrays, nothing))[1]

    return run


def _from_the_host(kernel, arrays):
    """A program that is launched call by call, in turn."""

    def run(calls):
        for _ in range(calls):
            outputs = kernel(*arrays)
        return outputs if isinstance(outputs, tuple | list) else (outputs,)

    return run


def _named(error):
    return error if isinstance(error, KernelError) else KernelError(telling_line(error))
