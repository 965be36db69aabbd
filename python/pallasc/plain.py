"""Running kernels in JAX's plain interpreter: quick, but it knows no copies nor semaphores."""

import contextlib
import types

from .errors import KernelError
from .simulate import simulate


class Plain:
    """What to interpret with in the place of InterpretParams: `pl.pallas_call`'s own."""


@contextlib.contextmanager
def _plain_pallas(module):
    """`pl.pallas_call` of a kernel module takes `Plain` for its interpret=True."""
    original, stand_in = module.pl, types.SimpleNamespace(**vars(module.pl))

    def pallas_call(*arguments, interpret=False, **options):
        interpret = True if isinstance(interpret, Plain) else interpret
        return original.pallas_call(*arguments, interpret=interpret, **options)

    stand_in.pallas_call, module.pl = pallas_call, stand_in
    try:
        yield
    finally:
        module.pl = original


def interpret_plainly(kernel, inputs):
    """A `Simulation` of a loaded kernel module. Raises KernelError where it cannot run it."""
    with _plain_pallas(kernel):
        try:
            return simulate(kernel, inputs, Plain())
        except KernelError as error:
            hint = "JAX's plain interpreter cannot run it, --interpret can"
            raise KernelError(f"{hint}: {error}") from error
