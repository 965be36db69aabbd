"""Tiles (a block id's range, cut) and index lists (which elements a load or store touches)."""

from dataclasses import dataclass

import numpy as np

from .errors import GraphError


@dataclass
class Tile:
    """The current tile of one block symbol: lanes from `begin`, within a range.

    A jagged tile's `lengths` (int array over the dims `length_symbols`) bounds each row instead.
    """

    symbol: str
    begin: int
    size: int
    range_begin: int
    range_end: int
    lengths: np.ndarray | None = None
    length_symbols: tuple = ()

    def index(self):
        """int64 [size]: the indices of all lanes, valid or not."""
        return self.begin + np.arange(self.size)

    def queries(self):
        """The values of tile.begin, end, id, count and block_size."""
        return {
            "begin": self.begin,
            "end": min(self.begin + self.size, self.range_end),
            "id": self.begin // self.size,
            "count": -(-(self.range_end - self.range_begin) // self.size),
            "block_size": self.size,
        }


def along(values, axes, rank):
    """`values`, whose dims are the result's dims `axes`, reshaped to broadcast over `rank` dims."""
    shape = [1] * rank
    for size, axis in zip(values.shape, axes, strict=True):
        shape[axis] = size
    order = np.argsort(axes, kind="stable")
    return np.transpose(values, order).reshape(shape)


def lane_mask(labels, shape, tiles):
    """The valid lanes of a value whose dim *i* belongs to block symbol `labels[i]` (or None).

    Gives a bool array that broadcasts to `shape`, or None if all lanes are valid.
    """
    mask, rank = None, len(shape)
    for axis, symbol in enumerate(labels):
        tile = tiles.get(symbol)
        if tile is None or shape[axis] != tile.size:
            continue
        if tile.lengths is None and tile.begin + tile.size <= tile.range_end:
            continue
        lanes = along(tile.index(), [axis], rank)
        valid = lanes < tile.range_end
        if tile.lengths is not None and all(s in labels for s in tile.length_symbols):
            axes = [labels.index(s) for s in tile.length_symbols]
            valid = valid & (lanes < along(tile.lengths, axes, rank))
        mask = valid if mask is None else mask & valid
    return mask


class Region:
    """The elements that an index list names.

    `shape` and `labels` (block symbol or None per dim) describe the result; `positions` has one int
    array per tensor dim that broadcasts to `shape`.
    """

    def __init__(self, shape, labels, positions):
        self.shape, self.labels, self.positions = tuple(shape), list(labels), positions

    def inside(self, bounds):
        """A mask of the positions inside a tensor of shape `bounds`, or None if all are."""
        mask = None
        for position, size in zip(self.positions, bounds, strict=True):
            if position.size and (position.min() < 0 or position.max() >= size):
                here = (position >= 0) & (position < size)
                mask = here if mask is None else mask & here
        return mask

    def clamped(self, bounds):
        """The positions clamped into a tensor of shape `bounds`, as a numpy index."""
        pairs = zip(self.positions, bounds, strict=True)
        return tuple(np.clip(position, 0, size - 1) for position, size in pairs)


class RegionBuilder:
    """Collects the entries of an index list, in order, into a Region."""

    def __init__(self, outer):
        self.outer, self.dims, self.labels, self.entries = outer, [], [], []
        self.run = None

    def new_axis(self):
        """A dim of size 1 that no tensor dim stands behind."""
        self._dim(1, None)
        self.run = None

    def lanes(self, values, label):
        """A dim of its own with these positions (a tile, a slice, an outer index)."""
        self.entries.append((np.asarray(values, np.int64), [self._dim(len(values), label)]))
        self.run = None

    def at(self, position):
        """One position; the dim is dropped."""
        self.entries.append((np.asarray(position, np.int64), []))

    def gather(self, values, labels):
        """An int tensor whose dims are `labels`."""
        if self.outer:
            return self.lanes(values, labels[0])
        if self.run is None:
            self.run = {"at": len(self.dims), "members": []}
            self.dims.append(self.run)
            self.labels.append(None)
        self.run["members"].append((np.asarray(values, np.int64), list(labels)))
        self.entries.append((self.run, len(self.run["members"]) - 1))
        return None

    def _dim(self, size, label):
        self.dims.append(size)
        self.labels.append(label)
        return len(self.dims) - 1

    def build(self):
        """The Region; adjacent gathers have broadcast together, standing where the first stood."""
        shape, labels, starts = [], [], []
        for dim, label in zip(self.dims, self.labels, strict=True):
            starts.append(len(shape))
            if isinstance(dim, dict):
                group_shape, group_labels = _broadcast_labels(dim["members"])
                shape += group_shape
                labels += group_labels
            else:
                shape.append(dim)
                labels.append(label)
        rank, positions = len(shape), []
        for first, second in self.entries:
            if isinstance(first, dict):
                values = first["members"][second][0]
                end = starts[first["at"]] + len(_broadcast_labels(first["members"])[0])
                axes = list(range(end - values.ndim, end))
                positions.append(along(values, axes, rank))
            else:
                positions.append(along(first, [starts[axis] for axis in second], rank))
        return Region(shape, labels, positions)


def _broadcast_labels(members):
    """The broadcast shape of gathers that stand together, and the block symbol of each dim."""
    try:
        shape = list(np.broadcast_shapes(*(values.shape for values, _ in members)))
    except ValueError:
        shapes = [list(values.shape) for values, _ in members]
        raise GraphError(f"index tensors of shapes {shapes} do not broadcast together") from None
    labels = [None] * len(shape)
    for values, names in members:
        for back in range(1, values.ndim + 1):
            if values.shape[-back] == shape[-back] and labels[-back] is None:
                labels[-back] = names[-back]
    return shape, labels
