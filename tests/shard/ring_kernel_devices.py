"""Simulates a split module's function of whole arrays: `ring_kernel_devices.py IN OUT`.

IN is an .npz of the module's `source` and of its whole inputs; OUT one of its `outputs`, in
float32, and of lines that say what the simulator saw. A process of its own: the devices are there,
and threads for them, only if that is said before jax loads.
"""

import sys

import numpy as np


def main(given, out):
    """Runs the module of one file, and writes the other."""
    from pallasc import mesh
    from pallasc.module import Module

    arrays = dict(np.load(given))
    module = Module(str(arrays.pop("source")), "ring.py")
    mesh.simulate_devices(module.info)
    from pallasc.simulate import interpret_params, simulate

    function = mesh.on_this_machine(module, simulated=True)
    inputs = [restored(array) for array in arrays.values()]
    ran = simulate(function, inputs, interpret_params())
    seen = np.array([*ran.races, *ran.complaints], str)
    np.savez(out, outputs=np.asarray(ran.outputs[0], np.float32), seen=seen)


def restored(array):
    """An array of which only float32 and bfloat16's bits, as uint16, are kept in a file."""
    import ml_dtypes

    return array.view(ml_dtypes.bfloat16) if array.dtype == np.uint16 else array


if __name__ == "__main__":
    main(*sys.argv[1:])
