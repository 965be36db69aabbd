"""Binding a kernel with Helion, and the operands that its lowering blanks."""

import ast
import contextlib
import dataclasses
import importlib.metadata
import inspect
import os
import re
import sys

from .errors import ExportError
from .patches import UNKNOWN_SIZE, all_applied, internals_check
from .sources import KernelSource

# The first of each is what `pip install` is told.
TESTED = {"helion": ("1.5.1", "1.5.0", "1.4.0"), "torch": ("2.13.0",)}
INT32 = (-(2**31), 2**31 - 1)
LONGEST_TOLD = 300  # letters of a refusal of Helion's


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
    items: dict  # (parameter name, place in its flat memory) -> the int that is there
    named: bool  # sizes of arguments are symbols of Helion's, which become names
    numbers: set  # symbols of sizes that stand for their numbers all the same

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


def kernel_trace(kernel, args, ranges=None, items=None, named=False, whole_dims=False):
    """Bind `kernel` (a `helion.kernel`) to `args` and return its Trace.

    Tensors count by dtype and shape only: each is replaced by a contiguous fake, so that no memory
    is used. Sizes are numbers, unless they are `named`: then Helion has a symbol for each that the
    kernel does not specialise, and the arguments of the Trace have these. Those of dims that are
    loaded whole are numbers unless `whole_dims` are named, too, which Helion takes of some kernels.
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
            static_shapes=not named,
            ignore_warnings=[helion.exc.BaseWarning],
        ),
    )
    source = KernelSource(kernel.fn)
    arguments = arguments_bind(kernel, args, source)
    originals, variables, numbers = {}, {}, set()
    try:
        with all_applied(originals, variables, numbers, whole_dims):
            bound = fresh.bind(tuple((unfaked(arguments) if named else arguments).values()))
    except ExportError:
        raise
    except Exception as error:
        raise helion_error(error, source) from error
    configs = [dict(config) for config in fresh.configs]
    ranges = ranges_find(ranges or {}, arguments, source)
    items = items_find(items or {}, arguments)
    if named:
        arguments = symbolic_arguments(arguments, bound)
    made = (originals, variables, source, configs, ranges, items, named, numbers)
    return Trace(fresh.name, fresh.fn, arguments, bound, *made)


def unfaked(arguments):
    """Return the arguments with tensors of memory that is never touched: fakes have no symbols."""
    import torch
    from torch.utils import _pytree

    def real(value):
        if not isinstance(value, torch.Tensor):
            return value
        return torch.empty(tuple(value.shape), dtype=value.dtype)

    return {name: _pytree.tree_map(real, value) for name, value in arguments.items()}


def symbolic_arguments(arguments, bound):
    """Return the arguments as contiguous fakes that have Helion's symbols for sizes."""
    import torch
    from torch._subclasses import FakeTensorMode
    from torch.utils import _pytree

    mode = FakeTensorMode(shape_env=bound.env.shape_env)

    def fake(value, theirs):
        if not isinstance(value, torch.Tensor):
            return value
        with mode:
            return torch.empty(tuple(theirs.shape), dtype=value.dtype, device="cpu")

    found = {}
    for (name, value), theirs in zip(arguments.items(), bound.fake_args, strict=True):
        leaves, spec = _pytree.tree_flatten(value)
        pairs = zip(leaves, _pytree.tree_leaves(theirs), strict=True)
        found[name] = _pytree.tree_unflatten([fake(*pair) for pair in pairs], spec)
    return found


def items_find(items, arguments):
    """Return {(parameter, place in its flat memory): int} of items by `offsets[-1]`."""
    import torch

    found = {}
    for text, number in items.items():
        match = re.fullmatch(r"(\w+)\[\s*(-?\d+(?:\s*,\s*-?\d+)*)\s*\]", text)
        name, place = (match[1], [int(at) for at in match[2].split(",")]) if match else (text, [])
        value = arguments.get(name)
        if not isinstance(value, torch.Tensor) or len(place) != value.dim():
            raise ExportError(f"'{text}' is no place in a tensor that is an argument")
        if not all(-size <= at < size for at, size in zip(place, value.shape, strict=True)):
            raise ExportError(f"'{text}' is outside of '{name}', which is {list(value.shape)}")
        flat = 0
        for at, size in zip(place, value.shape, strict=True):
            flat = flat * size + at % size
        found[name, flat] = number
    return found


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
    strides_check(bound.arguments, source)
    mode = FakeTensorMode()

    def fake(value):
        if not isinstance(value, torch.Tensor):
            return value
        with mode:
            return torch.empty(tuple(value.shape), dtype=value.dtype, device="cpu")

    return {name: _pytree.tree_map(fake, value) for name, value in bound.arguments.items()}


def strides_check(arguments, source):
    """Refuse strides of a tensor that is not contiguous: a document's tensors have none."""
    import torch
    from torch.utils import _pytree

    asked = [
        n for n in ast.walk(source.tree) if isinstance(n, ast.Attribute) and n.attr == "stride"
    ]
    for name, value in arguments.items() if asked else ():
        tensors = [leaf for leaf in _pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        if not all(tensor.is_contiguous() for tensor in tensors):
            message = f"the kernel asks for strides, and '{name}' is not contiguous: pass it so"
            raise ExportError(message, source.where(asked[0].lineno))


def helion_error(error, source):
    """Return Helion's own refusal as an ExportError: its first line, at the kernel's line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = source.first
    for text in lines:
        path, _, rest = text.partition('", line ')
        if path.startswith('File "') and path.endswith(source.file):
            line = int(rest.partition(",")[0])
    told = lines[0] if lines else type(error).__name__
    if isinstance(error, (TypeError, ValueError, AttributeError, LookupError)):
        told = f"{type(error).__name__}: {told}"
    if "'NullHandler' object" in told:
        told = "an operation that torch's inductor does not lower: use others, or pass its result"
    if told.startswith("PendingUnbackedSymbolNotFound"):  # then come all of its symbols
        told = UNKNOWN_SIZE
    return ExportError(f"Helion: {told[:LONGEST_TOLD]}", source.where(line))
