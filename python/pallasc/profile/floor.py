"""The floor: the fewest cycles that a chip can take for a kernel, whoever wrote it.

The longer of two times: that of the matmuls at the peak of the matrix units, and that of reading
every input and writing every output once at full HBM bandwidth. A matmul of two narrow factors has
twice the rate of a bfloat16 one on chips whose matrix units have their kind; a float32 one is taken
for a single pass, though six of them make float32 of it.
"""

import math
import re

from ..reference import expr
from . import chips

# Targets of matmuls: which argument is the first of the two factors.
_FIRST_FACTOR = {
    **dict.fromkeys(("tile.dot", "aten.mm", "aten._int_mm", "aten.bmm"), 0),
    **dict.fromkeys(("aten.addmm", "aten.baddbmm"), 1),
}
# Kinds of narrow factors that a chip multiplies at twice the rate (jax/_src/tpu_info.py). It widens
# the others, or has no more FLOP/s for them: float8 has 920 TFLOP/s on v6e, as bfloat16.
_NARROW = {"v5e": ("int8", "uint8"), "v5p": ("int8", "uint8"), "v6e": ("int8", "uint8")}
_NARROW["v7x"] = ("float8",)
# Graphs that data may leave out, or run as often as they say.
_STEERED = ("tile.if", "tile.while")


def cycles(chip, moved, flops):
    """The floor of a kernel that moves `moved` bytes and has `flops`, {dtype: FLOP}, of matmuls."""
    return max(matmul_cycles(chip, flops), moved / chips.CHIPS[chip].hbm_bytes_per_cycle)


def matmul_cycles(chip, flops):
    """Cycles of matmuls, {dtype: FLOP}, at the peak of a chip's matrix units."""
    peak = chips.CHIPS[chip].flops_per_cycle
    return sum(count / (peak * _rate(chip, name)) for name, count in flops.items())


def _rate(chip, dtype):
    """How much faster a chip's matmuls of a dtype are than those of bfloat16."""
    return 2 if dtype.partition("_")[0] in _NARROW[chip] else 1


def array_bytes(dtype, shape):
    """Bytes of an array in HBM, of a dtype by its name."""
    bits = re.search(r"\d+", dtype)
    return math.prod(shape) * (int(bits[0]) if bits else 8) / 8


def moved(document):
    """{tensor: bytes} of what a document's kernel takes and gives; what it changes counts twice."""
    tensors = {tensor["name"]: tensor for tensor in document["tensors"]}
    sizes = _sizes(document)
    returned = {_base(tensors, entry["tensor"]) for entry in document.get("returns") or ()}
    times = {"input": 1, "inout": 2}
    return {
        name: times.get(tensor["role"], 1)
        * array_bytes(tensor["dtype"], [_number(dim, sizes) for dim in tensor["shape"]])
        for name, tensor in tensors.items()
        if tensor["role"] in times
        or (tensor["role"] == "output" and (not returned or name in returned))
    }


def _base(tensors, name):
    """The tensor that a view is of."""
    while "of" in tensors[name]:
        name = tensors[name]["of"]
    return name


def _number(size, sizes):
    """The value of a size, as a document has it."""
    return expr.evaluate(size, sizes.__getitem__)


def _sizes(document):
    """{symbol: number} of blocks and tunables.

    Blocks that a configuration chooses are whole ranges: what each of several would compute again
    is computed once.
    """
    tunables = document.get("tunables") or {}
    found = {name: tunable["default"] for name, tunable in tunables.items()}
    for block in document.get("block_sizes") or ():
        found[block["symbol"]] = _number(block.get("size") or block["extent"] or 1, found)
    return found


class SteeredError(ValueError):
    """How often a matmul runs is said by data, which a document has not."""


def matmul_flops(document):
    """{dtype: FLOP} of a document's matmuls, by the wider of their factors, without padding.

    Raises:
      SteeredError: data says how often one runs.
    """
    return _Flops(document).found


def first_factors(document):
    """(dtype of rows, dtype of weights, contracted dim, columns) of each of a document's matmuls.

    Dims that a configuration divides count as whole.
    """
    found, sizes = [], _sizes(document)
    for graph in document["graphs"]:
        nodes = {node["name"]: node for node in graph["nodes"]}
        for node in graph["nodes"]:
            first = _first_factor(node)
            if first is not None:
                args = node["args"][first : first + 2]
                rows, weights = (nodes[arg["ref"]]["meta"] for arg in args)
                dims = (rows["shape"][-1], node["meta"]["shape"][-1])
                numbers = (_number(dim, sizes) for dim in dims)
                found.append((rows["dtype"], weights["dtype"], *numbers))
    return found


def _first_factor(node):
    """Which argument of a node is a matmul's first factor; None: it is no matmul."""
    target = node.get("target", "")
    return _FIRST_FACTOR.get(target, _FIRST_FACTOR.get(target.rpartition(".")[0]))


class _Flops:
    """A walk over the graphs."""

    def __init__(self, document):
        self.found = {}
        self.graphs = {graph["id"]: graph for graph in document["graphs"]}
        self.blocks = {block["id"]: block for block in document.get("block_sizes") or ()}
        self.sizes = _sizes(document)
        for graph in document["graphs"]:
            if graph["kind"] == "root":
                extents = [self.blocks[i]["extent"] for i in graph["grid"]]
                self.walk(graph, self.steps(graph["grid"], [0] * len(extents), extents))

    def steps(self, ids, begins, ends):
        """Steps over ranges of blocks, a part of one as a part; None where data says it."""
        count = 1
        for block, begin, end in zip(ids, begins, ends, strict=True):
            if not all(isinstance(bound, int | str) for bound in (begin, end)):
                return None
            length = _number(end, self.sizes) - _number(begin, self.sizes)
            count *= length / self.sizes[self.blocks[block]["symbol"]]
        return count

    def walk(self, graph, times):
        """Adds the matmuls of a graph that runs so often; None: as often as data says."""
        nodes = {node["name"]: node for node in graph["nodes"]}
        for node in graph["nodes"]:
            target, args = node.get("target", ""), node.get("args", ())
            first = _first_factor(node)
            if first is not None:
                factors = [nodes[arg["ref"]]["meta"] for arg in args[first : first + 2]]
                self.add(factors, node["meta"]["shape"], times)
            elif target == "tile.for_loop":
                inner = self.steps(self.graphs[args[0]]["block_ids"], args[1], args[2])
                known = times is not None and inner is not None
                self.walk(self.graphs[args[0]], times * inner if known else None)
            elif target in _STEERED:
                for called in args:
                    if isinstance(called, int):
                        self.walk(self.graphs[called], None)

    def add(self, factors, shape, times):
        """Adds one matmul."""
        if times is None:
            raise SteeredError("data says how often a matmul runs")
        dtype = max((factor["dtype"] for factor in factors), key=lambda n: array_bytes(n, ()))
        size = math.prod(_number(dim, self.sizes) for dim in (*shape, factors[0]["shape"][-1]))
        self.found[dtype] = self.found.get(dtype, 0) + 2 * times * size
