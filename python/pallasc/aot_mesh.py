"""The process behind `pallasc.aot` for modules that run on a mesh: `aot_worker`, for several chips.

A module of its own, as verdicts of all other modules are kept under the text of `aot_worker`.
"""

import re

from . import aot_worker
from .errors import UsageError


def main():
    """Serves jobs until standard input ends."""
    aot_worker.compile_module, aot_worker.scoped_vmem = compile_module, scoped_vmem
    aot_worker.main()


def compile_module(module, target):
    """jax's compiled object of a module's kernel on the first devices of a target's topology."""
    import jax
    import numpy as np
    from jax.experimental import topologies

    from .chips import TOPOLOGIES

    topology = topologies.get_topology_desc(platform="tpu", topology_name=TOPOLOGIES[target])
    info, devices = module.info, topology.devices
    axis, count = info["mesh"]["axis"], info["mesh"]["devices"]
    if count > len(devices):
        raise UsageError(f"{TOPOLOGIES[target]} has {len(devices)} devices, not {count}")
    mesh = jax.sharding.Mesh(np.asarray(devices[:count]), (axis,))
    entries = (*info["inputs"], *info.get("scalars", ()))
    arguments = [_argument(mesh, entry) for entry in entries]
    parts = jax.sharding.PartitionSpec(axis)
    mapped = jax.shard_map(
        getattr(module.load(), info["name"]),
        mesh=mesh,
        in_specs=tuple(argument.sharding.spec for argument in arguments),
        out_specs=parts,
        check_vma=False,
    )
    with aot_worker.tracing_for(devices[0]):
        lowered = jax.jit(mapped).trace(*arguments).lower()
    return lowered.compile()


def scoped_vmem(compiled):
    """Scoped VMEM bytes of each Pallas kernel, each on one line: its metadata ends lines."""
    text = compiled.as_text()
    return aot_worker.parse_scoped_vmem(re.sub(r"kernel_metadata=\{[^}]*\}", "", text))


def _argument(mesh, entry):
    """An array of which each device has a part, one behind the other; of a number all the same."""
    import jax

    shape = list(entry.get("shape", ()))
    names = mesh.axis_names if shape else ()
    shape[:1] = [size * mesh.size for size in shape[:1]]
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*names))
    return jax.ShapeDtypeStruct(tuple(shape), entry["dtype"], sharding=sharding)


if __name__ == "__main__":
    main()
