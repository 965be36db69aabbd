"""Modules that run on a mesh, as a whole: arrays of which each device has a part.

The module's function takes and gives one device's parts. Here these stand one behind the other
along the first dim: of `float32[128, 256]` on 4 devices the whole is `float32[512, 256]`. A number
is the same on all of them.
"""

import functools
import os

from .errors import UsageError


def has_mesh(info):
    """Whether a module with this KERNEL_INFO runs on a mesh."""
    return "mesh" in info


def whole_shape(info, entry):
    """The shape of a whole array, of an entry of KERNEL_INFO."""
    first, *others = entry.get("shape", ()) or (None,)
    return () if first is None else (first * info["mesh"]["devices"], *others)


def whole_info(info):
    """KERNEL_INFO with the shapes of whole arrays."""
    inputs, outputs = (
        [{**entry, "shape": list(whole_shape(info, entry))} for entry in info[key]]
        for key in ("inputs", "outputs")
    )
    return {**info, "inputs": inputs, "outputs": outputs}


def build(info, devices, where, hint=""):
    """The Mesh of the first devices; UsageError if `where` has too few."""
    import jax
    import numpy as np

    count = info["mesh"]["devices"]
    if count > len(devices):
        has = f"{len(devices)} device{'s' * (len(devices) != 1)}"
        raise UsageError(f"{where} has {has}, not {count}{hint}")
    return jax.sharding.Mesh(np.asarray(devices[:count]), (info["mesh"]["axis"],))


def arguments(info, mesh):
    """A jax.ShapeDtypeStruct of each whole argument, which says where its parts lie."""
    import jax

    def argument(entry):
        shape = whole_shape(info, entry)
        parts = jax.sharding.PartitionSpec(*(mesh.axis_names if shape else ()))
        sharding = jax.sharding.NamedSharding(mesh, parts)
        return jax.ShapeDtypeStruct(shape, entry["dtype"], sharding=sharding)

    return [argument(entry) for entry in (*info["inputs"], *info.get("scalars", ()))]


def whole_kernel(module, mesh):
    """A function of whole arrays, and of `interpret`, which may be left out."""
    import jax

    kernel, info = getattr(module.load(), module.info["name"]), module.info
    specs = tuple(argument.sharding.spec for argument in arguments(info, mesh))

    @functools.partial(jax.jit, static_argnames="interpret")
    def call(*arrays, interpret=False):
        mapped = jax.shard_map(
            functools.partial(kernel, interpret=interpret),
            mesh=mesh,
            in_specs=specs,
            out_specs=jax.sharding.PartitionSpec(*mesh.axis_names),
            check_vma=False,  # jax's simulator gives no axes to what devices exchange
        )
        return mapped(*arrays)

    return call


# ---- devices that are simulated ------------------------------------------------------------------

_COUNT = "xla_force_host_platform_device_count"


def simulate_devices(info):
    """Has jax make as many devices of the CPU as there are to be: before it is imported."""
    count, flags = info["mesh"]["devices"], os.environ.get("XLA_FLAGS", "")
    if _COUNT not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --{_COUNT}={count}".strip()
    os.environ.setdefault("NPROC", str(4 * count))  # else their threads wait for each other


def on_this_machine(module, simulated):
    """whole_kernel() on the devices that jax has. Raises UsageError if there are too few."""
    import jax

    cpu = simulated or jax.default_backend() != "tpu"
    devices = jax.devices("cpu") if cpu else jax.devices()
    hint = f": have XLA_FLAGS say --{_COUNT}={module.info['mesh']['devices']} before jax starts"
    if not cpu:
        hint = ": --interpret simulates them"
    where = "jax" if cpu else "this machine"
    return whole_kernel(module, build(module.info, devices, where, hint))
