"""Derived gradients beside finite differences of what the graph itself computes, in float64.

No formula is needed: a second copy of the reference, whose float32 is float64, runs the forward at
two places on a line, and the difference is the derivative along it.
"""

import importlib.util
import json
import re
import sys
import types

import numpy as np
import pallasc
import pallasc.reference

STEPS = (1e-6, 1e-4)  # where a function bends, and where little of it moves; the better counts


def _in_float64():
    """The reference with float64 in place of float32: its modules, made with another numpy."""
    double = types.ModuleType("numpy")
    double.__getattr__ = lambda name: getattr(np, name)
    double.float32 = np.float64
    place = pallasc.reference.__spec__
    name = "pallasc.reference_in_float64"
    spec = importlib.util.spec_from_file_location(
        name, place.origin, submodule_search_locations=list(place.submodule_search_locations)
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name], sys.modules["numpy"] = module, double
    try:
        spec.loader.exec_module(module)
        importlib.import_module(f"{name}.inputs")
    finally:
        sys.modules["numpy"] = np
    return module


REFERENCE = _in_float64()


def widened(document):
    """The document with float32 in place of narrower floats."""
    return json.loads(re.sub(r'"(bfloat16|float16)"', '"float32"', json.dumps(document)))


def _named(document, *roles):
    return [t["name"] for t in document["tensors"] if t["role"] in roles]


def _run_time(document):
    return [s["name"] for s in document.get("scalars") or [] if "value" not in s]


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


def _small_blocks(document):
    """A configuration of tiles that divide nothing: several of each block, the last one ragged."""
    blocks = [
        b for b in document.get("block_sizes", ()) if not b.get("reduction") and "size" not in b
    ]
    return {"block_sizes": [64 if (b["extent"] or 0) > 64 else 16 for b in blocks]}


def differences(document, backward=None, values=None, wrt=None):
    """{input: the largest difference from its finite gradient along three directions}.

    Each is beside the gradient's size along the direction. `values` are inputs by name that go
    before those that are made.
    """
    document = widened(document)
    backward = widened(backward) if backward else pallasc.grad(document, wrt=wrt)
    parameters, random = _named(document, "input", "inout"), np.random.default_rng(0)
    made = REFERENCE.inputs.make_inputs(document, seed=1)
    inputs = dict(zip(parameters, made, strict=False)) | (values or {})
    scalars = dict(zip(_run_time(document), made[len(parameters) :], strict=True))

    def forward(**changed):
        arrays = list((inputs | changed).values())
        return REFERENCE.run(document, arrays, scalars=list(scalars.values()))

    outputs = forward()
    names = [r["tensor"] for r in document.get("returns") or []]
    names = names or _named(document, "output", "inout")
    floats = [i for i, x in enumerate(outputs) if x.dtype == np.float64]
    given = {i: random.standard_normal(outputs[i].shape) for i in floats}
    both = _named(document, "inout")
    ends = ("_in", "_out")
    inputs_known, written = (
        {name + (end if name in both else ""): x for name, x in found}
        for end, found in zip(ends, (inputs.items(), zip(names, outputs, strict=True)), strict=True)
    )
    known = inputs_known | written
    known |= {f"d_{list(written)[i]}": x for i, x in given.items()}
    got = REFERENCE.run(
        backward,
        [known[name] for name in _named(backward, "input", "inout")],
        config=_small_blocks(backward),
        scalars=[scalars[name] for name in _run_time(backward)],
    )
    found = {}
    for entry, gradient in zip(backward["returns"], got, strict=True):
        name = entry["tensor"].removeprefix("d_")
        name = name if name in inputs else name.removesuffix("_in")
        x = inputs[name]
        assert gradient.dtype == x.dtype and gradient.shape == x.shape

        def off(direction, step, x=x, name=name, gradient=gradient):
            up, down = (forward(**{name: x + s * step * direction}) for s in (1, -1))
            along = sum(((up[i] - down[i]) * c).sum() for i, c in given.items()) / (2 * step)
            lanes = gradient * direction
            size = np.sqrt(np.square(lanes).sum()) + np.abs(along) + 1e-30
            return np.abs(lanes.sum() - along) / size

        found[name] = 0.0
        for direction in _directions(x, random):
            least = off(direction, STEPS[0])
            least = least if least < 1e-8 else min(least, off(direction, STEPS[1]))
            found[name] = max(found[name], least)
    return found
