"""What `use` puts into Helion, and what `stop` takes out again."""

import contextlib
import dataclasses
import functools
import os
import threading

from .. import chips
from ..command import table as columns
from ..errors import UsageError

_ENVIRONMENT = ("HELION_BACKEND", "HELION_PALLAS_INTERPRET")


@dataclasses.dataclass
class Row:
    """What became of one kernel under one configuration and one kind of arguments.

    Attributes:
      kernel: its name.
      arguments: dtype and shape of each tensor, and the other arguments.
      config: the configuration that was asked for, a dict; {}: none, pallasc chose.
      by: "pallasc", "helion" (the fallback) or "" (refused).
      why: the first error of a refusal, or the notes of a configuration that was adapted.
    """

    kernel: str
    arguments: str
    config: dict
    by: str
    why: str


class Table(list):
    """Rows; its text has a line for each."""

    def __str__(self):
        rows = [(r.by or "refused", f"{r.kernel}({r.arguments})", r.why) for r in self]
        return "\n".join(columns([("compiled by", "kernel", "why"), *rows]))


class Use:
    """What `use` was told, the methods of Helion's that it replaced, and what was compiled."""

    def __init__(self, target, fallback, interpret, adapt):
        self.target, self.interpret = target, interpret
        self.fallback, self.adapt = fallback, adapt
        self.rows = {}  # what a call is known by -> Row, in the order of compiling
        self.made = {}  # what is made once
        self.lock = threading.RLock()
        self.replaced = {}  # (class, name) -> Helion's own method
        self.environment = {name: os.environ.get(name) for name in _ENVIRONMENT}

    def once(self, key, make):
        """What `make` gives for a key, which is asked once."""
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]

    def replace(self, owner, name, make):
        """Put `make(Helion's own method)` in the place of a method."""
        own = owner.__dict__[name]
        self.replaced[owner, name] = own
        setattr(owner, name, functools.wraps(own)(make(own)))

    def restore(self):
        """Put Helion's own methods, and the environment, back."""
        for (owner, name), own in self.replaced.items():
            setattr(owner, name, own)
        for name, value in self.environment.items():
            _put_back(name, value)


_used = None


def use(target=None, *, fallback=False, interpret=None, adapt=True):
    """Compile the kernels of Helion's Pallas backend through pallasc from now on.

    Kernels that are decorated from now on have that backend unless they name another. Calling it
    again changes what it was told.

    Args:
      target: a chip's name, as of `pallasc.compile`; None: the TPU that is there, else v6e.
      fallback: True: Helion's own backend compiles what pallasc refuses; `table()` says what.
      interpret: True: kernels are simulated on the CPU; None: they are where there is no TPU.
      adapt: the nearest configuration that is accepted, where one is refused; False: refuse it.

    Raises:
      ExportError: torch or helion is not installed.
      UsageError: the environment asks for another backend, or there is no such chip.
    """
    global _used
    from ..binding import find_library
    from ..exporter.trace import helion_require

    if (asked := os.environ.get("HELION_BACKEND", "pallas")) != "pallas":
        raise UsageError(f"HELION_BACKEND is {asked}: pallasc takes the place of pallas alone")
    if isinstance(target, str) and target not in (known := find_library().targets()):
        raise UsageError(f"no chip {target!r}: there are {', '.join(known)}")
    stop()
    on_cpu = chips.choose_platform(simulate=bool(interpret))
    interpret = on_cpu if interpret is None else interpret
    used = Use(target or _chip(on_cpu), fallback, interpret, adapt)
    helion_require()
    if not interpret:
        _put_back("HELION_PALLAS_INTERPRET", used.environment["HELION_PALLAS_INTERPRET"])
    _install(used)
    _used = used


def stop():
    """Have Helion compile its kernels itself again. What is bound already stays as it is."""
    global _used
    if _used is not None:
        _used.restore()
    _used = None


def table():
    """A `Table` of what was compiled since `use`, and by whom; of what was refused, why."""
    return Table(_used.rows.values() if _used else ())


def _chip(on_cpu):
    if on_cpu:
        return "v6e"
    import jax

    kind = jax.devices()[0].device_kind
    if (chip := chips.chip_of(kind)) is None:
        raise UsageError(f"a chip that jax calls {kind!r} is not known: name a target")
    return chip


def _put_back(name, value):
    os.environ.pop(name, None)
    if value is not None:
        os.environ[name] = value


@contextlib.contextmanager
def environment_kept():
    """What is exported meanwhile leaves Helion's environment variables as they were."""
    before = {name: os.environ.get(name) for name in _ENVIRONMENT}
    try:
        yield
    finally:
        for name, value in before.items():
            _put_back(name, value)


def _install(used):
    from helion._compiler.pallas.backend import PallasBackend
    from helion.autotuner.base_search import BaseSearch
    from helion.runtime.kernel import BoundKernel

    from ..binding import find_library
    from ..exporter.patches import all_applied
    from .calls import BoundArguments, CompiledKernel, normalised
    from .search import estimates_provide

    def ours(bound):
        return isinstance(bound, BoundKernel) and bound.settings.backend == "pallas"

    def initialise(own):
        def method(self, kernel, args, *rest, **named):
            self._pallasc_arguments = BoundArguments(args)
            try:
                own(self, kernel, args, *rest, **named)
            except Exception:  # perhaps only Helion's own backend cannot lower it
                if kernel.settings.backend != "pallas":
                    raise
                try:
                    with all_applied({}, {}):
                        own(self, kernel, args, *rest, **named)
                except Exception:
                    self = None
                if self is None:
                    raise

        return method

    def compile_config(own):
        def method(self, config=None, *, allow_print=True):
            if not ours(self):
                return own(self, config, allow_print=allow_print)
            chosen = self._require_implicit_config() if config is None else config
            compiled = CompiledKernel(used, self, normalised(self, chosen), own)
            compiled.prepare(self._pallasc_arguments())
            if allow_print and self.settings.print_output_code:
                print(compiled.source(self._pallasc_arguments()))
            return compiled

        return method

    def to_code(own):
        def method(self, config=None, **named):
            if not ours(self):
                return own(self, config, **named)
            chosen = self._require_implicit_config() if config is None else config
            compiled = CompiledKernel(used, self, normalised(self, chosen), lambda *_: None)
            code = compiled.source(self._pallasc_arguments())
            return own(self, config, **named) if code is None else code

        return method

    def extra_cache_key(own):
        told = f"pallasc {find_library().version} {used.target} {used.interpret}"
        return lambda self: own(self) + (told if ours(self) else "")

    def prepare(own):
        def method(self):
            if ours(self.kernel) and used.interpret:
                estimates_provide(self, used)
            own(self)

        return method

    def no_device_times(own):
        return lambda self, *args, **named: None if used.interpret else own(self, *args, **named)

    used.replace(BoundKernel, "__init__", initialise)
    used.replace(BoundKernel, "compile_config", compile_config)
    used.replace(BoundKernel, "to_code", to_code)
    used.replace(BoundKernel, "extra_cache_key", extra_cache_key)
    used.replace(BaseSearch, "_prepare", prepare)
    used.replace(PallasBackend, "get_paired_device_micros_bench", no_device_times)
