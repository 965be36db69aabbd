"""The tensors in memory: parameters, outputs, views that alias, and derived inputs."""

import numpy as np

from .errors import GraphError
from .registry import lookup
from .values import INT32, INT64, cast, dtype_of, to_array, uninitialized


class HostTensor:
    """A named tensor in memory; `array` may be a numpy view of another's."""

    def __init__(self, name, array, writable):
        self.name, self.array, self.writable = name, array, writable

    @property
    def shape(self):
        """The tensor's shape as a tuple."""
        return self.array.shape

    def reach(self, positions, written=False):
        """Called before elements are read or written: an int array of positions for each dim."""


def literal_value(value, resolve_size):
    """The Python value of a JSON argument without refs: nested lists, {"dtype"}, {"sym"}, ..."""
    if isinstance(value, list):
        return [literal_value(v, resolve_size) for v in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise GraphError(f"expected an object of one key, found {value!r}")
    ((key, inner),) = value.items()
    if key == "dtype":
        return dtype_of(inner)
    if key == "float":
        return float(inner)
    if key == "sym":
        return resolve_size(inner)
    if key == "slice":
        return slice(*literal_value(inner, resolve_size))
    raise GraphError(f"an argument {{{key!r}: ...}} cannot stand here")


def steps_apply(value, steps, document):
    """Applies host `ops` steps `[target, args...]`, each to the value so far.

    Without x64 jax has no int64: what torch gives as int64 (a sum of ints) is an int32 there.
    """
    for target, *args in steps or []:
        function = lookup(target)
        if function is None:
            raise GraphError(f"unknown target {target!r} in ops")
        value = np.asarray(function(np.asarray(value), *literal_value(args, document.size)))
        value = cast(value, INT32) if value.dtype == INT64 else value
    return np.asarray(value)


class Memory:
    """All tensors of one run, made from the caller's inputs (which are copied)."""

    def __init__(self, document, inputs):
        self.document, self.tensors = document, {}
        parameters = document.parameters()
        if len(inputs) != len(parameters):
            raise GraphError(f"expected {len(parameters)} input tensors, got {len(inputs)}")
        for tensor, array in zip(parameters, inputs, strict=True):
            self._put(tensor, self._input(tensor, array), tensor["role"] == "inout")
        for tensor in document.tensors.values():
            self.find(tensor["name"])

    def find(self, name, pending=()):
        """The HostTensor called `name`; views and derived tensors are made on first use."""
        if name in self.tensors:
            return self.tensors[name]
        if name not in self.document.tensors:
            raise GraphError(f"there is no tensor {name!r}")
        if name in pending:
            raise GraphError(f"tensor {name!r} is a view of itself")
        tensor = self.document.tensors[name]
        role = tensor.get("role")
        if role == "output":
            return self._put(tensor, self._output(tensor), True)
        if role not in ("view", "derived"):
            raise GraphError(f"tensor {name!r} has an unknown role {role!r}")
        base = self.find(tensor["of"], (*pending, name))
        if role == "derived":
            return self._put(tensor, self._derived(tensor, base.array), False)
        return self._put(tensor, self._view(tensor, base.array), base.writable)

    def _put(self, tensor, array, writable):
        shape = tuple(self.document.shape(tensor["shape"]))
        if array.shape != shape:
            raise GraphError(
                f"tensor {tensor['name']!r} is declared {list(shape)}, found {list(array.shape)}"
            )
        host = self._host(tensor, array, writable)
        self.tensors[tensor["name"]] = host
        return host

    def _host(self, tensor, array, writable):
        return HostTensor(tensor["name"], array, writable)

    def _input(self, tensor, array):
        array = np.asarray(array)
        dtype = dtype_of(tensor["dtype"], int64_ok=False)
        if array.dtype != dtype:
            raise GraphError(
                f"input {tensor['name']!r} must be {dtype.name}, not {array.dtype.name}"
            )
        return np.array(array, order="C", copy=True)

    def _output(self, tensor):
        shape = self.document.shape(tensor["shape"])
        dtype = dtype_of(tensor["dtype"], int64_ok=False)
        init = tensor.get("init", "empty")
        if init == "empty" or init is None:
            return uninitialized(shape, dtype)
        return np.full(shape, to_array(literal_value(init, self.document.size), dtype))

    def _derived(self, tensor, base):
        value = steps_apply(base, tensor.get("ops"), self.document)
        return np.array(cast(value, dtype_of(tensor["dtype"], int64_ok=False)))

    def _view(self, tensor, base):
        """A numpy view of `base`: permuted, sliced, expanded, or reshaped in place."""
        shape = self.document.shape(tensor["shape"])
        try:
            if tensor.get("permute") is not None:
                return np.transpose(base, tensor["permute"])
            if tensor.get("slice") is not None:
                return base[tuple(self._slice(entry) for entry in tensor["slice"])]
            if tensor.get("expand"):
                strides = np.broadcast_to(base, shape).strides
                bits = base.view(f"u{base.itemsize}")  # as_strided() knows no fp8
                return np.lib.stride_tricks.as_strided(bits, shape, strides).view(base.dtype)
            view = base.reshape(shape)
        except ValueError as error:
            raise GraphError(f"view {tensor['name']!r}: {error}") from None
        if view.size and not np.may_share_memory(view, base):
            raise GraphError(f"view {tensor['name']!r} cannot alias: its base is not contiguous")
        return view

    def _slice(self, entry):
        return slice(*(None if e is None else self.document.size(e) for e in entry))
