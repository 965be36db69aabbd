"""Calls of Helion's kernels with torch's tensors, answered by modules of pallasc."""

import inspect
import re
import weakref

import helion
import torch
from torch.utils import _pytree

from .. import binding
from ..errors import CompileError, PallascError
from ..export import arrays
from ..exporter.document import kernel_export
from ..exporter.errors import ExportError
from ..reference.values import DTYPES
from .switch import Row, environment_kept

INT64_RANGE = "int64-range"
ITEM = re.compile(r"(\w+)\[([\d, ]+)\]")


class RefusedError(PallascError, helion.exc.Base):
    """A kernel, its arguments or its configuration are refused; it is one of Helion's errors."""


class BoundArguments:
    """Arguments as a bound kernel keeps them: tensors while others do, then their types."""

    def __init__(self, args):
        self.leaves, self.spec = _pytree.tree_flatten(args)
        for at, leaf in enumerate(self.leaves):
            if isinstance(leaf, torch.Tensor):
                self.leaves[at] = (weakref.ref(leaf), leaf.detach().to("meta"))

    def __call__(self):
        """The arguments; a tensor that is gone has dtype, shape and strides alone."""
        leaves = [self.tensor(*x) if isinstance(x, tuple) else x for x in self.leaves]
        return _pytree.tree_unflatten(leaves, self.spec)

    def tensor(self, alive, kind):
        """The tensor if it is alive, else its kind."""
        found = alive()
        return kind if found is None else found


def normalised(bound, config):
    """A configuration as Helion's rules for a bound kernel complete it; the given one stays."""
    config = helion.Config(**dict(config))
    bound.config_spec.normalize(config)
    return config


def arguments_by_name(kernel, args):
    """{parameter: argument} of a call, defaults applied."""
    bound = inspect.signature(kernel.fn).bind(*args)
    bound.apply_defaults()
    return bound.arguments


def tensors_by_name(arguments):
    """The tensors among the arguments of a call by the names that the exporter gives them."""
    found = {}
    for name, value in arguments.items():
        leaves = _pytree.tree_leaves(value)
        for at, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                found[name if len(leaves) == 1 else f"{name}_{at}"] = leaf
    return found


def known_by(args):
    """What arguments are compiled for: equal ones share a module."""

    def leaf(value):
        if isinstance(value, torch.Tensor):
            return (value.dtype, tuple(value.shape), value.is_contiguous())
        return (type(value), id(value) if callable(value) else repr(value))

    leaves, spec = _pytree.tree_flatten(args)
    return (str(spec), *map(leaf, leaves))


def shown(args):
    """Arguments as a table has them."""

    def leaf(value):
        if isinstance(value, torch.Tensor):
            return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        return getattr(value, "__name__", None) or repr(value)

    return ", ".join(map(leaf, _pytree.tree_leaves(args)))


class CompiledKernel:
    """A kernel under one configuration, to be called with its arguments.

    It is compiled for each kind of arguments when they first come: dtypes and shapes of tensors,
    values of numbers, identities of functions.

    Attributes:
      bound: the `helion.BoundKernel`.
      config: the configuration, of Helion's.
    """

    def __init__(self, used, bound, config, own, rows=None):
        self.used, self.bound, self.config, self.own = used, bound, config, own
        self.rows = used.rows if rows is None else rows
        self.variants = {}  # what arguments are known by -> Variant, or Helion's own function

    def __call__(self, *args, _launcher=None):
        """Call the kernel; what Helion launches its own modules by is not needed."""
        args = self.bound.kernel.normalize_args(*args)
        return self.variant(args)(*args)

    def prepare(self, args):
        """Compile for such arguments. Raises RefusedError unless Helion is to compile it.

        Where ints that it may hang on are gone, that is left to the first call.
        """
        tensors = tensors_by_name(arguments_by_name(self.bound.kernel, args)).values()
        if not any(tensor.is_meta and not tensor.is_floating_point() for tensor in tensors):
            self.variant(args)

    def source(self, args):
        """The module's text for such arguments; None: Helion's own backend compiles it."""
        return getattr(self.variant(args), "source", None)

    def estimate(self, args):
        """Seconds that a call with such arguments takes, by the compiler's estimate."""
        return self.variant(args).module.info["estimate"]["seconds"]

    def variant(self, args):
        """What a call with such arguments runs."""
        key = known_by(args)
        tensors = tensors_by_name(arguments_by_name(self.bound.kernel, args))
        with self.used.lock:
            for found in self.variants.setdefault(key, []):
                if found.fits(tensors):
                    return found
            row = Row(self.bound.kernel.name, shown(args), self.asked(), "pallasc", "")
            try:
                found = Variant(self, args, tensors)
                row.why = found.notes
            except (ExportError, CompileError) as error:
                row.why = next(iter(str(error).splitlines()), "")
                row.by = "helion" if self.used.fallback else ""
                found = self.refused(error)
            finally:
                self.rows[self.bound.kernel, key, str(row.config)] = row
            self.variants[key].append(found)
            return found

    def refused(self, error):
        """Helion's own compiled function in the place of a refusal. Raises RefusedError."""
        if not self.used.fallback:
            raise RefusedError(str(error)) from error
        return Fallback(self.own(self.bound, self.config))

    def asked(self):
        """The configuration that somebody asked for, a dict; {}: it is only Helion's default."""
        untuned = self.bound.settings.autotune_effort == "none" and not self.bound.kernel.configs
        if untuned and self.config == self.bound.config_spec.default_config():
            return {}
        return dict(self.config)


class Fallback:
    """What Helion's own backend made of a kernel."""

    def __init__(self, function):
        self.function = function

    def fits(self, tensors):
        """It is for all values."""
        return True

    def __call__(self, *args):
        return self.function(*args)


class Variant:
    """A kernel compiled for one kind of arguments.

    Attributes:
      module: the `pallasc.Module`.
      source: its text.
      notes: what of the configuration was adapted and why, or "".
      ranges: {tensor: (least, greatest)} where the compiler had to know what is in it.
      items: {place of a tensor: int} that sizes depend on.
    """

    def __init__(self, compiled, args, tensors):
        self.used, self.kernel = compiled.used, compiled.bound.kernel
        self.ranges, self.items = {}, {}
        try:
            self.compile(compiled, args, tensors)
        except CompileError as error:
            ranges = ranges_of(tensors)
            if not ranges or all(item.get("code") != INT64_RANGE for item in error.diagnostics):
                raise
            self.ranges = ranges
            self.compile(compiled, args, tensors)

    def compile(self, compiled, args, tensors):
        """Export and compile; what sizes depend on is asked for until the export knows it."""
        config = compiled.asked()
        while True:
            try:
                export, self.returned = self.used.once(
                    ("export", self.kernel, known_by(args), str(self.ranges), str(self.items)),
                    lambda: exported(self.kernel, args, self.ranges, self.items),
                )
                break
            except ExportError as error:
                asked = item_asked(error, tensors)
                if asked is None or asked[0] in self.items:
                    raise
                self.items[asked[0]] = asked[1]
        self.result, self.captured = export.result, export.captured
        self.document = {**export.document, "config": export.configuration(config)}
        self.module = binding.compile(
            self.document, target=self.used.target, adapt=self.used.adapt and bool(config)
        )
        self.source = self.module.source
        told = [item["message"] for item in self.module.diagnostics if "adapted" in item["code"]]
        self.notes = "; ".join(told)

    def fits(self, tensors):
        """Whether it was compiled for what the tensors hold, as far as that counts."""
        if any(item_of(place, tensors) not in (None, n) for place, n in self.items.items()):
            return False
        found = ranges_of(tensors) if self.ranges else {}
        return all(
            self.ranges[n][0] <= low and high <= self.ranges[n][1]
            for n, (low, high) in found.items()
        )

    def __call__(self, *args):
        arguments = arguments_by_name(self.kernel, args)
        given = tensors_by_name(arguments)
        tensors = [self.parameter(entry, given, arguments) for entry in parameters(self.document)]
        made = self.module.load()(*to_jax(self.document, tensors), interpret=self.used.interpret)
        made = made if isinstance(made, tuple) else (made,)
        adapters = [t for t in tensors if hasattr(t, "_jax_arr")]
        results, changed = [], self.written()
        for entry, array in zip(self.document["returns"], made, strict=True):
            tensor = given.get(entry["tensor"])
            written = entry["tensor"] in changed
            if written and tensor is not None:
                put(tensor, array)
            kept = written and "ops" not in entry and "shape" not in entry
            results.append(tensor if kept else to_torch(array, entry, self.document, adapters))
        return self.shaped(results[: self.returned])

    def written(self):
        """The names of the parameters that the kernel writes."""
        return {t["name"] for t in self.document["tensors"] if t["role"] == "inout"}

    def parameter(self, entry, given, arguments):
        """The tensor of one of the module's parameters."""
        name = entry["name"]
        if name in given:
            return given[name]
        if "x_captured" not in entry:  # what draws random numbers reads seeds, new for each call
            return torch.randint(-(2**31), 2**31, entry["shape"], dtype=torch.int32)
        tensor = self.captured(arguments).get(name)
        if not isinstance(tensor, torch.Tensor):
            raise RefusedError(f"{entry['x_captured']}, which {self.kernel.name} captures, is gone")
        return tensor

    def shaped(self, results):
        """The results in the lists, tuples and dicts in which the kernel returns them."""
        return _pytree.tree_map(lambda at: None if at is None else results[at], self.result)


def exported(kernel, args, ranges, items):
    """The Export of a kernel for such arguments, and how many results the kernel returns."""
    with environment_kept():
        export = kernel_export(kernel, args, {}, ranges=ranges, items=items)
    return export, returns_complete(export.document)


def item_asked(error, tensors):
    """(place, the int there) of the item that an ExportError asks for; None: of nothing known."""
    asked = re.search(r"items=\{'(\w+\[[\d, ]+\])'", str(error))
    number = item_of(asked[1], tensors) if asked else None
    return None if number is None else (asked[1], number)


def item_of(place, tensors):
    """The int at `offsets[3]`; None where that is not known."""
    name, at = ITEM.fullmatch(place).groups()
    tensor = tensors.get(name)
    if tensor is None or tensor.is_meta:
        return None
    return int(tensor[tuple(map(int, at.split(",")))])


def parameters(document):
    """The entries of the tensors that a document's module takes."""
    return [t for t in document["tensors"] if t["role"] in ("input", "inout")]


def returns_complete(document):
    """Have the module return all that the kernel writes; how many of them the kernel returns."""
    returned = len(document["returns"])
    there = {entry["tensor"] for entry in document["returns"] if not entry.get("ops")}
    for tensor in document["tensors"]:
        if tensor["role"] == "inout" and tensor["name"] not in there:
            document["returns"].append({"tensor": tensor["name"]})
    return returned


def ranges_of(tensors):
    """The ranges of the ints of 64 bits that tensors hold: up to the next power of two."""

    def range_of(tensor):
        low, high = int(tensor.min()), int(tensor.max())
        return -(1 << (-low).bit_length()) if low < 0 else 0, (1 << max(high, 0).bit_length()) - 1

    wide = {n: t for n, t in tensors.items() if t.dtype == torch.int64 and t.numel()}
    return {n: range_of(t) for n, t in wide.items() if not t.is_meta and not hasattr(t, "_jax_arr")}


# ---- tensors and arrays --------------------------------------------------------------------------


def to_jax(document, tensors):
    """The arrays that a module takes: of Helion's `jax_fn` those that it carries."""
    if any(hasattr(tensor, "_jax_arr") for tensor in tensors):
        return [t._jax_arr if hasattr(t, "_jax_arr") else arrays_of(t) for t in tensors]
    return arrays(document, tensors)


def arrays_of(tensor):
    """The array of a tensor that stands beside arrays of jax."""
    name = str(tensor.dtype).removeprefix("torch.")
    entry = {"name": "tensor", "role": "input", "dtype": name, "shape": list(tensor.shape)}
    return arrays({"tensors": [entry]}, [tensor])[0]


def to_torch(array, entry, document, adapters):
    """The tensor of a result, of the dtype that the kernel gives it."""
    if adapters:
        return type(adapters[0]).from_jax(array, device=adapters[0].device)
    tensor = tensor_of(array)
    of = next(t for t in document["tensors"] if t["name"] == entry["tensor"])
    ops = [op for op in entry.get("ops", ()) if not op[0].startswith("aten.view")]
    return tensor.to(torch.int64) if of.get("x_dtype") == "int64" and not ops else tensor


def tensor_of(array):
    """A tensor of torch of an array of jax or NumPy, on the CPU."""
    import numpy as np

    array = np.array(array)
    name = next(n for n, dtype in DTYPES.items() if np.dtype(dtype) == array.dtype)
    if re.fullmatch(r"bfloat16|float8_.*", name):
        bits = array.view({1: np.int8, 2: np.int16}[array.itemsize])
        return torch.from_numpy(bits).view(getattr(torch, name))
    return torch.from_numpy(array)


def put(tensor, array):
    """Write an array into a tensor that the kernel changes in place."""
    if hasattr(tensor, "_jax_arr"):
        tensor._replace_jax_array(array)
    else:
        with torch.no_grad():
            tensor.copy_(tensor_of(array))
