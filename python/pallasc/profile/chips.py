"""What the instrument must know of each chip, per TensorCore, with the source of each number."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Chip:
    """A TensorCore.

    Attributes:
      name: as the rest of pallasc names it.
      mxu: rows and columns of a matrix unit.
      flops: bfloat16 FLOP per second of all matrix units (jax/_src/tpu_info.py).
      flops_per_cycle: of all matrix units: units * 2 * mxu^2 * rows entered in a cycle. v5e, v5p:
        four units, a row each; v6e, v7x: two units, two rows each.
      hbm_bytes_per_s: of HBM (jax/_src/tpu_info.py).
      dma_latency: cycles from the last byte that HBM moves to the semaphore that says so. A rough
        figure: chosen once for all kernels, not measured.
      delay_slots: bundles that run after a branch before its target does. Counted in schedules:
        each block ends so many bundles after its branch.
      matmul_cycles: cycles for which a bfloat16 `vmatmul` keeps its unit: its 16 rows (see
        `matmul_rows`) over the rows that the unit takes in a cycle.
      cores: TensorCores that share a jax device; the schedule is that of one of them.
    """

    name: str
    mxu: int
    flops: float
    flops_per_cycle: int
    hbm_bytes_per_s: float
    dma_latency: int
    delay_slots: int
    matmul_cycles: int
    cores: int = 1

    @property
    def clock_hz(self):
        """The clock at which the matrix units reach `flops`."""
        return self.flops / self.flops_per_cycle

    @property
    def hbm_bytes_per_cycle(self):
        """Bytes that HBM moves in a cycle."""
        return self.hbm_bytes_per_s / self.clock_hz

    def milliseconds(self, cycles):
        """The time that cycles take, ms."""
        return cycles / self.clock_hz * 1e3


_SMALL = 4 * 2 * 128 * 128
_LARGE = 2 * 2 * 256 * 256 * 2

CHIPS = {
    chip.name: chip
    for chip in (
        Chip("v5e", 128, 1.97e14, _SMALL, 8.20e11, 600, 4, 16),
        Chip("v5p", 128, 2.295e14, _SMALL, 1.23e12, 600, 4, 16, cores=2),
        Chip("v6e", 256, 9.20e14, _LARGE, 1.64e12, 600, 4, 8),
        Chip("v7x", 256, 1.155e15, _LARGE, 3.70e12, 800, 6, 8),
    )
}

# A `dma` counts its size in these; a semaphore counts the same.
GRANULE_BYTES = 32
# Copies that do not touch HBM: bytes in a cycle, and cycles before the first. Rough figures.
LOCAL_BYTES_PER_CYCLE = 1024
LOCAL_LATENCY = 50

# Rows of the left operand that one `vmatmul` enters: those of a register, which holds 8 sublanes of
# 32 bits; two, four narrower elements share one.
_ROWS = {"f32": 8, "s8": 32, "u8": 32, "f8": 32}


def matmul_rows(dtype):
    """Rows of the left operand that one `vmatmul` of a dtype enters."""
    return _ROWS.get(dtype[:2] if dtype.startswith("f8") else dtype, 16)


def matmul_weight(dtype):
    """How long a `vmatmul` keeps its unit, over that of bfloat16: f32 has half the rows."""
    return 0.5 if dtype == "f32" else 1
