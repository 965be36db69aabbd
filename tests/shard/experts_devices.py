"""Runs `pallasc.experts` on devices of the CPU: `experts_devices.py IN OUT`.

IN is an .npz of `graph`, JSON text, `block` of its worklist or 0, `mesh` and `tokens`, JSON text,
`capacity` or 0, and x, chosen, weight and the experts' weights; OUT has the one output. A process
of its own: the devices are there, and threads for them, only if that is said before jax loads.
"""

import json
import math
import os
import sys

import numpy as np


def main(given, out):
    """Runs what one file says, and writes the other."""
    arrays = dict(np.load(given))
    said = {name: json.loads(str(arrays.pop(name))) for name in ("graph", "mesh", "tokens")}
    block, capacity = (int(arrays.pop(name)) for name in ("block", "capacity"))
    devices = math.prod(said["mesh"].values())
    os.environ["NPROC"] = str(4 * devices)
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"

    import jax
    import pallasc

    kernel = pallasc.jit(said["graph"])
    kernel = pallasc.worklist(kernel, block) if block else kernel
    shape = np.reshape(jax.devices()[:devices], tuple(said["mesh"].values()))
    mesh = jax.sharding.Mesh(shape, tuple(said["mesh"]))
    layer = pallasc.experts(kernel, mesh, "model", said["tokens"], capacity or None)
    np.savez(out, np.asarray(layer(*arrays.values(), interpret=True), np.float32))


if __name__ == "__main__":
    main(*sys.argv[1:])
