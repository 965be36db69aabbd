"""What values cost, in FLOPs and bytes of HBM, and in seconds of one chip: v6e."""

import math

from .values import topological

HBM_BYTES = 1.64e12
MXU_FLOPS = 9.18e14
LANE_FLOPS = 8e12
BYTES = {"float32": 4, "int32": 4, "bfloat16": 2, "float16": 2, "bool": 1, "int8": 1, "uint8": 1}
BLOCK = 512  # rows of a tile where nothing says how many
MATMULS = ("aten.mm.", "aten.bmm.", "aten.addmm.", "aten.baddbmm.", "tile.dot")


class Estimate:
    """Sizes and costs of a program's values."""

    def __init__(self, program):
        self.program = program

    def extent(self, symbol):
        """The number of elements of a block's range."""
        return self.program.extent(symbol)

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

    @staticmethod
    def seconds(loaded, products=0, lanes=0):
        """How long that takes, copies beside the arithmetic."""
        return max(loaded / HBM_BYTES, products / MXU_FLOPS + lanes / LANE_FLOPS)
