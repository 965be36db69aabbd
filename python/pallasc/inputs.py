"""Inputs made from a seed for modules whose graph is not at hand, and run-time scalars."""

import numpy as np

from .errors import UsageError


def numpy_dtype(name):
    """The numpy dtype of a dtype's name in KERNEL_INFO, bfloat16 and its like too."""
    import ml_dtypes

    try:
        return np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        raise UsageError(f"unknown dtype {name!r}") from None


def make_tensors(info, seed):
    """One array for each of KERNEL_INFO["inputs"].

    Floats are normal; ints are 0 to 7, so that they can serve as indices; bools are fair coins.
    """
    rng = np.random.default_rng(seed)
    return [_array(rng, tuple(entry["shape"]), entry["dtype"]) for entry in info["inputs"]]


def _array(rng, shape, dtype):
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith(("int", "uint")):
        return rng.integers(0, 8, shape).astype(numpy_dtype(dtype))
    return rng.standard_normal(shape, np.float32).astype(numpy_dtype(dtype))


def make_scalars(info, given):
    """Values of KERNEL_INFO["scalars"], in order: from `given`, by name, or 1.

    Raises UsageError for a name that is not one of them.
    """
    entries = info.get("scalars", ())
    unknown = set(given) - {entry["name"] for entry in entries}
    if unknown:
        known = ", ".join(entry["name"] for entry in entries) or "none"
        raise UsageError(f"unknown scalar {sorted(unknown)[0]!r}: the kernel has {known}")
    values = []
    for entry in entries:
        value = given.get(entry["name"], 1)
        if not isinstance(value, bool | int | float):
            raise UsageError(f"--scalar {entry['name']}: {value!r} is not a number")
        values.append(numpy_dtype(entry["dtype"]).type(value))
    return values
