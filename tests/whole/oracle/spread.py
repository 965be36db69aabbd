"""What rounding may do to a document's outputs: the reference run again with noise in each op.

A tolerance relative to the output says nothing of a graph that subtracts what is nearly equal, or
compares what is: whatever the noise of a few units in the last place moves, a kernel may move too.
"""

import contextlib

import numpy as np
from pallasc import reference
from pallasc.compare import _target_kind
from pallasc.reference import interp
from pallasc.reference.values import is_float

_EXACT = ("tile.", "sym_size", "getitem", "aten.permute", "aten.view", "aten.where", "aten.neg")
_SIGNLESS = ("aten.amax", "aten.amin", "aten.max", "aten.min", "aten.clamp", "aten.relu")
_LEAST = float(np.finfo(np.float32).tiny)


def _refs(raw):
    if isinstance(raw, list):
        return [name for item in raw for name in _refs(item)]
    return [raw["ref"]] if isinstance(raw, dict) and isinstance(raw.get("ref"), str) else []


def _noisy(array, random, ulps, flush):
    """`array` with each element moved by at most so many units in its last place."""
    if not isinstance(array, np.ndarray) or not is_float(array.dtype) or not array.size:
        return array
    with np.errstate(all="ignore"):
        if array.dtype.name == "float32":
            moved = array * (
                1 + random.uniform(-ulps, ulps, array.shape).astype(np.float32) * 2**-23
            )
            moved = moved.astype(np.float32)
            return np.where(np.abs(moved) < _LEAST, moved * 0, moved) if flush else moved
        if array.dtype.itemsize not in (1, 2):
            return array
        bits = array.view(np.uint16 if array.dtype.itemsize == 2 else np.uint8)
        step = random.choice([-1, 0, 0, 0, 0, 1], array.shape).astype(bits.dtype)
        moved = (bits + step).view(array.dtype)
        keep = ~np.isfinite(array.astype(np.float32)) | (array == 0)
        keep |= ~np.isfinite(moved.astype(np.float32))
        return np.where(keep, array, moved)


@contextlib.contextmanager
def _noise(seed, ulps, flush):
    """Puts noise into every float op of the reference while it lasts."""
    random, call = np.random.default_rng(seed), interp.Frame.call

    def noisy_call(frame, node):
        target, saved = node.target, {}
        if _target_kind(target) or target in ("tile.dot", "tile.atomic_add"):
            for name in _refs(node.args):
                if isinstance(frame.values.get(name), np.ndarray):
                    saved[name] = frame.values[name]
                    frame.values[name] = _noisy(saved[name], random, ulps, flush)
        value = call(frame, node)
        frame.values.update(saved)
        if target.startswith(_SIGNLESS):
            if isinstance(value, np.ndarray) and is_float(value.dtype):
                flipped = (value == 0) & (random.random(value.shape) < 0.5)
                value = np.where(flipped, -value, value)
            return value
        if target.startswith(_EXACT):
            return value
        return _noisy(value, random, ulps, flush)

    interp.Frame.call = noisy_call
    try:
        yield
    finally:
        interp.Frame.call = call


@contextlib.contextmanager
def nan_maxima(notes):
    """Notes in `notes` each maximum over a dim that meets a NaN, which XLA on a CPU may drop."""
    call = interp.Frame.call

    def watching(frame, node):
        if node.target.startswith(("aten.amax", "aten.amin", "aten.max", "aten.min", "aten.arg")):
            for name in _refs(node.args):
                value = frame.values.get(name)
                floats = isinstance(value, np.ndarray) and is_float(value.dtype)
                if floats and np.isnan(value.astype(np.float32)).any():
                    notes.add(node.name)
        return call(frame, node)

    interp.Frame.call = watching
    try:
        yield
    finally:
        interp.Frame.call = call


def samples(document, arrays, config, seeds):
    """Outputs of noisy runs, one tuple for each (seed, ulps)."""
    found = []
    for number, (seed, ulps) in enumerate(seeds):
        with _noise(seed, ulps, number % 2 == 1):
            found.append(reference.run(document, arrays, config=config))
    return found


def difference(actual, expected, noisy, tolerance):
    """None, or (index, actual, expected, how often the bound, count) where an output is off.

    Args:
      actual, expected: arrays of the format's dtypes, of the same shape.
      noisy: the same output of noisy runs.
      tolerance: a compare.Tolerance.
    """
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return (), str(actual.dtype), str(expected.dtype), 0.0, 0
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    others = [n.astype(np.float64) for n in noisy]
    with np.errstate(all="ignore"):
        spread = np.zeros(b.shape)
        unstable = np.zeros(b.shape, bool)
        for other in others:
            apart = np.abs(other - b)
            same = (other == b) | (np.isnan(other) & np.isnan(b))
            unstable |= ~same & ~np.isfinite(apart)
            spread = np.maximum(spread, np.where(same | ~np.isfinite(apart), 0, apart))
        bound = tolerance.bound(b) + 4 * spread + _LEAST
        if tolerance.dtype not in ("float32",) and "int" in tolerance.dtype:
            bound = np.where(spread == 0, 0, bound)
        error = np.abs(a - b)
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | unstable
        off = ~same & ~(error <= bound)
    if not off.any():
        return None
    ratio = np.where(
        off, np.where(np.isfinite(error), error / np.maximum(bound, 1e-300), np.inf), 0
    )
    index = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    where = tuple(int(i) for i in index)
    return where, float(a[index]), float(b[index]), float(ratio[index]), int(off.sum())
