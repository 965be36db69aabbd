"""What the Python side must know of the chips, and of the machine it runs on."""

import glob
import os

# Topology names of jax.experimental.topologies: the smallest of each chip.
TOPOLOGIES = {
    "v4": "v4:2x2x1",
    "v5e": "v5e:2x2",
    "v5p": "v5p:2x2x1",
    "v6e": "v6e:2x2",
    "v7x": "tpu7x:2x2x1",
}

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
