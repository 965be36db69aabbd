"""Tensors of torch as the arrays that a graph's module takes."""

import numpy as np

from ..reference.values import DTYPES
from .errors import ExportError


def arrays_make(document, tensors):
    """Return NumPy arrays of the parameters of `document`, given as tensors in their order.

    int64 becomes int32 once each value is seen to be of the range that the parameter has, else of
    int32. Other dtypes must be the parameter's, as shapes must, but for sizes that have names.
    """
    entries = [t for t in document["tensors"] if t["role"] in ("input", "inout")]
    if len(entries) != len(tensors):
        names = ", ".join(entry["name"] for entry in entries)
        raise ExportError(f"{len(tensors)} tensors given, the graph takes {len(entries)}: {names}")
    return [array_make(*pair) for pair in zip(entries, tensors, strict=True)]


def array_make(entry, tensor):
    """Return the array of one parameter, checked."""
    array = numpy_of(tensor)
    if not shape_fits(array.shape, entry["shape"]):
        raise ExportError(f"'{entry['name']}' is {list(array.shape)}, not {entry['shape']}")
    wanted = np.dtype(DTYPES[entry["dtype"]])
    if array.dtype != wanted and not (array.dtype == np.int64 and wanted == np.int32):
        raise ExportError(f"'{entry['name']}' is {array.dtype}, not {wanted}")
    if np.issubdtype(array.dtype, np.signedinteger):
        limits = np.iinfo(wanted)
        range_check(entry["name"], array, *entry.get("x_range", (limits.min, limits.max)))
    for flat, number in entry.get("x_items", ()):
        if array.flat[flat] != number:
            place = [int(at) for at in np.unravel_index(flat, array.shape)]
            found = array.flat[flat]
            raise ExportError(f"'{entry['name']}'{place} is {found}, the graph is for {number}")
    return array.astype(wanted)


def shape_fits(shape, dims):
    """Return whether a shape is the dims; one that is named, or computed of such, may be any."""
    return len(shape) == len(dims) and all(
        isinstance(dim, str) or size == dim for size, dim in zip(shape, dims, strict=True)
    )


def range_check(name, array, low, high):
    """Refuse an array with a value outside of `low` to `high`, by its place."""
    outside = np.argwhere((array < low) | (array > high))
    if len(outside):
        place = tuple(int(index) for index in outside[0])
        raise ExportError(f"'{name}'{list(place)} is {array[place]}, not of {low}..{high}")


def numpy_of(tensor):
    """Return a tensor of torch or anything like an array as a NumPy array."""
    if not hasattr(tensor, "detach"):
        return np.asarray(tensor)
    tensor = tensor.detach().cpu()
    name = str(tensor.dtype).removeprefix("torch.")
    try:
        return tensor.numpy()
    except TypeError:
        import torch

        bits = {1: torch.int8, 2: torch.int16}[tensor.element_size()]
        return tensor.contiguous().view(bits).numpy().view(DTYPES[name])
