"""The process behind `pallasc.aot` for modules that run on a mesh: `aot_worker`, for several chips.

A module of its own, as verdicts of all other modules are kept under the text of `aot_worker`.
"""

import re

from . import aot_worker, mesh


def main():
    """Serves jobs until standard input ends."""
    aot_worker.compile_module, aot_worker.scoped_vmem = compile_module, scoped_vmem
    aot_worker.main()


def compile_module(module, target):
    """jax's compiled object of a module's kernel on the first devices of a target's topology."""
    from jax.experimental import topologies

    from .chips import LARGER_TOPOLOGIES, TOPOLOGIES

    for name in (TOPOLOGIES[target], LARGER_TOPOLOGIES[target]):
        topology = topologies.get_topology_desc(platform="tpu", topology_name=name)
        if len(topology.devices) >= module.info["mesh"]["devices"]:
            break
    of = mesh.build(module.info, topology.devices, name)
    with aot_worker.tracing_for(topology.devices[0]):
        traced = mesh.whole_kernel(module, of).trace(*mesh.arguments(module.info, of))
        lowered = traced.lower()
    return lowered.compile()


def scoped_vmem(compiled):
    """Scoped VMEM bytes of each Pallas kernel, each on one line: its metadata ends lines."""
    text = compiled.as_text()
    return aot_worker.parse_scoped_vmem(re.sub(r"kernel_metadata=\{[^}]*\}", "", text))


if __name__ == "__main__":
    main()
