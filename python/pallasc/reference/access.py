"""Memory targets: loads, stores, atomics, and subscripts of tile values."""

import numpy as np

from .errors import GraphError
from .memory import HostTensor
from .tiles import RegionBuilder, along, lane_mask
from .values import cast, compute_dtype, is_number, kind_rank, promote, to_array


def region_of(frame, entries, bounds, shape=None, device=False):
    """The Region that the raw index list `entries` names in a tensor of shape `bounds`.

    `shape` is the `meta` shape of the loaded or stored value, where it is known: lengths of dynamic
    slices and block symbols of sliced dims come from it. `device`: `bounds` are a tile value's.
    """
    if not isinstance(entries, list):
        raise GraphError(f"the index is no list: {entries!r}")
    if sum(entry is not None for entry in entries) != len(bounds):
        raise GraphError(f"the index has to have one entry per dim of {list(bounds)}")
    parsed = [_entry(frame, entry) for entry in entries]
    gathers = [value for kind, value in parsed if kind == "gather"]
    if shape and not gathers:  # a stored value may have fewer dims, or more of size 1
        kept = sum(kind != "at" for kind, _ in parsed)
        shape = [1] * (kept - len(shape)) + list(shape[max(len(shape) - kept, 0) :])
    outer = all(len(labels) == 1 and labels[0] is not None for _, labels in gathers)
    builder, sizes = RegionBuilder(outer), iter(bounds)
    for kind, value in parsed:
        if kind == "new":
            builder.new_axis()
            continue
        size = next(sizes)
        if kind == "at":
            builder.at(value)
        elif kind == "gather":
            builder.gather(*value)
        elif kind == "tile":
            builder.lanes(*_tile_lanes(frame, value, size, device))
        else:
            expected = None if shape is None else _dim_expected(shape, len(builder.dims))
            builder.lanes(*_slice_lanes(frame, value, size, expected))
    return builder.build()


def _entry(frame, entry):
    """Classifies one raw index entry: new, tile, at, gather or slice, and its value."""
    if entry is None:
        return "new", None
    symbol = frame.tile_symbol(entry)
    if symbol is not None:
        return "tile", symbol
    value = frame.resolve(entry)
    if isinstance(value, slice):
        return "slice", (value, entry["slice"])
    if isinstance(value, int) and not isinstance(value, bool):
        return "at", value
    if not isinstance(value, np.ndarray) or kind_rank(value.dtype) != 1:
        raise GraphError(f"the index entry {entry!r} is neither an int, a tile nor an int tensor")
    if value.ndim == 0:
        return "at", value
    return "gather", (value, frame.labels(entry))


def _tile_lanes(frame, symbol, size, device):
    """Positions and label of a dim indexed by a whole tile."""
    tile = frame.tiles.get(symbol)
    if device:
        return np.arange(size), symbol
    if tile is not None:
        return tile.index(), symbol
    block = frame.document.blocks[symbol]
    if not block.reduction:
        raise GraphError(f"no loop or grid around here runs over {symbol!r}")
    return np.arange(frame.size(symbol)), None


def _dim_expected(shape, axis):
    return shape[axis] if axis < len(shape) else None


def _slice_lanes(frame, value, size, expected):
    """Positions and label of a sliced dim; `expected` is that dim of the `meta` shape."""
    bounds, raw = value
    symbol = None if expected is None else frame.document.block_symbol(expected)
    symbol = symbol if symbol in frame.tiles else None
    whole = raw[0] is None and raw[1] is None and bounds.step in (None, 1)
    if whole and symbol is not None and frame.document.blocks[symbol].reduction:
        return frame.tiles[symbol].index(), symbol
    start, stop, step = (_bound(v) for v in (bounds.start, bounds.stop, bounds.step))
    if all(v is None or isinstance(v, int) for v in raw):
        return np.arange(size)[slice(start, stop, step)], symbol
    start, step = start or 0, 1 if step is None else step
    length = max(0, -(-((size if stop is None else stop) - start) // step))
    if expected is not None and frame.size(expected) != 1:
        length = frame.size(expected)
    return start + step * np.arange(length), symbol


def _bound(value):
    return None if value is None else int(value)


def _host(frame, node):
    host = frame.argument(node, 0, "tensor")
    if not isinstance(host, HostTensor):
        raise GraphError("the first argument is no host tensor")
    return host


def _mask(frame, region, extra):
    """Lanes that a load or store touches: valid and `extra_mask`-true; None if all."""
    mask = lane_mask(region.labels, region.shape, frame.tiles)
    if extra is None:
        return mask
    extra = to_array(extra, np.dtype(bool))
    return extra if mask is None else mask & extra


def load(frame, node):
    """tile.load: the named elements, clamped into the tensor; 0 in masked lanes."""
    host = _host(frame, node)
    shape = node.meta["shape"] if node.meta else None
    region = region_of(frame, frame.raw(node, 1, "index"), host.shape, shape)
    mask = _mask(frame, region, frame.argument(node, 2, "extra_mask", None))
    if not host.array.size:
        return np.zeros(region.shape, host.array.dtype)
    at = region.clamped(host.shape)
    host.reach(at)
    value = np.array(np.broadcast_to(host.array[at], region.shape))
    if frame.run.touched is not None:
        frame.run.touch(host.name, at, mask, region.shape)
    if mask is not None:
        value[~np.broadcast_to(mask, region.shape)] = np.zeros((), value.dtype)
    return value


def _stored(value, shape):
    """`value` broadcast to the stored region; leading dims of size 1 may go."""
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = value[0]
    try:
        return np.broadcast_to(value, shape)
    except ValueError:
        raise GraphError(
            f"a value of shape {list(value.shape)} does not fit the stored {list(shape)}"
        ) from None


def _target(frame, node, value_at, value_name, masked):
    """What a store or atomic touches: (host, region, flags of the lanes written)."""
    host = _host(frame, node)
    if not host.writable:
        raise GraphError(f"tensor {host.name!r} is read-only")
    shape = frame.value_shape(frame.raw(node, value_at, value_name))
    region = region_of(frame, frame.raw(node, 1, "index"), host.shape, shape)
    if shape is not None and len(shape) == len(region.shape):
        symbols = [frame.document.block_symbol(s) for s in shape]
        pairs = zip(region.labels, symbols, strict=True)
        region.labels = [label or symbol for label, symbol in pairs]
    mask = _mask(frame, region, frame.argument(node, 3, "extra_mask", None) if masked else None)
    inside = region.inside(host.shape)
    if inside is not None:
        mask = inside if mask is None else mask & inside
    lanes = np.ones(region.shape, bool) if mask is None else np.broadcast_to(mask, region.shape)
    return host, region, lanes


def _places(region, lanes, array):
    """One int array per dim: the positions of the lanes, flattened; 0 where it is expanded."""
    return tuple(
        np.broadcast_to(p, region.shape)[lanes] * (stride != 0)
        for p, stride in zip(region.positions, array.strides, strict=True)
    )


def _put(array, places, values):
    """`array[places] = values`, also where `array` has no dims."""
    if places:
        array[places] = values
    elif values.size:
        array[()] = values[-1]


def store(frame, node):
    """tile.store: broadcasts and converts to the tensor's dtype; skips masked lanes."""
    host, region, lanes = _target(frame, node, 2, "value", masked=True)
    value = to_array(frame.argument(node, 2, "value"), host.array.dtype)
    value, places = _stored(value, region.shape), _places(region, lanes, host.array)
    host.reach(places, written=True)
    _put(host.array, places, value[lanes])


_COMBINE = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def atomic(frame, node):
    """tile.atomic_*: combines in the wider dtype, then rounds; gives the old value (0 if masked).

    Lanes that meet in one place all combine, in order, and each finds what those before it left;
    for xchg the last one stays. Where nothing reads the old values, a sum is rounded once.
    """
    kind = node.target.removeprefix("tile.atomic_")
    cas = kind == "cas"
    host, region, lanes = _target(frame, node, 3 if cas else 2, "value", masked=False)
    places, dtype = _places(region, lanes, host.array), host.array.dtype
    host.reach(places, written=True)
    old = np.zeros(region.shape, dtype)
    value = frame.argument(node, 3 if cas else 2, "value")
    wide = dtype if is_number(value) else promote(dtype, value.dtype)
    value = _stored(to_array(value, compute_dtype(wide)), region.shape)[lanes]
    if cas:
        expected = to_array(frame.argument(node, 2, "expected"), dtype)
        expected = _stored(expected, region.shape)[lanes]

    def new(found, turn):
        """What lanes `turn` leave where they find `found`."""
        if cas:
            return np.where(found == expected[turn], cast(value[turn], dtype), found)
        if kind == "xchg":
            return cast(value[turn], dtype)
        with np.errstate(all="ignore"):
            return cast(_COMBINE[kind](found.astype(value.dtype), value[turn]), dtype)

    if kind not in _COMBINE and kind not in ("cas", "xchg"):
        raise GraphError("unknown atomic")
    if kind in _COMBINE and not frame.graph.reads(node.name):
        _combine(host.array, places, value, _COMBINE[kind])
        return old
    found = np.zeros(value.shape, dtype)
    for turn in _turns(places, host.shape, value.size):
        at = tuple(p[turn] for p in places)
        found[turn] = host.array[at]
        _put(host.array, at, new(found[turn], turn))
    old[lanes] = found
    return old


def _turns(places, shape, count):
    """Numbers of the lanes in parts: in none two of one place, all of a place in their order."""
    if not places or not count:
        return [np.arange(count)] if count else []
    _, place, counts = np.unique(
        np.ravel_multi_index(places, shape), return_inverse=True, return_counts=True
    )
    by_place = np.argsort(place.reshape(-1), kind="stable")
    turn = np.empty(count, np.int64)
    turn[by_place] = np.arange(count) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.split(np.argsort(turn, kind="stable"), np.cumsum(np.bincount(turn))[:-1])


def _combine(array, places, value, function):
    """`array[places] = function(array[places], value)` where places may repeat."""
    if not value.size:
        return
    if not places:
        array[()] = cast(function(array.astype(value.dtype), function.reduce(value)), array.dtype)
        return
    flat, inverse = np.unique(np.ravel_multi_index(places, array.shape), return_inverse=True)
    unique = np.unravel_index(flat, array.shape)
    total = array[unique].astype(value.dtype)
    with np.errstate(all="ignore"):
        function.at(total, inverse.reshape(-1), value)
    array[unique] = cast(total, array.dtype)


def subscript(frame, node):
    """tile.subscript: slices, new axes, positions and int tensors into a tile value."""
    value = frame.argument(node, 0, "tensor")
    if not isinstance(value, np.ndarray):
        raise GraphError("the first argument is no tile value")
    entries = frame.raw(node, 1, "index")
    entries = entries + [{"slice": [None, None, None]}] * (
        value.ndim - sum(entry is not None for entry in entries)
    )
    shape = node.meta["shape"] if node.meta else None
    region = region_of(frame, entries, value.shape, shape, device=True)
    return np.array(np.broadcast_to(value[region.clamped(value.shape)], region.shape))


def mask_to(frame, node):
    """tile.mask_to: invalid lanes become `value`."""
    x, fill = frame.argument(node, 0, "x"), frame.argument(node, 1, "value")
    labels = [frame.document.block_symbol(s) for s in frame.value_shape(frame.raw(node, 0, "x"))]
    mask = lane_mask(labels, x.shape, frame.tiles)
    if mask is None:
        return x
    return np.where(np.broadcast_to(mask, x.shape), x, to_array(fill, x.dtype))


def flat_index(frame, shape):
    """int64 of the raw `shape`: each lane's index in the whole row-major range of its tiles."""
    shape_now = frame.resolve(shape)
    total, stride, rank = np.zeros((1,) * len(shape), np.int64), 1, len(shape)
    for axis in range(rank - 1, -1, -1):
        tile = frame.tiles.get(frame.tile_symbol(shape[axis]))
        lanes = np.arange(shape_now[axis]) if tile is None else tile.index()
        total = total + along(lanes, [axis], rank) * stride
        stride *= shape_now[axis] if tile is None else tile.range_end - tile.range_begin
    return np.broadcast_to(total, shape_now)
