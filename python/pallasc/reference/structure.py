"""Structure targets: loops, branches, scans, host values. Each is a function of (frame, node)."""

import itertools

import numpy as np

from . import access, symbolic
from .errors import GraphError
from .ops_create import integers, philox, uniform
from .ops_reduce import combine_all, combine_along, dim_of
from .values import FLOAT32, cast, is_float


def _for_loop(frame, node):
    """tile.for_loop: runs a graph per tile of its ids, outermost first, carrying values."""
    graph = frame.document.graph(frame.raw(node, 0, "graph"))
    if graph.kind not in ("for_loop", "reduction_loop"):
        raise GraphError(f"graph {graph.id} is of kind {graph.kind!r}, no loop")
    args = frame.argument(node, 3, "args", [])
    ranges = _ranges(frame, node, graph, args)
    outputs = None
    for point in itertools.product(*ranges):
        tiles = {**frame.tiles, **{tile.symbol: tile for tile in point}}
        outputs = frame.invoke(graph, args, tiles)
        args = frame.carry(graph, args, outputs)
    return frame.untouched(graph, args, node.meta) if outputs is None else tuple(outputs)


def _ranges(frame, node, graph, args):
    """The tiles of each block id of a loop call."""
    count = len(graph.block_ids)
    begins = _bounds(frame.argument(node, 1, "begins", None), count)
    ends = _bounds(frame.argument(node, 2, "ends", None), count)
    lengths, symbols = None, ()
    if graph.lengths is not None:
        if count != 1:
            raise GraphError("a jagged loop (lengths) has to have one block id")
        lengths = args[graph.lengths]
        symbols = tuple(_placeholder_labels(frame.document, graph, graph.lengths))
        if None in symbols:
            raise GraphError("lengths has to be over enclosing tile dims")
        ends = [int(lengths.max(initial=0))] if ends[0] is None else ends
    ranges = []
    for block_id, begin, end in zip(graph.block_ids, begins, ends, strict=True):
        block = frame.document.blocks_by_id[block_id]
        tiles = frame.run.tiles(block, begin, end, frame.run.limit(graph, block.symbol))
        for tile in tiles:
            tile.lengths, tile.length_symbols = lengths, symbols
        ranges.append(tiles)
    return ranges


def _placeholder_labels(document, graph, number):
    holders = [n for n in graph.nodes if n.op == "placeholder"]
    return [document.block_symbol(size) for size in holders[number].meta["shape"]]


def _bounds(values, count):
    """A list of `count` loop bounds as ints, or Nones."""
    values = values if isinstance(values, list) else [values]
    if values == [None]:
        values = [None] * count
    if len(values) != count:
        raise GraphError(f"the loop has {count} block ids and {len(values)} bounds")
    return [None if value is None else symbolic.number(value) for value in values]


def _if(frame, node):
    """tile.if: the outputs of the branch taken."""
    taken = bool(symbolic.number(frame.argument(node, 0, "pred")))
    at, name = (1, "graph") if taken else (2, "else_graph")
    graph_id = frame.raw(node, at, name, None)
    if graph_id is None:
        return ()
    names = ("args", "else_args")
    args = frame.argument(node, 3 if taken else 4, names[0 if taken else 1], [])
    return tuple(frame.invoke(frame.document.graph(graph_id), args))


def _while(frame, node):
    """tile.while: runs a graph as long as `cond`, given the same arguments, outputs true."""
    cond = frame.document.graph(frame.raw(node, 0, "cond"))
    graph = frame.document.graph(frame.raw(node, 1, "graph"))
    args, outputs = frame.argument(node, 2, "args", []), None
    while bool(symbolic.number(frame.invoke(cond, args)[0])):
        outputs = frame.invoke(graph, args)
        args = frame.carry(graph, args, outputs)
    return frame.untouched(graph, args, node.meta) if outputs is None else tuple(outputs)


def _combiner(frame, node):
    """The combine graph of a scan or reduction as a function of two tuples of arrays."""
    graph = frame.document.graph(frame.raw(node, 0, "combine"))

    def combine(left, right):
        outputs = frame.invoke(graph, [*left, *right], elementwise=True)
        shape = left[0].shape
        return tuple(np.broadcast_to(np.asarray(value), shape) for value in outputs)

    return combine


def _operands(value):
    """(tuple of arrays, whether the operand was a tuple)."""
    many = isinstance(value, (list, tuple))
    return (tuple(value) if many else (value,)), many


def _cumulative(frame, node):
    """np.cumsum or np.cumprod where the combine graph is one sum or product; else None."""
    nodes = frame.document.graph(frame.raw(node, 0, "combine")).nodes
    operands, rest = [n.name for n in nodes if n.op == "placeholder"], nodes[2:]
    both = {"aten.add.Tensor": np.cumsum, "aten.mul.Tensor": np.cumprod}.get(rest[0].target)
    plain = len(rest) == 2 and not rest[0].kwargs and len(rest[0].args) == 2
    if not (both and plain and rest[1].args == [[{"ref": rest[0].name}]]):
        return None
    refs = [a.get("ref") for a in rest[0].args if isinstance(a, dict)]
    return both if sorted(map(str, refs)) == sorted(operands) else None


def _associative_scan(frame, node):
    """tile.associative_scan(combine, x, dim, reverse=false): inclusive; x may be a tuple.

    In which order values are combined is open, so sums and products of floats are rounded once.
    """
    xs, many = _operands(frame.argument(node, 1, "x"))
    dim = dim_of(xs[0], frame.argument(node, 2, "dim"))
    reverse = bool(frame.argument(node, 3, "reverse", False))
    cumulative = None if many or not is_float(xs[0].dtype) else _cumulative(frame, node)
    if cumulative:
        ahead = np.flip(xs[0], dim) if reverse else xs[0]
        result = cumulative(ahead.astype(np.float32).astype(np.float64), axis=dim)
        result = cast(cast(result, FLOAT32), xs[0].dtype)
        return np.flip(result, dim) if reverse else result
    result = combine_along(_combiner(frame, node), xs, dim, reverse)
    return result if many else result[0]


def _reduce(frame, node):
    """tile.reduce(combine, x, dim=null, keep_dims=false): x may be a tuple; null is all dims."""
    xs, many = _operands(frame.argument(node, 1, "x"))
    dim, keep = frame.argument(node, 2, "dim", None), frame.argument(node, 3, "keep_dims", False)
    shape = xs[0].shape
    if dim is None:
        xs, axis = tuple(x.reshape(-1) for x in xs), 0
    else:
        axis = dim_of(xs[0], dim)
    result = combine_all(_combiner(frame, node), xs, axis)
    if dim is None:
        result = tuple(x.reshape([1] * len(shape) if keep else []) for x in result)
    elif not keep:
        result = tuple(np.squeeze(x, axis) for x in result)
    return result if many else result[0]


def _rand(frame, node):
    """tile.rand(shape, seed, offsets=null): Philox-4x32-10, uniform float32 in [0, 1)."""
    return uniform(_words(frame, node, 1, frame.argument(node, 2, "offsets", None)))


def _randint(frame, node):
    """tile.randint(shape, low, high, seed, offsets=null): Philox-4x32-10, int32 in [low, high)."""
    low, high = frame.argument(node, 1, "low"), frame.argument(node, 2, "high")
    if low >= high:
        raise GraphError(f"low ({low}) must be less than high ({high})")
    return integers(_words(frame, node, 3, frame.argument(node, 4, "offsets", None)), low, high)


def _words(frame, node, at, offsets):
    """One random uint32 per lane, out of the seed (argument `at`) and the offsets."""
    if offsets is None:
        offsets = access.flat_index(frame, frame.raw(node, 0, "shape"))
    seed = symbolic.number(frame.argument(node, at, "seed"))
    return philox(int(seed) & 0xFFFFFFFFFFFFFFFF, np.asarray(offsets))


def _sym_size(frame, node):
    """sym_size(x, dim): a dim of a tile value or host tensor."""
    return frame.argument(node, 0, "x").shape[frame.argument(node, 1, "dim")]


def _getitem(frame, node):
    """getitem(tuple, i)."""
    items, number = frame.argument(node, 0, "tuple"), frame.argument(node, 1, "i")
    if not isinstance(items, (tuple, list)) or not -len(items) <= number < len(items):
        raise GraphError(f"there is no item {number!r}")
    return items[number]


TARGETS = {
    "tile.host_tensor": lambda f, n: f.run.memory.find(f.raw(n, 0, "name")),
    "tile.scalar": lambda f, n: f.run.scalar(f.raw(n, 0, "name")),
    "tile.symnode": lambda f, n: f.size(symbolic.symbol_text(f.raw(n, 0, "symbol"))),
    "sym_size": _sym_size,
    "aten.sym_size.int": _sym_size,
    "getitem": _getitem,
    "tile.phi": lambda f, n: f.argument(n, 1, "result"),
    "tile.new_var": lambda f, n: f.argument(n, 0, "x"),
    "tile.for_loop": _for_loop,
    "tile.if": _if,
    "tile.while": _while,
    "tile.associative_scan": _associative_scan,
    "tile.reduce": _reduce,
    "tile.rand": _rand,
    "tile.randint": _randint,
    "tile.load": access.load,
    "tile.store": access.store,
    "tile.subscript": access.subscript,
    "tile.mask_to": access.mask_to,
}
