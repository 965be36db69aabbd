"""Modules that run on a mesh, as a whole: arrays of which each device has a part.

The module's function takes and gives one device's parts. Of a split kernel (docs/sharding.md) they
are cut as KERNEL_INFO["sharding"] says. Of one that copies between devices they stand here one
behind the other along the first dim: of `float32[128, 256]` on 4 devices the whole is
`float32[512, 256]`. A number is the same on all of them.
"""

import functools
import math
import os

from .errors import UsageError


def has_mesh(info):
    """Whether a module with this KERNEL_INFO runs on a mesh."""
    return "mesh" in info or "sharding" in info


def axes(info):
    """The devices along each axis."""
    if "sharding" in info:
        return info["sharding"]["mesh"]
    return {info["mesh"]["axis"]: info["mesh"]["devices"]}


def _cuts(info, key):
    """For each of KERNEL_INFO[key] what its PartitionSpec has: the axes of its first dims."""
    if "sharding" in info and key in info["sharding"]:
        return info["sharding"][key]
    cut = [] if "sharding" in info else list(axes(info))
    return [cut if entry.get("shape") else [] for entry in info.get(key, ())]


def _whole_shape(info, entry, cut):
    """The shape of a whole array, of an entry of KERNEL_INFO."""
    shape, devices = list(entry.get("shape", ())), axes(info)
    for dim, along in enumerate(cut):
        names = [along] if isinstance(along, str) else along or ()
        shape[dim] *= math.prod(devices[name] for name in names)
    return shape


def whole_info(info):
    """KERNEL_INFO with the shapes of whole arrays."""
    inputs, outputs = (
        [
            {**entry, "shape": _whole_shape(info, entry, cut)}
            for entry, cut in zip(info[key], _cuts(info, key), strict=True)
        ]
        for key in ("inputs", "outputs")
    )
    return {**info, "inputs": inputs, "outputs": outputs}


def count(info):
    """How many devices the mesh has."""
    return math.prod(axes(info).values())


def build(info, devices, where, hint=""):
    """The Mesh of the first devices; UsageError if `where` has too few."""
    import jax
    import numpy as np

    wanted = count(info)
    if wanted > len(devices):
        has = f"{len(devices)} device{'s' * (len(devices) != 1)}"
        raise UsageError(f"{where} has {has}, not {wanted}{hint}")
    places = np.reshape(np.asarray(devices[:wanted]), tuple(axes(info).values()))
    return jax.sharding.Mesh(places, tuple(axes(info)))


def arguments(info, mesh):
    """A jax.ShapeDtypeStruct of each whole argument, which says where its parts lie."""
    import jax

    def argument(entry, cut):
        parts = jax.sharding.PartitionSpec(*(tuple(x) if isinstance(x, list) else x for x in cut))
        sharding = jax.sharding.NamedSharding(mesh, parts)
        shape = tuple(_whole_shape(info, entry, cut))
        return jax.ShapeDtypeStruct(shape, entry["dtype"], sharding=sharding)

    entries = [*info["inputs"], *info.get("scalars", ())]
    cuts = [*_cuts(info, "inputs"), *_cuts(info, "scalars")]
    return [argument(entry, cut) for entry, cut in zip(entries, cuts, strict=True)]


def whole_kernel(module, mesh):
    """A function of whole arrays, and of `interpret`, which may be left out."""
    import jax

    info = module.info
    if "sharding" in info:
        return getattr(module.load(), f"{info['name']}_sharded")(mesh)
    kernel = getattr(module.load(), info["name"])
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
    wanted, flags = count(info), os.environ.get("XLA_FLAGS", "")
    if _COUNT not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --{_COUNT}={wanted}".strip()
    os.environ.setdefault("NPROC", str(4 * wanted))  # else their threads wait for each other


def on_this_machine(module, simulated):
    """whole_kernel() on the devices that jax has. Raises UsageError if there are too few."""
    import jax

    cpu = simulated or jax.default_backend() != "tpu"
    devices = jax.devices("cpu") if cpu else jax.devices()
    hint = f": have XLA_FLAGS say --{_COUNT}={count(module.info)} before jax starts"
    if not cpu:
        hint = ": --interpret simulates them"
    where = "jax" if cpu else "this machine"
    return whole_kernel(module, build(module.info, devices, where, hint))
