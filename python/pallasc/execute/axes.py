"""What devices of a mesh make together of what each has, between kernels."""

import numpy as np

from .scopes import DEVICE


def places(counts, number, axes):
    """A device's place along some axes of a mesh, and all devices that differ from it only there.

    Args:
      counts: devices along each axis, the first outermost.
      number: the device's.
      axes: numbers of axes, in the order in which they count.
    """
    own = np.unravel_index(number, counts)
    every = np.arange(np.prod(counts)).reshape(counts)
    others = every[tuple(slice(None) if i in axes else own[i] for i in range(len(counts)))]
    place = np.ravel_multi_index([own[i] for i in axes], [counts[i] for i in axes])
    return int(place), others.ravel().tolist()


def _axes(code, stmt):
    axes = stmt.attributes["axes"]
    return axes if isinstance(axes, tuple) else (axes,)


def _all(combine):
    def build(code, stmt, scope):
        keep, axes = code.results(stmt, scope), _axes(code, stmt)
        _, get = code.value(stmt.args[0], scope)

        def run(e):
            device = e[DEVICE]
            parts = device.together(get(e))
            _, others = places(device.counts(), device.number, axes)
            total = parts[others[0]]
            for other in others[1:]:
                total = combine(total, parts[other])
            keep(e, (total.astype(parts[0].dtype),))

        return run

    return build


def _index(code, stmt, scope):
    keep, axes = code.results(stmt, scope), _axes(code, stmt)

    def run(e):
        device = e[DEVICE]
        keep(e, (np.int32(places(device.counts(), device.number, axes)[0]),))

    return run


STATEMENTS = {
    "all_sum": _all(np.add),
    "all_max": _all(np.maximum),
    "all_min": _all(np.minimum),
    "axes_index": _index,
}
