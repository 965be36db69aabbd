"""Runs a module's sharded function on devices of the CPU: `sharded_devices.py IN OUT`.

IN is an .npz of the module's `source`, of `devices` and `explicit`, whether the mesh's axes are
explicit, and of its whole inputs, OUT one of its outputs. A process of its own: the devices are
there, and threads for them, only if that is said before jax loads.
"""

import math
import os
import sys

import numpy as np


def main(given, out):
    """Runs the module of one file, and writes the other."""
    arrays = dict(np.load(given))
    source, devices = str(arrays.pop("source")), int(arrays.pop("devices"))
    explicit = bool(arrays.pop("explicit"))
    os.environ["NPROC"] = str(4 * devices)  # else the devices' threads wait for each other
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"

    import jax
    from pallasc.module import Module

    module = Module(source, "sharded.py")
    axes = module.info["sharding"]["mesh"]
    assert math.prod(axes.values()) == devices
    shape = np.reshape(jax.devices()[:devices], tuple(axes.values()))
    kind = jax.sharding.AxisType.Explicit if explicit else jax.sharding.AxisType.Auto
    mesh = jax.sharding.Mesh(shape, tuple(axes), axis_types=(kind,) * len(axes))
    function = getattr(module.load(), f"{module.info['name']}_sharded")(mesh)
    outputs = function(*map(jax.numpy.asarray, arrays.values()), interpret=True)
    outputs = outputs if isinstance(outputs, tuple | list) else [outputs]
    np.savez(out, *(np.asarray(x, np.float32) for x in outputs))


if __name__ == "__main__":
    main(*sys.argv[1:])
