"""Running kernels in JAX's plain interpreter: quick, but it knows no copies nor semaphores."""

import contextlib
import types

from .errors import KernelError
from .simulate import simulate


class Plain:
    """What to interpret with in the place of InterpretParams: `pl.pallas_call`'s own."""


def for_pallas(interpret):
    """What `pl.pallas_call` takes for it."""
    return True if isinstance(interpret, Plain) else interpret


@contextlib.contextmanager
def _plain_pallas(module):
    """`pl.pallas_call` of a kernel module takes `Plain` for its interpret=True."""
    original, stand_in = module.pl, types.SimpleNamespace(**vars(module.pl))

    def pallas_call(*arguments, interpret=False, **options):
        return original.pallas_call(*arguments, interpret=for_pallas(interpret), **options)

    stand_in.pallas_call, module.pl = pallas_call, stand_in
    try:
        yield
    finally:
        module.pl = original


def interpret_plainly(kernel, inputs):
    """A `Simulation` of a loaded kernel module. Raises KernelError where it cannot run it."""
    with _plain_pallas(kernel):
        return simulate_plainly(kernel, inputs)


def simulate_plainly(kernel, inputs):
    """The same of what calls `pl.pallas_call` with `for_pallas` itself."""
    try:
        return simulate(kernel, inputs, Plain())
    except KernelError as error:
        hint = "JAX's plain interpreter cannot run it, that of TPUs can: leave out --interpret=fast"
        raise KernelError(f"{hint}: {error}") from error
