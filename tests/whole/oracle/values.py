"""The arrays that a drawn document runs on, from a seed."""

import math

import numpy as np
import optable
from pallasc.reference.document import Document
from pallasc.reference.inputs import poison
from pallasc.reference.values import DTYPES, cast, is_float

_SMALL = optable.ops.VALUES["small"]


def _normal(dtype, shape, random):
    if is_float(dtype):
        return cast(random.standard_normal(shape).astype(np.float32), dtype)
    return _SMALL(dtype, shape, random)


def _any(dtype, shape, random):
    """Edge cases among ordinary values, of at least four elements."""
    made = optable.ops.VALUES["any"](dtype, (max(math.prod(shape), 4),), random)
    return made[: math.prod(shape)].reshape(shape)


def _nonzero(dtype, shape, random):
    made = optable.ops.VALUES["nonzero"](dtype, (max(math.prod(shape), 4),), random)
    return made[: math.prod(shape)].reshape(shape)


def _unlike(dtype, shape, random):
    """Rows of -inf, and single infinities."""
    values = random.standard_normal(shape).astype(np.float32)
    if values.ndim and values.size:
        values[random.random(values.shape[:-1]) < 0.3] = -np.inf
        values[random.random(values.shape) < 0.01] = np.inf
    return cast(values, dtype)


def _zeros(dtype, shape, random):
    """Zeros of both signs, and a few ones."""
    values = np.where(random.random(shape) < 0.5, 0.0, -0.0)
    return cast(np.where(random.random(shape) < 0.1, 1.0, values).astype(np.float32), dtype)


KINDS = {
    "normal": _normal,
    "any": _any,
    "small": _SMALL,
    "nonzero": _nonzero,
    "shift": optable.ops.VALUES["shift"],
    "infinite": _unlike,
    "zeros": _zeros,
}


def _bounds(limit, shape, random):
    """Loop bounds: 0, all, something between, and beyond."""
    low, high = (0, limit + 1)
    values = random.integers(low, high, shape)
    return np.where(random.random(shape) < 0.25, random.choice([0, limit], shape), values)


def _places(extent, shape, random):
    """Positions: spread evenly, or most of them the same; some outside the dim."""
    even = random.integers(0, extent, shape)
    often = np.minimum(random.zipf(1.5, shape) - 1, extent - 1)
    outside = random.choice([-1, extent, extent + 7, -(2**31), 2**31 - 1], shape)
    found = often if random.random() < 0.5 else even
    return np.where(random.random(shape) < random.choice([0, 0.1]), outside, found)


LIMITED = {"bound": _bounds, "place": _places}


def arrays(case, config):
    """The parameters' arrays, in order; then the run-time scalars.

    What a `thorough` case reads in no valid lane, with its blocks as in `config`, is NaN.
    """
    document, found = case["document"], []
    for number, tensor in enumerate(document["tensors"]):
        if tensor["role"] not in ("input", "inout"):
            continue
        random = np.random.default_rng([case["seed"], number])
        kind, dtype = case["values"].get(tensor["name"], "normal"), DTYPES[tensor["dtype"]]
        limited, _, limit = kind.partition(":")
        if limited in LIMITED:
            made = LIMITED[limited](int(limit), tensor["shape"], random)
        else:
            made = KINDS[kind](dtype, tuple(tensor["shape"]), random)
        found.append(np.asarray(made).astype(dtype))
    random, scalars = np.random.default_rng([case["seed"], 1 << 20]), []
    for scalar in document.get("scalars", ()):
        if "value" in scalar:
            continue
        is_int = not is_float(DTYPES[scalar["dtype"]])
        kind = case["values"].get(scalar["name"], "")
        if kind.startswith("bound:"):
            scalars.append(int(_bounds(int(kind.removeprefix("bound:")), (), random)))
            continue
        scalars.append(int(random.integers(0, 5)) if is_int else float(random.uniform(0.5, 1.5)))
    if case.get("thorough"):
        poison(Document(document, config), found, scalars)
    return found + scalars
