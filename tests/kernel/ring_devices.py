"""Simulates a module that runs on a mesh on as many devices of the CPU: `ring_devices.py IN OUT`.

IN is an .npz of the module's `source` and of its inputs, each with two leading dims: of an axis
that the module knows nothing of, and of its own; OUT one of its `outputs`, and of lines that say
what the simulator saw. A process of its own: the devices are there, and enough threads for them,
only if that is said before jax loads.
"""

import os
import sys

import numpy as np


def main(given, out):
    """Runs the module of one file, and writes the other."""
    arrays = dict(np.load(given))
    source = str(arrays.pop("source"))
    inputs = [restored(array) for array in arrays.values()]
    shape = inputs[0].shape[:2]
    count = shape[0] * shape[1]
    os.environ["NPROC"] = str(4 * count)  # else the devices' threads wait for each other
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={count}"

    import jax
    from pallasc.module import Module
    from pallasc.simulate import interpret_params, simulate

    module = Module(source, "ring.py")
    kernel, axes = (
        getattr(module.load(), module.info["name"]),
        ("other", module.info["mesh"]["axis"]),
    )

    def of_one(*arrays, interpret):
        return kernel(*(array[0, 0] for array in arrays), interpret=interpret)[None, None]

    def of_all(*arrays, interpret):
        mapped = jax.shard_map(
            lambda *arrays: of_one(*arrays, interpret=interpret),
            mesh=jax.sharding.Mesh(np.reshape(jax.devices()[:count], shape), axes),
            in_specs=jax.sharding.PartitionSpec(*axes),
            out_specs=jax.sharding.PartitionSpec(*axes),
            check_vma=False,
        )
        return mapped(*arrays)

    ran = simulate(of_all, inputs, interpret_params())
    np.savez(out, outputs=ran.outputs[0], seen=np.array([*ran.races, *ran.complaints], str))


def restored(array):
    """An array of which only float32 and bfloat16's bits, as uint16, are kept in a file."""
    import ml_dtypes

    return array.view(ml_dtypes.bfloat16) if array.dtype == np.uint16 else array


if __name__ == "__main__":
    main(*sys.argv[1:])
