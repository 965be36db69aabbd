"""What values cost, in FLOPs and bytes of HBM, and in seconds of one chip."""

import json
import math

from ..binding import target_text
from ..chips import RATES, VMEM_BYTES
from ..errors import UsageError
from .values import topological

LANE_OPS = 4558  # FLOPs of the vector unit in a cycle: 1024 lanes, 4 or 5 of their instructions
BYTES = {"float32": 4, "int32": 4, "bfloat16": 2, "float16": 2, "bool": 1, "int8": 1, "uint8": 1}
BLOCK = 512  # rows of a tile where nothing says how many
MATMULS = ("aten.mm.", "aten.bmm.", "aten.addmm.", "aten.baddbmm.", "tile.dot")


def rates(target):
    """Of a target: (bytes of HBM, FLOPs of matmuls, FLOPs of lanes in a second, bytes of VMEM).

    A target is what `pallasc.compile` takes: a chip's name, a dict, or a path ending in .json.
    Raises UsageError of one that says too little.
    """
    text = target_text(target)
    try:
        given = {"base": text} if not text.lstrip().startswith("{") else json.loads(text)
    except ValueError as error:
        raise UsageError(f"target: not JSON: {error}") from None
    base = given.get("base")
    if base is not None and base not in RATES:
        raise UsageError(f"unknown target {base!r}; there are {', '.join(RATES)}")
    hbm, flops, clocks = RATES.get(base, (None, None, None))
    vmem = given.get("vmem_bytes", VMEM_BYTES.get(base, 0))
    if "clock_hz" in given:
        clocks = given["clock_hz"] * given.get("tensorcores", 1)
    found = given.get("hbm_bytes_per_s", hbm), given.get("bf16_flops", flops), clocks
    if not all(isinstance(x, int | float) and x > 0 for x in found):
        raise UsageError("target: hbm_bytes_per_s, bf16_flops and clock_hz are needed")
    return found[0], found[1], found[2] * LANE_OPS, vmem


class Estimate:
    """Sizes and costs of a program's values on a chip, whose `rates` are."""

    def __init__(self, program, target):
        self.program = program
        *self.rates, self.vmem_bytes = rates(target)

    def extent(self, symbol):
        """The number of elements of a block's range."""
        return self.program.extent(symbol)

    def extents(self, symbols):
        """The number of elements of these blocks together."""
        return math.prod(self.extent(s) for s in symbols)

    def tiles(self, symbols):
        """The number of tiles of these blocks together."""
        return math.prod(math.ceil(self.extent(s) / self.block(s)) for s in symbols)

    def block(self, symbol):
        """The size of a tile of this block."""
        given = self.program.blocks[symbol].get("size")
        return given if isinstance(given, int) else min(BLOCK, self.extent(symbol))

    def elements(self, value, space=None):
        """The elements of a value at all tiles of its space."""
        count, inside = 1, set()
        for size in value.shape:
            if isinstance(size, int):
                count *= size
            elif size in self.program.blocks:
                count *= self.extent(size)
                inside.add(size)
            else:
                count *= BLOCK
        return count * self.tiles((space if space is not None else value.space) - inside)

    def bytes(self, value):
        """The bytes of a value at all tiles of its space."""
        return self.elements(value) * BYTES.get(value.dtype, 4)

    def flops(self, value):
        """(FLOPs of matmuls, FLOPs of lanes) of one value, without its arguments."""
        if value.target.startswith(MATMULS):
            inner = value.args[0].shape[-1]
            size = inner if isinstance(inner, int) else self.extent(inner)
            return 2 * self.elements(value, value.space - {inner}) * size, 0
        if value.target.startswith("aten.sum") or value.target.startswith("aten.mean"):
            return 0, self.elements(value.args[0])
        return 0, 0 if value.target == "tile.load" else self.elements(value)

    def cone(self, value, known=()):
        """(bytes loaded, FLOPs of matmuls, FLOPs of lanes) to compute a value from memory."""
        loaded = products = lanes = 0
        for part in topological([value]):
            if part.number in known:
                continue
            if part.target == "tile.load":
                loaded += self.bytes(part)
            elif part.dtype is not None:
                matmul, other = self.flops(part)
                products, lanes = products + matmul, lanes + other
        return loaded, products, lanes

    def seconds(self, loaded, products=0, lanes=0):
        """How long that takes, copies beside the arithmetic."""
        hbm, flops, lane_flops = self.rates
        return max(loaded / hbm, products / flops + lanes / lane_flops)
