"""Running kernels in TPU interpret mode, and reading back what the simulator noticed."""

import contextlib
import dataclasses
import io
import logging
import os
import re
import threading

from .errors import KernelError


@dataclasses.dataclass
class Simulation:
    """What a simulated run gave.

    Attributes:
      outputs: list of numpy arrays.
      races: list of lines, one for each distinct pair of places that race.
      complaints: list of lines: semaphores not waited for.
    """

    outputs: list
    races: list
    complaints: list


def interpret_params(races=True, cores=1, seed=None, eager=False):
    """InterpretParams that forgive least: NaN-filled memory, reads out of bounds raise.

    A DMA moves its data when it is waited for, which shows reads that come too early; `eager` ones
    at once, which shows DMAs that nothing waits for.

    Bounds are those of the padded buffer, as on the chip: a window at a ragged edge is read in
    whole tiles, and what lies beyond the array is NaN.
    """
    from jax.experimental.pallas import tpu as pltpu

    return pltpu.InterpretParams(
        detect_races=races,
        uninitialized_memory="nan",
        out_of_bounds_reads="raise",
        buffer_bounds="padded",
        num_cores_or_threads=cores,
        random_seed=seed,
        dma_execution_mode="eager" if eager else "on_wait",
    )


@contextlib.contextmanager
def huge_memory():
    """Fills what nothing wrote with huge values instead of NaN, in what is simulated meanwhile.

    XLA on a CPU drops NaN in a maximum over a dim, so that NaN cannot show a mask that is missing
    before one. This reaches into jax; there is no public way.
    """
    import jax.numpy as jnp
    import ml_dtypes
    from jax._src.pallas.mosaic.interpret import utils

    original = utils.get_uninitialized_value

    def huge(dtype, uninitialized_memory):
        if jnp.issubdtype(dtype, jnp.floating):
            return min(2.0**100, float(ml_dtypes.finfo(dtype).max))
        return original(dtype, uninitialized_memory)

    utils.get_uninitialized_value = huge
    try:
        yield
    finally:
        utils.get_uninitialized_value = original


def simulate(kernel, inputs, params):
    """Runs `kernel(*inputs, interpret=params)`. Gives a `Simulation`; raises KernelError.

    A kernel that waits for what never comes does not end: see `time_limit`.
    """
    import numpy as np

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), _quiet_callbacks():
        try:
            outputs = kernel(*inputs, interpret=params)
            outputs = outputs if isinstance(outputs, tuple | list) else [outputs]
            outputs = [np.asarray(output) for output in outputs]
        except Exception as error:
            _reset()
            if "KeyboardInterrupt" in str(error):
                raise KeyboardInterrupt from None
            raise KernelError(telling_line(error)) from error
    races = parse_races(printed.getvalue())
    if not races and _races_found():
        races = ["a race, of which the simulator does not say where"]
    complaints = re.findall(r"^Semaphore .*", printed.getvalue(), re.MULTILINE)
    return Simulation(outputs, races, sorted(set(complaints)))


_ACCESS = re.compile(
    r"(read|write) of \('(\w+)', (\d+),.*? from [^,]*,(?: [^,]*?,)? ?(?:\d+,? )?(\S+)"
)


def parse_races(text):
    """The simulator's printed races, one line for each distinct pair of places."""
    lines = {}
    for block in text.split("RACE DETECTED")[1:]:
        accesses = [match for line in block.splitlines() if (match := _ACCESS.search(line))]
        if len(accesses) < 2:
            lines[f"race: {' '.join(block.split())[:200]}"] = None
            continue
        places = [f"{match[1]} at {_place(match[4])}" for match in accesses[:2]]
        lines[f"race in {accesses[0][2]}: {places[0]}, {places[1]}"] = None
    return list(lines)


def _place(frame):
    """`file:line` of `/path/of/file:line:column`."""
    parts = frame.split(":")
    return ":".join([os.path.basename(parts[0]), *parts[1:2]])


def telling_line(error):
    """The one line of an exception that says what went wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if "Traceback (most recent call last)" in str(error):
        named = [line for line in lines if re.match(r"[A-Za-z_.]*(Error|Exception)\b.*: ", line)]
        return named[-1] if named else lines[-1]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


@contextlib.contextmanager
def time_limit(seconds):
    """Ends the process, with status 1 and a message, if the block takes longer.

    For commands only: a simulated wait cannot be interrupted in any gentler way.
    """

    def give_up():
        text = (
            f"the simulated kernel did not end within {seconds:g} s: it waits forever, or is slow"
        )
        os.write(2, f"pallasc: error: {text} (--timeout)\n".encode())
        os._exit(1)

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextlib.contextmanager
def _quiet_callbacks():
    """jax logs the traceback of a failed callback; the exception that follows says the same."""
    logger = logging.getLogger("jax._src.callback")
    disabled, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = disabled


def _reset():
    """Forgets the state that a failed run leaves behind.

    The tokens that order callbacks hold its error, and would raise it again in the next run: they
    are waited for, whatever they raise, and dropped (private; there is no public way).
    """
    from jax._src import dispatch
    from jax.experimental.pallas import tpu as pltpu

    with contextlib.suppress(Exception):
        dispatch.runtime_tokens.block_until_ready()
    with contextlib.suppress(AttributeError):
        dispatch.runtime_tokens.clear()
    with contextlib.suppress(AttributeError):
        pltpu.reset_tpu_interpret_mode_state()


def _races_found():
    """The simulator's own flag (private; it knows the last pallas_call only)."""
    try:
        from jax._src.pallas.mosaic.interpret import interpret_pallas_call

        return bool(interpret_pallas_call.races and interpret_pallas_call.races.races_found)
    except (ImportError, AttributeError):
        return False
