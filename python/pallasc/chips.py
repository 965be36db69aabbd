"""What the Python side must know of the chips, and of the machine it runs on."""

import glob
import math
import os
import re

from .errors import UsageError

# Topology names of jax.experimental.topologies: the smallest of each chip.
TOPOLOGIES = {
    "v4": "v4:2x2x1",
    "v5e": "v5e:2x2",
    "v5p": "v5p:2x2x1",
    "v6e": "v6e:2x2",
    "v7x": "tpu7x:2x2x1",
}

# What jax calls one device of v4 and v7x is one of a chip's two TensorCores.
_CORES = {"v4": 2, "v7x": 2}

# The chips of the largest slice: https://cloud.google.com/tpu/docs, the page of each chip.
LARGEST = {"v4": 4096, "v5e": 256, "v5p": 8960, "v6e": 256, "v7x": 9216}

# What a kernel may ask for of VMEM on each chip: as in targets.def.
VMEM_BYTES = {
    "v4": 16 << 20,
    "v5e": (128 << 20) - (64 << 10),
    "v5p": (64 << 20) - (64 << 10),
    "v6e": (128 << 20) - (64 << 10),
    "v7x": (64 << 20) - (64 << 10),
}

# Of a device, in a second: bytes of HBM, FLOPs in bfloat16, and clocks of its TensorCores together:
# as in targets.def.
RATES = {
    "v4": (1.2e12, 2.75e14, 2 * 1.05e9),
    "v5e": (8.2e11, 1.97e14, 1.503e9),
    "v5p": (1.23e12, 2.295e14, 2 * 1.751e9),
    "v6e": (1.64e12, 9.2e14, 1.755e9),
    "v7x": (3.7e12, 1.155e15, 2.203e9),
}

# What jax calls a device of each chip: as in targets.def, or in another of its versions.
KINDS = {
    "v4": ("TPU v4",),
    "v5e": ("TPU v5 lite", "TPU v5e"),
    "v5p": ("TPU v5", "TPU v5p"),
    "v6e": ("TPU v6 lite", "TPU v6e"),
    "v7x": ("TPU7x",),
}


def topology(chip, devices, shape=None):
    """The name, for jax.experimental.topologies, of a slice of a chip that has as many devices.

    Args:
      chip: a key of TOPOLOGIES.
      devices: how many there must be at least.
      shape: chips along each dim of the torus, "4x4"; None: of the smallest slice, and of those
        that double its shortest dim, the first that is large enough.

    Raises UsageError for a shape that is none, and for too many devices.
    """
    name, _, smallest = TOPOLOGIES[chip].partition(":")
    dims, cores = [int(size) for size in smallest.split("x")], _CORES.get(chip, 1)
    if shape is not None:
        form = "x".join(["N"] * len(dims))
        if not re.fullmatch(r"[1-9]\d{0,3}(x[1-9]\d{0,3})*", shape) or (
            shape.count("x") != len(dims) - 1
        ):
            raise UsageError(f"--topology {shape}: expected {form} for {chip}, such as {smallest}")
        dims = [int(size) for size in shape.split("x")]
    while shape is None and math.prod(dims) * cores < devices:
        dims[len(dims) - 1 - dims[::-1].index(min(dims))] *= 2
    found = "x".join(map(str, dims))
    if math.prod(dims) > LARGEST[chip]:
        asked = f"{found} chips are" if shape else f"{devices} devices are"
        raise UsageError(
            f"{asked} more than the largest slice of {chip} has: {LARGEST[chip]} chips"
        )
    if (has := math.prod(dims) * cores) < devices:
        raise UsageError(f"{chip}:{found} has {has} devices, not {devices}")
    return f"{name}:{found}"


_GOOGLE_PCI_VENDOR = "0x1ae0"


def tpu_attached():
    """Whether this machine seems to have a TPU, without loading libtpu."""
    if glob.glob("/dev/accel[0-9]*"):
        return True
    for path in glob.glob("/sys/bus/pci/devices/*/vendor"):
        try:
            with open(path) as file:
                if file.read().strip() == _GOOGLE_PCI_VENDOR:
                    return True
        except OSError:
            continue
    return False


def chip_of(kind):
    """The name of the chip of which jax calls a device so; None: none that is known."""
    return next((chip for chip, kinds in KINDS.items() if kind in kinds), None)


def choose_platform(simulate=False):
    """Keeps jax from looking for a TPU that is not there; call it before jax is imported.

    Gives whether kernels are simulated on the CPU.

    Args:
      simulate: the kernel will be simulated on the CPU in any case.
    """
    simulated = simulate or not tpu_attached()
    if simulated:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        round_as_written()
    return simulated


def round_as_written():
    """Has XLA on the CPU round each bfloat16 value that a kernel rounds, as a TPU does.

    Else XLA takes x.astype(bfloat16).astype(float32) for x, and a difference of near values shows
    it (measured: 256 + 0.5 - 256 is 0.5, with jaxlib 0.10.2). Call it before jax is used.
    """
    flags, exact = os.environ.get("XLA_FLAGS", ""), "--xla_allow_excess_precision=false"
    if "xla_allow_excess_precision" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {exact}".strip()
