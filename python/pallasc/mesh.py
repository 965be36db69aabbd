"""Modules that run on a mesh, as a whole: arrays of which each device has a part.

The module's function takes and gives one device's parts. There are two kinds. A graph split over
a mesh (docs/sharding.md) says how whole arrays lie, and has a function of them. Of kernel text
whose devices exchange what they have (docs/kernel.md) the parts stand one behind the other along
the first dim: of `float32[128, 256]` on 4 devices the whole is `float32[512, 256]`. A number is the
same on all of them.
"""

import functools
import math
import os

from .errors import UsageError


def has_mesh(info):
    """Whether a module with this KERNEL_INFO runs on a mesh."""
    return exchanges(info) or "sharding" in info


def exchanges(info):
    """Whether devices exchange what they have within the kernel: one alone does not run."""
    return "mesh" in info


def axes(info):
    """The mesh's axes: {name: devices}, the outermost first."""
    if "sharding" in info:
        return info["sharding"]["mesh"]
    return {info["mesh"]["axis"]: info["mesh"]["devices"]}


def devices(info):
    """How many devices the mesh has."""
    return math.prod(axes(info).values())


def _specs(info, key):
    """What stands in the PartitionSpec of each of KERNEL_INFO's `inputs` or `outputs`."""
    if "sharding" in info:
        return info["sharding"][key]
    return [[*axes(info)] if entry.get("shape") else [] for entry in info[key]]


def _shapes(info, key):
    """The shapes of whole arrays, of KERNEL_INFO's `inputs` or `outputs`."""
    if shapes := info.get("sharding", {}).get("shapes"):
        return shapes[key]
    return [_whole(info, *of) for of in zip(info[key], _specs(info, key), strict=True)]


def _whole(info, entry, spec):
    shape = list(entry.get("shape", ()))
    for dim, named in enumerate(spec):
        along = [named] if isinstance(named, str) else named or ()
        shape[dim] *= math.prod(axes(info)[axis] for axis in along)
    return shape


def whole_info(info):
    """KERNEL_INFO with the shapes of whole arrays."""
    inputs, outputs = (
        [
            {**entry, "shape": shape}
            for entry, shape in zip(info[key], _shapes(info, key), strict=True)
        ]
        for key in ("inputs", "outputs")
    )
    step = info.get("sharding", {}).get("step")  # a number that the whole function gives its kernel
    scalars = [entry for entry in info.get("scalars", ()) if entry["name"] != step]
    return {**info, "inputs": inputs, "outputs": outputs, "scalars": scalars}


def build(info, found, where, hint=""):
    """The Mesh of the first devices that were found; UsageError if `where` has too few."""
    import jax
    import numpy as np

    count = devices(info)
    if count > len(found):
        has = f"{len(found)} device{'s' * (len(found) != 1)}"
        raise UsageError(f"{where} has {has}, not {count}{hint}")
    laid = np.reshape(found[:count], tuple(axes(info).values()))
    return jax.sharding.Mesh(laid, tuple(axes(info)))


def arguments(info, mesh):
    """A jax.ShapeDtypeStruct of each whole argument, which says where its parts lie."""
    import jax

    whole = whole_info(info)
    scalars = whole["scalars"]
    specs = [*_specs(info, "inputs"), *([] for _ in scalars)]
    return [
        jax.ShapeDtypeStruct(
            tuple(entry.get("shape", ())),
            entry["dtype"],
            sharding=jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec)),
        )
        for entry, spec in zip((*whole["inputs"], *scalars), specs, strict=True)
    ]


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
    count, flags = devices(info), os.environ.get("XLA_FLAGS", "")
    if _COUNT not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --{_COUNT}={count}".strip()
    os.environ.setdefault("NPROC", str(4 * count))  # else their threads wait for each other


def on_this_machine(module, simulated):
    """whole_kernel() on the devices that jax has. Raises UsageError if there are too few."""
    import jax

    cpu = simulated or jax.default_backend() != "tpu"
    found = jax.devices("cpu") if cpu else jax.devices()
    hint = f": have XLA_FLAGS say --{_COUNT}={devices(module.info)} before jax starts"
    if not cpu:
        hint = ": --interpret simulates them"
    where = "jax" if cpu else "this machine"
    return whole_kernel(module, build(module.info, found, where, hint))
