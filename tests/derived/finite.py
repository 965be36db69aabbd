"""Derived gradients beside finite differences of what the graph itself computes.

No formula is needed: the reference runs the forward, with all of its floats in float32, at four
places on a line, and the fourth-order difference is the derivative along it.
"""

import json
import re

import numpy as np
import pallasc
from pallasc.reference import run
from pallasc.reference.inputs import make_inputs

STEPS = ((1, 8.0), (2, -1.0))  # f' = sum of c * (f(x + i*h) - f(x - i*h)) / (12 * h)
WIDTH = 0.01


def widened(document):
    """The document with float32 in place of narrower floats."""
    return json.loads(re.sub(r'"(bfloat16|float16)"', '"float32"', json.dumps(document)))


def inputs_of(document, values=None):
    """({input: array}, run-time scalars). `values` go before those that are made."""
    names = [t["name"] for t in document["tensors"] if t["role"] in ("input", "inout")]
    made = make_inputs(document, seed=1)
    found = dict(zip(names, made, strict=False))
    return found | (values or {}), made[len(names) :]


def returned(document):
    """The names of what a forward returns."""
    listed = document.get("returns")
    if listed:
        return [entry["tensor"] for entry in listed]
    return [t["name"] for t in document["tensors"] if t["role"] in ("output", "inout")]


def backward_inputs(backward, known, scalars):
    """What the backward is run with: arrays by name, then run-time scalars."""
    wanted = [t["name"] for t in backward["tensors"] if t["role"] in ("input", "inout")]
    return [known[name] for name in wanted], scalars


def _directions(array, random):
    """Everywhere; at the last place of each dim; at 16 places."""
    whole = random.standard_normal(array.shape)
    yield whole
    last = np.zeros(array.shape, bool)
    for dim in range(array.ndim):
        last[(slice(None),) * dim + (-1,)] = True
    yield whole * last
    places = np.zeros(array.size)
    places[random.choice(array.size, min(16, array.size), replace=False)] = 1
    yield whole * places.reshape(array.shape)


def differences(document, backward=None, values=None):
    """{(gradient, direction): the difference from the finite one, beside its scale}."""
    document = widened(document)
    backward = widened(backward) if backward else pallasc.grad(document)
    inputs, scalars = inputs_of(document, values)
    random = np.random.default_rng(0)
    outputs = run(document, list(inputs.values()), scalars=scalars)
    names = returned(document)
    given = {
        f"d_{name}": random.standard_normal(x.shape).astype(np.float32)
        for name, x in zip(names, outputs, strict=True)
        if x.dtype == np.float32
    }

    known = inputs | dict(zip(names, outputs, strict=True)) | given
    wanted = [t["name"] for t in backward["tensors"] if t["role"] == "input"]
    # Tiles that divide nothing: several of each block, the last one ragged.
    blocks = [b for b in backward["block_sizes"] if not b.get("reduction") and "size" not in b]
    sizes = [64 if (b["extent"] or 0) > 64 else 16 for b in blocks]
    used = {s["name"] for s in backward.get("scalars") or [] if "value" not in s}
    every = [s["name"] for s in document.get("scalars") or [] if "value" not in s]
    held = [x for name, x in zip(every, scalars, strict=True) if name in used]
    config = {"block_sizes": sizes} if sizes else None
    got = run(backward, [known[name] for name in wanted], config=config, scalars=held)

    def weighed(name, x):
        """The sum of outputs by their cotangents, and that of what would be lost by rounding."""
        found = run(document, list((inputs | {name: x}).values()), scalars=scalars)
        return [
            np.asarray(y, np.float64)
            for y, n in zip(found, names, strict=True)
            if f"d_{n}" in given
        ]

    found = {}
    cotangents = [given[f"d_{n}"].astype(np.float64) for n in names if f"d_{n}" in given]
    for entry, gradient in zip(backward["returns"], got, strict=True):
        name = entry["tensor"].removeprefix("d_")
        x = inputs[name]
        assert gradient.dtype == x.dtype and gradient.shape == x.shape
        for number, direction in enumerate(_directions(x, random)):
            total, noise = 0.0, 0.0
            for step, factor in STEPS:
                up = weighed(name, (x + step * WIDTH * direction).astype(np.float32))
                down = weighed(name, (x - step * WIDTH * direction).astype(np.float32))
                for a, b, c in zip(up, down, cotangents, strict=True):
                    total += factor * ((a - b) * c).sum() / (12 * WIDTH)
                    noise += (np.square((np.abs(a) + np.abs(b)) * c)).sum()
            along = (gradient.astype(np.float64) * direction).sum()
            scale = np.sqrt(np.square(gradient.astype(np.float64) * direction).sum()) + np.abs(
                total
            )
            scale += 1e-7 * np.sqrt(noise) / WIDTH * 1000
            found[name, number] = abs(along - total) / max(scale, 1e-30)
    return found
