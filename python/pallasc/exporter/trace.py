"""Binding a kernel with Helion, and the operands that its lowering blanks."""

import contextlib
import dataclasses
import importlib.metadata
import inspect
import os
import sys

from .errors import ExportError
from .patches import all_applied, internals_check
from .sources import KernelSource

# The first of each is what `pip install` is told.
TESTED = {"helion": ("1.5.1", "1.5.0", "1.4.0"), "torch": ("2.13.0",)}
INT32 = (-(2**31), 2**31 - 1)


@dataclasses.dataclass
class Trace:
    """A bound kernel, with what Helion forgets: operands that its lowering blanks, and names."""

    name: str
    fn: object
    arguments: dict  # parameter name -> the caller's value, tensors as contiguous fakes
    bound: object
    originals: dict  # fx.Node -> (args, kwargs)
    variables: dict  # graph id -> (names of its arguments, names of its outputs)
    source: KernelSource
    configs: list
    ranges: dict  # parameter name -> (least, greatest) of its ints

    @property
    def env(self):
        """Helion's compile environment."""
        return self.bound.env

    @property
    def host(self):
        """Helion's host function."""
        return self.bound.host_function

    @property
    def device_ir(self):
        """Helion's device graphs."""
        return self.bound.host_function.device_ir


def helion_require():
    """Import torch and Helion for the Pallas backend on a CPU, or say what to install."""
    os.environ["HELION_BACKEND"] = "pallas"
    os.environ["HELION_PALLAS_INTERPRET"] = "1"
    try:
        import helion
        import torch  # noqa: F401
    except ImportError as error:
        wanted = " ".join(f"{name}=={versions[0]}" for name, versions in TESTED.items())
        missing = error.name or str(error)
        raise ExportError(
            f"export needs torch and helion ({missing} is missing): pip install {wanted}"
        ) from error
    return helion


@contextlib.contextmanager
def versions_told():
    """Warn of versions that are not tested; what then fails inside of them is told as that."""
    found = {name: importlib.metadata.version(name).partition("+")[0] for name in TESTED}
    strange = [name for name, version in found.items() if version not in TESTED[name]]
    told = " and ".join(f"{n} {found[n]} (tested: {', '.join(TESTED[n])})" for n in strange)
    if not strange:
        yield
        return
    print(f"pallasc: warning: {told}", file=sys.stderr)
    try:
        internals_check()
        yield
    except ExportError:
        raise
    except Exception as error:
        raise ExportError(f"{told}: not as export knows it: {error}") from error


def kernel_trace(kernel, args, ranges=None):
    """Bind `kernel` (a `helion.kernel`) to `args` and return its Trace.

    Tensors count by dtype and shape only: each is replaced by a contiguous fake, so that no memory
    is used. Sizes are static whatever the kernel's settings say: a graph has one size.
    """
    helion = helion_require()
    if not isinstance(kernel, helion.Kernel):
        name = getattr(kernel, "__name__", repr(kernel))
        raise ExportError(f"'{name}' is no Helion kernel: decorate a function with @helion.kernel")
    fresh = helion.Kernel(
        kernel.fn,
        configs=[dict(config) for config in kernel.configs],
        settings=helion.Settings(
            backend="pallas",
            pallas_interpret=True,
            static_shapes=True,
            ignore_warnings=[helion.exc.BaseWarning],
        ),
    )
    source = KernelSource(kernel.fn)
    arguments = arguments_bind(kernel, args, source)
    originals, variables = {}, {}
    try:
        with all_applied(originals, variables):
            bound = fresh.bind(tuple(arguments.values()))
    except helion.exc.Base as error:
        raise helion_error(error, source) from error
    configs = [dict(config) for config in fresh.configs]
    ranges = ranges_find(ranges or {}, arguments, source)
    return Trace(
        fresh.name, fresh.fn, arguments, bound, originals, variables, source, configs, ranges
    )


def ranges_find(ranges, arguments, source):
    """Return {parameter: (least, greatest)} of ranges by parameter or by place."""
    import torch

    names, found = list(arguments), {}
    for key, (low, high) in ranges.items():
        name = names[key] if isinstance(key, int) and key < len(names) else key
        value = arguments.get(name)
        if not isinstance(value, torch.Tensor) or value.dtype.is_floating_point:
            where = source.where(source.first)
            raise ExportError(f"a range of '{name}', which is no tensor of ints", where)
        if low > high or low < INT32[0] or high > INT32[1]:
            raise ExportError(f"the range {low}..{high} of '{name}' is no range of int32")
        found[name] = (low, high)
    return found


def arguments_bind(kernel, args, source):
    """Return {parameter: value} of `args`, defaults applied, each tensor a contiguous fake."""
    import torch
    from torch._subclasses import FakeTensorMode
    from torch.utils import _pytree

    try:
        bound = inspect.signature(kernel.fn).bind(*args)
    except TypeError as error:
        raise ExportError(
            f"arguments of {kernel.name}: {error}", source.where(source.first)
        ) from error
    bound.apply_defaults()
    mode = FakeTensorMode()

    def fake(value):
        if not isinstance(value, torch.Tensor):
            return value
        with mode:
            return torch.empty(tuple(value.shape), dtype=value.dtype, device="cpu")

    return {name: _pytree.tree_map(fake, value) for name, value in bound.arguments.items()}


def helion_error(error, source):
    """Return Helion's own refusal as an ExportError: its first line, at the kernel's line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = source.first
    for text in lines:
        path, _, rest = text.partition('", line ')
        if path.startswith('File "') and path.endswith(source.file):
            line = int(rest.partition(",")[0])
    return ExportError(f"Helion: {lines[0] if lines else type(error).__name__}", source.where(line))
