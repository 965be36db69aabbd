"""Simulates a module that runs on a mesh: `simulate_mesh.py IN OUT`.

IN is an .npz of the module's `source` and of whole arrays, those of all devices one behind the
other along the first dim, in order: `x0`, ...; OUT one of the outputs' bytes, and of lines that say
what the simulator saw. A process of its own: the devices are there only if that is said before jax
loads.
"""

import sys

import ml_dtypes
import numpy as np
from pallasc import mesh
from pallasc.module import Module


def main(given, out):
    """Runs the module of one file, and writes the other."""
    arrays = dict(np.load(given))
    module = Module(str(arrays.pop("source")), "mesh.py")
    inputs = module.info["inputs"]
    mesh.simulate_devices(module.info)

    import jax
    from pallasc.simulate import interpret_params, simulate

    made = [
        arrays[f"x{i}"].view(getattr(ml_dtypes, entry["dtype"], entry["dtype"]))
        for i, entry in enumerate(inputs)
    ]
    kernel = mesh.whole_kernel(module, mesh.build(module.info, jax.devices("cpu"), "jax"))
    ran = simulate(kernel, made, interpret_params())
    outputs = {f"y{i}": np.asarray(y).view(np.uint8) for i, y in enumerate(ran.outputs)}
    np.savez(out, seen=np.array([*ran.races, *ran.complaints], str), **outputs)


if __name__ == "__main__":
    main(*sys.argv[1:])
