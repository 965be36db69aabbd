"""Lines for people about arrays: what they are, what they hold, how far off they are."""

import hashlib

import numpy as np


def signature(name, array):
    """`name: dtype[dims]`."""
    dims = ", ".join(map(str, array.shape))
    return f"{name}: {np.asarray(array).dtype.name}[{dims}]"


def summary(array):
    """Range, mean, counts of what is not finite, and a digest of the exact bytes."""
    array = np.asarray(array)
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:12]
    if array.size == 0:
        return f"empty, sha256 {digest}"
    values = array.astype(np.float64)
    finite = values[np.isfinite(values)]
    parts = []
    if finite.size:
        parts.append(f"min {finite.min():.6g}, max {finite.max():.6g}, mean {finite.mean():.6g}")
    for count, what in ((np.isnan(values).sum(), "nan"), (np.isinf(values).sum(), "inf")):
        if count:
            parts.append(f"{count} {what}")
    return ", ".join([*parts, f"sha256 {digest}"])


def output_names(info, count):
    """Names of a kernel's outputs, made up for those that KERNEL_INFO does not name."""
    names = [entry["name"] for entry in info["outputs"]][:count]
    return names + [f"output {i}" for i in range(len(names), count)]
